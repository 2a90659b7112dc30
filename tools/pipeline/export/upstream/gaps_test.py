"""Every symbol that is replaced exists in the installed releases, and nothing else is replaced."""

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from executorch.backends.cortex_m.quantizer import pattern_checkers, quantizer_support
from executorch.exir.passes import constant_prop_pass
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import _trace
from torch.fx import Graph, Node

from tools.pipeline.export.upstream.gaps import GAPS, Gap, check_is_known
from tools.pipeline.export.upstream.replaced import replace, replaced


@pytest.mark.parametrize("gap", [gap for gap in GAPS if gap.is_open()], ids=lambda gap: gap.symbol)
def test_the_symbol_exists_and_is_replaced_by_that_name(gap: Gap) -> None:
    # A symbol that upstream has renamed or moved is an error here, with its name, before any export fails.
    check_is_known(*gap.resolve())


@pytest.mark.parametrize(("version", "has_gap"), [("1.4.1", True), ("1.5.0", False), ("1.10.2", False)])
def test_a_gap_is_open_until_the_release_that_mends_it(monkeypatch, version, has_gap) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    assert Gap("executorch.exir:x", "a reason", until="1.5").is_open() is has_gap
    assert Gap("executorch.exir:x", "a reason").is_open()
    assert Gap("executorch.exir:x", "a reason", "1.5").is_open() is not has_gap


def _call(operator: Callable[..., torch.Tensor], *args: object) -> Node:
    """A call in a graph, of channels-last images where shapes are given."""
    graph = Graph()
    with FakeTensorMode():
        operands = []
        for index, argument in enumerate(args):
            if isinstance(argument, tuple):
                node = graph.placeholder(f"x_{index}")
                node.meta["val"] = torch.empty(argument).to(memory_format=torch.channels_last)
                argument = node
            operands.append(argument)
        node = graph.call_function(operator, tuple(operands))
        node.meta["val"] = operator(*torch.fx.node.map_arg(operands, lambda operand: operand.meta["val"]))
    return node


def _as_released(module: ModuleType) -> Any:
    """A second copy of a module, in which nothing is replaced."""
    assert module.__spec__ is not None and module.__spec__.loader is not None
    copy = importlib.util.module_from_spec(module.__spec__)
    module.__spec__.loader.exec_module(copy)
    return copy


def _masks_are_read() -> bool:
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    try:
        torch.export.export(encoder, (torch.ones(1, 3, 4), torch.zeros(3, 3)))
    except RuntimeError:
        return True
    return False


def _programs_are_traced_again() -> bool:
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),)).run_decompositions({})
    return program.run_decompositions({}) is not program


def _sums_are_not_broadcast() -> bool:
    check = _as_released(pattern_checkers).CortexMAddMulCheck.check_pattern
    assert check([_call(torch.ops.aten.add.Tensor, (1, 4, 3, 3), (1, 4, 3, 3))])
    return not check([_call(torch.ops.aten.add.Tensor, (1, 4, 3, 3), (1, 1, 3, 3))])


def _output_padding_is_refused() -> bool:
    check = _as_released(pattern_checkers).CortexMConvTranspose2DCheck._check_node

    def is_taken(padding: list[int]) -> bool:
        parameters = (None, [2, 2], [0, 0], padding)
        return bool(check(_call(torch.ops.aten.conv_transpose2d.input, (1, 2, 3, 3), (2, 2, 3, 3), *parameters)))

    assert is_taken([0, 0])
    return not is_taken([1, 1])


def _memory_formats_vary() -> bool:
    return torch.memory_format not in _as_released(constant_prop_pass)._PRIMITIVE_TYPES


@pytest.mark.parametrize(
    ("symbol", "is_open"),
    [
        ("torch.nn.modules.transformer:_detect_is_causal_mask", _masks_are_read),
        ("torch.export.exported_program:ExportedProgram.run_decompositions", _programs_are_traced_again),
        (
            "torch.export._trace:DEFAULT_EXPORT_DYNAMO_CONFIG",
            lambda: not _trace.DEFAULT_EXPORT_DYNAMO_CONFIG.assume_static_by_default,
        ),
        (
            "executorch.backends.cortex_m.quantizer.pattern_checkers:CortexMAddMulCheck.check_pattern",
            _sums_are_not_broadcast,
        ),
        (
            "executorch.backends.cortex_m.quantizer.pattern_checkers:CortexMConvTranspose2DCheck._check_node",
            _output_padding_is_refused,
        ),
        ("executorch.exir.passes.constant_prop_pass:_PRIMITIVE_TYPES", _memory_formats_vary),
        (
            "executorch.backends.cortex_m.quantizer.quantizer_support:BINARY_OP_PATTERNS",
            lambda: (torch.ops.aten.sub.Tensor,) not in quantizer_support.BINARY_OP_PATTERNS,
        ),
    ],
)
def test_upstream_has_the_gap_still(symbol: str, is_open: Callable[[], bool]) -> None:
    (gap,) = [gap for gap in GAPS if gap.symbol == symbol]
    assert is_open() or not gap.is_open(), (
        f"{symbol}: this release needs no replacement; its row in upstream/gaps.py needs `until`, or goes"
    )


def test_what_is_not_in_the_table_is_not_replaced() -> None:
    for change in (lambda: replace(torch.fx.Graph, "lint", None), lambda: replaced(torch, "add", None).__enter__()):
        with pytest.raises(LookupError, match=r"upstream/gaps.py"):
            change()
    assert torch.fx.Graph.lint is not None and torch.add is not None
