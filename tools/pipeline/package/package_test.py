"""Tests the contents of packages and refused ones; //tests/compiled compiles one."""

import configparser
import hashlib
import json
import os
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tools.artifacts.core.cores import CORES
from tools.artifacts.manifest.manifest import read_manifest
from tools.pipeline.package.arduino_layout import FPUS
from tools.pipeline.package.fingerprint import fingerprint, version_files
from tools.pipeline.package.folder import folder_of
from tools.pipeline.package.includes import Tree
from tools.pipeline.package.layout import Package
from tools.pipeline.package.layouts import LAYOUTS
from tools.pipeline.package.package import Model, Operators, Publication, Sources, main, pack
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
    files = pack("demo", "host", "cmake", [MODEL], Sources(_tree(tmp_path)))
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


def test_packages_of_the_same_sources_have_one_fingerprint(tmp_path: Path) -> None:
    """Wherever the sources are: two repositories have those of this project by other paths."""
    found = []
    for folder, gemm in (("one", ""), ("other", ""), ("newer", "// Packed in another way.")):
        roots = _tree(tmp_path / folder)
        (tmp_path / folder / "kernels/portable/gemm.cpp").write_text(gemm, encoding="utf-8")
        roots[tmp_path / folder / "kernels/portable"] = "src"
        found.append(fingerprint(roots, sorted((tmp_path / folder).rglob("*.*"))))
    assert found[0] == found[1] != found[2]


def test_models_refer_to_the_version_of_what_packages_share(tmp_path: Path) -> None:
    """Two packages of one version share its symbol, and a third of another defines the other one anew."""
    roots = _tree(tmp_path)
    shared = sorted(tmp_path.rglob("*.*"))
    files = pack("demo", "host", "cmake", [MODEL], Sources(roots, shared=shared))
    version = fingerprint(roots, shared)
    assert '#include "runtime/compiled/package_version.h"\n' in files["src/models/sine.cpp"]
    assert f"&torch_fusion_version_{version};" in files["src/runtime/compiled/package_version.h"]
    assert "src/runtime/compiled/package_version.cpp" in files["CMakeLists.txt"]
    assert f"INTERFACE_TORCH_FUSION_VERSION_OF_PACKAGES {version}\n" in files["CMakeLists.txt"]
    (common, own), (other_common, other_own) = (
        re.findall(r"(\w+) = 0;", "".join(version_files(number).values())) for number in ("1", "2")
    )
    assert common == other_common
    assert own != other_own


def test_make_builds_anew_what_another_zip_has(tmp_path: Path) -> None:
    """The files of both are from 1980, and so older than the outputs of the first one."""
    roots = _tree(tmp_path)
    libraries = []
    for text in ("", "// Mended.", ""):
        (tmp_path / "kernels/portable/gemm.cpp").write_text(text, encoding="utf-8")
        files = pack("demo", "host", "make", [MODEL], Sources(roots))
        output = re.search(r"^DEMO_OUTPUT := (.*)", files["demo.mk"], re.MULTILINE)
        assert output is not None
        libraries.append(output[1])
    assert libraries[0] == libraries[2] != libraries[1]


def test_sources_come_with_what_they_include_once(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "a.h"\n#include <missing.h>\n', encoding="utf-8")
    (tmp_path / "a.cpp").write_text('#include "b.h"\n', encoding="utf-8")
    (tmp_path / "b.h").write_text("", encoding="utf-8")
    tree = Tree({tmp_path: "src"})
    tree.add(["a.h"])
    assert sorted(tree.found) == ["src/a.cpp", "src/a.h", "src/b.h"]


def _operator(folder: Path) -> dict[str, Path]:
    """Files of an operator, one of which is in a folder called as this project's."""
    texts = {
        "ops/sine.h": "#include <executorch/tensor.h>\n",
        "ops/sine.cc": '#include "sine.h"\n#include "../kernels/mine.h"\n#include "kernels/mine.h"\n',
        "kernels/mine.h": '#  include "kernels/boxed.h"\n',
        "kernels/mine.c": "#include <kernels/mine.h>\n",
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return {path: folder / path for path in texts}


def test_operators_of_users_are_in_a_folder_of_their_own(tmp_path: Path) -> None:
    """Includes find them there, even if other files have the same names."""
    files = _operator(tmp_path / "user")
    roots = _tree(tmp_path / "tree")
    (tmp_path / "tree/executorch").mkdir()
    (tmp_path / "tree/executorch/tensor.h").touch()
    tree = Tree(roots, files)
    tree.add(["ops/sine.h", *files])
    assert {
        "src/operators/ops/sine.h",
        "src/operators/ops/sine.cpp",
        "src/operators/kernels/mine.h",
        "src/operators/kernels/mine.c",
        "src/kernels/boxed.cpp",
        "src/executorch/tensor.h",
    } == tree.found.keys() - {"src/kernels/boxed.h"}
    beside, parent, repository = tree.text("src/operators/ops/sine.cpp").splitlines()
    assert (beside, parent) == ('#include "sine.h"', '#include "../kernels/mine.h"')
    assert repository == '#include "operators/kernels/mine.h"'
    assert tree.text("src/operators/kernels/mine.h") == '#  include "kernels/boxed.h"\n'
    assert tree.text("src/operators/kernels/mine.c") == '#include "operators/kernels/mine.h"\n'
    generated = '#include "sine.h"\n#include "ops/sine.h"\n'
    assert tree.with_operators(generated) == '#include "sine.h"\n#include "operators/ops/sine.h"\n'


def test_sources_of_operators_are_in_packages_and_their_build_files(tmp_path: Path) -> None:
    operators = Operators(files=_operator(tmp_path / "user"))
    files = pack("demo", "host", "make", [MODEL], Sources(_tree(tmp_path)), operators)
    for source in ("src/operators/ops/sine.cpp", "src/operators/kernels/mine.c"):
        assert f"$(DEMO_DIR){source}" in files["demo.mk"]
    assert files["src/operators/ops/sine.cpp"].startswith('#include "torch_fusion_settings.h"\n')


def test_the_list_of_components_names_what_a_package_consists_of(tmp_path: Path) -> None:
    operators = Operators(files=_operator(tmp_path / "user"))
    given = (MODEL, "1.4.1"), (MODEL, "1.4.1"), (MODEL, "1.5.1")
    texts = [
        pack("demo", "host", "make", [model], Sources(_tree(tmp_path), executorch=version), operators)["demo.spdx.json"]
        for model, version in given
    ]
    assert texts[0] == texts[1] != texts[2]
    whole, *parts = json.loads(texts[0])["packages"]
    exporters = read_manifest(MODEL.manifest).versions
    parts, tools = parts[: -len(exporters)], parts[-len(exporters) :]
    assert {tool["name"]: tool["versionInfo"] for tool in tools} == exporters
    assert (whole["name"], whole["versionInfo"]) == ("demo", "1.0.0")
    assert {part["name"]: part["licenseConcluded"] for part in parts} == {
        "executorch": "BSD-3-Clause",
        "torch_fusion": "Apache-2.0",
        "operators": "NOASSERTION",
        "sine.pte": "NOASSERTION",
    }
    assert parts[0]["versionInfo"] == "1.4.1"
    digest = hashlib.sha256(MODEL.program.read_bytes()).hexdigest()
    assert parts[-1]["checksums"] == [{"algorithm": "SHA256", "checksumValue": digest}]


def test_two_files_of_operators_in_one_place_are_refused(tmp_path: Path) -> None:
    (tmp_path / "leak.cc").touch()
    (tmp_path / "leak.cpp").touch()
    tree = Tree({}, {path.name: path for path in tmp_path.iterdir()})
    with pytest.raises(UserError, match="would be src/operators/leak.cpp; give one another name"):
        tree.add(["leak.cc", "leak.cpp"])


def test_two_models_of_one_name_and_other_cores_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="two models called sine; set program_name of one"):
        pack("demo", "host", "make", [MODEL, MODEL], Sources(_tree(tmp_path)))
    with pytest.raises(UserError, match="package memory 'my dtcm' is no C identifier; use letters"):
        pack("net", "host", "cmake", [MODEL], Sources(_tree(tmp_path)), memories={"my dtcm": 64, "ram": 4096})
    with pytest.raises(UserError, match="package name 'my net' is no C identifier"):
        pack("my net", "host", "make", [MODEL], Sources(_tree(tmp_path)))


@pytest.mark.parametrize("layout", ["cmake", "mbed", "zephyr"])
def test_a_target_of_cmake_is_no_name_of_a_package(layout: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="package name 'test': CMake's target test is another; rename"):
        pack("test", "host", layout, [MODEL], Sources(_tree(tmp_path)))


def test_the_zip_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    roots = _tree(tmp_path / "tree")
    (tmp_path / "headers").mkdir()
    version = tmp_path / "version.txt"
    version.write_text("1.4.1\n", encoding="utf-8")
    for run in ("first", "second"):
        arguments = ["sources", "--name", "demo", "--core", "host", "--layout", "make"]
        arguments += ["--model", str(MODEL.program), "forward", "sine", str(MODEL.manifest), str(MODEL.golden)]
        arguments += [MODEL.memory]
        arguments += ["--sources", str(next(iter(roots))), "--executorch", str(tmp_path / "headers")]
        arguments += ["--executorch-version", str(version)]
        assert main([*arguments, "--output", str(tmp_path / run / "sources")]) == 0
        arguments = ["folder", "--name", "demo", "--layout", "make", "--sources", str(tmp_path / run / "sources")]
        arguments += ["--output", str(tmp_path / run / "demo"), "--zip", str(tmp_path / f"{run}.zip")]
        assert main(arguments) == 0
    assert (tmp_path / "first.zip").read_bytes() == (tmp_path / "second.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "first.zip").namelist()
    assert "demo/Makefile" in names
    assert "demo/demo.mk" in names


DEMO = Package("demo_net", "host", ("net", "gru"), ("src/a.cpp", "src/b.c"), url="https://example.org")


def test_rules_have_the_same_layouts() -> None:
    assert os.environ["LAYOUTS"].split() == sorted(LAYOUTS)


@pytest.mark.parametrize("layout", ["cmake", "make", "mbed", "zephyr"])
def test_build_files_name_all_sources(layout: str) -> None:
    files = LAYOUTS[layout].files(DEMO)
    assert any("src/a.cpp" in text and "src/b.c" in text for text in files.values())


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_an_example_runs_each_self_test(layout: str) -> None:
    texts = LAYOUTS[layout].files(DEMO).values()
    assert any("net_selftest(&net_instance)" in text and "gru_selftest(&gru_instance)" in text for text in texts)
    assert "demo_net" in LAYOUTS[layout].use(DEMO)


@pytest.mark.parametrize("layout", ["cmake", "make", "mbed", "zephyr", "platformio"])
def test_gcc_for_arm_has_nothing_to_remark(layout: str) -> None:
    """It would on each call that passes 64-bit arguments in a struct; no pragma turns that off."""
    assert any("-Wno-psabi" in text for text in LAYOUTS[layout].files(DEMO).values())


def test_an_application_in_c_alone_is_told_to_enable_cpp() -> None:
    """The error must precede project(), which enables it for the package's folder only; archives need no compiler."""
    text, _, _ = LAYOUTS["cmake"].files(DEMO)["CMakeLists.txt"].partition("project(demo ")
    assert "NOT CMAKE_CXX_COMPILER_LOADED" in text
    archives = LAYOUTS["cmake"].files(replace(DEMO, archives=("cortex_m4-hard",)))["CMakeLists.txt"]
    assert "CMAKE_CXX_COMPILER_LOADED" not in archives


@pytest.mark.parametrize("layout", ["cmake", "make", "mbed", "platformio", "zephyr"])
def test_clang_for_arm_keeps_no_register_from_int8_layers(layout: str) -> None:
    """Clang's frame pointer would take one of eight registers, and the loops would not compile."""
    assert any("-fomit-frame-pointer" in text for text in LAYOUTS[layout].files(DEMO).values())


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_an_example_compiles_whatever_its_models_are_called(layout: str) -> None:
    """A model may have the name of the example's own functions and variables, or of a function of the C library."""
    names = ("exp", "failed", "main", "report", "setup")
    texts = LAYOUTS[layout].files(replace(DEMO, models=names)).values()
    declared = [name for text in texts for name in re.findall(r"^static \w+_model_t (\w+);", text, re.MULTILINE)]
    assert len(declared) == len(names)
    assert not set(names) & set(declared)


def test_arduino_takes_the_properties() -> None:
    """https://docs.arduino.cc/arduino-cli/library-specification lists the required properties and permitted values."""
    files = LAYOUTS["arduino"].files(DEMO)
    properties = dict(line.split("=", 1) for line in files["library.properties"].splitlines())
    required = ["name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"]
    assert all(properties[key] for key in required)
    assert properties["category"] in ("Data Processing", "Sensors", "Other")
    assert properties["dot_a_linkage"] in ("true", "false")
    assert properties["includes"] == "net.h,gru.h"
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9 _.-]{0,62}", properties["name"])
    # A sketch has its folder's name; all that is compiled, and headers, are below src/.
    assert "examples/selftest/selftest.ino" in files
    assert LAYOUTS["arduino"].headers == "src"
    with pytest.raises(UserError, match="'arduino_net': Arduino's libraries begin with a letter, and not with 'Ard"):
        pack("arduino_net", "host", "arduino", [], Sources(), publication=Publication(url="https://example.org"))
    with pytest.raises(UserError, match="package demo: Arduino's libraries say where they are described; set url"):
        pack("demo", "host", "arduino", [], Sources())


def test_platformio_takes_the_manifest() -> None:
    """https://docs.platformio.org/en/latest/manifests/library-json: fields, their types and lengths."""
    files = LAYOUTS["platformio"].files(DEMO)
    manifest = json.loads(files["library.json"])
    texts = {"name": 50, "version": 20, "description": 255, "homepage": 255, "license": 255}
    assert all(0 < len(manifest[key]) <= length for key, length in texts.items())
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", manifest["name"])
    known = {*texts, "keywords", "authors", "frameworks", "platforms", "headers", "examples", "build"}
    assert manifest.keys() == known
    assert manifest["build"].keys() <= {"flags", "includeDir", "srcDir", "srcFilter", "extraScript", "libArchive"}
    for example in manifest["examples"]:
        assert all(f"{example['base']}/{file}" in files for file in example["files"])
    assert manifest["build"]["extraScript"] in files
    compile(files["cpp17.py"], "cpp17.py", "exec")
    platformio_ini = configparser.ConfigParser()
    platformio_ini.read_string(files["examples/selftest/platformio.ini"])
    assert {"platform", "board", "framework", "lib_deps"} <= set(platformio_ini["env:nano33ble"])


def test_a_description_is_short_enough_however_many_models_there_are() -> None:
    models = tuple(f"a_network_of_number_{number}" for number in range(30))
    description = json.loads(LAYOUTS["platformio"].files(replace(DEMO, models=models))["library.json"])["description"]
    assert "a_network_of_number_0, a_network_of_number_1, " in description
    assert re.search(r", and \d+ more\.$", description)
    assert len(description) <= 255
    assert len(replace(DEMO, models=("n" * 300,)).sentence) <= 255


def test_mbed_takes_the_library() -> None:
    """The schema of mbed_lib.json: a name, and config, macros, target_overrides or requires if there are any."""
    files = LAYOUTS["mbed"].files(DEMO)
    assert _json5(files["mbed_lib.json5"]) == {"name": "demo_net"}
    assert _json5(files["example/mbed_app.json5"]).keys() == {"target_overrides"}
    assert "$<TARGET_NAME_IF_EXISTS:mbed-core-flags>" in files["CMakeLists.txt"]


def test_zephyr_takes_the_module() -> None:
    """docs.zephyrproject.org, Modules: keys of module.yml, and the files that it names."""
    files = LAYOUTS["zephyr"].files(DEMO)
    module = yaml.safe_load(files["zephyr/module.yml"])
    assert module.keys() <= {"name", "build", "tests", "samples", "boards", "blobs"}
    assert module["build"].keys() <= {"cmake", "kconfig", "depends", "settings"}
    assert f"{module['build']['cmake']}/CMakeLists.txt" in files
    assert module["build"]["kconfig"] in files
    assert all(f"{folder}/selftest/sample.yaml" in files for folder in module["samples"])
    sample = yaml.safe_load(files["samples/selftest/sample.yaml"])
    assert sample.keys() == {"sample", "tests"}
    kconfig = files[module["build"]["kconfig"]]
    assert "config TORCH_FUSION_DEMO_NET\n\tbool" in kconfig
    configured = dict(line.split("=") for line in files["samples/selftest/prj.conf"].splitlines())
    needed = re.findall(r"depends on (.*)", kconfig)[0].split(" && ")
    assert all(configured[f"CONFIG_{symbol}"] == "y" for symbol in [*needed, "TORCH_FUSION_DEMO_NET"])
    # A board without an FPU has no such setting, and ends in an error of Kconfig's.
    assert "CONFIG_FPU" not in configured
    assert files["samples/selftest/boards/nucleo_wb55rg.conf"] == "CONFIG_FPU=y\n"


@pytest.mark.parametrize(
    ("package", "depends", "chosen"),
    [
        (
            replace(DEMO, core="cortex-m4"),
            "CPU_CORTEX_M && (CPU_CORTEX_M4 || CPU_CORTEX_M7 || ARMV8_M_DSP) && !ARMV8_1_M_MVEI",
            "CONFIG_CPU_CORTEX_M and (CONFIG_CPU_CORTEX_M4 or CONFIG_CPU_CORTEX_M7 or CONFIG_ARMV8_M_DSP) and not "
            "CONFIG_ARMV8_1_M_MVEI",
        ),
        (
            replace(DEMO, archives=("cortex_m33_nodsp-soft", "cortex_m4-hard")),
            "CPU_CORTEX_M33 || CPU_CORTEX_M4",
            "CONFIG_CPU_CORTEX_M33 or CONFIG_CPU_CORTEX_M4",
        ),
    ],
)
def test_zephyr_takes_a_package_for_its_cores_only(package: Package, depends: str, chosen: str) -> None:
    files = LAYOUTS["zephyr"].files(package)
    assert f"\tdepends on {depends}\n" in files["zephyr/Kconfig"]
    test = yaml.safe_load(files["samples/selftest/sample.yaml"])["tests"]["demo_net.selftest"]
    assert test["filter"] == chosen


@pytest.mark.parametrize(
    ("name", "layout", "problem"),
    [
        ("stream", "mbed", "stream.h would hide a header of Mbed OS where file systems don't tell cases apart"),
        ("Thread", "mbed", "Thread.h would hide a header of Mbed OS"),
        ("gpio", "cmake", "Mbed OS has functions or macros of that name"),
        ("resets", "cmake", "the Pico SDK has functions or macros of that name"),
        ("Servo", "arduino", "Servo.h would hide a header of Arduino"),
        ("mail", "platformio", "mail.h would hide a header of Mbed OS"),
        ("flash", "zephyr", "Zephyr has functions or macros of that name"),
        ("semphr", "make", "semphr.h would hide a header of FreeRTOS"),
    ],
)
def test_a_model_is_not_called_as_what_frameworks_have(name: str, layout: str, problem: str, tmp_path: Path) -> None:
    model = replace(MODEL, name=name)
    with pytest.raises(UserError, match=f'"{layout}": a model can.t be called {name}, as {re.escape(problem)}.*; set'):
        pack("demo", "host", layout, [model], Sources(_tree(tmp_path)))


def _json5(text: str) -> dict[str, object]:
    """Parses JSON with trailing commas, the only part of JSON5 that packages use."""
    loaded = json.loads(re.sub(r",(\s*})", r"\1", text))
    assert isinstance(loaded, dict)
    return loaded


ARCHIVED = replace(DEMO, archives=("cortex_m4-soft", "cortex_m4-softfp"))


@pytest.mark.parametrize("layout", sorted(layout for layout, kind in LAYOUTS.items() if kind.archive))
def test_archives_take_the_place_of_sources(layout: str, tmp_path: Path) -> None:
    kind = LAYOUTS[layout]
    for path, text in {
        **kind.files(ARCHIVED),
        f"{kind.headers}/net.h": "",
        f"{kind.headers}/demo_net_package.h": '#define DEMO_NET_PACKAGE_VERSION "1.0.0"\n',
        "src/torch_fusion_settings.h": "",
        "src/kernels/call.cpp": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert kind.archive is not None
    places = [kind.archive("demo_net", identity) for identity in ARCHIVED.archives]
    archives = {identity: identity.encode() for identity in ARCHIVED.archives}
    measured = {
        "cortex_m0": "net 2300 4 140 -\n",
        "cortex_m4": "net 2100 4 140 96\n",
        "cortex_m7": "net 2100 4 140 88\n",
    }
    files = folder_of(tmp_path, layout, measured, archives, "demo_net")
    assert [files[place] for place in places] == [b"cortex_m4-soft", b"cortex_m4-softfp"]
    assert f"{kind.headers}/net.h" in files
    assert "src/torch_fusion_settings.h" not in files
    assert "src/kernels/call.cpp" not in files
    assert not any(b"src/a.cpp" in data for data in files.values())
    assert b"| cortex m0 | net | 2,304 | 144 |  |\n| cortex m4 | net | 2,104 | 144 | 96 |" in files["SIZES.md"]
    header = files[f"{kind.headers}/demo_net_package.h"].decode()
    # The most of an architecture's cores.
    assert "\n#ifdef __ARM_ARCH_7EM__\n#define NET_STACK_SIZE 96\n#endif\n" in header and "6M" not in header


def test_arduino_has_one_place_for_each_core_and_float_abi(tmp_path: Path) -> None:
    place = LAYOUTS["arduino"].archive
    assert place is not None
    # Numbers are passed in the registers of an FPU, or of MVE.
    assert {core.replace("_", "-") for core in FPUS} == {
        core for core, (kernels, fpu) in CORES.items() if fpu or kernels == "mve"
    }
    assert place("net", "cortex_m55_mve_int-hard") == "src/cortex-m55/auto-hard/libnet.a"
    assert place("net", "cortex_m33_nofp-soft") == "src/cortex-m33/libnet.a"
    with pytest.raises(UserError, match="one place for archives of cortex_m4-soft and cortex_m4_nofp-soft"):
        folder_of(tmp_path, "arduino", {}, {"cortex_m4-soft": b"", "cortex_m4_nofp-soft": b""}, "net")


def test_a_layout_without_archives_names_those_that_have_them() -> None:
    with pytest.raises(UserError, match='layout "platformio" has no archives; .*cmake'):
        pack("demo", "host", "platformio", [], Sources(), archives=["cortex_m4-hard"])


def test_a_version_has_three_numbers() -> None:
    with pytest.raises(UserError, match="version '2' of package demo is not of the form 1.2.3"):
        pack("demo", "host", "make", [MODEL], Sources(), publication=Publication(version="2"))
