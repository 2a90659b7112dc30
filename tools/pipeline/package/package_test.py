"""What is in a package and what is refused; //tests/compiled compiles one."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from tools.pipeline.package.includes import Tree
from tools.pipeline.package.layouts import LAYOUTS, Package
from tools.pipeline.package.package import Model, main, pack
from tools.quiet.console import UserError

SINE = {"".join(Path(path).suffixes): Path(path) for path in os.environ["PROGRAM"].split()}
MODEL = Model(SINE[".pte"], "forward", "sine", SINE[".manifest.json"], SINE[".golden.npz"])


def _tree(folder: Path) -> dict[Path, str]:
    """Sources that are enough for a package of sine."""
    for path, text in {
        "kernels/call.h": '#include "kernels/boxed.h"\n',
        "kernels/boxed.h": "#include <cstdint>\n",
        "kernels/boxed.cpp": '#include "kernels/boxed.h"\n',
        "kernels/portable/gemm.h": "",
        "kernels/portable/gemm.cpp": '#include "kernels/portable/gemm.h"\n#include "kernels/deep.h"\n',
        "kernels/portable/relu.h": "",
        "kernels/portable/pool.h": "",
        "kernels/portable/pool.cpp": "",
        "kernels/deep.h": "",
        "runtime/compiled/torch_fusion.h": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return {folder: "src"}


def test_a_package_has_what_its_models_need_and_no_more(tmp_path: Path) -> None:
    files = pack("demo", "host", "cmake", [MODEL], _tree(tmp_path), {})
    assert {
        "include/sine.h",
        "include/sine.hpp",
        "include/torch_fusion.h",
        "src/kernels/portable/gemm.cpp",
        "src/kernels/deep.h",
        "src/models/sine.cpp",
        "example/main.c",
    } <= files.keys()
    assert not [path for path in files if "pool" in path]
    assert "src/kernels/portable/gemm.cpp" in files["CMakeLists.txt"]


def test_sources_come_with_what_they_include_once(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "a.h"\n#include <missing.h>\n', encoding="utf-8")
    (tmp_path / "a.cpp").write_text('#include "b.h"\n', encoding="utf-8")
    (tmp_path / "b.h").write_text("", encoding="utf-8")
    tree = Tree({tmp_path: "src"})
    tree.add(["a.h"])
    assert sorted(tree.found) == ["src/a.cpp", "src/a.h", "src/b.h"]


def test_two_models_of_one_name_and_other_cores_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="two models called sine; set program_name of one"):
        pack("demo", "host", "make", [MODEL, MODEL], _tree(tmp_path), {})
    with pytest.raises(UserError, match="package name 'my net' is no C identifier"):
        pack("my net", "host", "make", [MODEL], _tree(tmp_path), {})


def test_the_zip_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    roots = _tree(tmp_path / "tree")
    (tmp_path / "headers").mkdir()
    for run in ("first", "second"):
        arguments = ["--name", "demo", "--core", "host", "--layout", "make"]
        arguments += ["--model", str(MODEL.program), "forward", "sine", str(MODEL.manifest), str(MODEL.golden)]
        arguments += ["--sources", str(next(iter(roots))), "--executorch", str(tmp_path / "headers")]
        arguments += ["--output", str(tmp_path / run), "--zip", str(tmp_path / f"{run}.zip")]
        assert main(arguments) == 0
    assert (tmp_path / "first.zip").read_bytes() == (tmp_path / "second.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "first.zip").namelist()
    assert "demo/Makefile" in names
    assert "demo/demo.mk" in names


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_build_files_name_all_sources(layout: str) -> None:
    files = LAYOUTS[layout](Package("demo", "host", ("net",), ("src/a.cpp", "src/b.c")))
    assert any("src/a.cpp" in text and "src/b.c" in text for text in files.values())
