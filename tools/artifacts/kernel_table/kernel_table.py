"""kernels.json: the kernels of an image in the order of its table.

Programs that are linked at build time call a kernel by its index in this table, and the device doesn't look at its name
any more: registry.cpp and NAME_pte.S of an image must come from the same file.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from tools.artifacts.document.document import from_json, to_json
from tools.quiet.files import reading

_FORMAT, _VERSION = "kernel table", 3
_ADVICE = "pass the kernels.json of the image's registry"


@dataclass(frozen=True)
class Kernel:
    """A kernel of the table.

    Attributes:
      operator: the operator's name in programs, such as `aten::add.out`.
      function: the C++ function, without its namespace.
      dtypes: ExecuTorch's names of the dtypes that it is instantiated for.
      variants: what it supports beside plain operands; None: everything.
      calls: calls of the operator in the programs.
      writes: positions of the arguments that the operator writes to; empty: the last one.
      constants: positions of the arguments that must be constants of the program.
      packed: positions of those of them that are packed layers.
      results: positions of the arguments that are numbers, whose value the operator replaces.
    """

    operator: str
    function: str
    dtypes: tuple[str, ...]
    variants: tuple[str, ...] | None
    calls: int
    writes: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()
    packed: tuple[int, ...] = ()
    results: tuple[int, ...] = ()


def kernel_table_json(kernels: list[Kernel]) -> str:
    """The text of kernels.json."""
    return to_json(_FORMAT, _VERSION, {"kernels": [asdict(kernel) for kernel in kernels]})


def read_kernel_table(path: Path) -> list[Kernel]:
    """Reads kernels.json.

    Raises:
      UserError: the file is missing, something else, or of another version.
    """
    content = from_json(path, _FORMAT, _VERSION, _ADVICE)
    with reading(_FORMAT, path, _ADVICE):
        return [
            Kernel(
                operator=str(entry["operator"]),
                function=str(entry["function"]),
                dtypes=tuple(map(str, entry["dtypes"])),
                variants=None if entry["variants"] is None else tuple(map(str, entry["variants"])),
                calls=int(entry["calls"]),
                writes=tuple(map(int, entry["writes"])),
                constants=tuple(map(int, entry["constants"])),
                packed=tuple(map(int, entry["packed"])),
                results=tuple(map(int, entry["results"])),
            )
            for entry in content["kernels"]
        ]
