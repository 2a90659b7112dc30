"""Implements the host's side of the inference protocol in firmware/inference_server.h: frames on a board's console.

The host asks and the device answers, one request at a time. A request without an answer is sent again with the same
sequence number, which the device recognises. So bytes may be lost, duplicated and changed on the way: a frame arrives
intact or not at all, and nothing is executed twice.
"""

import binascii
import random
import re
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from cobs import cobs

from tools.commands.console.channel import Channel
from tools.quiet.console import UserError, printable
from tools.quiet.troubleshooting import more_about
from tools.verify.environment.hosted import error_name

_VERSION = 1
_ANSWER = 0x80
_HELLO, _DESCRIBE, _WRITE, _EXECUTE, _READ, _BYE = range(1, 7)
_HEADER = struct.Struct("<BBH")
_STATUS = {1: "malformed request", 2: "outside the tensors"}

# A model's name is sent so often, because a noisy line may lose some.
_CHOICES = 3

# Seconds until a request is sent again are doubled each time, up to this.
_LONGEST_WAIT = 3.0
# Data bytes of a frame, when so many get lost that only short ones have a chance.
_SMALLEST_CHUNK = 16

# The limit for buffered data without the end of a frame: more than the longest frame.
_LONGEST_STRETCH = 1 << 18
_LONGEST_CHUNK = 1 << 16
# Bytes of all inputs, and of all outputs: more than a microcontroller has memory.
_MOST_BYTES = 1 << 28

# ScalarType -> numpy's dtype; bfloat16, which numpy does not have, as its bits.
_DTYPES = {0: "u1", 1: "i1", 2: "<i2", 3: "<i4", 4: "<i8", 5: "<f2", 6: "<f4", 7: "<f8", 11: "?", 15: "<u2", 27: "<u2"}


def _read_request(offset: int, total: int, chunk: int) -> bytes:
    """Asks for the next part, of at most `chunk` bytes, of outputs of `total` bytes."""
    return struct.pack("<II", offset, min(chunk, total - offset))


def encode_frame(payload: bytes) -> bytes:
    """Returns a payload as the bytes of a frame."""
    return b"\0" + cobs.encode(payload + struct.pack("<I", binascii.crc32(payload))) + b"\0"


class FrameReader:
    """Finds the intact frames in a stream of bytes.

    Attributes:
        text: the end of stretches between zeros that are not intact frames, as far as it is text, such as the last
            words of a program.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self.text = ""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Takes bytes; yields the payloads that are complete with them."""
        self._pending += data
        *complete, rest = bytes(self._pending).split(b"\0")
        self._pending = bytearray(rest)
        for stretch in complete:
            payload = self._decode(stretch)
            if payload is not None:
                yield payload
            elif stretch:
                self._keep_text(stretch)
        if len(self._pending) > _LONGEST_STRETCH:
            del self._pending[:-_SMALLEST_CHUNK]

    def unframed(self) -> str:
        """Returns received text, including a stretch that no zero has ended yet."""
        self._keep_text(bytes(self._pending))
        return self.text

    def _keep_text(self, stretch: bytes) -> None:
        if stretch and all(byte in b"\r\n\t" or 0x20 <= byte < 0x7F for byte in stretch):
            self.text = (self.text + stretch.decode("ascii").replace("\r\n", "\n"))[-2000:]

    @staticmethod
    def _decode(stretch: bytes) -> bytes | None:
        try:
            frame = cobs.decode(stretch)
        except cobs.DecodeError:
            return None
        payload, crc = frame[:-4], frame[-4:]
        return payload if payload and crc == struct.pack("<I", binascii.crc32(payload)) else None


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of the running program; `offset` is its offset among all of them."""

    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Device:
    """The device's description of itself."""

    name: str
    program_size: int
    program_crc: int
    ticks_per_second: int
    inputs_size: int
    chunk: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class Inference:
    """Outputs of one execution, and the seconds it took by the device's counter."""

    outputs: tuple[np.ndarray, ...]
    seconds: float


class Client:
    """A conversation with a device.

    Args:
        channel: its console.
        patience: seconds without an answer after which the device is considered lost.
        first_wait: seconds until a request is sent again; longer than a frame takes to the device and back.
        model: the model of the image that answers; empty: the running one.

    Raises:
        UserError: the device does not answer, or has no such model.

    Attributes:
        device: the device's description of itself.
        repeated: requests that were sent again.
    """

    def __init__(self, channel: Channel, patience: float = 30.0, first_wait: float = 0.3, model: str = "") -> None:
        self._channel = channel
        self._patience = patience
        self._first_wait = first_wait
        # Random, so that nothing left of an earlier conversation fits.
        self._sequence = random.randrange(0x10000)
        self._reader = FrameReader()
        self.repeated = 0
        # Data bytes of a frame: as many as the device takes, fewer while frames get lost.
        self._chunk = self._longest = _SMALLEST_CHUNK
        self.device = self._meet()
        self._chunk = self._longest = self.device.chunk
        if model:
            self._choose(model)

    def infer(self, inputs: list[np.ndarray]) -> Inference:
        """Executes the program.

        Args:
            inputs: an array per input, with its dtype and shape.

        Raises:
            UserError: an input does not fit, the program failed, or the device does not answer.
        """
        device = self.device
        if len(inputs) != len(device.inputs):
            raise UserError(f"{device.name} takes {len(device.inputs)} inputs, not {len(inputs)}")
        for i, (array, spec) in enumerate(zip(inputs, device.inputs, strict=True)):
            if array.dtype != spec.dtype or array.shape != spec.shape:
                raise UserError(
                    f"input {i} is {array.dtype} {list(array.shape)}; {device.name} takes {spec.dtype} "
                    f"{list(spec.shape)}"
                )
            self._write(spec.offset, np.ascontiguousarray(array).tobytes())
        total = sum(spec.nbytes for spec in device.outputs)
        self._sequence += 1
        result = self._ask(_EXECUTE, lambda chunk: struct.pack("<I", min(chunk, total)))
        self._expect(len(result) >= 8, "the answer to an execution is too short")
        error, ticks = struct.unpack_from("<II", result)
        if error:
            name = error_name(error)
            raise UserError(f"{device.name} could not execute: {name}{more_about(name)}")
        data = bytearray(result[8:])
        while len(data) < total:
            offset = len(data)
            self._sequence += 1
            part = self._ask(_READ, partial(_read_request, offset, total))
            self._expect(bool(part), "it reads nothing of the outputs")
            data += part
        self._expect(len(data) == total, f"its outputs are {len(data)} bytes, not the {total} that it described")
        outputs = tuple(
            np.frombuffer(data, spec.dtype, prod(spec.shape), spec.offset).reshape(spec.shape)
            for spec in device.outputs
        )
        return Inference(outputs, ticks / device.ticks_per_second)

    def _choose(self, model: str) -> None:
        """Has the device run a model: by its name at the console, of which it answers nothing that this waits for."""
        if not re.fullmatch(r"[A-Za-z_]\w*", model, re.ASCII):
            raise UserError(f"--model {model} is no model's name; it has letters, digits and underscores")
        for _ in range(_CHOICES):
            if self.device.name == model:
                return
            self.close()
            self._channel.write(f"\n{model}\n".encode("ascii"))
            self.device = self._meet()
        if self.device.name != model:
            said = re.search(r"there is no model \w+; there are (.*)$", self._reader.unframed(), re.MULTILINE)
            known = said[1] if said else self.device.name
            raise UserError(f"{self._channel.name} has no model {model}; give --model one of: {known}")

    def ask(self, kind: int, arguments: Callable[[int], bytes] = lambda _: b"") -> bytes:
        """Asks what only some applications answer; returns the answer.

        Args:
            kind: type of the request.
            arguments: gives them for at most so many bytes of data.

        Raises:
            UserError: the application refuses it, or does not answer.
        """
        self._sequence += 1
        return self._ask(kind, arguments)

    def close(self) -> None:
        """Says bye, so that the device goes back to text."""
        self._sequence += 1
        self._ask(_BYE, lambda _: b"")

    def _meet(self) -> Device:
        # The line feed ends a partial line of text on the device.
        answer = self._ask(_HELLO, lambda _: b"", before=b"\n")
        self._expect(len(answer) >= 3, "the answer to hello is too short")
        version, inputs, outputs = struct.unpack_from("<BBB", answer)
        if version != _VERSION:
            raise UserError(
                f"the device speaks version {version} of the protocol, this tool {_VERSION}: flash an image of this "
                "build"
            )
        self._expect(len(answer) >= 24, "the answer to hello is too short")
        chunk, inputs_size, size, crc, ticks_per_second = struct.unpack_from("<IIIII", answer, 4)
        self._expect(chunk > 0, "its frames hold no data")
        self._expect(ticks_per_second > 0, "its counter stands still")
        input_specs, output_specs = (
            tuple(self._describe(kind, i) for i in range(count)) for kind, count in enumerate((inputs, outputs))
        )
        for specs, size_of_all in ((input_specs, inputs_size), (output_specs, sum(s.nbytes for s in output_specs))):
            self._expect(
                all(spec.offset + spec.nbytes <= min(size_of_all, _MOST_BYTES) for spec in specs),
                "a tensor lies outside of what its tensors take",
            )
        return Device(
            printable(answer[24:].decode("utf-8", "replace")),
            size,
            crc,
            ticks_per_second,
            inputs_size,
            min(chunk, _LONGEST_CHUNK),
            input_specs,
            output_specs,
        )

    def _describe(self, kind: int, index: int) -> TensorSpec:
        self._sequence += 1
        answer = self._ask(_DESCRIBE, lambda _: bytes([kind, index]))
        self._expect(len(answer) >= 12, "the description of a tensor is too short")
        dtype, dim, _, offset, nbytes = struct.unpack_from("<bBHII", answer)
        if dtype not in _DTYPES:
            raise UserError(f"the device has a tensor of ScalarType {dtype}, which this tool cannot send")
        self._expect(len(answer) >= 12 + 4 * dim, "the description of a tensor is too short")
        spec = TensorSpec(np.dtype(_DTYPES[dtype]), struct.unpack_from(f"<{dim}i", answer, 12), offset, nbytes)
        self._expect(
            all(size >= 0 for size in spec.shape) and prod(spec.shape) * spec.dtype.itemsize == nbytes,
            f"a tensor of {spec.dtype} {list(spec.shape)} has {nbytes} bytes",
        )
        return spec

    def _expect(self, holds: bool, problem: str) -> None:
        """Raises a UserError if the device's answer makes no sense: its checksum is right, so it is not noise."""
        if not holds:
            raise UserError(
                f"{self._channel.name} gives an answer that makes no sense: {problem}. Is an image of this build "
                "flashed there (bazel run //firmware:flash)?"
            )

    def _write(self, offset: int, data: bytes) -> None:
        at = 0
        while at < len(data):
            sent = 0

            def arguments(chunk: int, start: int = at) -> bytes:
                nonlocal sent
                sent = min(chunk, len(data) - start)
                return struct.pack("<I", offset + start) + data[start : start + sent]

            self._sequence += 1
            self._ask(_WRITE, arguments)
            at += sent

    def _ask(self, kind: int, arguments: Callable[[int], bytes], before: bytes = b"") -> bytes:
        """Sends a request until its answer comes. Returns the results.

        Args:
            kind: type of the request.
            arguments: gives them for at most so many bytes of data.
            before: bytes sent before the frame.
        """
        sequence = self._sequence & 0xFFFF
        wait, waited = self._first_wait, 0.0
        chunk = self._chunk
        while True:
            request = _HEADER.pack(kind, 0, sequence) + arguments(chunk)
            begin = time.monotonic()
            self._channel.write(before + encode_frame(request))
            answer = self._answer(kind, sequence, wait)
            if answer is not None:
                if not waited:
                    self._chunk = min(self._longest, self._chunk + self._chunk // 4)
                status = answer[1]
                if status:
                    raise UserError(f"the device refused request {kind}: {_STATUS.get(status, f'status {status}')}")
                return answer[_HEADER.size :]
            # Longer than `wait` if data other than an answer arrives all the time.
            waited += max(wait, time.monotonic() - begin)
            if waited >= self._patience:
                raise UserError(self._silence())
            self.repeated += 1
            wait = min(2 * wait, _LONGEST_WAIT)
            # A frame that is lost repeatedly may be too long for the noise on the line.
            chunk = self._chunk = max(_SMALLEST_CHUNK, chunk // 2)

    def _answer(self, kind: int, sequence: int, wait: float) -> bytes | None:
        """Returns the answer to a request, if it comes in time. Others, to requests sent twice, are skipped."""
        begin = time.monotonic()
        while time.monotonic() - begin < self._patience:
            data = self._channel.read(wait)
            if not data:
                return None
            found = None
            for payload in self._reader.feed(data):
                if len(payload) >= _HEADER.size:
                    answered, _, number = _HEADER.unpack_from(payload)
                    if answered == kind | _ANSWER and number == sequence:
                        found = payload
            if found is not None:
                return found
        return None

    def _silence(self) -> str:
        said = self._reader.unframed().strip()
        shown = "\n" + "\n".join(f"  | {line}" for line in said.splitlines()[-12:]) if said else ""
        return (
            f"no answer from {self._channel.name}: is an image with a console flashed there (bazel run "
            f"//firmware:flash), and the board out of reset?{shown}"
        )
