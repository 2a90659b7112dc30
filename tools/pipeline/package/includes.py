"""The sources that a source needs: what it includes, and the sources beside the headers that it includes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.quiet.console import UserError

_INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
# Where this project's own headers are.
_OWN = ("firmware/", "kernels/", "runtime/")


def is_own(path: str) -> bool:
    """Whether a header or source, by what includes say of it, is this project's."""
    return path.startswith(_OWN)


@dataclass
class Tree:
    """Folders in which includes are looked up, each with its place in a package.

    Attributes:
        roots: folder -> where its files go in the package.
        found: file of the package -> where it comes from.
    """

    roots: Mapping[Path, str]
    found: dict[str, Path] = field(default_factory=dict)

    def add(self, sources: Sequence[str]) -> None:
        """Adds sources, by their path in one of the roots, with all that they need.

        A header brings along the source of the same name, in which its functions are. What no root has is the
        compiler's own.

        Raises:
            UserError: no root has a header of this project.
        """
        pending = list(sources)
        while pending:
            located = self._locate(pending.pop())
            if located is None:
                continue
            root, path = located
            name = f"{self.roots[root]}/{path}"
            if name in self.found:
                continue
            self.found[name] = root / path
            text = (root / path).read_text(encoding="utf-8", errors="replace")
            folder = Path(path).parent
            for include in _INCLUDE.findall(text):
                if is_own(include) and self._locate(include) is None:
                    raise UserError(f"{root / path} includes {include}, which is not among the sources of packages")
                beside = (folder / include).as_posix()
                pending.append(beside if (root / beside).is_file() else include)
            if path.endswith(".h"):
                pending.append(path.removesuffix(".h") + ".cpp")

    def _locate(self, path: str) -> tuple[Path, str] | None:
        return next(((root, path) for root in self.roots if (root / path).is_file()), None)
