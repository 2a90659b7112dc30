"""Opens a page in Chromium: tools/pipeline/page has the tests that need none."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_PAGE, _DATA = Path(os.environ["PAGE"]), json.loads(Path(os.environ["PAGE_JSON"]).read_text(encoding="utf-8"))

# A user's actions, as a script at the page's end; its last expression is the result.
_SCRIPT = """
<script>
const found = (() => {{ {actions} }})();
document.documentElement.setAttribute("data-errors", JSON.stringify(errors));
const result = {{ id: "found", textContent: JSON.stringify(found) }};
document.body.append(Object.assign(document.createElement("pre"), result));
</script>
"""
_ERRORS = """<script>
const errors = [];
addEventListener("error", (event) => errors.push(event.message));
addEventListener("securitypolicyviolation", (event) => errors.push(event.blockedURI));
</script>
"""


def _chromium(*arguments: str) -> str:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.fail("there is no Chromium on PATH; install Debian's package chromium")
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def _after(tmp_path: Path, actions: str) -> Any:
    """Returns the results of a script's actions on the page, which must have had no errors and no requests."""
    text = _PAGE.read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    text = text.replace("<body>", "<body>" + _ERRORS).replace("</body>", _SCRIPT.format(actions=actions) + "</body>")
    page.write_text(text, encoding="utf-8")
    dom = _chromium("--window-size=1440,1000", "--dump-dom", page.as_uri())
    assert 'data-errors="[]"' in dom
    # The libraries' arrows, as they are in their packages.
    assert "\u2191 bytes of flash" in dom
    found = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    assert found is not None
    return json.loads(found[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


def test_numbers_are_those_of_the_reports(tmp_path: Path) -> None:
    found = _after(
        tmp_path,
        """
        const texts = (row) => [...row.cells].map((cell) => cell.textContent);
        return {
          requests: performance.getEntriesByType("resource").length,
          head: [...document.querySelectorAll("#table th")].map((cell) => cell.dataset.key),
          rows: [...document.querySelectorAll("#table tbody tr")].map(texts),
          images: [...document.querySelectorAll("#images tbody tr")].map(texts),
          nodes: document.querySelectorAll("#graph-view .node").length,
        };
        """,
    )
    image = _DATA["images"][0]
    steps = _DATA["programs"][image["program"]]["steps"]
    rows = [dict(zip(found["head"], row, strict=True)) for row in found["rows"]]
    assert found["requests"] == 0
    assert [row["title"] for row in rows] == [step["module"] for step in steps]
    assert [int(row["instructions"].replace(",", "")) for row in rows] == [count for count, _ in image["rows"]]
    assert [int(row["cycles"].replace(",", "")) for row in rows] == [cycles for _, cycles in image["rows"]]
    assert [row["snr"] for row in rows] == [f"{step['snr']:.1f} dB" for step in steps]
    assert [row[1] for row in found["images"]] == [entry["board"] for entry in _DATA["images"]]
    # Every operator, an input and an output.
    assert found["nodes"] == len(steps) + 2


def test_a_click_marks_a_layer_everywhere(tmp_path: Path) -> None:
    found = _after(
        tmp_path,
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
        const nodes = () => document.querySelectorAll("#graph-view .node").length;
        document.getElementById("fold").click();
        found.folded = nodes();
        click(document.querySelector("#graph-view .fold"));
        found.unfolded = nodes();
        document.querySelectorAll("#images tbody tr")[3].click();
        found.subtitle = document.getElementById("subtitle").textContent;
        return found;
        """,
    )
    steps = _DATA["programs"][0]["steps"]
    assert all(count > 0 for count in found["marked"])
    assert steps[2]["module"] in found["details"]
    assert found["next"] == "3"
    assert not any(found["after"])
    macs = [steps[index]["macs"] for index in found["sorted"]]
    assert macs == sorted(macs, reverse=True)
    assert found["searched"] == sum("pointwise" in step["module"] for step in steps)
    assert found["folded"] < found["unfolded"] <= len(steps) + 2
    assert _DATA["programs"][_DATA["images"][3]["program"]]["name"] in found["subtitle"]


def test_picture(tmp_path: Path) -> None:
    # It is beside the documents if it was run rather than tested.
    workspace = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    picture = Path(workspace) / "docs/images/page_ds_cnn.png" if workspace else tmp_path / "page.png"
    _chromium("--window-size=1440,1560", "--hide-scrollbars", f"--screenshot={picture}", _PAGE.resolve().as_uri())
    assert picture.stat().st_size > 50_000
