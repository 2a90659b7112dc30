"""Signs a program for updates, or writes the header with what an image accepts: docs/update.md."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tools.artifacts.signed_program.signed_program import (
    SignedProgram,
    check_product,
    load_private_key,
    load_public_key,
    sign,
)
from tools.quiet.files import replacing
from tools.quiet.tool import run_tool

_HEADER = """\
#pragma once

#include <stddef.h>
#include <stdint.h>

/// The updates that the image accepts, from its update_settings.
namespace update_settings {{

inline constexpr uint8_t kPublicKey[32] = {{
    {key}}};
inline constexpr char kProduct[] = "{product}";
/// The version of the image's own program.
inline constexpr uint32_t kVersion = {version};
/// Bytes of each of the two slots at the end of flash.
inline constexpr size_t kSlotSize = {slot_size};

}} // namespace update_settings
"""


def settings(public_key: bytes, product: str, version: int, slot_size: int) -> str:
    """Returns the header."""
    check_product(product)
    quoted = product.replace("\\", "\\\\").replace('"', '\\"')
    key = ", ".join(f"0x{byte:02x}" for byte in public_key)
    return _HEADER.format(key=key, product=quoted, version=version, slot_size=slot_size)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.program:
        program = SignedProgram(arguments.version, arguments.product, arguments.program.read_bytes())
        data = sign(program, load_private_key(arguments.key))
    else:
        key = load_public_key(arguments.key)
        data = settings(key, arguments.product, arguments.version, arguments.slot_size).encode("ascii")
    with replacing(arguments.output) as partial:
        partial.write_bytes(data)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry point."""
    parser = argparse.ArgumentParser(prog="sign", description=__doc__)
    parser.add_argument("--program", type=Path, help=".pte to sign; without it the image's header is written")
    parser.add_argument("--key", type=Path, required=True, help="the private key (PEM), or for a header the public one")
    parser.add_argument("--product", required=True, help="the product whose devices take the program")
    parser.add_argument("--version", type=int, required=True, help="the program's version")
    parser.add_argument("--slot-size", type=int, default=0, help="bytes of a slot, for the header")
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    return run_tool("sign", _run, parser.parse_args(argv))
