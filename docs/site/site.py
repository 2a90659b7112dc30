"""Makes a site of the documents with Sphinx: pages that link to each other, and a search that needs no server.

A link to a page or a heading that is not there fails, and so does a page that the navigation does not name.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.console import nocolor
from sphinx.util.docutils import docutils_namespace

from docs.site.boards import write_pages
from tools.artifacts.board.board import read_board
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

_ROOT = "README"
# The markup that documents have; any other may come from names and docstrings of others.
_HTML = re.compile(r'<a id="[\w-]+">|</a>|<!--(?:(?!-->).)*-->', re.DOTALL)
_CONFIGURATION = {
    "extensions": ["myst_parser"],
    "highlight_language": "text",
    "html_copy_source": False,
    "html_css_files": ["site.css"],
    "html_js_files": ["site.js"],
    "html_show_copyright": False,
    "html_show_sourcelink": False,
    "html_show_sphinx": False,
    "html_static_path": ["_static"],
    "html_theme": "furo",
    "html_title": "Torch Fusion",
    "myst_heading_anchors": 4,
    "project": "Torch Fusion",
    "root_doc": _ROOT,
}

# The pages beside the root, by the headings of the navigation.
NAVIGATION = {
    "Models": ("docs/own_model", "docs/models", "docs/signals", "docs/own_operator", "docs/page"),
    "Quantization": ("docs/quantize", "docs/networks"),
    "Firmware": ("docs/firmware", "docs/flash", "docs/console", "docs/update", "docs/troubleshooting"),
    "Your own program": ("docs/cpp", "docs/packages", "docs/mbed", "docs/runtime"),
    "Boards": (
        "Boards that are here <firmware/boards/README>",
        "A board of your own <docs/boards>",
        "docs/boardsim",
        "docs/registers",
        "docs/proven",
    ),
    "NPU and Vulkan": ("docs/ethos_u", "docs/vgf"),
    "Reference": ("docs/rules", "docs/operators", "docs/passes", "docs/conformance"),
    "The project": (
        "docs/build",
        "docs/scale",
        "docs/architecture",
        "kernels/README",
        "third_party/README",
        "CONTRIBUTING",
        "SECURITY",
    ),
}

# Tables have many columns, and a wide window has room for them.
_STYLE = """\
table.docutils { font-size: 80%; margin-left: 0 }
.toc-tree .reference { overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
.highlight pre { font-size: 80% }
table.docutils code { white-space: normal; overflow-wrap: anywhere }
table.docutils td:first-child { min-width: 8.5em }
@media (max-width: 40em) { table.docutils { font-size: 70% } table.docutils td { overflow-wrap: anywhere } }
@media (min-width: 88em) { .content { width: 53em } }
@media (min-width: 100em) { .content { width: 62em } }
"""

# From a disk, browsers read no other page for the lines around what was found: the search does without.
_SCRIPT = 'if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;\n'

# Commands that need hardware are marked, and those beside them run in tests.
_ON_BOARD = re.compile(r"bazelw? run \S*[:.](flash|gdb|infer|live|monitor|plot|prove)\b")
_ON_BOARD_NOTE = "With a connected board; after -- --simulate the board simulator takes its part, as in the tests."


def _tree(caption: str, pages: Sequence[str], *, glob: bool = False) -> str:
    options = f":hidden:\n:caption: {caption}\n" + (":glob:\n" if glob else "")
    return f"\n```{{toctree}}\n{options}\n" + "\n".join(pages) + "\n```\n"


def _with_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Ends the root with the navigation, and the list of boards with their pages."""
    if page == _ROOT:
        source[0] += "".join(_tree(caption, pages) for caption, pages in NAVIGATION.items())
    elif page == "firmware/boards/README":
        source[0] += _tree("Boards", ["*/README"], glob=True)


def _as_on_a_site(app: Sphinx, document: nodes.document) -> None:
    """Makes links fit a site, which has no sources, and HTML other than comments and anchors text; marks commands that
    need a board.

    A link that reads like its file gets the page's title. One to a folder leads to the folder's page, and one to
    anything else that is no page becomes text.
    """
    for commands in list(document.findall(nodes.literal_block)):
        if any(_ON_BOARD.search(line) and "--simulate" not in line for line in commands.astext().splitlines()):
            note = nodes.paragraph("", "", nodes.emphasis("", _ON_BOARD_NOTE))
            commands.parent.insert(commands.parent.index(commands) + 1, note)
    for markup in list(document.findall(nodes.raw)):
        if not _HTML.fullmatch(markup.astext().strip()):
            markup.replace_self(nodes.inline("", markup.astext()))
    here = app.srcdir / Path(app.env.docname).parent
    for link in list(document.findall(addnodes.pending_xref)):
        if link.get("reftype") != "myst":
            continue
        target = link["reftarget"]
        if link.get("refdomain") == "doc":
            link["refexplicit"] = not link.astext().endswith(".md")
            if not link["refexplicit"]:
                link[0].clear()
        elif (page := app.env.path2doc(str((here / target / "README.md").resolve()))) in app.env.found_docs:
            link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", page, None
        elif "#" not in target and not target.endswith(".md"):
            link.replace_self(link.children)


def build(sources: dict[str, Path], output: Path, boards: Sequence[Path] = ()) -> None:
    """Writes the site.

    Args:
        sources: documents and pictures by their paths from the repository's root.
        output: the folder, in which index.html is the first page.
        boards: the definitions of boards, each of which gets a page.

    Raises:
        UserError: a link leads nowhere, or a page is in no navigation; Sphinx has named it on stderr.
    """
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary).resolve()
        for name, source in sources.items():
            copy = root / "sources" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
        write_pages([read_board(path) for path in boards], root / "sources")
        (root / "sources/_static").mkdir()
        (root / "sources/_static/site.css").write_text(_STYLE, encoding="utf-8")
        (root / "sources/_static/site.js").write_text(_SCRIPT, encoding="utf-8")
        folders: list[Any] = [root / "sources", None, output, root / "doctrees"]
        nocolor()
        with docutils_namespace():
            app = Sphinx(*folders, "html", _CONFIGURATION, status=None, warning=sys.stderr)
            app.connect("source-read", _with_navigation)
            app.connect("doctree-read", _as_on_a_site)
            app.build()
        if app._warncount:
            raise UserError(f"{app._warncount} links or pages are wrong: they are named above")
    (output / ".buildinfo").unlink(missing_ok=True)
    shutil.copyfile(output / f"{_ROOT}.html", output / "index.html")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="site", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="the folder to write")
    parser.add_argument("--board", type=Path, action="append", default=[], help="a board.json; repeatable")
    parser.add_argument("sources", nargs="+", type=Path, help="documents and pictures, from the repository's root")
    arguments = parser.parse_args(argv)
    sources = {str(source): source for source in arguments.sources}
    return run_tool("site", build, sources, arguments.output, arguments.board)
