"""A payload is read as it was written, and one that is damaged is refused with the place."""

import struct

import pytest

from tools.artifacts.ethos_u.payload import PayloadError, TensorPlace, parse, parse_commands
from tools.artifacts.ethos_u.testing import payload_of

_SOURCE = TensorPlace((1, 1, 1, 4, 4, 3), 1, 64, 1)
_RESULT = TensorPlace((1, 1, 1, 1, 1, 10), 2, 16, 1)


def _tensors(*places: TensorPlace) -> bytes:
    fields = [struct.pack("<9i", *place.shape, place.element_size, place.offset, place.region) for place in places]
    return struct.pack("<i", len(places)) + b"".join(fields)


def _payload(**changed: bytes) -> bytes:
    blocks = {
        "cmd_data": b"COP1" + bytes(20),
        "weight_data": bytes(range(33)),
        "scratch_size": (4096).to_bytes(4, "little"),
        "inputs": _tensors(_SOURCE),
        "outputs": _tensors(_RESULT),
    }
    return payload_of(blocks | changed)


def test_content() -> None:
    payload = parse(_payload())
    assert payload.commands == b"COP1" + bytes(20)
    assert payload.weights == bytes(range(33))
    assert payload.scratch_size == 4096
    assert payload.inputs == (_SOURCE,)
    assert payload.outputs == (_RESULT,)
    assert _RESULT.size == 20


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it ends at byte 0, before block vela_bin_stream"),
        (_payload()[:-40], "before block vela_end_stream|block vela_end_stream"),
        (_payload(outputs=bytes(7)), "block outputs has 7 bytes, which is no whole number of tensors"),
        (_payload(scratch_size=bytes(8)), "block scratch_size has 8 bytes, not 4"),
        (_payload().replace(b"cmd_data", b"cmd_dato"), "where cmd_data belongs"),
        (_payload()[:40] + b"\xff\xff\xff\x7f" + _payload()[44:], "has|where"),
    ],
)
def test_damage(data: bytes, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        parse(data)


def test_a_length_beyond_the_end() -> None:
    data = bytearray(_payload())
    struct.pack_into("<I", data, 32 + 16, 1 << 31)
    with pytest.raises(PayloadError, match="block cmd_data has 2147483648 bytes"):
        parse(bytes(data))


def _words(*words: int) -> bytes:
    return b"COP1" + struct.pack(f"<{len(words)}I", *words)


def test_commands() -> None:
    commands = parse_commands(_words(0x100001, 0x1807, 0x10066001, 5, 5, 5, 3 << 16 | 2, 0x10F, 0x4000, 0, 7))
    assert (commands.config, commands.architecture) == (0x1807, 0x10066001)
    assert commands.words == (0x10F, 0x4000, 0)


def test_a_command_stream_of_more_than_65535_words() -> None:
    commands = parse_commands(_words(1, 2, 3, 5, 5, 5, 1 << 16 | 1 << 8 | 2, *range(65537)))
    assert commands.words == tuple(range(65537))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"COP2" + bytes(8), "begins with b'COP2'"),
        (b"COP1" + bytes(3), "has 7 bytes"),
        (_words(5, 5), "has no command stream"),
        (_words(4 << 16 | 2, 0), "has no configuration before the command stream"),
        (_words(1, 2, 3, 9 << 16 | 2, 0), "9 words of commands, 1 are left"),
        (_words(1, 2, 3, 5, 1 << 16 | 2, 0), "commands begin at byte 24, not at a multiple of 16"),
        (_words(1, 2), "has no command stream"),
        (_words(0x77), "word 1 is 0x00000077"),
    ],
)
def test_damaged_commands(data: bytes, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        parse_commands(data)
