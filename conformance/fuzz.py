"""Random small graphs of supported operators: exported, run, and compared with eager PyTorch.

bazel run //conformance:fuzz -- --minutes N     random seeds
bazel run //conformance:fuzz -- --seed S        one graph
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from conformance.check import difference, encode_input
from tools.pipeline.export.backends.portable import to_edge
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.plan.emission import emit
from tools.pipeline.export.plan.plan_passes import optimize_plan
from tools.pipeline.export.plan.serialize import serialize
from tools.verify.run_pte.cases import Case, Runner, run_cases
from tools.verify.run_pte.run_pte import read_runners

_STEPS = 14
_MAX_ELEMENTS = 600
_DTYPES = (torch.float32, torch.float32, torch.float32, torch.int32, torch.int64, torch.int8, torch.uint8, torch.bool)
# Sums of sums: coarser than what one operator is held to.
_RTOL, _ATOL = 1e-3, 1e-4


@dataclass
class Step:
    """A call in a graph: a function of earlier values, by their index, and a description."""

    function: Callable[..., Tensor]
    operands: tuple[int, ...]
    text: str


class Graph(nn.Module):
    """A graph as a module: its inputs come first among the values, then one per step."""

    def __init__(self, steps: Sequence[Step], outputs: Sequence[int]) -> None:
        super().__init__()
        self.steps = steps
        self.outputs = outputs

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for step in self.steps:
            values.append(step.function(*(values[index] for index in step.operands)))
        return tuple(values[index] for index in self.outputs)


@dataclass
class _Maker:
    rng: random.Random
    values: list[Tensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def pick(self, accept: Callable[[Tensor], bool] = lambda _: True) -> int | None:
        """Returns the index of a value, one of the latest rather than others."""
        found = [index for index, value in enumerate(self.values) if accept(value)]
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))] if found else None

    def add(self, function: Callable[..., Tensor], operands: tuple[int | None, ...], text: str) -> bool:
        """Adds a step if eager takes it and its result is fit for more."""
        if None in operands:
            return False
        try:
            result = function(*(self.values[index] for index in operands if index is not None))
        except (RuntimeError, IndexError, TypeError, ValueError):
            return False
        if not 0 < result.numel() <= _MAX_ELEMENTS or result.dim() > 5:
            return False
        if result.is_floating_point() and not bool((result.abs() < 1e4).all()):
            return False
        self.values.append(result)
        self.steps.append(Step(function, tuple(index for index in operands if index is not None), text))
        return True


def _unary(make: _Maker) -> bool:
    names = "abs neg relu sigmoid tanh exp sin cos erf square rsqrt log1p"
    name = make.rng.choice(names.split())
    function = getattr(torch, name)
    if name in ("rsqrt", "log1p"):
        return make.add(lambda x: function(x.abs() + 0.5), (make.pick(),), name)
    return make.add(function, (make.pick(),), name)


def _binary(make: _Maker) -> bool:
    name = make.rng.choice(["add", "sub", "mul", "maximum", "minimum"])
    return make.add(getattr(torch, name), (make.pick(), make.pick()), name)


def _scalar(make: _Maker) -> bool:
    number = make.rng.choice((2, -1, 0.5, 3.25))
    name = make.rng.choice(["add", "mul", "sub"])
    return make.add(lambda x: getattr(torch, name)(x, number), (make.pick(),), f"{name} {number}")


def _compare(make: _Maker) -> bool:
    # These take integers: floats that were computed may be an ulp from eager's, on the other side.
    name = make.rng.choice(["eq", "lt", "ge"])

    def is_exact(x: Tensor) -> bool:
        return not x.is_floating_point()

    return make.add(getattr(torch, name), (make.pick(is_exact), make.pick(is_exact)), name)


def _where(make: _Maker) -> bool:
    condition = make.pick(lambda x: x.dtype == torch.bool)
    return make.add(torch.where, (condition, make.pick(), make.pick()), "where")


def _reduce(make: _Maker) -> bool:
    index = make.pick(lambda x: x.dim() > 0)
    if index is None:
        return False
    dim, keepdim = make.rng.randrange(make.values[index].dim()), make.rng.random() < 0.5
    name = make.rng.choice(["sum", "mean", "amax", "amin"])
    return make.add(lambda x: getattr(torch, name)(x, dim, keepdim=keepdim), (index,), f"{name} {dim} {keepdim}")


def _along(make: _Maker) -> bool:
    index = make.pick(lambda x: x.dim() > 0)
    if index is None:
        return False
    dim = make.rng.randrange(-make.values[index].dim(), make.values[index].dim())
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "softmax": lambda x: torch.softmax(x, dim),
        "log_softmax": lambda x: torch.log_softmax(x, dim),
        "cumsum": lambda x: torch.cumsum(x, dim),
        "flip": lambda x: torch.flip(x, [dim]),
        "slice": lambda x: x.narrow(dim, 0, (x.shape[dim] + 1) // 2),
        "select": lambda x: x.select(dim, -1),
        "unsqueeze": lambda x: x.unsqueeze(dim),
        "transpose": lambda x: x.transpose(dim, 0),
        "roll": lambda x: torch.roll(x, 1, dim),
        "split": lambda x: x.split(max(1, x.shape[dim] // 2), dim)[-1],
        "cat": lambda x: torch.cat([x, x.flip([dim])], dim),
        "stack": lambda x: torch.stack([x, x], dim),
    }
    name = make.rng.choice(sorted(functions))
    return make.add(functions[name], (index,), f"{name} {dim}")


def _shape(make: _Maker) -> bool:
    index = make.pick()
    if index is None:
        return False
    shape = make.values[index].shape
    order = list(range(len(shape)))
    make.rng.shuffle(order)
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "permute": lambda x: x.permute(order),
        "flatten": lambda x: x.reshape(-1),
        "expand": lambda x: x.unsqueeze(0).expand(2, *shape),
        "repeat": lambda x: x.repeat(2, *[1] * len(shape)),
        "squeeze": lambda x: x.squeeze(),
        "channels_last": lambda x: x.to(memory_format=torch.channels_last),
        "pad": lambda x: torch.nn.functional.pad(x, (1, 2), value=3),
        "tril": lambda x: x.tril(),
    }
    name = make.rng.choice(sorted(functions))
    return make.add(functions[name], (index,), f"{name} {order}")


def _convert(make: _Maker) -> bool:
    # Floats are not cast to integers: a float that was computed may round to another one.
    dtype = make.rng.choice((torch.float32, torch.int32, torch.int64))

    def fits(x: Tensor) -> bool:
        return not x.is_floating_point() or dtype == torch.float32

    return make.add(lambda x: x.to(dtype), (make.pick(fits),), f"to {dtype}")


def _product(make: _Maker) -> bool:
    left = make.pick(lambda x: x.dim() in (2, 3) and x.is_floating_point())
    if left is None:
        return False
    columns = make.rng.randrange(1, 6)
    generator = torch.Generator().manual_seed(make.rng.randrange(2**31))
    weight = torch.randn(make.values[left].shape[-1], columns, generator=generator)
    return make.add(lambda x: torch.matmul(x, weight), (left,), f"matmul {columns}")


def _window(make: _Maker) -> bool:
    index = make.pick(lambda x: x.dim() == 4 and x.dtype == torch.float32)
    if index is None:
        return False
    channels = make.values[index].shape[1]
    generator = torch.Generator().manual_seed(make.rng.randrange(2**31))
    weight, bias = torch.randn(3, channels, 2, 2, generator=generator), torch.randn(3, generator=generator)
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "conv2d": lambda x: torch.nn.functional.conv2d(x, weight, bias, padding=1),
        "max_pool2d": lambda x: torch.nn.functional.max_pool2d(x, 2),
        "avg_pool2d": lambda x: torch.nn.functional.avg_pool2d(x, 2, 1, 1),
        "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
        "upsample": lambda x: torch.nn.functional.interpolate(x, scale_factor=2, mode="nearest"),
    }
    name = make.rng.choice(sorted(functions))
    return make.add(functions[name], (index,), name)


_MAKERS = (
    _unary, _unary, _binary, _binary, _binary, _scalar, _compare, _where, _reduce, _reduce, _along, _along, _along,
    _shape, _shape, _shape, _convert, _product, _window,
)  # fmt: skip


def _input(rng: random.Random) -> Tensor:
    dtype = rng.choice(_DTYPES)
    shape = [rng.choice((1, 2, 3, 4, 5)) for _ in range(rng.choice((0, 1, 2, 2, 3, 4, 4)))]
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator)
    return torch.randint(0, 2 if dtype == torch.bool else 9, shape, generator=generator).to(dtype)


def make_graph(seed: int) -> tuple[Graph, tuple[Tensor, ...]]:
    """Returns a graph and its inputs; the same for the same seed."""
    rng = random.Random(seed)
    inputs = tuple(_input(rng) for _ in range(rng.choice((1, 2, 3))))
    make = _Maker(rng, list(inputs))
    for _ in range(20 * _STEPS):
        if len(make.steps) < _STEPS:
            rng.choice(_MAKERS)(make)
    used = {index for step in make.steps for index in step.operands}
    first = len(inputs)
    outputs = [first + i for i in range(len(make.steps)) if first + i not in used]
    return Graph(make.steps, outputs), inputs


def export(graph: Graph, inputs: tuple[Tensor, ...]) -> bytes:
    """Returns the program of a graph, by the steps of tools/pipeline/export."""
    emitted = emit(to_edge(capture(graph, inputs)))
    optimize_plan(emitted.program.execution_plan[0])
    return serialize(emitted.program, [buffer.storage for buffer in emitted.program.constant_buffer])


def check_seed(seed: int, runner: Runner) -> str:
    """Returns how the program of a seed's graph differs from eager; empty if it doesn't."""
    graph, inputs = make_graph(seed)
    expected = graph(*inputs)
    try:
        program = export(graph, inputs)
    except Exception as error:  # whatever it is, it is the finding
        return f"export: {type(error).__name__}: {str(error)[:300]}"
    (result,) = run_cases(runner, [Case(program, tuple(encode_input(value) for value in inputs))])
    if result.error != "Ok":
        return result.text()
    pairs = zip(result.outputs, expected, strict=True)
    texts = [difference(value, tensor, tolerance=(_RTOL, _ATOL)) for value, tensor in pairs]
    return "; ".join(f"output {i}: {text}" for i, text in enumerate(texts) if text)


def describe(seed: int) -> str:
    """Returns a graph, a line per value."""
    graph, inputs = make_graph(seed)
    lines = [f"%{i}: input {list(value.shape)} {value.dtype}" for i, value in enumerate(inputs)]
    for i, step in enumerate(graph.steps, len(inputs)):
        lines.append(f"%{i}: {step.text} " + " ".join(f"%{index}" for index in step.operands))
    return "\n".join([*lines, f"outputs: {list(graph.outputs)}"])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1, help="how long to go on")
    parser.add_argument("--seed", type=int, help="run this graph alone")
    parser.add_argument("--board", default="host", help="host or an emulated board")
    arguments = parser.parse_args(argv)
    runner = read_runners().boards[arguments.board]
    end = time.monotonic() + 60 * arguments.minutes
    seeds = [arguments.seed] if arguments.seed is not None else None
    seed, failed, count = int(time.time()), 0, 0
    while seeds or (seeds is None and time.monotonic() < end):
        seed = seeds.pop() if seeds else seed + 1
        text = check_seed(seed, runner)
        count += 1
        if text:
            failed += 1
            print(f"seed {seed}: {text}\n{describe(seed)}\n", flush=True)
    print(f"{count} graphs, {failed} differ")
    return int(failed > 0)
