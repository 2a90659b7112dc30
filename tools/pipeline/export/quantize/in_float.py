"""Lists what stays in floating point of a model that is quantized, and the errors that add to it."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from torch.fx import GraphModule, Node

from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.quantize.nodes import is_layer, is_product, layers_of
from tools.pipeline.export.rewrite.spectra.spectra import SPECTRA

# Represents all locations except layers with weights and the activations that are fused into them.
ALL_BUT_LAYERS = "*"


class NoInt8Form(Exception):
    """Some locations of a model cannot be int8.

    Attributes:
      places: source locations, as origin() returns them, or ALL_BUT_LAYERS.
    """

    def __init__(self, places: Iterable[str], reason: str) -> None:
        super().__init__(reason)
        self.places = frozenset(places)


class PassError(NoInt8Form):
    """A pass of ExecuTorch failed at a location of the model, or at an unknown one: ALL_BUT_LAYERS."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__([place], reason)


class NotFinite(NoInt8Form):
    """Operators make or take NaN or infinity, for which integers have no values, on the way to finite outputs."""


@dataclass(frozen=True)
class InFloat:
    """Lists what stays in floating point of a model that is quantized.

    Attributes:
      path: the model file.
      front: locations that compute spectra, as front_end() returns them: they stay, but for operators behind the first
        layers.
      places: further locations, as origin() returns them, or ALL_BUT_LAYERS.
      layers: names of modules that stay, including all modules inside.
    """

    path: Path
    front: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    layers: Collection[str] = ()

    def stays(self, module: GraphModule) -> Callable[[Node], bool]:
        """Returns a function that tells whether an operator of a module stays, or one of a copy with equal names."""
        behind = _behind_layers(module)

        def stays(node: Node) -> bool:
            place = origin(node, self.path)
            return (
                not set(self.layers).isdisjoint(layers_of(node))
                or (place in self.front and node.name not in behind)
                or place in self.places
                or (ALL_BUT_LAYERS in self.places and not is_layer(node))
            )

        return stays


def _behind_layers(module: GraphModule) -> set[str]:
    """Returns the names of the layers with parameters that depend on a spectrum, and of all operators that depend on
    these, but for those that other spectra depend on.
    """

    parameters = dict(module.named_parameters())

    def is_layer(node: Node) -> bool:
        weight = node.args[1] if is_product(node) else None
        return isinstance(weight, Node) and weight.op == "get_attr" and weight.target in parameters

    of_spectra: set[Node] = set()
    behind: set[Node] = set()
    before: set[Node] = set()
    for node in module.graph.nodes:
        operands = node.all_input_nodes
        if not of_spectra.isdisjoint(operands) or node.target in SPECTRA:
            of_spectra.add(node)
            if is_layer(node) or not behind.isdisjoint(operands):
                behind.add(node)
    for node in reversed(module.graph.nodes):
        if node.target in SPECTRA or node in before:
            before.update(node.all_input_nodes)
    return {node.name for node in behind - before}
