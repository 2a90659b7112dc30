"""Avoids work that ExecuTorch's passes repeat for each operator of a graph that they rewrite.

For Arm, the graph is rewritten some fifty times, which takes most of an export, and for Cortex-M a fifth. The exported
bytes don't depend on this module.
"""

import contextlib
import copy
import operator
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from executorch.exir.delegate import executorch_call_delegate, is_lowered_module
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.pass_base import ExportPass, NodeMetadata, ProxyValue, _ExportPassBase
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.graph import _Namespace
from torch.fx.node import map_arg
from torch.fx.passes.infra.pass_base import PassResult
from torch.utils._pytree import tree_leaves, tree_map_only

from tools.pipeline.export.upstream.replaced import replaced

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class _NotKnownError(Exception):
    """An argument for which no result can be cached."""


class _ChangeError(Exception):
    """A call for which a retraced graph would differ from the graph that a pass was given."""


@contextlib.contextmanager
def known_results() -> Iterator[None]:
    """Caches the shapes of operators' results for passes; a pass that changes no node of a graph returns that graph."""
    results: dict[Any, Any] = {}
    call = Interpreter.call_function
    retrace = _ExportPassBase.call

    def call_function(self: Interpreter, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # ExecuTorch's passes call operators by an interpreter with an empty graph. Other calls may be traced, and each
        # counts.
        if len(self.graph.nodes) > 0:
            return call(self, target, args, kwargs)
        try:
            key = _key((target, args, kwargs))
        except _NotKnownError:
            return call(self, target, args, kwargs)
        if key in results:
            # Passes that trace an operator, such as einsum, tell its operands apart by identity.
            return tree_map_only(FakeTensor, torch.Tensor.detach, results[key][0])
        result = call(self, target, args, kwargs)
        # Keeps the arguments alive, because some are identified by their address.
        results[key] = result, target, args
        return result

    def call_pass(self: _ExportPassBase, module: GraphModule) -> PassResult:
        return PassResult(module, True) if _changes_nothing(self, module) else retrace(self, module)

    with (
        # Some operators refuse operands that have gradients, which known results would pass on from parameters to
        # buffers.
        torch.no_grad(),
        replaced(Interpreter, "call_function", call_function),
        replaced(_ExportPassBase, "call", call_pass),
    ):
        yield


def known_results_of(program: ExportedProgram) -> contextlib.AbstractContextManager[None]:
    """Returns known_results(), except for programs with computed sizes: a tensor carries the symbol of its own value,
    and a cached tensor would carry that of another one.
    """
    return contextlib.nullcontext() if program.range_constraints else known_results()


@contextlib.contextmanager
def decomposed_once() -> Iterator[None]:
    """Returns a program unchanged if the decomposition table doesn't affect it and no operator works in place.

    For a program that was not decomposed yet, the table must be empty. `to_edge_transform_and_lower` decomposes each
    program three times, and retraces it each time.
    """
    original = ExportedProgram.run_decompositions
    done: weakref.WeakSet[ExportedProgram] = weakref.WeakSet()

    def run_decompositions(
        self: ExportedProgram, table: Mapping[Any, Any] | None = None, **options: Any
    ) -> ExportedProgram:
        if table is not None and not options and (self in done or not table) and not _is_decomposed_by(table, self):
            return self
        result = original(self, table, **options)
        done.add(result)
        return result

    with replaced(ExportedProgram, "run_decompositions", run_decompositions):
        yield


def _is_decomposed_by(table: Mapping[Any, Any], program: ExportedProgram) -> bool:
    """Whether a table has an entry for an operator of a program; PyTorch's own entries for every table are applied
    already.
    """
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        if not isinstance(node.target, OpOverload) or node.target in table or node.target._schema.is_mutable:
            return True
    return False


def _key(argument: Any) -> Any:
    """Returns a key that is equal for arguments with the same shapes, dtypes and layouts of results.

    Raises _NotKnownError for tensors with values and for arguments that may not be plain.
    """
    kind = type(argument)
    if kind is FakeTensor:
        if argument.constant is not None:
            raise _NotKnownError
        shape, strides = tuple(argument.shape), tuple(argument.stride())
        if any(type(size) is not int for size in (*shape, *strides)):
            raise _NotKnownError
        return id(argument.fake_mode), argument.dtype, shape, strides
    if isinstance(argument, (list, tuple)):
        return tuple, tuple(map(_key, argument))
    if isinstance(argument, dict):
        return dict, tuple((name, _key(value)) for name, value in argument.items())
    if isinstance(argument, _PLAIN):
        return kind, argument
    is_operator = isinstance(argument, (OpOverload, EdgeOpOverload)) and not argument._schema.is_mutable
    if is_operator or argument is executorch_call_delegate or is_lowered_module(argument):
        return kind, id(argument)
    raise _NotKnownError


def _changes_nothing(export_pass: _ExportPassBase, module: GraphModule) -> bool:
    """Whether a pass would write a graph with the same nodes, names and metadata again; if so, writes the results'
    shapes into the graph, where passes move nodes without them.

    Calls the pass for each node. Its calls of operators are compared with the graph's instead of being written down,
    and the first one that differs ends this, and restores the pass's own state.
    """
    kind, values = type(export_pass), [node.meta.get("val") for node in module.graph.nodes]
    modes = {value.fake_mode for value in values if isinstance(value, FakeTensor)}
    if (
        len(modes) != 1
        or kind.placeholder is not ExportPass.placeholder
        or kind.output is not ExportPass.output
        or kind.inputs is not ExportPass.inputs
        or any(node.op not in ("placeholder", "call_function", "output") for node in module.graph.nodes)
        or any(node.op == "placeholder" and node.name != node.target for node in module.graph.nodes)
    ):
        return False
    (mode,) = modes
    state = vars(export_pass).copy()
    contents = {name: copy.copy(value) for name, value in state.items() if isinstance(value, (dict, list, set))}
    replay = _Replay(export_pass, module)
    vars(export_pass).update(tracer=None, fake_tensor_mode=mode, _fx=replay.compare)
    mode.allow_non_fake_inputs = True
    try:
        with mode, enable_python_dispatcher():
            replay.run()
    except Exception:
        # A pass that asks for what only a new graph has, such as a proxy, ends here, too. True errors are raised again.
        vars(export_pass).clear()
        vars(export_pass).update(state | contents)
        for node, value in replay.replaced.items():
            node.meta["val"] = value
        return False
    # The pass keeps its notes about the graph.
    del export_pass._fx
    export_pass.tracer = state["tracer"]
    _name_as_written_anew(module)
    return True


def _name_as_written_anew(module: GraphModule) -> None:
    """Gives nodes the names that they would have in a new graph."""
    graph = module.graph
    before, names = [node.name for node in graph.nodes], _Namespace()
    for node in graph.nodes:
        target = node.target.overloadpacket.__name__ if isinstance(node.target, OpOverload) else node.target
        node.name = names.create_name(target if node.op == "placeholder" else graph._target_to_str(target), node)
    graph._graph_namespace = names
    if before != [node.name for node in graph.nodes]:
        module.recompile()


class _Replay:
    """Runs a pass on each node of a graph.

    Attributes:
      replaced: the values before, of nodes whose results have other shapes.
    """

    def __init__(self, export_pass: _ExportPassBase, module: GraphModule) -> None:
        self._interpreter = export_pass.ExportInterpreter(export_pass, module)
        self._module = module
        self.replaced: dict[Node, Any] = {}
        self._node = next(iter(module.graph.nodes))
        self._args: Any = ()
        self._kwargs: Any = {}

    def run(self) -> None:
        """Raises an exception if the pass changes a node."""
        results: dict[Node, ProxyValue] = {}
        for node in self._module.graph.nodes:
            if node.op == "call_function":
                self._interpreter.node = self._node = node
                self._args, self._kwargs = (map_arg(each, results.__getitem__) for each in (node.args, node.kwargs))
                result = self._interpreter.call_function(node.target, self._args, self._kwargs)
                if not isinstance(result, ProxyValue) or result.proxy_or_node is not node:
                    raise _ChangeError
                results[node] = result
            else:
                results[node] = ProxyValue(node.meta.get("val"), node)

    def compare(self, kind: str, target: Any, args: Any, kwargs: Any, meta: NodeMetadata) -> ProxyValue:
        """Replaces _fx() of the pass: returns the result of the node if the call is the node's."""
        node = self._node
        if (
            kind != node.op
            or target is not node.target
            or not _is_same(args, self._args)
            or not _is_same(kwargs, self._kwargs)
            or meta.data.keys() != node.meta.keys()
            or any(each is not node.meta[name] for name, each in meta.data.items())
        ):
            raise _ChangeError
        value, result = node.meta.get("val"), _EMPTY.call_function(target, _data(args), _data(kwargs))
        if _key(result) != _key(value):
            self.replaced[node], node.meta["val"] = value, result
        return ProxyValue(node.meta["val"], node)


_EMPTY = Interpreter(GraphModule(torch.nn.Module(), torch.fx.Graph()))


def _data(argument: Any) -> Any:
    """Returns an argument of a call with values in place of nodes."""
    if isinstance(argument, ProxyValue):
        return argument.data
    if isinstance(argument, (list, tuple)):
        return type(argument)(map(_data, argument))
    if isinstance(argument, dict):
        return {name: _data(value) for name, value in argument.items()}
    return argument


def _is_same(first: Any, second: Any) -> bool:
    """Whether two arguments of calls are the same value, or equal plain values."""
    if first is second:
        return True
    if isinstance(first, (list, tuple)):
        return isinstance(second, (list, tuple)) and len(first) == len(second) and all(map(_is_same, first, second))
    if isinstance(first, dict):
        is_same_names = isinstance(second, dict) and first.keys() == second.keys()
        return is_same_names and all(_is_same(value, second[name]) for name, value in first.items())
    return type(first) is type(second) and isinstance(first, _PLAIN) and first == second


@contextlib.contextmanager
def sizes_of_constants(model: GraphModule) -> Iterator[None]:
    """Makes ExecuTorch's passes treat the sizes of constants as fixed.

    Otherwise they treat these sizes, and all sizes that follow from them, as variable: a network of fifty layers then
    has symbolic sizes whose formulas take minutes to evaluate, and shapes have symbols that nothing replaces.
    """
    values = [value for node in model.graph.nodes for value in tree_leaves(node.meta.get("val"))]
    modes = {value.fake_mode for value in values if isinstance(value, FakeTensor)}
    with contextlib.ExitStack() as stack:
        for mode in modes:
            stack.enter_context(replaced(mode, "static_shapes", True))
        yield
