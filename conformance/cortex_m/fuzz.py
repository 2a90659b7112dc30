"""Exports random quantized models as `torch_program(backend = "cortex_m")` does, and runs them on emulated cores.

bazel run //conformance/cortex_m:fuzz -- --minutes N     random seeds
bazel run //conformance/cortex_m:fuzz -- --seed S        one model, or --count N from it on

With --//tools/verify/run_pte:scalar before the target, on a Cortex-M3, too.

The outputs must be, to the bit, those of the dialect's Python implementation for the lowered model, and about those of
the model before it is lowered. Models are chains of layers whose images grow and shrink, with values that later layers
read again: the memory plan lets results take the place of operands that are still being read.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from conformance.check import difference, encode_input
from tools.artifacts.board.board import read_board
from tools.artifacts.core.core import layout
from tools.pipeline.export.backends.cortex_m import lower
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.ir.dim_orders import channels_last
from tools.pipeline.export.pipelines import CORTEX_M
from tools.pipeline.export.plan.emission import emit
from tools.pipeline.export.plan.manifest import Parameters
from tools.pipeline.export.plan.plan_passes import optimize_plan
from tools.pipeline.export.plan.serialize import serialize
from tools.pipeline.export.quantize import quantize
from tools.pipeline.export.quantize.in_float import InFloat
from tools.verify.run_pte.cases import Case, CaseResult, Runner, run_cases
from tools.verify.run_pte.run_pte import read_runners

# A core for each layout of the packed weights.
TARGETS = ("cortex-m3", "cortex-m4", "cortex-m55")
_STEPS = 9
_MAX_ELEMENTS = 3000
# Inputs that a program runs with; the last ones leave the range that calibration has seen.
_SAMPLES = 3
# Each layer may round elsewhere than the model before it was lowered: the mean difference in units of the scale.
_MAX_STEPS = 3


class Model(nn.Module):
    """Layers that read the input, value 0, or results of earlier layers; returned is what no layer reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self.operands: list[tuple[int, ...]] = []

    def values(self, x: Tensor) -> list[Tensor]:
        """Returns the input and each layer's result."""
        values = [x]
        for layer, operands in zip(self.layers, self.operands, strict=True):
            values.append(layer(*(values[index] for index in operands)))
        return values

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        values = self.values(x)
        read = {index for operands in self.operands for index in operands}
        return tuple(value for index, value in enumerate(values) if index not in read)


class _Function(nn.Module):
    def __init__(self, function: Callable[..., Tensor], text: str) -> None:
        super().__init__()
        self.function = function
        self.text = text

    def forward(self, *values: Tensor) -> Tensor:
        return self.function(*values)

    def extra_repr(self) -> str:
        return self.text


@dataclass
class _Maker:
    rng: random.Random
    model: Model = field(default_factory=Model)
    values: list[Tensor] = field(default_factory=list)

    def pick(self, accept: Callable[[Tensor], bool]) -> int | None:
        """Returns the index of a value, mostly the latest one."""
        found = [index for index, value in enumerate(self.values) if accept(value)]
        if not found:
            return None
        return found[-1] if self.rng.random() < 0.7 else self.rng.choice(found)

    def add(self, layer: nn.Module, *operands: int) -> None:
        """Adds a layer if eager takes it and its result is of a size to go on with."""
        try:
            result = layer(*(self.values[index] for index in operands))
        except RuntimeError:
            return
        if 1 < result.numel() <= _MAX_ELEMENTS and float(result.max() - result.min()) > 1e-3:
            self.model.layers.append(layer)
            self.model.operands.append(operands)
            self.values.append(result)


def _is_image(x: Tensor) -> bool:
    return x.dim() == 4


def _pair(rng: random.Random, values: Sequence[int]) -> tuple[int, int]:
    first = rng.choice(values)
    return (first, first if rng.random() < 0.6 else rng.choice(values))


def _activation(rng: random.Random) -> nn.Module | None:
    return rng.choice([None, None, nn.ReLU(), nn.ReLU6(), nn.Hardtanh(-0.5, 0.75)])


def _convolution(make: _Maker) -> None:
    index = make.pick(_is_image)
    if index is None:
        return
    rng, channels = make.rng, make.values[index].shape[1]
    groups, out = 1, rng.choice((1, 2, 3, 4, 5, 8, 12, 16, 17))
    kind = rng.random()
    kernels = (1, 1, 2, 3, 3, 4, 5)
    if kind < 0.3:
        groups = channels
        out = channels * rng.choice((1, 1, 1, 1, 2))
        kernels = (*kernels, 6, 7, 9)
    elif kind < 0.4 and channels % 2 == 0:
        groups, out = 2, 2 * rng.choice((1, 2, 4))
    kernel = _pair(rng, kernels)
    dilation = _pair(rng, (1, 1, 1, 1, 2))
    stride = _pair(rng, (1, 1, 1, 2, 3))
    # Half of them keep the size of the image, as residual layers do.
    if rng.random() < 0.5:
        kernel, dilation, stride = (3, 3), (1, 1), (1, 1)
    padding = (1, 1) if kernel == (3, 3) else tuple(rng.randrange(size) for size in kernel)
    layer: nn.Module = nn.Conv2d(channels, out, kernel, stride, padding, dilation, groups, bias=rng.random() < 0.7)
    activation = _activation(rng)
    make.add(layer if activation is None else nn.Sequential(layer, activation), index)


def _transposed(make: _Maker) -> None:
    index = make.pick(_is_image)
    if index is None:
        return
    rng, channels = make.rng, make.values[index].shape[1]
    kernel = _pair(rng, (1, 2, 3))
    padding = (rng.randrange(kernel[0]), rng.randrange(kernel[1]))
    stride = _pair(rng, (1, 2))
    make.add(nn.ConvTranspose2d(channels, rng.choice((1, 3, 4, 8)), kernel, stride, padding), index)


def _linear(make: _Maker) -> None:
    index = make.pick(lambda x: x.dim() in (2, 3))
    if index is None:
        return
    rng = make.rng
    features, out = make.values[index].shape[-1], rng.choice((1, 3, 4, 7, 16, 33))
    layer: nn.Module = nn.Linear(features, out, bias=rng.random() < 0.7)
    activation = _activation(rng)
    make.add(layer if activation is None else nn.Sequential(layer, activation), index)


def _pool(make: _Maker) -> None:
    index = make.pick(_is_image)
    if index is None:
        return
    rng = make.rng
    kernel = rng.choice((2, 2, 3))
    stride, padding = rng.choice((1, 2, 2, 3)), rng.choice((0, 0, 1))
    layers = [nn.MaxPool2d(kernel, stride, padding), nn.AvgPool2d(kernel, stride), nn.AdaptiveAvgPool2d(1)]
    make.add(rng.choices(layers, (4, 4, 1))[0], index)


def _elementwise(make: _Maker) -> None:
    first = make.pick(lambda _: True)
    if first is None:
        return
    shape = make.values[first].shape
    others = [index for index, value in enumerate(make.values) if value.shape == shape and index != first]
    second = make.rng.choice(others) if others else first
    name = make.rng.choice(["add", "add", "add", "mul", "maximum", "minimum"])
    if second == first and name in ("maximum", "minimum"):
        return
    make.add(_Function(getattr(torch, name), name), second, first)


def _pointwise(make: _Maker) -> None:
    index = make.pick(lambda _: True)
    layers = [nn.ReLU(), nn.Hardtanh(-1, 0.5), nn.Hardswish(), nn.Hardsigmoid(), nn.Sigmoid(), nn.Tanh(), nn.SiLU()]
    if index is not None:
        make.add(make.rng.choice(layers), index)


def _softmax(make: _Maker) -> None:
    # The results of more values are too small for int8, and refused.
    index = make.pick(lambda x: x.dim() in (2, 3) and x.shape[-1] <= 256)
    if index is not None:
        make.add(nn.Softmax(-1), index)


def _norm(make: _Maker) -> None:
    index = make.pick(lambda x: x.dim() > 1)
    if index is None:
        return
    rng, value = make.rng, make.values[index]
    size = value.shape[-1]
    layers: list[nn.Module] = [nn.LayerNorm(size), nn.RMSNorm(size, 1e-5)]
    if value.dim() > 2:
        channels = value.shape[1]
        # PyTorch normalizes no single values.
        groups = [1] if value[0, 0].numel() == 1 else [1, channels]
        layers = [nn.GroupNorm(rng.choice(groups), channels), *layers]
    layer = rng.choice(layers)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    make.add(layer, index)


class _Sequence(nn.Module):
    """A recurrent layer's results without its states."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        results = self.layer(x)
        assert isinstance(results[0], Tensor)
        return results[0]


def _recurrent(make: _Maker) -> None:
    index = make.pick(lambda x: x.dim() == 3)
    if index is None:
        return
    rng, features = make.rng, make.values[index].shape[-1]
    layers = (nn.LSTM, nn.GRU)
    options = {"batch_first": rng.random() < 0.5, "bidirectional": rng.random() < 0.3, "bias": rng.random() < 0.7}
    make.add(_Sequence(rng.choice(layers)(features, rng.choice((1, 4, 7)), **options)), index)


def _matmul(make: _Maker) -> None:
    index = make.pick(lambda x: x.dim() == 3)
    if index is not None:
        make.add(_Function(lambda x: torch.bmm(x, x.transpose(1, 2)), "bmm"), index)


def _shape(make: _Maker) -> None:
    index = make.pick(lambda _: True)
    if index is None:
        return
    rng, value = make.rng, make.values[index]
    if value.dim() == 4:
        functions: list[tuple[str, Callable[[Tensor], Tensor]]] = [
            ("flatten", lambda x: x.flatten(1)),
            ("rows", lambda x: x.flatten(2)),
            ("pad", lambda x: nn.functional.pad(x, (1, 2, 0, 1))),
            ("pixels", lambda x: x.flatten(2).transpose(1, 2)),
        ]
    else:
        functions = [("unsqueeze", lambda x: x.unsqueeze(1)), ("transpose", lambda x: x.transpose(-1, -2))]
        functions = functions if value.dim() == 3 else functions[:1]
    text, function = rng.choice(functions)
    make.add(_Function(function, text), index)


_MAKERS: tuple[Callable[[_Maker], None], ...] = (
    _convolution, _convolution, _convolution, _convolution, _transposed, _linear, _linear, _pool, _pool, _elementwise,
    _elementwise, _elementwise, _pointwise, _softmax, _matmul, _shape, _norm, _recurrent,
)  # fmt: skip


def make_model(seed: int) -> tuple[Model, list[Tensor]]:
    """Returns a model and inputs for it; the same for the same seed."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    shape = [1, rng.choice((1, 2, 3, 4, 8, 12)), rng.choice((4, 7, 9, 12)), rng.choice((4, 5, 8, 11))]
    if rng.random() < 0.2:
        # The inputs are a sequence in time.
        shape[2:] = [rng.choice((1, 2)), rng.choice((33, 70))]
    inputs = [torch.randn(shape) * (1 if index + 1 < _SAMPLES else 4) for index in range(_SAMPLES)]
    make = _Maker(rng, values=inputs[:1])
    with torch.no_grad():
        for _ in range(20 * _STEPS):
            if len(make.model.layers) < _STEPS:
                rng.choice(_MAKERS)(make)
    return make.model.eval(), inputs


@dataclass(frozen=True)
class Exported:
    """A model's program for a target, inputs as it takes them, and what it must return for each."""

    program: bytes
    inputs: list[tuple[Tensor, ...]]
    outputs: list[list[Tensor]]


def export(model: Model, inputs: Sequence[Tensor], targets: Sequence[str]) -> dict[str, Exported]:
    """Returns the programs of a model by target, with the steps of tools/pipeline/export."""
    torch.set_num_threads(1)
    path = Path("fuzz.py")
    samples = [channels_last((tensor,)) for tensor in inputs]
    captured = capture(model.to(memory_format=torch.channels_last), samples[0])
    # The last input is to saturate.
    quantized = quantize.quantize(CORTEX_M.run(captured), samples[: _SAMPLES - 1], InFloat(path))
    captured = capture(quantized.module, samples[0])
    exported = {}
    for name in targets:
        target = lower.target_of(name)
        edge = lower.to_cortex_m(captured, target)
        quantize.check_integers(edge, path)
        parameters = lower.BORDER.border(edge)
        if not any(found is None for found in [*parameters.inputs, *parameters.outputs]):
            lower.BORDER.remove(edge, path)
            taken = [lower.BORDER.quantize_sample(sample, parameters.inputs) for sample in samples]
        else:
            taken = samples
        outputs = lower.run(edge, taken)
        _check_lowering(outputs, [quantized.module(*sample) for sample in samples], parameters.outputs)
        emitted = emit(lower.pack(edge, target), lower.config())
        optimize_plan(emitted.program.execution_plan[0])
        content = serialize(emitted.program, [buffer.storage for buffer in emitted.program.constant_buffer])
        exported[name] = Exported(content, taken, outputs)
    return exported


def _check_lowering(
    outputs: list[list[Tensor]], expected: list[tuple[Tensor, ...]], parameters: Sequence[Parameters | None]
) -> None:
    """Raises ValueError for integers that don't stand for about the numbers of the model before it was lowered."""
    for index, found in enumerate(parameters):
        if found is None:
            continue
        for lowered, numbers in zip(outputs, expected, strict=True):
            steps = lowered[index].double()
            if not lowered[index].is_floating_point():
                steps = (steps - found.zero_point) * found.scale
            off = float((steps - numbers[index]).abs().mean() / found.scale)
            if off > _MAX_STEPS:
                raise ValueError(f"output {index} is {off:.1f} quantization steps off on average")


def check(exported: Sequence[Exported], runner: Runner) -> list[str]:
    """Returns how each program's outputs differ from the dialect's; empty where they don't."""
    cases = [
        Case(program.program, tuple(encode_input(tensor) for tensor in sample))
        for program in exported
        for sample in program.inputs
    ]
    results = iter(run_cases(runner, cases))
    return [
        "; ".join(
            f"sample {index}: {text}"
            for index, expected in enumerate(program.outputs)
            if (text := _difference(next(results), expected))
        )
        for program in exported
    ]


def _difference(result: CaseResult, expected: Sequence[Tensor]) -> str:
    if result.error != "Ok":
        return result.text()
    # Operators that stay in floating point round elsewhere than PyTorch's.
    pairs = enumerate(zip(result.outputs, expected, strict=True))
    texts = ((index, difference(value, tensor, tolerance=(0, 1e-5))) for index, (value, tensor) in pairs)
    return next((f"output {index}: {text}" for index, text in texts if text), "")


def describe(seed: int) -> str:
    """Returns a model, a line per layer."""
    model, inputs = make_model(seed)
    lines = [f"%0: input {list(inputs[0].shape)}"]
    shapes = [list(value.shape) for value in model.values(inputs[0])]
    for index, (layer, operands) in enumerate(zip(model.layers, model.operands, strict=True), 1):
        text = " ".join(str(layer).split())
        lines.append(f"%{index}: {text} of " + " ".join(f"%{operand}" for operand in operands) + f" -> {shapes[index]}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1, help="how long to go on")
    parser.add_argument("--seed", type=int, help="run this model, and those of the next seeds")
    parser.add_argument("--count", type=int, default=1, help="how many models --seed is to run")
    parser.add_argument("--batch", type=int, default=8, help="models per start of an emulator")
    arguments = parser.parse_args(argv)
    runners = read_runners().boards
    end = time.monotonic() + 60 * arguments.minutes
    first = int(time.time()) if arguments.seed is None else arguments.seed
    failed = count = 0
    while count < arguments.count if arguments.seed is not None else count == 0 or time.monotonic() < end:
        left = arguments.count - count if arguments.seed is not None else arguments.batch
        seeds = range(first + count, first + count + min(left, arguments.batch))
        for seed, text in check_seeds(seeds, runners).items():
            failed += 1
            print(f"seed {seed}: {text}\n{describe(seed)}\n", flush=True)
        count += len(seeds)
    print(f"{count} models, {failed} differ")
    return int(failed > 0)


def boards_of(target: str, runners: dict[str, Runner]) -> list[str]:
    """Runners that take the programs for a target: this machine's all, a board's those in the layout of its core."""
    return [
        name
        for name, runner in runners.items()
        if runner.board is None or layout(read_board(runner.board).core) == layout(target)
    ]


def check_seeds(seeds: Sequence[int], runners: dict[str, Runner]) -> dict[int, str]:
    """Returns how the programs of models differ on any board, by seed; without those that don't."""
    problems: dict[int, str] = {}
    programs: dict[str, dict[int, Exported]] = {target: {} for target in TARGETS}
    for seed in seeds:
        try:
            exported = export(*make_model(seed), list(TARGETS))
        except Exception as error:  # whatever it is, it is the finding
            problems[seed] = f"export: {type(error).__name__}: {str(error)[:300]}"
            continue
        for target, program in exported.items():
            programs[target][seed] = program
    for target in TARGETS:
        for board in boards_of(target, runners):
            texts = check(list(programs[target].values()), runners[board])
            for seed, text in zip(programs[target], texts, strict=True):
                if text:
                    problems[seed] = f"{problems[seed]}; {board}: {text}" if seed in problems else f"{board}: {text}"
    return problems
