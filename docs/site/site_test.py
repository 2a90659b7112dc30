import os
import re
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from docs.site import site
from docs.site.serve import server
from tools.quiet.console import UserError

_PAGES = Path(os.environ["PAGES"])


def _build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str = "# Second\n") -> str:
    """Builds a site of two pages and a board's; returns the first page."""
    monkeypatch.setattr(site, "NAVIGATION", {"Pages": ("docs/second", "firmware/boards/README")})
    texts = {
        "README.md": f"# First\n{first}\n",
        "docs/second.md": second,
        "firmware/boards/README.md": "# Boards\n[pico](pico), [emulated](mps2)\n",
        "firmware/boards/pico/README.md": "# Raspberry\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    site.build({name: tmp_path / name for name in texts}, tmp_path / "site")
    return (tmp_path / "site/index.html").read_text()


def test_a_search_from_disk_reads_no_other_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _build(tmp_path, monkeypatch, "")
    scripts = re.findall(r'<script src="(?:_static/)?(\w+)\.js', (tmp_path / "site/search.html").read_text())
    assert scripts.index("documentation_options") < scripts.index("site") < scripts.index("searchtools")
    assert "SHOW_SEARCH_SUMMARY = false" in (tmp_path / "site/_static/site.js").read_text()


@pytest.mark.parametrize(
    ("link", "html"),
    [
        ("[docs/second.md](docs/second.md)", '<a class="reference internal" href="docs/second.html">'),
        ("[docs/second.md](docs/second.md)", ">Second</span>"),
        ("[there](docs/second.md)", ">there</span>"),
        ("[the Pico](firmware/boards/pico)", 'href="firmware/boards/pico/README.html"'),
        ("a <img src=x onerror=y>", "a <span>&lt;img src=x onerror=y&gt;</span></p>"),
        ('<a id="b"></a>b<!-- c -->', '<a id="b"></a>b<!-- c --></p>'),
        ("[rules/board.bzl](rules/board.bzl) is one", '<p><span class="xref myst">rules/board.bzl</span> is one</p>'),
    ],
)
def test_links_and_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, html: str) -> None:
    assert html in _build(tmp_path, monkeypatch, link)


def test_commands_that_need_a_board_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "    ./bazelw run //firmware:flash"
    html = _build(tmp_path, monkeypatch, f"{command} -- --simulate\n\nor\n\n{command}\n")
    assert html.count("With a connected board") == 1


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ("[x](docs/third.md)", "# Second", "docs/third.md"),
        ("[x](docs/second.md#third)", "# Second", "third"),
        ("![x](third.png)", "# Second", "third.png"),
        ("", "no heading", "second"),
    ],
)
def test_what_leads_nowhere_fails(tmp_path, monkeypatch, capsys, first, second, named) -> None:
    with pytest.raises(UserError, match="they are named above"):
        _build(tmp_path, monkeypatch, first, second)
    assert named in capsys.readouterr().err


def test_the_documents_need_no_network() -> None:
    pages = {str(path.relative_to(_PAGES)): path.read_text(encoding="utf-8") for path in _PAGES.rglob("*.html")}
    assert {"index.html", "search.html", "docs/rules.html", "docs/operators.html"} <= set(pages)
    # A board without a text of its own has a page, too.
    for board in ("pico", "nucleo_wb55rg", "mps2_an386"):
        assert f'href="{board}/README.html"' in pages["firmware/boards/README.html"]
        picture = re.search(r"_images/memory\d*\.svg", pages[f"firmware/boards/{board}/README.html"])
        assert picture and " at 0x20000000" in (_PAGES / picture[0]).read_text()
    for name, text in pages.items():
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="([^"]*)"', text)
        assert loaded and not [address for address in loaded if re.match("[a-z]+:|//", address)], name
    # The search looks in these.
    assert "torch_firmware" in (_PAGES / "searchindex.js").read_text(encoding="utf-8")


def test_the_site_is_served_to_this_machine() -> None:
    with server(_PAGES) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        assert made.server_address[0] == "127.0.0.1"
        for page in ("", "index.html", "docs/rules.html?highlight=x"):
            with urlopen(made.url + page) as answer:
                assert b"Torch Fusion" in answer.read()
                assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        for path in ("../site.py", "%2e%2e/site.py"):
            with pytest.raises(HTTPError):
                urlopen(made.url + path)
        with pytest.raises(UserError, match="cannot be served on port"):
            server(_PAGES, made.server_port)


def test_a_folder_without_a_site(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no index\.html"):
        server(tmp_path)
