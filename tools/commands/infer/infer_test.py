"""The protocol against a real image in QEMU: every byte goes through firmware/frame.c and inference_server.cpp."""

import binascii
import os
import pty
import random
import select
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tools.artifacts.board.board import read_board
from tools.commands.console.channel import Channel, EmulatorChannel
from tools.commands.infer import protocol
from tools.commands.infer.infer import confusion_matrix, fit, main
from tools.commands.infer.protocol import Client, FrameReader, Inference, TensorSpec, encode_frame
from tools.quiet.console import UserError
from tools.quiet.testing import given_file

_ELF, _BOARD = given_file("IMAGE", ".elf"), given_file("BOARDS", "mps2_an386/board.json")
_GOLDEN = given_file("GOLDEN", ".golden.npz")
_QEMU = Path(os.environ["QEMU"])
_RUN = ["--elf", str(_ELF), "--board", str(_BOARD), "--qemu", str(_QEMU), "--on", "qemu"]


@pytest.fixture(scope="module")
def channel() -> Iterator[Channel]:
    channel = EmulatorChannel(_ELF, read_board(_BOARD), _QEMU)
    yield channel
    channel.close()


@pytest.fixture
def running(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives commands the emulator that runs already, since its start takes longer than what they do."""
    monkeypatch.setattr(channel, "close", lambda: None)
    monkeypatch.setattr("tools.commands.infer.infer.open_channel", lambda *_: channel)


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(_GOLDEN))


class Noise:
    """A channel on which bytes get lost, doubled and changed in both directions, each with a probability."""

    def __init__(self, channel: Channel, probability: float, seed: int) -> None:
        self.name = channel.name
        self.channel = channel
        self.probability = probability
        self.random = random.Random(seed)
        self.faults = 0

    def _through(self, data: bytes) -> bytes:
        result = bytearray()
        for byte in data:
            if self.random.random() >= self.probability:
                result.append(byte)
                continue
            self.faults += 1
            kind = self.random.randrange(3)
            result += (b"", bytes([byte, byte]), bytes([byte ^ 1 << self.random.randrange(8)]))[kind]
        return bytes(result)

    def read(self, timeout: float) -> bytes:
        return self._through(self.channel.read(timeout))

    def write(self, data: bytes) -> None:
        self.channel.write(self._through(data))

    def close(self) -> None:
        self.channel.close()


def _answers(channel: Channel, payload: bytes, sequence: int) -> list[bytes]:
    """Returns the answers to a request: everything before the answer to a following hello, however long the device
    takes.

    Args:
        sequence: the last sequence number of the device, which hello doesn't change.
    """
    hello = protocol._HEADER.pack(protocol._HELLO, 0, sequence & 0xFFFF)
    channel.write(encode_frame(payload) + encode_frame(hello))
    reader, frames = FrameReader(), []
    while not any(frame[0] == protocol._HELLO | protocol._ANSWER for frame in frames):
        data = channel.read(60)
        assert data, "no answer to hello"
        frames += reader.feed(data)
    return frames[:-1]


def test_outputs_are_pytorchs(channel: Channel, golden: dict[str, np.ndarray]) -> None:
    client = Client(channel)
    assert client.device.name == "digits"
    assert [(str(spec.dtype), spec.shape) for spec in client.device.inputs] == [("float32", (1, 1, 8, 8))]
    for sample in range(5):
        result = client.infer([golden["input_0"][sample]])
        np.testing.assert_allclose(result.outputs[0], golden["output_0"][sample], rtol=1e-4, atol=1e-4)
        assert 0 < result.seconds < 1


def test_a_model_that_the_runtime_runs_answers_as_any() -> None:
    channel = EmulatorChannel(given_file("LOADED", ".elf"), read_board(_BOARD), _QEMU)
    try:
        client = Client(channel)
        assert (client.device.name, client.device.inputs, client.device.outputs) == (
            "sine",
            (TensorSpec(np.dtype("float32"), (1, 1), 0, 4),),
            (TensorSpec(np.dtype("float32"), (1, 1), 0, 4),),
        )
        program = given_file("GOLDEN_LOADED", ".pte").read_bytes()
        assert (client.device.program_size, client.device.program_crc) == (len(program), binascii.crc32(program))
        golden = np.load(given_file("GOLDEN_LOADED", ".golden.npz"))
        for given, expected in zip(golden["input_0"], golden["output_0"], strict=True):
            np.testing.assert_allclose(client.infer([given]).outputs[0], expected, rtol=1e-4, atol=1e-4)
    finally:
        channel.close()


def test_noise_changes_nothing(channel: Channel, golden: dict[str, np.ndarray]) -> None:
    clean = Client(channel)
    expected = [clean.infer([golden["input_0"][i]]).outputs[0] for i in range(32)]
    # Noise that cuts the hello in two may not leave the device in the middle of a line, either.
    clean.close()
    noise = Noise(channel, 1e-3, seed=2)
    noisy = Client(noise, first_wait=0.1)
    for i in range(32):
        assert noisy.infer([golden["input_0"][i]]).outputs[0].tobytes() == expected[i].tobytes()
    # The random first sequence number decides how many bytes are escaped.
    assert noise.faults > 5
    assert noisy.repeated > 0


def test_a_repeated_request_is_answered_again_and_an_old_one_is_not(channel: Channel) -> None:
    client = Client(channel)

    def say(sequence: int, last: int) -> list[bytes]:
        header = protocol._HEADER.pack(protocol._DESCRIBE, 0, sequence & 0xFFFF)
        return _answers(channel, header + b"\0\0", last)

    sequence = client._sequence
    first = say(sequence + 1, sequence + 1)
    assert len(first) == 1
    assert say(sequence + 1, sequence + 1) == first
    assert say(sequence, sequence + 1) == []
    assert say(sequence + 3, sequence + 1) == []
    assert len(say(sequence + 2, sequence + 2)) == 1


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x63", 1),  # no such type
        (bytes([protocol._WRITE]) + b"\0" * 3, 1),
        (bytes([protocol._WRITE]) + b"\xff\xff\xff\xff" + b"x", 2),
        (bytes([protocol._WRITE]) + b"\x00\x01\x00\x00" + b"x", 2),  # the first byte behind the inputs
        (bytes([protocol._READ]) + b"\x28\0\0\0" + b"\1\0\0\0", 2),  # the first byte behind the outputs
        (bytes([protocol._READ]) + b"\0\0\0\0" + b"\xff\xff\xff\xff", 2),
        (bytes([protocol._DESCRIBE]) + b"\0\1", 2),
    ],
)
def test_a_bad_request_is_refused(channel: Channel, request_bytes: bytes, status: int) -> None:
    client = Client(channel)
    sequence = client._sequence + 1
    header = protocol._HEADER.pack(request_bytes[0], 0, sequence & 0xFFFF)
    (answer,) = _answers(channel, header + request_bytes[1:], sequence)
    assert answer[1] == status


def test_after_bye_the_console_speaks_text(channel: Channel) -> None:
    client = Client(channel)
    client.close()
    channel.write(b"1 2\n")
    text = b""
    while b"give all elements" not in text:
        data = channel.read(5)
        assert data, text
        text += data


def test_a_device_that_is_silent(channel: Channel) -> None:
    class Silent:
        name = "a board"

        def read(self, timeout: float) -> bytes:
            return b""

        def write(self, data: bytes) -> None:
            pass

        def close(self) -> None:
            pass

    with pytest.raises(UserError, match="no answer from a board"):
        Client(Silent(), patience=1)


def test_frames_survive_any_stream() -> None:
    rng = random.Random(1)
    payloads = [rng.randbytes(rng.choice([1, 2, 253, 254, 255, 600])) for _ in range(60)]
    reader = FrameReader()
    # The bytes come in pieces, with arbitrary ones in between.
    stream = b"".join(encode_frame(payload) + bytes(rng.randrange(1, 256) for _ in range(5)) for payload in payloads)
    found = [frame for at in range(0, len(stream), 7) for frame in reader.feed(stream[at : at + 7])]
    assert found == payloads


def test_every_single_bit_error_is_noticed() -> None:
    frame = encode_frame(b"payload with \0 zeros \0")
    for bit in range(8, 8 * (len(frame) - 1)):
        broken = bytearray(frame)
        broken[bit // 8] ^= 1 << bit % 8
        assert list(FrameReader().feed(bytes(broken))) == []


def test_the_command_on_one_sample(tmp_path, golden, capsys) -> None:
    np.save(tmp_path / "x.npy", golden["input_0"][3].squeeze().astype(np.float64))
    assert main([*_RUN, "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "y.npy")]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), golden["output_0"][3], rtol=1e-4, atol=1e-4)
    assert "ms on the device" in capsys.readouterr().out


def test_the_command_on_a_data_set(golden: dict[str, np.ndarray], capsys: pytest.CaptureFixture) -> None:
    # `bazel run` gives golden inputs and outputs, which are run if there is nothing else.
    assert main([*_RUN, "--golden", str(_GOLDEN), "--limit", "30"]) == 0
    out = capsys.readouterr().out
    eager = golden["output_0"][:30].reshape(30, -1).argmax(1)
    right = int((eager == golden["labels"][:30]).sum())
    assert f"accuracy {right / 30:.4f} ({right} of 30)" in out
    assert "label \\ predicted" in out


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("is_terminal", [False, True])
def test_an_error_on_the_way_has_a_line_of_its_own(is_terminal, capsys, monkeypatch) -> None:
    infer_one = Client.infer
    left = iter([True, True])

    def infer(self: Client, inputs: list[np.ndarray]) -> Inference:
        if not next(left, False):
            raise UserError("the board is gone")
        return infer_one(self, inputs)

    monkeypatch.setattr(Client, "infer", infer)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert main([*_RUN, "--dataset", str(_GOLDEN), "--limit", "30"]) == 1
    progress = "\r1 of 30\r2 of 30\n" if is_terminal else ""
    assert capsys.readouterr().err == f"{progress}infer: error: the board is gone\n"


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x": np.zeros(3)}, "needs an array input_<i>"),
        ({"input_0": np.zeros((2, 1, 1, 8, 8), np.float32), "labels": np.zeros(3, np.int64)}, "number of samples"),
        ({"input_0": np.zeros((2, 1, 1, 8, 8), np.float32), "labels": np.zeros(2)}, "labels must be integers"),
        ({"input_0": np.zeros((2, 7), np.float32), "labels": np.zeros(2, np.int64)}, "sample 0 has shape [7]"),
        ({"input_0": np.zeros((0, 1, 1, 8, 8), np.float32)}, "has no samples"),
        (
            {"input_0": np.zeros((1, 8, 8)), "label": np.zeros(1)},
            "no labels and no output_0 to compare with; it has in",
        ),
        (
            {"input_0": np.full((2, 8, 8), "a"), "labels": np.zeros(2, int)},
            "sample 0 is <U1; the program takes float32",
        ),
        ({"input_0": np.zeros((2, 1, 1, 8, 8)), "labels": np.array([0, 10])}, "labels 0 to 10; digits has 10 classes"),
        ({"input_0": np.zeros((2, 1, 1, 8, 8)), "labels": np.array([-1, 1])}, "labels -1 to 1; digits has 10 classes"),
        ({"input_0": np.zeros((2, 1, 1, 8, 8)), "output_0": np.zeros((2, 3))}, "output_0 has samples of shape [3]"),
    ],
)
def test_a_data_set_that_does_not_fit(tmp_path, capsys, arrays, says) -> None:
    np.savez(tmp_path / "set.npz", **arrays)
    assert main([*_RUN, "--dataset", str(tmp_path / "set.npz")]) == 1
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_the_command_over_a_serial_port(channel, tmp_path, golden, capsys) -> None:
    # The emulated board's console is at the other end of a pseudo terminal.
    far_end, port = pty.openpty()
    ended = threading.Event()

    def connect() -> None:
        while not ended.is_set():
            os.write(far_end, channel.read(0.02))
            if select.select([far_end], [], [], 0)[0]:
                channel.write(os.read(far_end, 4096))

    np.save(tmp_path / "x.npy", golden["input_0"][0])
    wires = threading.Thread(target=connect)
    wires.start()
    try:
        run = [*_RUN[:-1], "port", "--port", os.ttyname(port)]
        assert main([*run, "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "y.npy")]) == 0
    finally:
        ended.set()
        wires.join()
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), golden["output_0"][0], rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("running")
def test_arrays_by_another_name(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((8, 8)))
    assert main([*_RUN, "--input", str(tmp_path / "x.npz")]) == 1
    assert "x.npz has x; digits takes input_0" in capsys.readouterr().err


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main([*_RUN, "--input", str(tmp_path / "x.npy")]) == 1
    assert "x.npy: No such file or directory; write it with numpy.save" in capsys.readouterr().err


@pytest.mark.usefixtures("running")
def test_outputs_that_cannot_be_written(tmp_path, golden, capsys) -> None:
    np.save(tmp_path / "x.npy", golden["input_0"][3])
    run = [*_RUN, "--input", str(tmp_path / "x.npy"), "--output"]
    assert main([*run, str(tmp_path / "no" / "y.npy")]) == 1
    assert "y.npy: No such file or directory; choose a folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*run, str(tmp_path / "y.txt")])
    assert "y.txt: it goes with --input, and its name ends in .npy or .npz" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["0", "-3"])
def test_a_limit_that_is_none(limit: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        main([*_RUN, "--dataset", str(_GOLDEN), "--limit", limit])
    assert f"--limit {limit}: give a number of samples" in capsys.readouterr().err


def test_inputs_are_converted_only_without_loss() -> None:
    spec = TensorSpec(np.dtype("i1"), (1, 2), 0, 2)
    assert fit(np.array([1.0, -3.0]), spec, "x").tolist() == [[1, -3]]
    with pytest.raises(UserError, match="has not"):
        fit(np.array([1.5, 300.0]), spec, "x")
    with pytest.raises(UserError, match="has shape"):
        fit(np.array([[1], [2], [3]]), spec, "x")


def test_confusion_matrix() -> None:
    assert confusion_matrix(np.array([0, 1, 1]), np.array([0, 1, 2])).tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
