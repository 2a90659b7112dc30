"""Signed programs: what a device takes as an update, a header of 192 bytes and the .pte (docs/update.md)."""

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from tools.quiet.console import UserError
from tools.quiet.files import reading

MAGIC = b"TFSIGNED"
_FORMAT = 1
# SignedProgramHeader of firmware/update/program_slots.h without the signature: magic, format, version, size, 12
# reserved bytes, product, SHA-512 of the program.
_SIGNED = struct.Struct("<8sIII12x32s64s")
_SIGNATURE_SIZE = 64
HEADER_SIZE = _SIGNED.size + _SIGNATURE_SIZE
_LONGEST_PRODUCT = 31
_LARGEST_VERSION = (1 << 32) - 2


@dataclass(frozen=True)
class SignedProgram:
    """Holds the header of a signed program.

    Attributes:
        version: the program's version; devices never go back.
        product: whose devices take it.
        program: the .pte.
    """

    version: int
    product: str
    program: bytes


def check_product(product: str) -> bytes:
    """Returns a product's name as a header has it.

    Raises:
        UserError: it is empty, too long, or has other characters than ASCII's printable ones.
    """
    if not 0 < len(product) <= _LONGEST_PRODUCT or not product.isascii() or not product.isprintable():
        raise UserError(f"product '{product}': give 1 to {_LONGEST_PRODUCT} printable ASCII characters")
    return product.encode("ascii")


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Reads a private key in PEM.

    Raises:
        UserError: it is no Ed25519 key, or has a password.
    """
    with reading("private key", path, "make one with `openssl genpkey -algorithm ed25519 -out key.pem`"):
        try:
            key = load_pem_private_key(path.read_bytes(), None)
        except (TypeError, UnsupportedAlgorithm, InternalError) as error:
            raise ValueError(error) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError(f"it is a {type(key).__name__}, not an Ed25519 key")
    return key


def load_public_key(path: Path) -> bytes:
    """Reads the 32 bytes of a public key in PEM.

    Raises:
        UserError: it is no Ed25519 key.
    """
    with reading("public key", path, "make it with `openssl pkey -in key.pem -pubout -out key.pub`"):
        try:
            key = load_pem_public_key(path.read_bytes())
        except (UnsupportedAlgorithm, InternalError) as error:
            raise ValueError(error) from error
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError(f"it is a {type(key).__name__}, not an Ed25519 key")
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def sign(program: SignedProgram, key: Ed25519PrivateKey) -> bytes:
    """Returns the bytes of a signed program.

    Raises:
        UserError: the version or the product's name is none.
    """
    if not 0 < program.version <= _LARGEST_VERSION:
        raise UserError(f"version {program.version}: give a number from 1 to {_LARGEST_VERSION}")
    digest = hashlib.sha512(program.program).digest()
    product = check_product(program.product)
    signed = _SIGNED.pack(MAGIC, _FORMAT, program.version, len(program.program), product, digest)
    return signed + key.sign(signed) + program.program


def parse(data: bytes, public_key: bytes | None = None) -> SignedProgram:
    """Reads a signed program, as a device does.

    Args:
        data: the file's bytes.
        public_key: the key that must have signed it; None to check everything else.

    Raises:
        ValueError: the bytes are no signed program, or were changed.
    """
    if len(data) <= HEADER_SIZE or data[: len(MAGIC)] != MAGIC:
        raise ValueError("it is no signed program")
    _, form, version, size, product, digest = _SIGNED.unpack_from(data)
    program = data[HEADER_SIZE:]
    if form != _FORMAT:
        raise ValueError(f"its format is {form}, and this release knows {_FORMAT}")
    if size != len(program) or hashlib.sha512(program).digest() != digest:
        raise ValueError("its program is not the one that was signed")
    if public_key is not None:
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(
                data[_SIGNED.size : HEADER_SIZE], data[: _SIGNED.size]
            )
        except InvalidSignature:
            raise ValueError("the key has not signed it") from None
    return SignedProgram(version, product.rstrip(b"\0").decode("ascii", "replace"), program)
