"""Finds the sources that a source needs: its headers, and the sources beside these headers."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.quiet.console import UserError

_INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
# The folder of users' own operators in a package, because they may share names with other files, such as a model's
# header.
_OPERATORS = "operators"
# The folders of this project's own headers.
_OWN = ("firmware/", "kernels/", "runtime/")


def is_own(path: str) -> bool:
    """Whether a header or source, by its path in includes, is this project's."""
    return path.startswith(_OWN)


def is_users(path: str) -> bool:
    """Whether a file of a package belongs to a user's own operator."""
    return path.startswith(f"src/{_OPERATORS}/")


@dataclass(frozen=True)
class _Source:
    """A file to be packed: its root folder, or None for users' operators, its path there, and the file."""

    root: Path | None
    path: str
    file: Path


@dataclass
class Tree:
    """Folders in which includes are looked up, each with its path in a package.

    Attributes:
        roots: folder -> path of its files in the package.
        operators: files of users' own operators, by their path in their repository, as in includes.
        found: file of the package -> its source.
    """

    roots: Mapping[Path, str]
    operators: Mapping[str, Path] = field(default_factory=dict)
    found: dict[str, Path] = field(default_factory=dict)

    def add(self, sources: Sequence[str]) -> None:
        """Adds sources, by their path in one of the roots or among the operators, with everything that they need.

        A header brings along the source of the same name, which defines its functions. Headers outside of the roots are
        the compiler's own.

        Raises:
            UserError: no root has a header of this project.
        """
        pending = [located for path in sources if (located := self._locate(path)) is not None]
        while pending:
            source = pending.pop()
            name = self._place(source)
            if name in self.found:
                if self.found[name] != source.file:
                    raise UserError(f"{self.found[name]} and {source.file} would be {name}; give one another name")
                continue
            self.found[name] = source.file
            for include in _INCLUDE.findall(source.file.read_text(encoding="utf-8", errors="replace")):
                included = self._beside(source, include) or self._locate(include, source)
                if included is not None:
                    pending.append(included)
                elif is_own(include):
                    raise UserError(f"{source.file} includes {include}, which is not among the sources of packages")
            if source.root is not None and source.path.endswith(".h"):
                implementation = self._beside(source, Path(source.path).name.removesuffix(".h") + ".cpp")
                pending += [implementation] if implementation is not None else []

    def text(self, name: str) -> str:
        """Returns a file of the package; includes in users' operators are adapted to the paths in the package."""
        text = self.found[name].read_text(encoding="utf-8")
        if not is_users(name):
            return text
        path = next(path for path, file in self.operators.items() if file == self.found[name])
        return self.with_operators(text, _Source(None, path, self.found[name]))

    def with_operators(self, text: str, source: _Source | None = None) -> str:
        """Returns a source's text with includes of users' operators by their paths in the package; None: it is
        generated.
        """

        def replaced(match: re.Match[str]) -> str:
            path = posixpath.normpath(match[1])
            is_beside = source is not None and self._beside(source, match[1]) is not None
            if is_beside or path not in self.operators:
                return match[0]
            directive = match[0][: match.start(1) - match.start() - 1]
            return f'{directive}"{_OPERATORS}/{path}"'

        return _INCLUDE.sub(replaced, text)

    def _place(self, source: _Source) -> str:
        """Returns the path of a file in the package. Not every build system treats .cc as C++."""
        if source.root is not None:
            return f"{self.roots[source.root]}/{source.path}"
        return f"src/{_OPERATORS}/{re.sub('[.]cc$', '.cpp', source.path)}"

    def _beside(self, source: _Source, include: str) -> _Source | None:
        """Returns the file that a source includes relative to its own folder."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source.path), include))
        if source.root is None:
            return _Source(None, path, self.operators[path]) if path in self.operators else None
        return _Source(source.root, path, source.root / path) if (source.root / path).is_file() else None

    def _locate(self, path: str, source: _Source | None = None) -> _Source | None:
        """Looks up a path in the roots; sources of other projects look among the operators first."""
        normal = posixpath.normpath(path)
        if (source is None or source.root is None) and normal in self.operators:
            return _Source(None, normal, self.operators[normal])
        return next((_Source(root, path, root / path) for root in self.roots if (root / path).is_file()), None)
