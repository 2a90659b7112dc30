"""Finds names in documents that the tree does not have: files, folders, labels, headings that links point to, options
of its commands, ends of runnable targets such as `.flash`, and attributes of rules in Starlark; and blocks of Python
and Starlark with errors of syntax; and comments that mark commands, as commands.py has them, which are not there.

A name counts if its first folder is one of the repository's: `kernels/util` and `//models/sine` do; `model.pte`, and
`//:blink` of a reader's workspace don't. `*` and `<name>` stand for anything. A name with a part that begins with `my_`
is the reader's.
"""

from __future__ import annotations

import argparse
import ast
import posixpath
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from tests.documents.commands import commands
from tools.quiet.console import UserError
from tools.quiet.tool import option_parser, run_tool

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_COMMAND = re.compile(r"bazelw? run (?!//third_party)\S*//?\S+(?: --\S+)* -- ([^#`\n]*)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_ACTION = re.compile(r"bazelw? run \S*//?[\w/.-]*:\w+(\.[\w.]+)")
_CODE = re.compile(r"^```(?:python|starlark)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_STARLARK = re.compile(r"^```starlark\n(.*?)^```|(?:^(?: {4}[^\n]*)?\n)+", re.MULTILINE | re.DOTALL)
# It has the attributes of all rules and macros.
_RULES = "docs/rules.md"
_ATTRIBUTE = re.compile(r"^\| `\*{0,2}(\w+)` \|", re.MULTILINE)
_EVERY_RULES = {"args", "name", "size", "tags", "target_compatible_with", "testonly", "timeout", "visibility"}
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Tree:
    """The contents of the tree.

    Attributes:
        files: paths from the root.
        folders: those that hold them, the root as ".".
        targets: labels, without the repository.
        options: of the tree's commands.
    """

    files: frozenset[str]
    folders: frozenset[str]
    targets: frozenset[str]
    options: frozenset[str]

    @classmethod
    def of(cls, files: Sequence[str], targets: Sequence[str], sources: Iterable[str]) -> Tree:
        folders = {str(folder) for file in files for folder in PurePosixPath(file).parents}
        options = {option for source in sources for option in re.findall(r'"(--[a-z][a-z-]*)"', source)}
        return cls(frozenset(files), frozenset(folders), frozenset(targets), frozenset(options))

    @property
    def tops(self) -> list[str]:
        """Returns the folders of the root."""
        return sorted(folder for folder in self.folders if folder != "." and "/" not in folder)

    def has_path(self, path: str) -> bool:
        return _matches(path, self.files | self.folders)

    def has_label(self, package: str, target: str | None) -> bool:
        """Returns whether there is a target; without one, the package or the target that is named like it."""
        if package == "..." or package.endswith("/..."):
            return (package.removesuffix("...").rstrip("/") or ".") in self.folders
        if target in ("all", "*", "..."):
            return package in self.folders
        name = target or package.rsplit("/", 1)[-1]
        # A file that is loaded or built from is a target, whether or not a package says so.
        path = package if target is None else f"{package}/{target}"
        return _matches(f"//{package}:{name}", self.targets) or self.has_path(path)


def _matches(name: str, names: frozenset[str]) -> bool:
    pattern = re.sub(r"<[^>]*>", "*", name)
    if "*" in pattern:
        return any(fnmatchcase(known, pattern) for known in names)
    return name in names


def anchors(text: str) -> set[str]:
    """Returns the anchors of the headings of a document, by the rule of the sites that show it."""
    headings = _HEADING.findall(_FENCED.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing(document: str, texts: dict[str, str], tree: Tree) -> Iterator[str]:
    """Yields names in a document that the tree does not have.

    Args:
        document: its path from the root.
        texts: of all documents, by path.
    """
    text = texts[document]
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = posixpath.normpath(PurePosixPath(document).parent / path) if path else document
        if not tree.has_path(file) or anchor and file in texts and anchor not in anchors(texts[file]):
            yield target

    for block in _CODE.findall(text):
        try:
            # Starlark has Python's syntax; a block may be a part of a call.
            ast.parse(textwrap.dedent(block))
        except SyntaxError as error:
            yield f"{(error.text or '').strip()}: {error.msg}"
    yield from _unknown_attributes(text, texts.get(_RULES, ""))
    for action in _ACTION.findall(text):
        if not any(target.endswith(action) for target in tree.targets):
            yield action
    for arguments in _COMMAND.findall(text):
        yield from (option for option in _OPTION.findall(arguments) if option not in tree.options)
    text = _LINK.sub("]", text)
    tops = "|".join(map(re.escape, tree.tops))
    for path in re.findall(rf"(?<![\w@/.:*<>$-])(?:\./)?((?:{tops})/[\w./*<>+-]*[\w*>])", text):
        if not _is_the_readers(path) and not tree.has_path(path):
            yield path
    for label in re.finditer(rf"(?<![\w:/])(?:@torch_fusion)?//((?:{tops})\b[\w./*<>+-]*)(?::([\w./*<>+-]+))?", text):
        package, target = label[1].rstrip("/"), label[2]
        if not package.endswith("..."):
            package = package.rstrip(".")
        target = target.rstrip(".") if target else None
        if not _is_the_readers(label[0]) and not tree.has_label(package, target or None):
            yield label[0]


def _unknown_attributes(text: str, rules: str) -> Iterator[str]:
    """Yields attributes in blocks of Starlark that the description of their rule does not have."""
    sections = f"\n{rules}".split("\n### ")[1:]
    known = {section.partition("\n")[0]: set(_ATTRIBUTE.findall(section)) for section in sections}
    # Others pass attributes on, to a rule that comes later or before.
    for section in sections * 2:
        for passed in re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `\*\*kwargs` (.*)", section, re.MULTILINE))):
            known[section.partition("\n")[0]] |= known.get(passed.removesuffix("_rule"), {passed})
    for block in _STARLARK.finditer(text):
        try:
            tree = ast.parse(textwrap.dedent(block[1] or block[0]))
        except SyntaxError:
            # It is another language, or said already.
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id in known:
                for keyword in call.keywords:
                    if keyword.arg and keyword.arg not in known[call.func.id] | _EVERY_RULES:
                        yield f"{call.func.id}({keyword.arg})"


def _is_the_readers(name: str) -> bool:
    return any(part.startswith("my_") for part in re.split("[/:]", name))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} can't be read: {error}") from error


def _run(arguments: argparse.Namespace) -> int:
    sources = (_read(arguments.root / file) for file in arguments.files if file.endswith(".py"))
    tree = Tree.of(arguments.files, _read(arguments.targets).split(), sources)
    texts = {file: _read(arguments.root / file) for file in arguments.files if file.endswith(".md")}
    for document, text in texts.items():
        # A comment that marks a command which is not there fails.
        list(commands(document, text))
    found = [f"{document}: {name}" for document in texts for name in missing(document, texts, tree)]
    for line in found:
        print(line)
    return 1 if found else 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("documents", __doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the working directory)")
    parser.add_argument("--targets", type=Path, required=True, help="labels of all targets: bazel query '//...:*'")
    parser.add_argument("files", nargs="+", help="all files, by their paths from the repository: git ls-files")
    return run_tool("documents", _run, parser.parse_args(argv))
