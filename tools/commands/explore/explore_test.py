import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tools.artifacts.board.board import Board
from tools.commands.explore import build, explore
from tools.commands.explore.build_events import Built, read_build_events
from tools.commands.explore.explore import build_file, main, target_name, timing_boards, write_package
from tools.commands.explore.progress import Progress, find_bazel
from tools.commands.new_model.new_model import Model, check_models
from tools.pipeline.page.page import Image
from tools.quiet.console import UserError
from tools.verify.exploration.exploration import Row


def test_package(tmp_path: Path) -> None:
    path = tmp_path / "Net 2.py"
    path.write_text("x = 1\n")
    (tmp_path / "data").mkdir()
    (tmp_path / 'data/a"b.txt').write_text("y")
    model = Model(path, "net_2", trains=True, calibrates=False, beside=(tmp_path / 'data/a"b.txt',))
    text = build_file([model], ["int8", "int4"], ["pico", "//my:board"], "@torch_fusion")
    assert 'load("@torch_fusion//rules:defs.bzl", "model_page", "quantization", "torch_program")' in text
    assert '    quantization = quantization(weight_dtype = "int4"),\n' in text
    # It is trained once, whatever variants there are.
    assert text.count("train = True") == 1
    assert 'weights = ":net_2_float32"' in text
    assert 'data = ["data/a\\"b.txt"]' in text
    assert 'boards = ["@torch_fusion//firmware/boards/pico"]' in text
    assert f'name = "{target_name(model, "int8", "//my:board")}",\n    boards = ["//my:board"]' in text
    folder = tmp_path / "explore/net"
    write_package(folder, [model], text)
    write_package(folder, [model], text)
    assert (folder / "Net 2.py").read_text() == "x = 1\n"
    assert (folder / 'data/a"b.txt').read_text() == "y"
    (folder / "BUILD.bazel").write_text("mine()\n")
    with pytest.raises(UserError, match="has other files"):
        write_package(folder, [model], text)


_SEVERAL = """
import torch
from sizes import SIZES


class Width:
    def __init__(self, width):
        self.width = width

    def model(self):
        return torch.nn.Linear(self.width, 2).eval()

    def example_inputs(self):
        return (torch.zeros(1, self.width),)


def entries():
    return {f"width {size}": Width(size) for size in SIZES}
"""


def test_each_entry_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text("SIZES = 3, 4\n")
    (tmp_path / "net.py").write_text(_SEVERAL)
    models = check_models(tmp_path / "net.py")
    assert [(model.name, model.entry) for model in models] == [("net_width_3", "width 3"), ("net_width_4", "width 4")]
    assert all([file.name for file in model.beside] == ["sizes.py"] for model in models)
    text = build_file(models, ["int8"], ["pico"], "")
    assert '    name = "net_width_4_int8",\n    src = "net.py",\n' in text
    assert '    entry = "width 4",\n    data = ["sizes.py"],\n' in text
    assert '    name = "net_width_4_int8_on_pico",' in text


def test_a_file_whose_name_no_label_can_have(tmp_path: Path) -> None:
    path = tmp_path / 'a:"$(b)" <i>.py'
    path.write_text(_SEVERAL.replace("from sizes import SIZES", "SIZES = 3, 4"))
    models = check_models(path)
    text = build_file(models, ["float32"], ["pico"], "")
    write_package(tmp_path / "package", models, text)
    assert '    src = "a_b_i.py",\n' in text
    assert sorted(file.name for file in (tmp_path / "package").iterdir()) == ["BUILD.bazel", "a_b_i.py"]


def test_build_events(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "image_files: flash overflows\n"
        "image_files: error: net_pico does not fit into the flash: 5 bytes too many. It goes to: weights 1.\n"
    )
    failed = {"label": "//explore/net:image", "primaryOutput": "x.elf"}
    events = [
        {
            "id": {"namedSet": {"id": "0"}},
            "namedSetOfFiles": {"files": [{"uri": "file:///a.json"}], "fileSets": [{"id": "1"}]},
        },
        {"id": {"namedSet": {"id": "1"}}, "namedSetOfFiles": {"files": [{"uri": "file:///b.json"}]}},
        {"id": {"actionCompleted": failed}, "action": {"stderr": {"uri": log.as_uri()}}},
        {
            "id": {"targetCompleted": {"label": "//explore/net:good"}},
            "completed": {"success": True, "outputGroup": [{"name": "reports", "fileSets": [{"id": "0"}]}]},
        },
        {
            "id": {"targetCompleted": {"label": "//explore/net:large"}},
            "children": [{"actionCompleted": failed}],
            "completed": {"failureDetail": {"message": "failed"}},
        },
        {"id": {"targetCompleted": {"label": "//explore/net:odd"}}, "aborted": {"description": "analysis failed"}},
        {
            "id": {"targetCompleted": {"label": "//explore/net:npu"}},
            "aborted": {"reason": "SKIPPED", "description": "Target //explore/net:npu build was skipped"},
        },
    ]
    path = tmp_path / "events.json"
    path.write_text("\n".join(map(json.dumps, events)))
    assert read_build_events(path) == {
        "//explore/net:good": Built(("file:///a.json", "file:///b.json")),
        "//explore/net:large": Built(reason="does not fit into the flash: 5 bytes too many"),
        "//explore/net:odd": Built(reason="analysis failed"),
        "//explore/net:npu": Built(reason="this variant is not for this board"),
    }


def test_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    events = tmp_path / "events"
    seconds = iter((0.0, 10.0, 10.0, 10.0, 40.0))
    progress = Progress(tmp_path, events, 4, lambda: next(seconds))
    assert progress.state("Analyzing: 4 targets (2 packages loaded)\n") == "Analyzing: 4 targets (2 packages loaded)"
    assert progress.state("ERROR: no space\n") is None
    assert progress.state("[90 / 1,000] Linking a\n") == "0 of 4 images, 90 of 1,000 actions: Linking a"
    label = '{"targetCompleted":{"label":"//explore/net:net_int8_on_pico"}}'
    line = f'{{"id":{label}}}\n'
    # Bazel has written a part of the line.
    events.write_text(f'{{"id":{{"pattern":{{}}}},"children":[{label}]}}\n{line[:40]}')
    state = "0 of 4 images, 100 of 1,000 actions, more than 15 min left: Linking b"
    assert progress.state("[100 / 1,000] Linking b\n") == state
    with events.open("a") as file:
        file.write(line[40:])
    state = "1 of 4 images, 100 of 1,000 actions, about 3 min left: Linking b"
    assert progress.state("[100 / 1,000] Linking b\n") == state
    for core, text in (("m4", "pass 1 of 9\n"), ("m7", "pass 1 of 10 (cortex_m, quantized): fold\ntorch\n")):
        export_log = tmp_path / f"bazel-out/{core}/bin/explore/net/net_int8.export.log"
        export_log.parent.mkdir(parents=True)
        export_log.write_text(text)
    os.utime(export_log.parents[4] / "m4/bin/explore/net/net_int8.export.log", (0, 0))
    exporting = "Exporting //explore/net:net_int8 for cortex-m7; 9s multiplex-worker"
    state = progress.state(f"[100 / 1,000] {exporting}\n") or ""
    assert state.endswith(f": pass 1 of 10 (cortex_m, quantized): fold, about 9 s left; {exporting}")
    monkeypatch.setenv("COLUMNS", "60")
    messages: list[str] = []
    progress.show(["[490 / 1,000] Linking c\n", "ERROR: no space\n"], messages.append)
    drawn = "1 of 4 images, 490 of 1,000 actions, about 78 s left: Linki"
    assert capsys.readouterr().err == f"\r\x1b[K{drawn}\r\x1b[K\r\x1b[K"
    assert messages == ["ERROR: no space\n"]


def test_layers_whose_costs_are_measured(tmp_path: Path) -> None:
    log = tmp_path / "bazel-out/m4/bin/net_int8.export.log"
    log.parent.mkdir(parents=True)
    seconds = itertools.count(0, 10)
    progress = Progress(tmp_path, clock=lambda: next(seconds))
    for number, left in ((1, ""), (3, ", about 60 s left for layers")):
        text = f"layer {number} of 9 (its cost in accuracy): a"
        log.write_text(f"{text}\n")
        state = progress.state("[1 / 2] Exporting //:net_int8 for cortex-m4; 9s\n") or ""
        assert f"{text}{left}; Exporting" in state


def test_progress_of_a_build_without_images(tmp_path: Path) -> None:
    progress = Progress(tmp_path)
    assert progress.state("[10 / 20] Linking a\n") == "10 of 20 actions: Linking a"
    assert progress.state("[11 / 20] Linking a\n") == "11 of 20 actions: Linking a"


def test_build_is_bazels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    bazel = tmp_path / "bazelw"
    bazel.write_text('#!/bin/sh\necho "$PWD: $@"; exit 3\n')
    bazel.chmod(0o755)
    monkeypatch.delenv("BAZELW_PROGRAM", raising=False)
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    assert build.main(["//:net", "--config=x"]) == 3
    assert capfd.readouterr().out == f"{tmp_path}: build //:net --config=x\n"


def test_the_bazel_that_started_it_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("BAZELW_PROGRAM", raising=False)
    with pytest.raises(UserError, match="there is no Bazel"):
        find_bazel(tmp_path)
    monkeypatch.setenv("BAZELW_PROGRAM", "/bin/sh")
    assert find_bazel(tmp_path) == "/bin/sh"


def test_cores_without_counts_get_an_emulated_board() -> None:
    def image(core: str, *, is_counted: bool = False, npu: object = None) -> Image:
        return cast(Image, SimpleNamespace(board=SimpleNamespace(core=core), profile=(1,) * is_counted, npu=npu))

    def board(name: str, core: str, *, is_emulated: bool = True, npu: str | None = None) -> Board:
        return cast(Board, SimpleNamespace(name=name, core=core, emulator=is_emulated or None, npu=npu))

    boards = [
        board("hardware", "cortex-m4", is_emulated=False),
        board("with_npu", "cortex-m55", npu="ethos-u55-128"),
        *(board(f"emulated_{core}", f"cortex-{core}") for core in ("m4", "m33", "m55")),
    ]
    images = [image("cortex-m4"), image("cortex-m4"), image("cortex-m55"), image("cortex-m0plus")]
    images += [image("cortex-m33"), image("cortex-m33", is_counted=True)]
    assert timing_boards(images, boards) == ["emulated_m4", "emulated_m55"]
    assert timing_boards([image("cortex-m55", npu=object())], boards) == []


def test_an_image_stays_that_the_build_of_counts_does_not_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "net_int8", "pico"
    numbers = dict.fromkeys(("flash", "ram", "instructions", "ms", "accuracy"), 1.0)
    built = iter(({key: Image.__new__(Image)}, {key: "it was not built"}))
    asked: list[Sequence[object]] = []
    replaced = {
        "_images": lambda *_: next(built),
        "check_models": lambda _: [],
        "find_bazel": lambda _: "bazel",
        "known_boards": lambda: {"pico": "pico", "qemu_m0plus": "qemu_m0plus"},
        "page_data": lambda _, images: images,
        "rows_of": lambda images: [Row(*key, numbers) for _ in images],
        "timing_boards": lambda _, boards: asked.append(boards) or ["qemu_m0plus"],
        "write_page": lambda *_: None,
    }
    for name, function in replaced.items():
        monkeypatch.setattr(explore, name, function)
    assert main(["net.py", "--boards", "pico", "--output", str(tmp_path / "net.html")]) == 0
    assert asked == [["qemu_m0plus"]]
    assert capsys.readouterr().out.splitlines()[1].endswith("  yes")


def test_unknown_variant_and_board(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(explore, "known_boards", lambda: {"pico": None, "pico_w": None})
    assert main(["net.py", "--boards", "pico,nano"]) == 1
    assert "--boards nano: the boards are pico, pico_w, and your own by their labels" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["net.py", "--boards", "pico", "--variants", "int8,int3"])
    assert "int3; variants are float32, int8, int4" in capsys.readouterr().err
