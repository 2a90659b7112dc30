"""Opens pages, the site and the window of .live in Chromium, as users do; tools/pipeline/page has tests without one."""

from __future__ import annotations

import itertools
import json
import os
import queue
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from docs.browser import Browser
from docs.site import site
from tools.artifacts.board.board import Board, Region
from tools.artifacts.graph.graph import Graph, Step, Value
from tools.artifacts.npu_report.npu_report import Delegate, NpuReport, OnCore
from tools.artifacts.profile.profile import Row
from tools.artifacts.quantization_report.quantization_report import Accuracy, Layer, QuantizationReport
from tools.artifacts.size_report.size_report import Memory, SizeReport
from tools.commands.plot import window
from tools.commands.plot.plot import Curves, main, window_state
from tools.commands.plot.window import Window
from tools.pipeline.page.page import Image, page_data, write_page

_PAGE, _DATA = Path(os.environ["PAGE"]), json.loads(Path(os.environ["PAGE_JSON"]).read_text(encoding="utf-8"))
_SITE = Path(os.environ["SITE"])
_WIDTHS = (1440, 390)

# A picture of a page that is run as a script would change the title.
_HOSTILE = "<img/src=x/onerror=document.title='hostile'><script>document.title='hostile'</script>&lt;$\\frac{$"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as made:
        yield made


def _open(browser: Browser, page: Path, width: int = 1440) -> None:
    """Opens a page, which must ask only for files of its own, have no errors and fit the window."""
    browser.open(page.resolve().as_uri(), width)
    _check(browser)


def _check(browser: Browser) -> None:
    assert browser.errors == []
    assert [address for address in browser.requests if not address.startswith(("file:", "data:"))] == []
    size = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert size[0] <= size[1]


@pytest.mark.parametrize("width", _WIDTHS)
def test_numbers_are_those_of_the_reports(browser: Browser, width: int) -> None:
    _open(browser, _PAGE, width)
    found = browser.run(
        """
        const texts = (row) => [...row.cells].map((cell) => cell.textContent);
        const lines = (cell) => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          return new Set([...range.getClientRects()].filter((box) => box.height > 5).map((box) => box.top)).size;
        };
        return {
          head: [...document.querySelectorAll("#table th")].map((cell) => cell.dataset.key),
          rows: [...document.querySelectorAll("#table tbody tr")].map(texts),
          images: [...document.querySelectorAll("#images tbody tr")].map(texts),
          nodes: document.querySelectorAll("#graph-view .node").length,
          broken: [...document.querySelectorAll("#table td.number")].filter((cell) => lines(cell) > 1).length,
          wide: [...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth).length,
        };
        """
    )
    image = _DATA["images"][0]
    steps = _DATA["programs"][image["program"]]["steps"]
    rows = [dict(zip(found["head"], row, strict=True)) for row in found["rows"]]
    assert browser.requests == []
    assert (found["wide"], found["broken"]) == (0, 0)
    # The libraries' arrows, as they are in their packages.
    assert "\u2191 KiB of flash" in browser.run("return document.body.textContent")
    assert [row["title"] for row in rows] == [step["module"] for step in steps]
    assert [int(row["instructions"].replace(",", "")) for row in rows] == [count for count, _ in image["rows"]]
    assert [int(row["cycles"].replace(",", "")) for row in rows] == [cycles for _, cycles in image["rows"]]
    assert [row["snr"] for row in rows] == [f"{step['snr']:.1f} dB" for step in steps]
    assert [row[1] for row in found["images"]] == [entry["board"] for entry in _DATA["images"]]
    # Every operator, an input and an output.
    assert found["nodes"] == len(steps) + 2


def test_a_click_marks_a_layer_everywhere(browser: Browser) -> None:
    _open(browser, _PAGE)
    found = browser.run(
        """
        const send = (made, event) => made.dispatchEvent(event);
        const click = (made) => send(made, new MouseEvent("click", { bubbles: true }));
        const press = (key) => send(document.activeElement, new KeyboardEvent("keydown", { key, bubbles: true }));
        const marked = (id) => document.querySelectorAll(`#${id} .selected`).length;
        const rows = () => [...document.querySelectorAll("#table tbody tr")];
        const views = ["graph-view", "time-view", "arena-view", "snr-view", "flash-view", "table"];
        click(document.querySelector('#time-view [data-steps="2"]'));
        const found = { marked: views.map(marked), details: document.getElementById("details").textContent };
        rows()[2].focus();
        press("ArrowDown");
        found.next = document.querySelector("#table .selected").dataset.steps;
        press("Escape");
        found.after = views.map(marked);
        document.querySelector('th[data-key="macs"] button').click();
        found.sorted = rows().map((row) => Number(row.dataset.steps));
        const search = document.getElementById("search");
        search.value = "pointwise";
        search.dispatchEvent(new Event("input"));
        found.searched = rows().filter((row) => !row.hidden).length;
        search.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
        found.all = document.querySelectorAll("#graph-view .node.selected").length;
        const nodes = () => document.querySelectorAll("#graph-view .node").length;
        document.getElementById("fold").click();
        found.folded = nodes();
        click(document.querySelector("#graph-view .fold"));
        found.unfolded = nodes();
        document.querySelectorAll("#images th button")[5].click();
        found.boards = [...document.querySelectorAll("#images tbody tr")].map((row) => Number(row.dataset.image));
        document.querySelector('#images [data-image="3"]').click();
        found.subtitle = document.getElementById("subtitle").textContent;
        return found;
        """
    )
    _check(browser)
    steps = _DATA["programs"][0]["steps"]
    assert all(count > 0 for count in found["marked"])
    assert steps[2]["module"] in found["details"]
    assert found["next"] == "3"
    assert not any(found["after"])
    macs = [steps[index]["macs"] for index in found["sorted"]]
    assert macs == sorted(macs, reverse=True)
    assert found["searched"] == found["all"] == sum("pointwise" in step["module"] for step in steps)
    assert found["folded"] < found["unfolded"] <= len(steps) + 2
    used = [_DATA["images"][index]["memories"]["RAM"]["used"] for index in found["boards"]]
    assert used == sorted(used)
    assert _DATA["programs"][_DATA["images"][3]["program"]]["name"] in found["subtitle"]


def _hostile_image(name: str) -> Image:
    """Returns an image whose reports have a hostile text wherever they have a text of the user's."""
    layer = {"name": _HOSTILE, "operator": _HOSTILE, "cycles": 4, "macs": 3, "sram_bytes": 6, "sram_cycles": 9}
    place = f"net.{_HOSTILE} ({_HOSTILE.replace('(', '')}) at {_HOSTILE}.py:5"
    steps = (Step(_HOSTILE, place, 3, 0, (0, 1), (2,)), Step("aten::relu", "net.act (ReLU)", 3, 1, (2,), (3,)))
    tensors = {index: Value("int8", (1, 4), 4, offset=4 * index) for index in (0, 2, 3)}
    tensors[1] = Value("int8", (4,), 4, data=1, stored=8, parameter=_HOSTILE)
    flash = Memory(90, 1024, {"weights": 8, _HOSTILE: 50})
    board = Board(_HOSTILE, _HOSTILE, "cortex-m4", Region("flash", 0, 1024), Region("ram", 2048, 512), (), 64, 64)
    return Image(
        SizeReport(_HOSTILE, "x.pte", _HOSTILE, "cortex-m4", flash, Memory(48, 512, {})),
        replace(board, name=name),
        Graph(_HOSTILE + name, _HOSTILE, 16, (0,), (3,), tensors, steps),
        QuantizationReport(
            _HOSTILE,
            _HOSTILE,
            8,
            (Layer(place, _HOSTILE, _HOSTILE, _HOSTILE, snr_db=9.0),),
            Accuracy(2, 1.0, 0.5, (_HOSTILE, "b"), ((1, 0), (0, 1)), ((1, 0), (1, 0))),
            (_HOSTILE,),
        ),
        (Row(10, 20), Row(5, 6)),
        NpuReport(
            _HOSTILE,
            _HOSTILE,
            _HOSTILE,
            1_000_000,
            (Delegate(90, 50, 40, 64, {"cycles_total": 40}, (layer,)),),
            (OnCore(_HOSTILE, _HOSTILE, _HOSTILE, _HOSTILE),),
        ),
    )


def test_hostile_text_on_a_page_is_text(browser: Browser, tmp_path: Path) -> None:
    libraries = [Path(name) for name in os.environ["LIBRARIES"].split()]
    data = page_data(_HOSTILE, [_hostile_image(f"{_HOSTILE}{number}") for number in range(3)])
    numbers = {"stack_used": 1, "stack_size": 2, "clock_hz": 64, "inference": 1}
    texts = dict.fromkeys(("place", "chip", "revision", "date", "image", "unit"), _HOSTILE)
    items = [{"name": _HOSTILE, "passed": False, "found": _HOSTILE}]
    kinds = [{"operator": _HOSTILE, "place": f"{_HOSTILE}: {_HOSTILE}", "macs": 2, "measured": 3}]
    page = tmp_path / "page.html"
    proof = numbers | texts | {"versions": {_HOSTILE: _HOSTILE}, "items": items, "kinds": kinds}
    for width, more in itertools.product(_WIDTHS, ({}, {"proof": proof})):
        write_page(page, data | more, libraries, [])
        _open(browser, page, width)
        shown = browser.run(
            """
            const versions = document.getElementById("proof-versions").checkVisibility();
            for (const made of document.querySelectorAll("[data-steps], [data-image], [data-fold], button, summary")) {
              made.dispatchEvent(new MouseEvent("click", { bubbles: true }));
              await 0;
            }
            await new Promise((done) => setTimeout(done, 50));
            return [document.title, document.body.innerText, document.images.length, versions];
            """
        )
        _check(browser)
        # They are folded, or a phone shows them alone.
        assert not shown[3]
        assert shown[0] == _HOSTILE
        assert shown[1].count(_HOSTILE) > 20
        assert shown[2] == 0


def test_a_program_for_an_npu_has_its_layers_and_no_empty_plot(browser: Browser, tmp_path: Path) -> None:
    image = _hostile_image("npu")
    steps = tuple(replace(step, macs=0, reads=()) for step in image.graph.steps)
    data = page_data("npu", [replace(image, graph=replace(image.graph, steps=steps), profile=())])
    write_page(tmp_path / "page.html", data, [Path(name) for name in os.environ["LIBRARIES"].split()], [])
    _open(browser, tmp_path / "page.html")
    shown = browser.run(
        """
        const plot = ["metric-choice", "time-title", "time-view"].map((id) => document.getElementById(id));
        const isShown = plot.map((each) => each.checkVisibility());
        return [document.body.innerText, document.getElementById("cards").innerText, isShown];
        """
    )
    assert "NaN" not in shown[0]
    assert "the core's share is not measured" in shown[0]
    assert re.search(r"Multiply-accumulates\s+3\s", shown[1])
    assert shown[2] == [False, False, False]


@pytest.mark.parametrize("width", _WIDTHS)
def test_the_window_shows_what_it_is_sent_as_text(browser: Browser, width: int) -> None:
    curves = Curves(
        f"{_HOSTILE}: {_HOSTILE}", _HOSTILE, [0.0, 1.0], [np.array([0.25, 3]), np.array([9, np.nan])], [1, 2]
    )
    curves.reference, curves.expected = (_HOSTILE, np.ones(2)), np.ones((2, 2))
    curves.inputs = [np.zeros(3), np.ones((1, 2, 8, 9)), np.ones((1, 3, 40)), np.ones(1)]
    sizes = SizeReport("x", "x.pte", "b", "c", Memory(90, 1024, {}), Memory(48, 512, {"arena planned": 40}))
    libraries = [Path(name) for name in os.environ["LIBRARIES"].split() if "dagre" not in name]
    with Window(libraries) as opened:
        browser.open(opened.url, width)
        opened.show(window_state(curves, sizes, 2), last=True)
        shown = browser.run(
            """
            while (!document.querySelector("#times svg")) await new Promise((done) => setTimeout(done, 10));
            const count = (found) => document.querySelectorAll(found).length;
            const counts = ["canvas", "#inputs svg", "#lines path"].map(count);
            return [document.title, document.body.innerText, counts];
            """
        )
        assert browser.errors == []
        assert all(address.startswith((opened.url, "data:")) for address in browser.requests)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert shown[0] == "Live"
    assert shown[1].count(_HOSTILE) >= 4
    for text in ("2.000 ms", "at most 2.000 ms", "48 B", "40 B", "2 of 2 inferences", "largest: 0"):
        assert text in shown[1], text
    assert shown[2][:2] == [2, 2] and shown[2][2] > 2


@pytest.mark.parametrize("width", _WIDTHS)
@pytest.mark.parametrize(
    "page",
    [
        "index",
        "docs/rules",
        "docs/operators",
        "docs/page",
        "docs/troubleshooting",
        "firmware/boards/nucleo_wb55rg/README",
    ],
)
def test_pages_of_the_site(browser: Browser, page: str, width: int) -> None:
    _open(browser, _SITE / f"{page}.html", width)
    tables = "[...document.querySelectorAll('.table-wrapper')]"
    wide = browser.run(f"return {tables}.filter((table) => table.scrollWidth > table.clientWidth).length")
    # Those of numbers scroll on a phone.
    assert wide == 0 or (width == 390 and page in ("index", "docs/operators"))


def test_search_from_disk(browser: Browser) -> None:
    browser.open(f"{(_SITE / 'search.html').resolve().as_uri()}?q=firmware_budget_test")
    found = browser.run(
        """
        const results = document.getElementById("search-results");
        while (!results.textContent.includes("found")) await new Promise((done) => setTimeout(done, 10));
        return [...results.querySelectorAll("li a")].map((link) => link.href);
        """
    )
    _check(browser)
    assert any(address.partition("#")[0].endswith("docs/rules.html") for address in found)
    assert all(Path(address.removeprefix("file://").partition("#")[0].partition("?")[0]).is_file() for address in found)


def test_hostile_text_on_the_site_is_text(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "NAVIGATION", {})
    source = tmp_path / "README.md"
    source.write_text(f"# {_HOSTILE}\n\n{_HOSTILE}\n\n| a |\n| --- |\n| {_HOSTILE} |\n\n- [x](javascript:alert)\n")
    site.build({"README.md": source}, tmp_path / "site")
    _open(browser, tmp_path / "site/index.html")
    shown = browser.run("return [document.title, document.body.innerText, document.images.length]")
    assert shown[0] != "hostile"
    assert shown[1].count("onerror") >= 3
    assert shown[2] == 0


def _draw(browser: Browser, name: str, folder: Path) -> None:
    """Draws a picture, which is beside the documents if this was run rather than tested."""
    workspace = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    picture = (Path(workspace, "docs/images") if workspace else folder) / name
    browser.picture(picture)
    assert picture.stat().st_size > 50_000


def test_picture(browser: Browser, tmp_path: Path) -> None:
    browser.open(_PAGE.resolve().as_uri(), 1440, 1180)
    _draw(browser, "page_ds_cnn.png", tmp_path)


def test_picture_of_a_running_board(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr(window, "_open", lambda url: addresses.put(url) or True)
    (board,) = [path for path in os.environ["BOARDS"].split() if path.endswith("/nucleo_wb55rg/board.json")]
    # .live is given these files of the image and the program.
    given = {"--elf": ".elf", "--report": ".report.json", "--dataset": ".golden.npz"}
    names = [str(Path(name).absolute()) for name in os.environ["DIGITS"].split()]
    options = [f"{option}={next(name for name in names if name.endswith(end))}" for option, end in given.items()]
    options += [f"--window={name}" for name in os.environ["LIBRARIES"].split() if "dagre" not in name]
    live = threading.Thread(target=main, args=([*options, f"--board={board}", "--on=simulator"],))
    live.start()
    browser.open(addresses.get(timeout=60), 1440, 920)
    browser.run("while (!document.body.innerText.includes('64 of 64')) await new Promise(done => setTimeout(done, 9));")
    live.join()
    _draw(browser, "live.png", tmp_path)
