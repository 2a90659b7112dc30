"""NAME.graph.json: a method's operator calls, and where its tensors are in memory."""

from dataclasses import asdict, dataclass
from pathlib import Path

from tools.artifacts.document.document import from_json, record, to_json
from tools.quiet.files import reading

_FORMAT, _VERSION = "graph", 1
_ADVICE = "pass the one that a model_page writes"


@dataclass(frozen=True)
class Value:
    """A tensor.

    Attributes:
      dtype: its dtype, such as `int8`.
      shape: its sizes, or the largest that it may have.
      nbytes: bytes of its elements.
      offset: where it begins in planned memory; None: it is not there.
      data: of a constant the index of its data, which several tensors may share; None of any other.
      stored: of a constant the bytes of that data in the program, alignment included; 0 of any other.
      parameter: of a parameter or buffer of the module its name; else empty.
      kept: of rows that layers of a chain pass to each other, bytes that stay from one band of rows to the next, where
        `nbytes` are those of as many rows as there are at a time; None of a whole tensor.
    """

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    offset: int | None = None
    data: int | None = None
    stored: int = 0
    parameter: str = ""
    kept: int | None = None


@dataclass(frozen=True)
class Step:
    """A call of an operator or of a delegate.

    Attributes:
      operator: its name, as in `aten::add`, or the delegate's backend.
      place: where it comes from in the user's model; empty where that is unknown.
      macs: multiply-accumulates per inference.
      row: its index among the operator calls, which a profile measures; None of a delegate.
      reads, writes, scratch: indices of tensors.
    """

    operator: str
    place: str
    macs: int
    row: int | None
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    scratch: tuple[int, ...] = ()


@dataclass(frozen=True)
class Graph:
    """A method of a program.

    Attributes:
      name: the program's name.
      core: the core that it is lowered for, or `portable`.
      planned: bytes of planned memory, buffers at their alignment.
      inputs, outputs: indices of tensors.
      tensors: by these indices.
      steps: in the order of execution.
      chains: the first and the last step of steps that run alternately, some rows of each.
    """

    name: str
    core: str
    planned: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    tensors: dict[int, Value]
    steps: tuple[Step, ...]
    chains: tuple[tuple[int, int], ...] = ()


def graph_json(graph: Graph) -> str:
    """The text of NAME.graph.json."""
    return to_json(_FORMAT, _VERSION, asdict(graph))


def read_graph(path: Path) -> Graph:
    """Reads NAME.graph.json.

    Raises:
      UserError: the file is missing, something else, or of another version.
    """
    content = from_json(path, _FORMAT, _VERSION, _ADVICE)
    with reading(_FORMAT, path, _ADVICE):
        graph = record(Graph, content)
        used = {index for step in graph.steps for index in (*step.reads, *step.writes, *step.scratch)}
        if unknown := (used | {*graph.inputs, *graph.outputs}) - graph.tensors.keys():
            raise ValueError(f"there is no tensor {min(unknown)}")
        return graph
