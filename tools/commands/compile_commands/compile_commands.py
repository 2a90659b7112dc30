"""Bazel's compile actions as a compilation database (clang.llvm.org/docs/JSONCompilationDatabase.html)."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Options that GCC supports and Clang refuses; they don't affect editors.
_GCC_ONLY = re.compile(
    r"-fno-(?:canonical-system-headers|if-conversion2|ipa-modref|tree-.*|gcse.*)|-flto.*|-frandom-seed=.*"
    r"|--specs=.*|-MD|-MMD|-fstack-usage|-fconserve-stack"
)


@dataclass(frozen=True)
class Roots:
    """The roots of paths in actions: the workspace, the other repositories, and build outputs (bazel-out)."""

    workspace: Path
    external: Path
    output: Path

    def absolute(self, path: str) -> str:
        """Returns a path of an action so that it names the file that the user edits."""
        first, _, rest = path.partition("/")
        if first == "external" and rest:
            return str(self.external / rest)
        if first == "bazel-out" and rest:
            return str(self.output / rest)
        return path


def compile_commands(graph: dict[str, Any], roots: Roots) -> list[dict[str, Any]]:
    """Returns the compilation database of an action graph.

    Args:
      graph: the output of `bazel aquery --output=jsonproto`, with compile actions.
      roots: the roots of the files.

    Returns:
      One entry for each source file, sorted: the first of its actions in the order of their arguments, with those of
      the machine's own compiler last.
    """
    entries: dict[str, dict[str, Any]] = {}
    commands = [action["arguments"] for action in graph.get("actions", []) if action.get("arguments")]
    for arguments in sorted(commands, key=lambda command: (command[0].startswith("/"), command)):
        source = arguments[arguments.index("-c") + 1] if "-c" in arguments[:-1] else None
        if source is not None and source not in entries:
            command = _command(arguments, roots)
            file = roots.absolute(source)
            entries[source] = {"directory": str(roots.workspace), "file": file, "arguments": command}
    return [entries[source] for source in sorted(entries)]


# An option and its path in one word, and options whose path is a separate word.
_JOINED = re.compile(r"(-I|-iquote|-isystem|--sysroot=|-include)(?=external/|bazel-out/)")


def _command(arguments: list[str], roots: Roots) -> list[str]:
    command: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in ("-MF", "-o"):
            # Only Bazel needs the paths of dependencies and objects.
            next(words, None)
        elif not _GCC_ONLY.fullmatch(word):
            option = _JOINED.match(word)
            prefix = option.group(1) if option else ""
            command.append(prefix + roots.absolute(word.removeprefix(prefix)))
    return command
