from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tools.artifacts.signed_program.signed_program import SignedProgram, load_private_key, load_public_key, parse, sign
from tools.quiet.console import UserError

_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_PUBLIC = _KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
_PROGRAM = SignedProgram(3, "leaf sensor", b"a program")


def test_what_was_signed_is_read_again() -> None:
    assert parse(sign(_PROGRAM, _KEY), _PUBLIC) == _PROGRAM


def test_every_changed_byte_is_found() -> None:
    data = sign(_PROGRAM, _KEY)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(ValueError):
            parse(bytes(changed), _PUBLIC)
    with pytest.raises(ValueError, match="no signed program"):
        parse(data[:100], _PUBLIC)


@pytest.mark.parametrize("program", [replace(_PROGRAM, version=0), replace(_PROGRAM, product="x" * 32)])
def test_what_no_device_takes_is_not_signed(program: SignedProgram) -> None:
    with pytest.raises(UserError, match="give"):
        sign(program, _KEY)


def test_keys_are_pem_files(tmp_path: Path) -> None:
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    private.write_bytes(_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert load_public_key(public) == _PUBLIC
    assert load_private_key(private).public_key() == _KEY.public_key()
    # The same bytes as a key of X448, whose keys are longer, are an error that OpenSSL doesn't know.
    (tmp_path / "x448.pem").write_bytes(private.read_bytes().replace(b"YDK2VwB", b"YDK2VvB"))
    for other in (public, tmp_path / "x448.pem"):
        with pytest.raises(UserError, match="openssl genpkey"):
            load_private_key(other)
    with pytest.raises(UserError, match="openssl pkey"):
        load_public_key(private)
