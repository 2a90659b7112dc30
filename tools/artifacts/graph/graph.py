"""NAME.graph.json: a method's operator calls, and where its tensors are in memory."""

from dataclasses import dataclass

from tools.artifacts.document.document import Format


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
      made_by: the pass of the export that made it, or `torch.export`; empty where that is unknown.
    """

    operator: str
    place: str
    macs: int
    row: int | None
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    scratch: tuple[int, ...] = ()
    made_by: str = ""


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

    def __post_init__(self) -> None:
        used = {index for step in self.steps for index in (*step.reads, *step.writes, *step.scratch)}
        if unknown := (used | {*self.inputs, *self.outputs}) - self.tensors.keys():
            raise ValueError(f"there is no tensor {min(unknown)}")


_FORMAT = Format(Graph, "graph", 1, "pass the one that a model_page writes")
graph_json, read_graph = _FORMAT.text, _FORMAT.read
