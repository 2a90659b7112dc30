"""Calls of every operator with every dtype: from PyTorch's own samples, made by hand, or cast from another dtype."""

import itertools
import random
import warnings
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import SEED
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_flatten

from conformance.calls import (
    Call,
    Names,
    Recorder,
    Refused,
    cast_arguments,
    make_call,
    with_dtype,
    with_dynamic_outputs,
)
from conformance.handmade import portable_calls, quantized_calls, recurrent_calls
from conformance.operators import DTYPES, Operator, dtype_text
from conformance.symbols import symbol_calls

# Samples of these are asked for; the other dtypes get the same calls, cast: eager decides which it takes.
_SAMPLED = (torch.float32, torch.int64, torch.bool)
# The limit of one operator and dtype.
_MAX_CALLS = 8
# The limit of samples looked at, of one entry of PyTorch's database and dtype.
_MAX_SAMPLES = 24
# After so many in a row that show nothing new, no more are looked at.
_MAX_FRUITLESS = 3
# These are decomposed to operators that others show, and take long.
_SKIPPED = ("linalg.", "fft.", "special.", "sparse.", "masked.", "torch.ops.aten._flash", "torch.ops.aten._efficient")


@dataclass
class Samples:
    """All calls.

    Attributes:
      calls: per operator and dtype.
      refused: why eager refuses an operator and dtype of which there are no calls.
    """

    calls: dict[tuple[str, torch.dtype], list[Call]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[tuple[str, torch.dtype], str] = field(default_factory=dict)


def _entries(operators: Iterable[Operator]) -> list[OpInfo]:
    """Returns PyTorch's database, what is named as an operator of the list first."""
    bases = {operator.name.partition("::")[2].partition(".")[0].removesuffix("_copy") for operator in operators}
    kept = [entry for entry in op_db if not entry.name.startswith(_SKIPPED)]
    return sorted(kept, key=lambda entry: entry.name.rpartition(".")[2] not in bases)


# Operators on sequences: of one dtype, as the quantized ones have theirs, and with outputs of the result's shape from
# the start. The export keeps what is of another dtype or dynamic decomposed.
SEQUENCES = ("torch_fusion::gru.out", "torch_fusion::lstm.out")


def collect(operators: list[Operator]) -> Samples:
    """Collects calls of the operators."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    samples = Samples()
    tensor_operators = [operator for operator in operators if operator.group != "symbols"]
    names = Names(operator.name for operator in tensor_operators)
    decompositions = torch.export.default_decompositions()
    table = {function: decompositions[function] for function in decompositions}
    seen: dict[tuple[str, torch.dtype], set[Any]] = defaultdict(set)
    for entry, dtype in itertools.product(_entries(tensor_operators), _SAMPLED):
        _collect_entry(samples, seen, entry, dtype, names, table)
    _add_handmade(samples, seen, names)
    for dtype, call in symbol_calls():
        samples.calls[call.operator, dtype].append(call)
    for operator in operators:
        if operator.group == "symbols":
            _refuse_undefined(samples, operator.name)
            continue
        if operator.group == "quantized" or operator.name in SEQUENCES:
            _refuse_undefined(samples, operator.name)
        else:
            _fill(samples, operator.name, names)
        if operator.name not in SEQUENCES:
            _vary(samples, operator.name)
    return samples


def _keep(samples: Samples, seen: dict[tuple[str, torch.dtype], set[Any]], call: Call, limit: int) -> bool:
    key = (call.operator, call.dtype)
    signature = call.signature()
    if len(samples.calls[key]) >= limit or signature in seen[key]:
        return False
    seen[key].add(signature)
    samples.calls[key].append(call)
    return True


def _collect_entry(
    samples: Samples,
    seen: dict[tuple[str, torch.dtype], set[Any]],
    entry: OpInfo,
    dtype: torch.dtype,
    names: Names,
    decompositions: dict[Any, Any],
) -> None:
    if dtype not in entry.supported_dtypes("cpu"):
        return
    source = entry.formatted_name
    fruitless = 0
    for sample in _inputs(entry, dtype):
        recorder = Recorder(names, decompositions)
        try:
            with recorder, torch.no_grad():
                entry(sample.input, *sample.args, **sample.kwargs)
        except Exception:  # a sample that eager itself refuses shows nothing
            fruitless += 1
        found = False
        for name, arguments in recorder.calls:
            if len(samples.calls[name, _first_dtype(arguments, dtype)]) >= _MAX_CALLS:
                continue
            try:
                found |= _keep(samples, seen, make_call(name, names.function(name), arguments, source), _MAX_CALLS)
            except Refused:
                continue
        fruitless = 0 if found else fruitless + 1
        if fruitless >= _MAX_FRUITLESS:
            return


def _first_dtype(arguments: dict[str, Any], default: torch.dtype) -> torch.dtype:
    for value in arguments.values():
        if isinstance(value, torch.Tensor):
            return value.dtype
    return default


def _inputs(entry: OpInfo, dtype: torch.dtype) -> Iterator[Any]:
    _seed(zlib.crc32(f"{entry.formatted_name} {dtype}".encode()))
    try:
        # The same as sample_inputs(), without its search of Python's stack for the test that asks: it took most of the
        # time.
        samples = entry.sample_inputs_func(entry, "cpu", dtype, False)
        _seed(SEED)
        for sample in itertools.islice(samples, _MAX_SAMPLES):
            yield sample
            _seed(SEED)
    except Exception:  # some entries have no samples of a dtype
        return


def _seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _add_handmade(samples: Samples, seen: dict[tuple[str, torch.dtype], set[Any]], names: Names) -> None:
    _seed(0)
    for operator, arguments in itertools.chain(quantized_calls(), recurrent_calls()):
        if operator not in names:
            continue
        _keep(samples, seen, make_call(operator, names.function(operator), arguments, "made by hand"), 4 * _MAX_CALLS)
    attempts = [(operator, arguments) for operator, arguments in portable_calls() if operator in names]
    for (operator, arguments), dtype in itertools.product(attempts, DTYPES):
        try:
            call = make_call(operator, names.function(operator), cast_arguments(arguments, dtype), "made by hand")
        except Refused as error:
            samples.refused.setdefault((operator, dtype), str(error))
            continue
        _keep(samples, seen, call, 4 * _MAX_CALLS)


def _refuse_undefined(samples: Samples, name: str) -> None:
    """Refuses the dtypes that an operator is not defined for."""
    given = [dtype_text(dtype) for dtype in DTYPES if samples.calls.get((name, dtype))]
    for dtype in DTYPES:
        if not samples.calls.get((name, dtype)):
            samples.refused[name, dtype] = f"defined for {', '.join(given)}"


def _fill(samples: Samples, name: str, names: Names) -> None:
    """Fills dtypes without calls by those of another dtype, cast, or eager's reason."""
    given = {dtype: samples.calls[name, dtype] for dtype in DTYPES if samples.calls.get((name, dtype))}
    for dtype in DTYPES:
        if dtype in given:
            continue
        nearest = torch.float32 if dtype.is_floating_point else torch.int64
        reasons = []
        for call in given.get(nearest) or next(iter(given.values()), []):
            try:
                samples.calls[name, dtype].append(with_dtype(call, names.function(name), dtype))
            except Refused as error:
                reasons.append(str(error))
        # Eager takes empty tensors of many a dtype that it refuses otherwise.
        if reasons and all(_is_empty(call) for call in samples.calls[name, dtype]):
            samples.calls[name, dtype] = []
            samples.refused[name, dtype] = reasons[0]


def _is_empty(call: Call) -> bool:
    inputs = [value for value in tree_flatten(call.arguments)[0] if isinstance(value, torch.Tensor)]
    return any(tensor.numel() == 0 for tensor in [*inputs, *call.expected])


def _vary(samples: Samples, name: str) -> None:
    for dtype in DTYPES:
        calls = samples.calls.get((name, dtype), [])
        if calls and not name.endswith("_"):
            samples.calls[name, dtype] = [*calls, *(with_dynamic_outputs(call) for call in calls[:2])]
