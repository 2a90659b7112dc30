import json
from pathlib import Path

import pytest

from tools.artifacts.manifest.manifest import manifest_json
from tools.commands.profile.profile import main

_CONSOLE = "Torch Fusion: net\r\nprofile 0: 3000 cycles, 46 us\r\nprofile 1: 1000 cycles, 15 us\r\nPASS\r\n"
_MANIFEST = {
    "name": "net",
    "core": "cortex-m4",
    "operators": [
        {"name": "aten::convolution", "overload": "out", "origin": []},
        {"name": "aten::relu", "overload": "out", "origin": []},
    ],
    "inputs": [],
    "outputs": [],
    "keeps_state": False,
    "instructions": [
        {"operator": 0, "origin": "conv (Conv2d) at net.py:3", "macs": 1500},
        {"operator": 1, "origin": "relu (ReLU)", "macs": 0},
    ],
}


def run(folder: Path, *more: str, console: str = _CONSOLE) -> int:
    (folder / "console.txt").write_text(console)
    (folder / "manifest.json").write_text(manifest_json(_MANIFEST))
    names = ("elf", "plan", "description", "report", "golden", "manifest")
    image = {"board": "mps2_an386"} | {name: f"{name}.json" for name in names}
    (folder / "index.json").write_text(json.dumps({"format": "index of images", "version": 1, "images": [image]}))
    options = {"index": "index.json", "qemu": "qemu", "console": "console.txt"}
    return main([*(f"--{name}={folder / path}" for name, path in options.items()), *more])


def test_a_table_of_what_a_board_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, f"--json={tmp_path}/rows.json") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["#", "operator", "module", "cycles", "share", "MACs", "per", "MAC"] in lines
    place = ["conv", "(Conv2d)", "at", "net.py:3"]
    assert ["0", "aten::convolution", *place, "3,000", "75.0%", "1,500", "2.00"] in lines
    assert ["1", "aten::relu", "relu", "(ReLU)", "1,000", "25.0%"] in lines
    assert ["total", "4,000", "100.0%", "1,500", "2.67"] in lines
    assert [row["count"] for row in json.loads((tmp_path / "rows.json").read_text())] == [3000, 1000]


@pytest.mark.parametrize(
    ("options", "console", "message"),
    [
        ([], "PASS\n", "build the image with --//firmware:profiling=on"),
        ([], "profile 0: 3 cycles, 1 us\n", "measured 1 operator calls, manifest"),
        ([], "profile 0: 3 cycles, 1 us\nprofile 9: 3 cycles, 1 us\n", "it is another program's"),
        ([], f"profile 0: {'3' * 5000} cycles, 1 us\n", "the console shows no line"),
        (["--board=nucleo"], _CONSOLE, "--board nucleo: there is no image for it; there are mps2_an386"),
        (["--json=/nowhere/x.json"], _CONSOLE, "/nowhere/x.json: No such file"),
    ],
)
def test_what_does_not_fit_is_named(options, console, message, tmp_path, capsys) -> None:
    assert run(tmp_path, *options, console=console) == 1
    assert message in capsys.readouterr().err
