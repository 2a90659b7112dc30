"""Runs calibration samples through a module with observers."""

import contextlib
import copy
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import ObserverBase

from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.ir.dim_orders import channels_last
from tools.pipeline.export.ir.operators import FILLS, FILLS_WITH
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.quantize.float64 import Float64Interpreter
from tools.pipeline.export.quantize.in_float import NotFinite
from tools.pipeline.export.quantize.nodes import is_product
from tools.pipeline.export.quantize.ranges import RangeObserver
from tools.pipeline.model_file.deterministic import computing
from tools.pipeline.model_file.model_file import brief
from tools.quiet.console import UserError

_NO_STATE = State({})

# The number of calibration samples on which the report compares layers with floating point.
_REPORTED_SAMPLES = 8
# The number of calibration samples of a stream, from the first one on, on which outputs are measured.
_MOST_STEPS = 512


def measured_of(samples: list[Sample], state: State) -> list[Sample]:
    """Returns the calibration samples on which outputs are compared."""
    return samples[:_MOST_STEPS] if state.buffers else [samples[index] for index in _spread(len(samples))]


def _spread(count: int) -> list[int]:
    """Returns a few indices that are evenly spread over `count` samples."""
    few = min(count, _REPORTED_SAMPLES)
    return [index * count // few for index in range(few)]


@contextlib.contextmanager
def running_sample(path: Path, index: int, is_stream: bool) -> Iterator[None]:
    """Raises UserError if the model, run on a calibration sample, uses an index that a tensor doesn't have.

    Args:
      path: the model file, for messages.
      is_stream: whether the sample starts from the state that the previous one left.
    """
    try:
        yield
    except (IndexError, RuntimeError) as error:
        # Some operators of PyTorch, such as scatter, raise a RuntimeError for such an index.
        if not isinstance(error, IndexError) and "out of bounds" not in str(error):
            raise
        continued = ", which continues the ones before" if is_stream else ""
        raise UserError(
            f"{path}: the model fails on sample {index} of calibration_inputs(){continued}: {brief(error)}; "
            "give it samples that it takes" + (", or fewer of them." if is_stream else ".")
        ) from error


# Assign to elements whose indices are computed.
_ASSIGNMENTS = frozenset((
    torch.ops.aten.index_copy.default, torch.ops.aten.index_put.default, torch.ops.aten.scatter.src,
))  # fmt: skip


def calibrate(
    prepared: GraphModule, samples: Iterable[Sample], path: Path, state: State = _NO_STATE
) -> tuple[list[dict[str, torch.Tensor]], list[Sample], tuple[str, ...]]:
    """Runs the samples through a module with observers; returns `observed`, `samples` and `constant` of Quantized.

    The samples of a model with state are a stream, of which `observed` and `samples` are evenly spread.

    Args:
      path: the model file, for messages.

    Raises UserError for outputs that are NaN or infinity, by layer, and for inputs without a range; and NotFinite for
    such values that would be quantized within the model.
    """
    observed: list[dict[str, torch.Tensor]] = []
    kept = []
    kept_state = channels_last(state.start())
    samples = list(samples)
    reported = _spread(len(samples)) if kept_state else range(_REPORTED_SAMPLES)
    with computing():
        for index, given in enumerate(samples):
            run = _Calibration(prepared, path, index, index in reported)
            sample = (*kept_state, *given)
            with running_sample(path, index, bool(kept_state)):
                outputs = torch.utils._pytree.tree_leaves(run.run(*sample))
            run.check(outputs[len(kept_state) :])
            kept_state = tuple(value.clone() for value in outputs[: len(kept_state)])
            if index in reported:
                observed.append(run.values)
                kept.append(sample)
        # Only the first samples of the stream fill the first slots of a cache, and any others may do so on a device.
        if kept_state and any(node.target in _ASSIGNMENTS for node in prepared.graph.nodes):
            for given in samples[1:]:
                Float64Interpreter(prepared).run(*channels_last(state.start()), *given)
    return observed, kept, _constant_tensors(prepared, path, list(state.buffers))


def without_observers(prepared: GraphModule) -> GraphModule:
    """Returns the original module of a module with observers, with the same names of nodes and the same weights."""
    graph = copy.deepcopy(prepared.graph)
    for node in list(graph.nodes):
        if node.op == "call_module":
            (observed,) = node.all_input_nodes
            node.replace_all_uses_with(observed)
            graph.erase_node(node)
    return GraphModule(prepared, graph)


class _Calibration(Float64Interpreter):
    """Runs one sample.

    Attributes:
      values: the result of each operator, by node name, if the sample is reported.
    """

    def __init__(self, module: GraphModule, path: Path, index: int, is_reported: bool) -> None:
        super().__init__(module)
        # The traceback would be appended to the error's message.
        self.extra_traceback = False
        self._path = path
        self._index = index
        self._is_reported = is_reported
        self._not_finite: list[Node] = []
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.op in ("placeholder", "get_attr", "call_function") and not _is_finite(result):
            self._not_finite.append(n)
        if n.op == "call_function" and isinstance(result, torch.Tensor) and self._is_reported:
            self.values[n.name] = result
        return result

    def check(self, outputs: Sequence[Any]) -> None:
        """Raises UserError unless the outputs are finite, and NotFinite unless all values are that need a range."""
        if not all(map(_is_finite, outputs)):
            makers = (node for node in self._not_finite if node.op == "call_function")
            place = next((f" at {origin(node, self._path)}" for node in makers), "")
            raise UserError(
                f"{self._path}: calibration sample {self._index} makes NaN or infinity{place}, and so are the outputs; "
                "integers have no values for them: mend the layer or the sample."
            )
        places: dict[str, None] = {}
        for node in filter(_is_measured, self._not_finite):
            readers = [user for each in node.users for user in (each.users if each.op == "call_module" else [each])]
            for each in (node, *readers):
                if each.op == "call_function":
                    places[origin(each, self._path)] = None
        if places:
            raise NotFinite(places, f"{next(iter(places))} makes NaN or infinity, for which integers have no values")


def _is_measured(node: Node) -> bool:
    """Whether a node's result must have a range: calibration observes it, or it is an int8 product."""
    is_int8 = is_product(node) and node.args[1].op == "call_module"
    return is_int8 or any(user.op == "call_module" for user in node.users)


def _is_finite(value: Any) -> bool:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return not is_float or bool(torch.isfinite(value).all())


def _is_zero(prepared: GraphModule, node: Node) -> bool:
    """Whether an observer has only seen zeros."""
    observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
    seen = [getattr(observer, name, None) for name in ("min_val", "max_val")]
    return all(value is not None and value.numel() > 0 and not value.any() for value in seen)


def _constant_tensors(prepared: GraphModule, path: Path, states: list[str]) -> tuple[str, ...]:
    """Lists the tensors that depend on an input but had a single value in all of calibration, with that value.

    Args:
      states: the names of the states, which are the first inputs.

    Raises UserError if an input or a state is one of them.
    """
    dependent: set[Node] = set()
    inputs, places = [], []
    taken = [node for node in prepared.graph.nodes if node.op == "placeholder"]
    # Inputs behind states have lost their names.
    others = (f"input {index if states else node.name}" for index, node in enumerate(taken[len(states) :]))
    names = dict(zip(taken, (*(f"buffer {name}" for name in states), *others), strict=True))
    for node in prepared.graph.nodes:
        if node.op == "placeholder" or not dependent.isdisjoint(node.all_input_nodes):
            # These only use an operand's shape, or multiply it by zero: a recurrent layer's initial state is zero, and
            # so are the last weights of residual branches when training begins.
            times_zero = (node.target == torch.ops.aten.mul.Tensor or is_product(node)) and any(
                operand not in dependent and _is_zero(prepared, operand) for operand in node.all_input_nodes
            )
            dependent |= set() if node.target in FILLS or node.target in FILLS_WITH or times_zero else {node}
        if node.op != "call_module" or node not in dependent:
            continue
        observer = prepared.get_submodule(str(node.target))
        observed = node.args[0]
        if not isinstance(observer, ObserverBase) or not hasattr(observer, "min_val") or not isinstance(observed, Node):
            continue
        # A tensor with a single element may be the same in all samples, but zero is not a range.
        is_single = isinstance(observer, RangeObserver) and observer.count == 1 and bool(observer.min_val)
        if observer.min_val.numel() == 1 and torch.equal(observer.min_val, observer.max_val) and not is_single:
            if observed in names:
                inputs.append(f"  {names[observed]}: always {float(observer.min_val):g}")
            elif observed.op == "call_function":
                places.append(f"{origin(observed, path)}: {float(observer.min_val):g}")
    if inputs:
        raise UserError(
            f"{path}: calibration saw only one value in these tensors, so that they have no range to quantize:\n"
            + "\n".join(dict.fromkeys(inputs))
            + "\n  Give calibration_inputs() that cover what the device will see."
        )
    return tuple(dict.fromkeys(places))
