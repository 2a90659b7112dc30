"""When the tensors of a graph are in planned memory, and which step wrote what another one reads."""

from dataclasses import dataclass, replace

from tools.artifacts.graph.graph import Graph


@dataclass(frozen=True)
class Span:
    """Memory that a tensor holds from one step to another.

    Attributes:
      tensor: its index.
      role: `input`, `output`, `scratch` or `activation`.
      first, last: indices of steps; an input is there before step 0, so from -1, an output until after the last.
      offset, nbytes: where it is.
    """

    tensor: int
    role: str
    first: int
    last: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Peak:
    """The step at which most bytes are in use, which no plan can do with fewer than, and the tensors that hold them."""

    step: int
    nbytes: int
    tensors: tuple[int, ...]


def written_as(graph: Graph) -> list[dict[int, int]]:
    """Maps, for each step, each tensor that it reads to the tensor that was written: nothing writes a view.

    A tensor that is neither written nor a view, such as a state that inferences keep, maps to itself.
    """
    # In the order of writing, the latest last.
    written = dict.fromkeys(graph.inputs)
    found = []
    for step in graph.steps:
        variables = (index for index in step.reads if graph.tensors[index].data is None)
        found.append({index: _source(graph, index, list(written)) for index in variables})
        for index in step.writes:
            written.pop(index, None)
            written[index] = None
    return found


def _source(graph: Graph, index: int, written: list[int]) -> int:
    tensor = graph.tensors[index]
    if tensor.offset is None:
        return index
    for other in reversed(written):
        start = graph.tensors[other].offset
        # The tensor of this name may be overwritten: a view has the name of another tensor in the same memory, too.
        if other == index or start is not None and start <= tensor.offset < start + graph.tensors[other].nbytes:
            return other
    return index


def sources_of(graph: Graph) -> list[list[tuple[int, int]]]:
    """Lists, for each step, the results that it reads: pairs of a step, -1 for the graph's inputs, and its tensor."""
    writer = dict.fromkeys(graph.inputs, -1)
    found = []
    for number, (step, names) in enumerate(zip(graph.steps, written_as(graph), strict=True)):
        found.append([(writer[index], index) for index in dict.fromkeys(names.values()) if index in writer])
        writer.update(dict.fromkeys(step.writes, number))
    return found


def results_of(graph: Graph) -> list[tuple[int, int]]:
    """The graph's outputs, each with the step that wrote it; -1 for one of the inputs."""
    writer = dict.fromkeys(graph.inputs, -1)
    for number, step in enumerate(graph.steps):
        for index in step.writes:
            writer.pop(index, None)
            writer[index] = number
    return [(index, writer.get(_source(graph, index, list(writer)), -1)) for index in dict.fromkeys(graph.outputs)]


def spans_of(graph: Graph) -> list[Span]:
    """The memory that tensors hold over time: one that is written anew after it was last read has several spans."""
    found: list[Span] = []
    # By tensor its first step, and the last that uses what was written there.
    holding: dict[int, tuple[int, int]] = dict.fromkeys(graph.inputs, (-1, -1))

    def end(index: int) -> None:
        first, last = holding.pop(index)
        tensor = graph.tensors[index]
        if tensor.offset is not None:
            is_input = index in graph.inputs and first < 0
            role = "input" if is_input else "output" if last == len(graph.steps) else "activation"
            found.append(Span(index, role, first, last, tensor.offset, tensor.nbytes))

    for number, (step, names) in enumerate(zip(graph.steps, written_as(graph), strict=True)):
        for index in names.values():
            first, _ = holding.get(index, (-1, -1))
            holding[index] = (first, number)
        for index in step.scratch:
            tensor = graph.tensors[index]
            if tensor.offset is not None:
                found.append(Span(index, "scratch", number, number, tensor.offset, tensor.nbytes))
        for index in step.writes:
            if index in holding and index not in names.values():
                end(index)
            first = holding[index][0] if index in holding else number
            holding[index] = (first, number)
    for index in graph.outputs:
        source = _source(graph, index, list(holding))
        if source in holding:
            holding[source] = (holding[source][0], len(graph.steps))
    for index in list(holding):
        end(index)
    found = [part for span in found for part in _in_chains(graph, span)]
    return sorted(found, key=lambda span: (span.first, span.offset, span.tensor))


def _in_chains(graph: Graph, span: Span) -> list[Span]:
    """Returns what a tensor holds if steps of a chain use it: all of its memory during the chain, if it is whole, and
    otherwise that of kept rows.
    """
    kept = graph.tensors[span.tensor].kept
    for first, last in graph.chains if span.role != "scratch" else ():
        if kept is not None and first <= span.first <= last:
            return [span, replace(span, first=first, last=last, nbytes=kept)] if kept else [span]
        span = replace(
            span,
            first=first if first <= span.first <= last else span.first,
            last=last if first <= span.last <= last else span.last,
        )
    return [span]


def peak_of(graph: Graph) -> Peak:
    """The step at which the most bytes are in use; tensors that share bytes, as views do, count once."""
    best = Peak(0, 0, ())
    spans = spans_of(graph)
    for number in range(len(graph.steps)):
        held = sorted(
            (span for span in spans if span.first <= number <= span.last), key=lambda span: (span.offset, -span.nbytes)
        )
        nbytes = end = 0
        for span in held:
            nbytes += max(0, span.offset + span.nbytes - max(end, span.offset))
            end = max(end, span.offset + span.nbytes)
        if nbytes > best.nbytes:
            best = Peak(number, nbytes, tuple(dict.fromkeys(span.tensor for span in held)))
    return best
