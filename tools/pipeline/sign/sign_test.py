import os
from pathlib import Path

from tools.artifacts.signed_program.signed_program import SignedProgram, load_public_key, parse
from tools.pipeline.sign.sign import main

_KEYS = {Path(path).suffix: path for path in os.environ["KEYS"].split()}


def test_a_program_is_signed(tmp_path: Path) -> None:
    program, output = tmp_path / "net.pte", tmp_path / "net.update"
    program.write_bytes(b"a program")
    arguments = ["--program", str(program), "--product", "leaf", "--version", "7", "--output", str(output)]
    assert main([*arguments, "--key", _KEYS[".pem"]]) == 0
    assert parse(output.read_bytes(), load_public_key(Path(_KEYS[".pub"]))) == SignedProgram(7, "leaf", b"a program")
    output.unlink()
    assert main([*arguments, "--key", _KEYS[".pub"]]) != 0 and not output.exists()


def test_the_header_has_what_an_image_accepts(tmp_path: Path) -> None:
    output = tmp_path / "update_settings.h"
    arguments = ["--product", 'a "leaf"', "--version", "2", "--slot-size", "4096", "--output", str(output)]
    assert main([*arguments, "--key", _KEYS[".pub"]]) == 0
    header = output.read_text()
    key = load_public_key(Path(_KEYS[".pub"]))
    assert f"0x{key[0]:02x}, 0x{key[1]:02x}" in header and r'kProduct[] = "a \"leaf\""' in header
