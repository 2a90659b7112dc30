"""What is compiled of programs, and what is refused; //tests/compiled runs what comes out."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tools.artifacts.manifest.manifest import manifest_json
from tools.pipeline.compile.call import Call
from tools.pipeline.compile.compile import compile_method, main
from tools.pipeline.compile.names import Names, camel, module_of, snake
from tools.pipeline.compile.source import take_objects
from tools.pipeline.compile.values import data_array, floating, string
from tools.quiet.console import UserError

SINE = {Path(path).suffix: Path(path) for path in os.environ["PROGRAM"].split()}
PROGRAMS = Path(os.environ["PROGRAMS"])


def test_source_has_one_call_per_layer_and_the_parameters_by_name() -> None:
    texts = compile_method(SINE[".pte"], "cortex-m4", "forward", "sine", SINE[".json"])
    source = texts["sine.cpp"]
    run = source[source.index("sine_run(") : source.index("sine_input(")]
    assert re.findall(r"^  (\w+)\(", run, re.MULTILINE).count("linear") == 3
    assert re.findall(r"^  (\w+)\(", run, re.MULTILINE).count("relu") == 2
    assert "// 2 (Linear)" in run
    assert "const float layer_2_weight[256]" in source
    assert "constexpr size_t kInput0Offset = " in source
    # Nothing of what calls of outer functions need.
    for word in ("EValue", "KernelRuntimeContext", "TensorShape", "kernels/call.h", "<new>"):
        assert word not in source
    assert "// 2: float32 [16, 16]\nalignas(16) const float layer_2_weight[256]" in source
    assert re.search(r"constexpr size_t kInput0Offset = \d+; // float32 \[1, 1\], 4 bytes\n", source)
    assert max(map(len, source.splitlines())) <= 120
    assert "#define SINE_INPUT_0_SIZE 4" in texts["sine.h"]
    assert "using Input0 = float;" in texts["sine.hpp"]


def test_two_models_share_no_name() -> None:
    names = []
    for name in ("first", "second"):
        texts = compile_method(SINE[".pte"], "host", "forward", name, SINE[".json"])
        functions = re.findall(r"^(?:torch_fusion_status|size_t|(?:const )?void\*) (\w+)\(", texts[f"{name}.cpp"], re.M)
        assert f"{name}_run" in functions
        names.append(set(functions))
        assert f"namespace {name}_model {{" in texts[f"{name}.cpp"]
    assert not names[0] & names[1]


def test_the_same_program_gives_the_same_bytes() -> None:
    first, second = (compile_method(SINE[".pte"], "host", "forward", "sine", SINE[".json"]) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--name": "7"}, "name '7' is no C identifier"),
        ({"--method": "backward"}, None),
        ({"--manifest": "missing.json"}, "missing.json"),
        ({"--program": "missing.pte"}, "missing.pte"),
    ],
)
def test_refusals_name_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str], message: str | None
) -> None:
    options = {
        "--program": str(SINE[".pte"]),
        "--core": "cortex-m4",
        "--name": "sine",
        "--manifest": str(SINE[".json"]),
        "--output": str(tmp_path),
    } | changes
    status = main([word for pair in options.items() for word in pair])
    if message is None:
        # A program of one method needs no name.
        assert status == 0
        return
    assert status != 0
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def _manifest(folder: Path, **changes: object) -> Path:
    content = {
        "name": "program",
        "core": "portable",
        "operators": [],
        "instructions": [],
        "inputs": [{}],
        "outputs": [{}],
        "keeps_state": False,
    }
    path = folder / "manifest.json"
    path.write_text(manifest_json(content | changes), encoding="utf-8")
    return path


def test_another_cores_program_is_refused(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path, core="cortex-m55")
    with pytest.raises(UserError, match="lowered for cortex-m55, the image is for cortex-m4"):
        compile_method(SINE[".pte"], "cortex-m4", "forward", "sine", manifest)


def test_a_core_of_another_layout_ends_the_compilation(tmp_path: Path) -> None:
    """As when a package's sources are compiled for another core than they are for."""
    source = compile_method(SINE[".pte"], "cortex-m4", "forward", "sine", SINE[".json"])["sine.cpp"]
    assert "#error" not in source
    for core, condition in (
        ("cortex-m4", "#if defined(__ARM_FEATURE_MVE)\n"),
        ("cortex-m55", "#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)\n"),
    ):
        lowered = tmp_path / core
        lowered.mkdir()
        text = SINE[".json"].read_text(encoding="utf-8").replace('"portable"', f'"{core}"')
        (lowered / "manifest.json").write_text(text, encoding="utf-8")
        source = compile_method(SINE[".pte"], core, "forward", "sine", lowered / "manifest.json")["sine.cpp"]
        assert f'{condition}#error "sine is lowered for cores with' in source


def test_an_operator_without_a_kernel_is_named(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path)
    with pytest.raises(UserError, match="no kernel for operator"):
        compile_method(PROGRAMS / "missing_operator.pte", "host", "forward", "program", manifest)


def test_inputs_and_outputs_without_planned_memory_get_some(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path, inputs=[{}, {}])
    texts = compile_method(PROGRAMS / "add_unplanned.pte", "cortex-m4", "forward", "program", manifest)
    # Two inputs and an output of six floats, each at a multiple of 16.
    assert "#define PROGRAM_ARENA_SIZE 88\n" in texts["program.h"]
    for name, offset in (("Input0", 0), ("Input1", 32), ("Output0", 64)):
        assert f"constexpr size_t k{name}Offset = {offset};" in texts["program.cpp"]


def test_names_are_identifiers_and_unique() -> None:
    assert module_of("features.0.conv (Conv2d) at net.py:3") == "features.0.conv"
    assert module_of("net.py:3") == ""
    assert (snake("0"), camel("features.0.conv")) == ("layer_0", "Features0Conv")
    names = Names()
    assert [names.unique("weight") for _ in range(3)] == ["weight", "weight_2", "weight_3"]


def test_layers_with_other_parameters_have_constants_of_their_own() -> None:
    """As two sums that are written to one tensor, each with its own scales."""
    objects: dict[str, str] = {}
    calls = [
        take_objects(Call("", "add", ["kAdd", "out"], (), {"kAdd": f"constexpr int kAdd = {value};"}), objects)
        for value in (1, 2, 1, 3, 2)
    ]
    assert [call.arguments[0] for call in calls] == ["kAdd", "kAdd_2", "kAdd", "kAdd_3", "kAdd_2"]
    assert list(objects.values()) == [f"constexpr int {name} = {i};" for i, name in enumerate(objects, 1)]


def test_numbers_keep_their_bits() -> None:
    assert floating(0.1, False) == "0.1"
    assert floating(float("inf"), True) == "__builtin_inff()"
    assert floating(-0.0, True) == "-0.0f"
    assert floating(3.0, True) == "3.0f"
    assert data_array("x", "CHAR", bytes([255, 128]))[1].split() == ["-1,", "-128,"]
    assert data_array("x", "INT", (-(2**31)).to_bytes(4, "little", signed=True))[1].strip() == "INT32_MIN,"
    assert string('a"b\n') == '"a\\042b\\012"'
