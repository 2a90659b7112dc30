"""Avoids work that PyTorch repeats with each decomposition and each pass over a program.

That work is a third of a small export's time. It only affects the speed: the exported bytes are the same without it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch._export.utils
import torch.export.decomp_utils
import torch.export.exported_program
from torch._C import DispatchKey
from torch._ops import OperatorBase
from torch._subclasses.fake_impls import op_implementations_dict
from torch.fx import GraphModule
from torch.fx.graph import PythonCode
from torch.fx.traceback import NodeSource

from tools.pipeline.export.upstream.replaced import replace

_collect_composite = torch._export.utils._collect_all_valid_cia_ops
_override_composite = torch.export.exported_program._override_composite_implicit_decomp
_recompile = GraphModule.recompile

_looked_up: set[str] = set()


def _look_up_new() -> None:
    """Makes torch.ops know every composite operator that was registered since the last call.

    PyTorch looks all of them up, once for each namespace.
    """
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"):
        if name not in _looked_up:
            namespace, _, operator = name.partition("::")
            operator, _, overload = operator.partition(".")
            getattr(getattr(getattr(torch.ops, namespace), operator), overload or "default")
            _looked_up.add(name)


def _composite_operators() -> set[OperatorBase]:
    """Returns the composite operators that an export may preserve."""
    _look_up_new()
    return _collect_composite()


@dataclass(frozen=True)
class _Overridden:
    """A composite operator's Python kernels outside and inside a decomposition, and its rule for fake tensors."""

    outside: dict[Any, Any]
    inside: dict[Any, Any]
    fake: Callable[..., Any]


_overridden: dict[OperatorBase, _Overridden] = {}


@contextmanager
def _override_once(decompositions: dict[OperatorBase, Callable[..., Any]]) -> Iterator[None]:
    """Overrides composite operators with these decompositions, reusing kernels from earlier calls.

    PyTorch makes some 12,000 kernels each time. An operator whose kernels have changed since gets new ones.
    """
    kernels = {operator: dict(operator.py_kernels) for operator in decompositions}
    known = {operator: _overridden[operator] for operator in decompositions.keys() & _overridden.keys()}
    known = {operator: each for operator, each in known.items() if each.outside == kernels[operator]}
    with _override_composite({operator: each for operator, each in decompositions.items() if operator not in known}):
        for operator in decompositions.keys() - known.keys():
            fake = op_implementations_dict[operator]
            _overridden[operator] = _Overridden(kernels[operator], dict(operator.py_kernels), fake)
        for operator, each in known.items():
            decomposition = {DispatchKey.CompositeImplicitAutograd: decompositions[operator]}
            _give_kernels(operator, each.inside | decomposition)
            op_implementations_dict.setdefault(operator, each.fake)
        try:
            yield
        finally:
            for operator in known:
                _give_kernels(operator, kernels[operator])
                op_implementations_dict.pop(operator, None)


def _give_kernels(operator: OperatorBase, kernels: dict[Any, Any]) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()


class _CompiledWhenCalled:
    """Replaces a graph module's `forward`; generates the code on access. Most modules are recompiled before that."""

    def __get__(self, module: GraphModule | None, owner: type[GraphModule]) -> Any:
        if module is None:
            return self
        _recompile_now(module)
        return module.forward


class _CodeWhenRead:
    """Replaces the result of GraphModule.recompile."""

    def __init__(self, module: GraphModule) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(_recompile_now(self._module), name)


class _SourceWhenRead:
    """Replaces a graph module's `_code`, which is generated together with `forward`."""

    def __get__(self, module: GraphModule | None, owner: type[GraphModule]) -> Any:
        if module is None:
            return self
        if isinstance(vars(owner).get("forward"), _CompiledWhenCalled):
            _recompile_now(module)
        return module.__dict__["_code"]

    def __set__(self, module: GraphModule, source: str) -> None:
        module.__dict__["_code"] = source


def _recompile_now(module: GraphModule) -> PythonCode:
    # recompile() reads the source that it has just written.
    del type(module).forward
    return _recompile(module)


def _recompile_when_used(module: GraphModule) -> _CodeWhenRead:
    codegen = module._graph._codegen
    if isinstance(codegen, torch.fx.graph._PyTreeCodeGen):
        module._in_spec = codegen.pytree_info.in_spec
        module._out_spec = codegen.pytree_info.out_spec
    type(module).forward = _CompiledWhenCalled()
    return _CodeWhenRead(module)


def _itself(source: NodeSource, memo: dict[int, Any]) -> NodeSource:
    """Replaces the copy of a node's history, which never changes after it is made."""
    return source


def do_once() -> None:
    """Replaces these functions of PyTorch in this process."""
    replace(torch._export.utils, "_materialize_cpp_cia_ops", lambda: None)
    for module in (torch._export.utils, torch.export.decomp_utils, torch.export.exported_program):
        replace(module, "_collect_all_valid_cia_ops", _composite_operators)
    replace(torch.export.exported_program, "_override_composite_implicit_decomp", _override_once)
    replace(GraphModule, "recompile", _recompile_when_used)
    replace(GraphModule, "_code", _SourceWhenRead())
    replace(NodeSource, "__deepcopy__", _itself)
