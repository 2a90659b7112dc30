"""Tests arbitrary answers of a device: they give a result of the right shape, or one error that names the device."""

import random
import struct
from collections.abc import Callable

import numpy as np
import pytest

from tests.bad_files.mutations import mutated_bytes
from tools.commands.infer import protocol
from tools.commands.infer.protocol import Client, FrameReader, encode_frame
from tools.quiet.console import UserError

Change = Callable[[bytes], bytes]


class Device:
    """A device with one float32 input of two elements, which it returns, and faults of its answers on the way.

    Args:
        payload: changes an answer's payload, with a valid checksum.
        frame: changes the bytes on the line.
    """

    name = "the device"

    def __init__(self, payload: Change = lambda data: data, frame: Change = lambda data: data) -> None:
        self._payload = payload
        self._frame = frame
        self._reader = FrameReader()
        self._sent = b""
        self._data = bytes(8)

    def write(self, data: bytes) -> None:
        for request in self._reader.feed(data):
            kind, _, sequence = protocol._HEADER.unpack_from(request)
            answer = protocol._HEADER.pack(kind | protocol._ANSWER, 0, sequence) + self._answer(kind, request[4:])
            self._sent += self._frame(encode_frame(self._payload(answer)))

    def _answer(self, kind: int, arguments: bytes) -> bytes:
        if kind == protocol._HELLO:
            return struct.pack("<BBBB5I", 1, 1, 1, 0, 32, 8, 100, 7, 1000) + b"tiny"
        if kind == protocol._DESCRIBE:
            return struct.pack("<bBHIIii", 6, 2, 0, 0, 8, 1, 2)
        if kind == protocol._WRITE:
            offset = struct.unpack_from("<I", arguments)[0]
            self._data = self._data[:offset] + arguments[4:] + self._data[offset + len(arguments) - 4 :]
            return b""
        if kind == protocol._EXECUTE:
            return struct.pack("<II", 0, 5) + self._data[: struct.unpack("<I", arguments)[0]]
        if kind == protocol._READ:
            offset, size = struct.unpack("<II", arguments)
            return self._data[offset : offset + size]
        return b""

    def read(self, timeout: float) -> bytes:
        sent, self._sent = self._sent, b""
        return sent

    def close(self) -> None:
        pass


INPUT = np.array([[1.5, -2.0]], dtype=np.float32)


def converse(device: Device) -> np.ndarray | None:
    """Returns the output of an inference; None if there is an error, which must name the device."""
    names = ["the device"]
    try:
        # The device answers at once or never.
        client = Client(device, patience=0.02, first_wait=0.01)
        names.append(client.device.name)
        result = client.infer([np.resize(INPUT.astype(spec.dtype), spec.shape) for spec in client.device.inputs])
        client.close()
    except UserError as error:
        assert any(name in str(error) for name in names)
        return None
    return result.outputs[0] if result.outputs else None


def test_a_name_does_not_move_the_cursor() -> None:
    assert Client(Device(lambda data: data.replace(b"tiny", b"t\x1b[2J"))).device.name == r"t\x1b[2J"


def test_what_is_sent_comes_back() -> None:
    np.testing.assert_array_equal(converse(Device()), INPUT)


def test_noise_gives_the_result_or_an_error() -> None:
    chance = random.Random(3)
    results = 0
    for _ in range(300):

        def change(data: bytes) -> bytes:
            return (
                data if chance.random() < 0.7 else next(iter(list(mutated_bytes(data, 1, chance.randrange(10**6)))[3:]))
            )

        output = converse(Device(frame=change))
        if output is not None:
            np.testing.assert_array_equal(output, INPUT)
            results += 1
    assert results > 30


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (struct.pack("<BBBB5I", 1, 1, 1, 0, 0, 8, 100, 7, 1000), "frames hold no data"),
        (struct.pack("<BBBB5I", 1, 1, 1, 0, 32, 8, 100, 7, 0), "counter stands still"),
        (b"\1\1\1", "too short"),
        (b"", "too short"),
        (struct.pack("<BBBB5I", 1, 1, 1, 0, 32, 4, 100, 7, 1000), "outside of what its tensors take"),
    ],
)
def test_a_hello_that_makes_no_sense_is_named(answer: bytes, problem: str) -> None:
    class Strange(Device):
        def _answer(self, kind: int, arguments: bytes) -> bytes:
            return answer if kind == protocol._HELLO else super()._answer(kind, arguments)

    with pytest.raises(
        UserError, match=rf"the device gives an answer that makes no sense: .*{problem}.*//firmware:flash"
    ):
        Client(Strange())


def test_outputs_larger_than_a_microcontroller_are_refused() -> None:
    class Large(Device):
        def _answer(self, kind: int, arguments: bytes) -> bytes:
            if kind == protocol._DESCRIBE and arguments[0] == 1:
                return struct.pack("<bBHIIii", 6, 2, 0, 0, 1 << 30, 1 << 14, 1 << 14)
            return super()._answer(kind, arguments)

    with pytest.raises(UserError, match="outside of what its tensors take"):
        Client(Large())


class Chatter(Device):
    """Says something all the time, and never answers."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self.text = text

    def read(self, timeout: float) -> bytes:
        return self.text


@pytest.mark.parametrize("text", [b"x" * 4096, b"\0" * 64, encode_frame(b"\x81\0\0\0") * 8])
def test_a_device_that_never_stops_talking_is_given_up(text: bytes) -> None:
    with pytest.raises(UserError, match="no answer from the device"):
        Client(Chatter(text), patience=0.2, first_wait=0.05)


def test_a_stream_without_an_end_takes_little_memory() -> None:
    reader = FrameReader()
    for _ in range(100):
        assert list(reader.feed(b"x" * 65536)) == []
    assert len(reader._pending) <= 1 << 19
    assert list(reader.feed(b"\0" + encode_frame(b"good"))) == [b"good"]
