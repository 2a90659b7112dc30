"""Plans a method's memory anew so that layers on images pass each other rows instead of whole tensors.

The layers of a chain are computed band by band: as many rows of each as the last layer's next rows need. What a layer
writes for others of the chain alone has memory for a few rows, of which those that are needed again are kept. Nothing
is computed twice, and each row is computed as it would be without bands.
"""

from collections.abc import Mapping

from tools.pipeline.compile.accesses import accesses_of
from tools.pipeline.compile.assignment import assign
from tools.pipeline.compile.chain import LAYERS, Fusion
from tools.pipeline.compile.chain_memory import ChainMemory
from tools.pipeline.compile.chain_search import ChainSearch
from tools.pipeline.compile.program import Method
from tools.quiet.console import UserError
from tools.quiet.table import text_table


def arena_and_inputs(method: Method) -> int:
    """Returns the bytes of a method's arena, and of its inputs, which an application has beside it unless it hands
    over their rows.
    """
    inputs = [each for each in method.plan.inputs or [] if each in method.offsets and not method.is_streamed]
    return method.arena_size + sum(map(method.nbytes, inputs))


def fusion_of(method: Method, memory: str, room: int | None) -> Fusion:
    """Returns the chains of a method, see fuse(): those of memory = "smallest", also where its arena and
    inputs have more bytes than there is room for.
    """
    is_small = room is None or arena_and_inputs(method) <= room
    return Fusion() if memory == LAYERS and is_small else fuse(method)


def fuse(method: Method) -> Fusion:
    """Changes the addresses of a method's tensors in its plan, if chains of layers make its memory smaller.

    A tensor that has several contents at different addresses becomes several tensors, behind the plan's other values.
    """
    accesses = accesses_of(method)
    if accesses is None:
        return Fusion()
    chains = ChainSearch(memory := ChainMemory(method, accesses)).search()
    return assign(memory, chains) if chains else Fusion()


def split(method: Method, memory: str | None, rooms: Mapping[str, int]) -> Fusion:
    """Distributes a method's tensors over several memories, in its plan: see distribute(). Chains of layers make them
    smaller with memory = "smallest", and where they would not fit.

    The last memory has the instance with its outputs; its buffer is the plan's first.

    Args:
        memory: one of MEMORY; None: there are no chains, as where the runtime loads the program.
        rooms: the bytes of each memory by its name, the fastest one first; an application has the inputs beside the
          instance, too.

    Raises:
        UserError: the method can't be planned anew, or doesn't fit.
    """
    *faster, last = rooms
    accesses = accesses_of(method)
    if accesses is None:
        raise UserError(
            f"program {method.file.path}: its arena can't be split over {', '.join(rooms)}: it has state, dynamic "
            f"shapes, branches, an NPU's part or operators of your own; give arena_memories {last} alone"
        )
    tensors = ChainMemory(method, accesses)
    search = ChainSearch(tensors)
    rooms = {**rooms, last: rooms[last] - (arena_and_inputs(method) - method.arena_size)}
    chains = search.search() if memory not in (None, LAYERS) else ()
    found = tensors.distribute(chains, rooms)
    if found.excess and memory == LAYERS and (chains := search.search()):
        found = tensors.distribute(chains, rooms)
    if found.excess:
        taken = zip(rooms.items(), found.plans, strict=True)
        rows = [[name, f"{room:,}", f"{plan.nbytes:,}"] for (name, room), plan in taken]
        raise UserError(
            f"program {method.file.path}: its tensors are {found.excess:,} bytes too many for {last}, which has what "
            f"the other memories have no room for; use a smaller model or input, or further arena_memories:\n"
            + "\n".join(text_table([["memory", "bytes", "taken"], *rows], {0}))
        )
    total = max(sum(found.heat), 1)
    shares = ", ".join(f"{name} {share / total:.0%}" for name, share in zip(rooms, found.heat, strict=True))
    # Bazel shows the standard output of a build action.
    by_rows = "; layers pass each other rows of images" if chains else ""
    print(f"{method.file.path.stem}: of the bytes that an inference reads and writes are in {shares}{by_rows}")
    return assign(tensors, chains, found, faster)
