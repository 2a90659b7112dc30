"""Tests the generated code and refused programs; //tests/compiled runs the code."""

import hashlib
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tools.artifacts.manifest.manifest import Border, Manifest, manifest_json
from tools.artifacts.program.program import load
from tools.pipeline.compile.call import Call
from tools.pipeline.compile.chain import LAYERS, MEMORY, STREAMED, Fusion
from tools.pipeline.compile.compile import compile_method, main
from tools.pipeline.compile.header import _conversions, quantization
from tools.pipeline.compile.inner import inner_call
from tools.pipeline.compile.names import Names, camel, module_of, parameter_name, snake
from tools.pipeline.compile.program import Method, Shape
from tools.pipeline.compile.run import take_objects
from tools.pipeline.compile.stream import check_streamed
from tools.pipeline.compile.text import comment
from tools.pipeline.compile.values import data_array, floating, string
from tools.pipeline.registry.catalog import read_catalog
from tools.pipeline.registry.signature import argument_names
from tools.quiet.console import UserError

SINE = {Path(path).suffix: Path(path) for path in os.environ["PROGRAM"].split()}
PROGRAMS = Path(os.environ["PROGRAMS"])
NAMED = {Path(path).name: Path(path) for path in os.environ["NAMED_PROGRAMS"].split()}


def test_source_has_one_call_per_layer_and_the_parameters_by_name() -> None:
    texts = compile_method(SINE[".pte"], "cortex-m4", "forward", "sine", SINE[".json"])
    source = texts["sine.cpp"]
    run = source[source.index("sine_run(") : source.index("sine_input(")]
    assert re.findall(r"^  (\w+)\(", run, re.MULTILINE).count("linear") == 3
    assert re.findall(r"^  (\w+)\(", run, re.MULTILINE).count("relu") == 2
    assert "// 2 (Linear)" in run
    assert "TORCH_FUSION_WEIGHTS const float layer_2_weight[256]" in source
    assert "constexpr size_t kInput0Offset = " in source
    # The code has nothing that only calls of outer functions need.
    for word in ("EValue", "KernelRuntimeContext", "TensorShape", "kernels/call.h", "<new>"):
        assert word not in source
    assert "// 2.weight: float32 [16, 16]\nalignas(16) TORCH_FUSION_WEIGHTS const float layer_2_weight[256]" in source
    assert re.search(r"constexpr size_t kInput0Offset = \d+; // float32 \[1, 1\], 4 bytes\n", source)
    assert max(map(len, source.splitlines())) <= 120
    assert "#define SINE_INPUT_0_SIZE 4" in texts["sine.h"]
    digest = hashlib.sha256(SINE[".pte"].read_bytes()).hexdigest()
    assert re.findall(r'^#define SINE_HASH "(.*)"', texts["sine.h"], re.MULTILINE) == [digest[:16]]
    assert "using Input0 = float;" in texts["sine.hpp"]


def test_each_function_is_compared_with_the_headers() -> None:
    """A definition in a namespace is of the C function without being of the header's type."""
    texts = compile_method(NAMED["dynamic.pte"], "host", "forward", "dynamic", NAMED["dynamic.manifest.json"])
    declared = re.findall(r"^\S.*?\b(dynamic_\w+)\(", texts["dynamic.h"], re.MULTILINE)
    assert "dynamic_resize_input" in declared
    assert sorted(re.findall(r"^decltype\(::(\w+)\) \1;$", texts["dynamic.cpp"], re.MULTILINE)) == sorted(declared)


def _named(name: str) -> str:
    """The source of a program."""
    return compile_method(NAMED[f"{name}.pte"], "host", "forward", name, NAMED[f"{name}.manifest.json"])[f"{name}.cpp"]


def test_a_recurrent_layers_weights_and_results_have_their_names() -> None:
    source = _named("gru")
    for parameter in ("weight_ih_l0", "weight_hh_l0", "bias_l0"):
        assert f"\n// layer.{parameter}: float32 [" in source
        assert f"const float layer_{parameter}[" in source
    # The result is the sequence, not the kernel's scratch memory.
    assert re.search(r"// layer \(GRU\) at \S+:\d+: \[32, 1, 16\] to \[32, 1, 32\]\n", source)
    assert re.search(r"tensor_at\(model, kOutput0Offset, \w+\),\s+tensor_at\(model, kLayerHiddenOffset, ", source)
    assert "kLayerGatesOffset" in source


def test_layers_of_dynamic_shape_have_the_modules_names() -> None:
    source = _named("dynamic")
    assert re.search(r"// conv \(Conv1d\) at \S+: \[1, 3, 16\] to \[1, 4, 16\]\n", source)
    assert 'TORCH_FUSION_LAYER(model, 0, "conv");' in source
    assert "const float conv_weight[" in source
    # A call outside of modules is named by its operator.
    assert re.search(r"// aten::relu.out at \S+dynamic.py:\d+: \[1, 4, 16\] to \[1, 4, 16\]\n", source)
    # Tensors, too: none is called by its number.
    assert re.search(r"\*tensors\[kInput0Tensor\],\s+kConvWeight, kConvBias", source)
    assert not re.search(r"\*tensors\[\d", source)
    assert max(map(len, source.splitlines())) <= 120


def test_layers_pass_each_other_rows_where_that_makes_the_memory_smaller() -> None:
    texts = [
        compile_method(NAMED["resnet8_int8.pte"], "cortex-m4", "forward", "net", manifest, memory=memory, room=room)
        for manifest in [NAMED["resnet8_int8.manifest.json"]]
        for memory, room in zip((*MEMORY[:2], LAYERS, LAYERS), (None, None, 40_000, 30_000), strict=True)
    ]
    # Whole tensors take more than the last room.
    assert texts[2:] == texts[:2]
    planned = [sum(json.loads(text["net.plan.json"])["planned"]) for text in texts]
    assert planned[1] < 0.6 * planned[0]
    # Each layer is called once, some of them in a loop.
    calls = [re.findall(r"^ +cortex_m::(\w+)\(", text["net.cpp"], re.MULTILINE) for text in texts]
    assert calls[0] == calls[1]
    assert "for (int32_t band = 0; " not in texts[0]["net.cpp"]
    source = texts[1]["net.cpp"]
    run = source[source.index("for (int32_t band = 0; ") :]
    assert run.index("// entry.0 (Conv2d)") < run.index(".drop(") < run.index("// stages.1.path_a.0 (Conv2d)")
    assert re.search(r"Offset = \d+; // \d rows of int8 \[1, 16, 32, 32\], \d+ bytes\n", source)
    assert max(map(len, source.splitlines())) <= 120


def test_an_arena_is_split_over_several_memories() -> None:
    program, manifest = NAMED["resnet8_int8.pte"], NAMED["resnet8_int8.manifest.json"]

    def split(**rooms: int) -> dict[str, str]:
        return compile_method(program, "cortex-m4", "forward", "net", manifest, rooms=rooms)

    texts = split(dtcm=20_000, ram=24_000)
    plan = json.loads(texts["net.plan.json"])
    assert plan["memories"]["dtcm"] <= 20_000 and plan["planned"][0] <= 24_000 - 3 * 32 * 32
    # An application finds the output in the instance.
    assert plan["outputs"] == [0]
    assert "    case 0:\n      return model->arena + kOutput0Offset;" in texts["net.cpp"]
    assert f"TORCH_FUSION_ARENA_DTCM unsigned char dtcm_arena[{plan['memories']['dtcm']}];" in texts["net.cpp"]
    assert f" * {plan['memories']['dtcm']} bytes of it are apart, where TORCH_FUSION_ARENA_DTCM of" in texts["net.h"]
    # Rows of images where whole tensors don't fit, and a table where these don't, either.
    assert "for (int32_t band = 0; " not in texts["net.cpp"]
    assert "Lines rowsEntry0 = {at<int8_t>(dtcm_arena, kEntry0Offset)" in split(dtcm=8192, ram=16_384)["net.cpp"]
    table = r"memory  bytes   taken\ndtcm    1,024   1,024\nram     5,120  \d+,\d+$"
    with pytest.raises(UserError, match=f"bytes too many for ram.*\n{table}"):
        split(dtcm=1024, ram=8192)


def test_state_is_not_split() -> None:
    program, manifest = NAMED["initial_state.pte"], NAMED["initial_state.manifest.json"]
    with pytest.raises(UserError, match=r"it has state.* give arena_memories ram alone"):
        compile_method(program, "host", "forward", "net", manifest, rooms={"dtcm": 4096, "ram": 4096})


def test_other_programs_stay_as_they_are() -> None:
    """The peak of digits is where nothing can be smaller, and layers before it could be."""
    for name in ("digits_int8", "phyto_cnn", "gru", "dynamic", "initial_state"):
        program, manifest = NAMED[f"{name}.pte"], NAMED[f"{name}.manifest.json"]
        core = "cortex-m4" if name == "digits_int8" else "host"
        texts = [compile_method(program, core, "forward", name, manifest, memory=memory) for memory in MEMORY[:2]]
        assert texts[0] == texts[1]


def test_the_application_hands_over_the_rows_of_an_image() -> None:
    program, manifest = NAMED["resnet8_int8.pte"], NAMED["resnet8_int8.manifest.json"]
    texts = [compile_method(program, "cortex-m4", "forward", "net", manifest, memory=memory) for memory in MEMORY]
    smallest, streamed = (sum(json.loads(text["net.plan.json"])["planned"]) for text in texts[1:])
    assert streamed <= smallest
    source = texts[2]["net.cpp"]
    assert source.count("model->next_row(model->camera, static_cast<size_t>(row), rowsInput0.row(row));") == 1
    # A profile has the same layers.
    layers = [re.findall(r"TORCH_FUSION_LAYER\(.*", text["net.cpp"]) for text in texts]
    assert layers[0] == layers[2]
    assert "#define NET_ROW_SIZE 96\n" in texts[2]["net.h"] and "input0()" not in texts[2]["net.hpp"]
    assert max(map(len, source.splitlines())) <= 120


def test_programs_whose_rows_cannot_be_handed_over() -> None:
    for name, found in {"digits_int8": "FLOAT [1, 1, 8, 8]", "dynamic": "FLOAT [1, 3, 16]"}.items():
        core = "cortex-m4" if name == "digits_int8" else "host"
        program, manifest = NAMED[f"{name}.pte"], NAMED[f"{name}.manifest.json"]
        with pytest.raises(UserError, match=re.escape(f'width], and not for {found}; set io = "int8", or use memory')):
            compile_method(program, core, "forward", "net", manifest, memory=STREAMED)
    with pytest.raises(UserError, match='needs a convolution, .* that reads the image.* use memory = "smallest"'):
        check_streamed(load(SINE[".pte"]), Fusion())


def test_an_input_of_dynamic_shape_has_its_bounds() -> None:
    source = _named("dynamic")
    assert "constexpr int32_t kInput0Smallest[] = {1, 3, 2};" in source
    assert "constexpr int32_t kInput0Largest[] = {1, 3, 16};" in source
    header = compile_method(NAMED["dynamic.pte"], "host", "forward", "net", NAMED["dynamic.manifest.json"])["net.h"]
    assert "/* Input 0, x: float [1, 3, 2 to 16]; 4 bytes each. */" in header


def test_state_has_the_buffers_name() -> None:
    source = _named("initial_state")
    for name in json.loads(NAMED["initial_state.manifest.json"].read_text(encoding="utf-8"))["tensors"]:
        if not name["constant"] and "parameter" in name:
            assert f"kModel{camel(name['parameter'])}Offset" in source
            break
    else:
        pytest.fail("the manifest names no state")


def test_arguments_of_outer_functions_have_the_names_that_headers_give_them() -> None:
    catalog = read_catalog()
    assert argument_names(catalog["aten::embedding.out"]) == (
        *("weight", "indices", "padding_idx", "scale_grad_by_freq", "sparse", "out"),
    )
    assert "rhs_zero_point" in argument_names(catalog["cortex_m::quantized_batch_matmul.out"])
    # A kernel that is an instance of a template has the template's.
    assert argument_names(catalog["torch_fusion::convolution.out"])[2] == "geometry"
    assert argument_names(catalog["quantized_decomposed::embedding_4bit.out"])[3:] == (
        *("weight_quant_min", "weight_quant_max", "indices", "out"),
    )
    assert argument_names(catalog["quantized_decomposed::embedding_4bit.dtype_out"])[5:] == ("indices", "dtype", "out")
    # A macro defines the functions that it is given.
    assert argument_names(catalog["aten::pow.Tensor_Tensor_out"]) == ("self", "other", "out")
    found = [argument_names(kernel) for kernel in catalog.values() if not kernel.is_boxed]
    assert all(found)
    assert all(name.isidentifier() for names in found for name in names)


def test_each_layers_result_has_its_own_name_wherever_it_lies() -> None:
    """Layers after one another use the same memory, which is one tensor to the program."""
    source = _named("phyto_cnn")
    run = source[source.index("_run(") : source.index("_input(")]
    # Every layer reads what an earlier one has written.
    reads = re.findall(r"at<const float>\(model, (\w+)Offset\)", run)
    writes = re.findall(r"at<float>\(model, (\w+)Offset\)", run)
    assert len(set(writes)) == len(writes) > 3
    assert reads[0] == "kInput0"
    assert all(name in (*writes, "kCat") for name in reads[1:])
    # Two of them have the same address.
    places = dict(re.findall(r"constexpr size_t (\w+)Offset = (\d+);", source))
    assert len({places[name] for name in writes}) < len(writes)


def test_names_of_the_users_are_no_names_of_ours() -> None:
    """A parameter of the outermost module may be called as a function is, and a name may hold anything."""
    assert parameter_name("linear") == "model_linear"
    assert parameter_name("a.b c\n.weight") == "a_b_c_weight"
    assert comment("a\\") == ["  // a/"]


def test_a_shape_is_on_one_line() -> None:
    assert comment("a" * 100 + ": [1, 2, 3] to [4]") == ["  // " + "a" * 100 + ":", "  // [1, 2, 3] to [4]"]


def test_another_programs_manifest_is_refused(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path, tensors=[{"parameter": "weight"}])
    with pytest.raises(UserError, match="tensors, and its manifest 1: it is another program's"):
        compile_method(SINE[".pte"], "host", "forward", "sine", manifest)


def test_two_models_share_no_name() -> None:
    names = []
    for name in ("first", "second"):
        texts = compile_method(SINE[".pte"], "host", "forward", name, SINE[".json"])
        functions = re.findall(r"^(?:torch_fusion_status|size_t|(?:const )?void\*) (\w+)\(", texts[f"{name}.cpp"], re.M)
        assert f"{name}_run" in functions
        names.append(set(functions))
        assert f"namespace {name}_model {{" in texts[f"{name}.cpp"]
    assert not names[0] & names[1]


@pytest.mark.parametrize("name", ["abs", "exp", "expf", "index", "read", "tm"])
def test_a_namespace_is_no_function_of_the_c_library(name: str) -> None:
    """The C library's function may be declared already where NAME.hpp is included."""
    texts = compile_method(SINE[".pte"], "host", "forward", name, SINE[".json"])
    assert f"\nnamespace {name}_model {{" in texts[f"{name}.hpp"]
    assert f"{name}_run(" in texts[f"{name}.h"]


def test_a_namespace_is_called_as_the_model_else() -> None:
    assert "\nnamespace sine {" in compile_method(SINE[".pte"], "host", "forward", "sine", SINE[".json"])["sine.hpp"]


def test_the_same_program_gives_the_same_bytes() -> None:
    first, second = (compile_method(SINE[".pte"], "host", "forward", "sine", SINE[".json"]) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--name": "7"}, "name '7' is no C identifier"),
        ({"--name": "string"}, "name 'string' is that of the header string.h"),
        ({"--name": "Math"}, "name 'Math' is that of the header math.h"),
        ({"--name": "torch_fusion"}, "name 'torch_fusion' is that of the header torch_fusion.h"),
        ({"--name": "linux"}, "name 'linux' is a macro of the C library or the compiler; set program_name"),
        ({"--name": "new"}, "name 'new' is a word of C++; set program_name"),
        ({"--method": "backward"}, None),
        ({"--manifest": "missing.json"}, "missing.json"),
        ({"--program": "missing.pte"}, "missing.pte"),
    ],
)
def test_refusals_name_what_is_wrong(tmp_path, capsys, changes, message) -> None:
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


@pytest.mark.parametrize("matrices", [(0, 3, 1), (-2, -3, 1), (2, 5, 1), (4, 3, 1)])
def test_matrices_that_a_tensor_does_not_hold_are_left_to_the_checks_of_the_kernel(matrices) -> None:
    class Int(SimpleNamespace):
        int_val: int

    values = [SimpleNamespace(val=Int(int_val=number)) for number in (0, 0, 0, *matrices, 0, 0)]
    shapes = {0: Shape("CHAR", (2, 3), (0, 1)), 6: Shape("CHAR", (3, 2), (0, 1)), 7: Shape("CHAR", (2,), (0,))}
    method = SimpleNamespace(shapes=shapes, value=values.__getitem__, values=(), offsets=range(8), kept=())
    for out in (6, 7):
        assert inner_call(cast(Method, method), "torch_fusion::transposed.out", [*range(6), out]) is None


def test_another_cores_program_is_refused(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path, core="cortex-m55")
    with pytest.raises(UserError, match="lowered for cortex-m55, the image is for cortex-m4"):
        compile_method(SINE[".pte"], "cortex-m4", "forward", "sine", manifest)


def test_a_core_of_another_layout_ends_the_compilation(tmp_path: Path) -> None:
    """A package's sources may be compiled for another core than they are generated for."""
    source = compile_method(SINE[".pte"], "cortex-m4", "forward", "sine", SINE[".json"])["sine.cpp"]
    assert "#error" not in source
    for core, condition in (
        ("cortex-m0", "#if defined(__ARM_FEATURE_MVE) || defined(__ARM_FEATURE_DSP)\n"),
        ("cortex-m4", "#if defined(__ARM_FEATURE_MVE) || (defined(__thumb__) && !defined(__ARM_FEATURE_DSP))\n"),
        ("cortex-m55", "#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)\n"),
    ):
        lowered = tmp_path / core
        lowered.mkdir()
        text = SINE[".json"].read_text(encoding="utf-8").replace('"portable"', f'"{core}"')
        (lowered / "manifest.json").write_text(text, encoding="utf-8")
        source = compile_method(SINE[".pte"], core, "forward", "sine", lowered / "manifest.json")["sine.cpp"]
        message = source.partition(f'{condition}#error "')[2].partition('"\n')[0]
        assert message.startswith("sine is lowered for cores with"), core
        assert message.endswith("; set core of its torch_package to this one")


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


def test_the_header_says_what_integers_stand_for() -> None:
    assert quantization("X", "CHAR", Border("", 0.5, -3))[1:] == ["#define X_SCALE 0.5f", "#define X_ZERO_POINT (-3)"]
    assert quantization("X", "CHAR", Border("", 0.5, 3))[2] == "#define X_ZERO_POINT 3"


def test_the_header_says_a_number_once_and_nothing_of_scales_of_floats(tmp_path: Path) -> None:
    """The program itself quantizes and converts floats."""
    manifest = _manifest(tmp_path, inputs=[{"scale": 0.5, "zero_point": -3}, {"scale": 0.5, "zero_point": 3}])
    header = compile_method(PROGRAMS / "add_unplanned.pte", "cortex-m4", "forward", "program", manifest)["program.h"]
    assert "ZERO_POINT" not in header
    assert "  unsigned char arena[PROGRAM_ARENA_SIZE] " in header
    assert "calls for one must not overlap" in header
    # No NPU computes anything of it.
    assert "TORCH_FUSION_ACCESS_FAILED" not in header


def test_headers_convert_what_is_quantized() -> None:
    borders = {0: ("CHAR", Border("", 0.25, -3)), 1: ("FLOAT", Border("", 0.5, 3)), 2: ("BYTE", Border("", 0.5, 3))}
    method = cast(
        Method,
        SimpleNamespace(
            plan=SimpleNamespace(inputs=[0, 1], outputs=[2]),
            border_shape=lambda index: SimpleNamespace(dtype=borders[index][0]),
        ),
    )
    manifest = cast(Manifest, SimpleNamespace(inputs=[borders[0][1], borders[1][1]], outputs=[borders[2][1]]))
    text = "\n".join(_conversions("net", method, manifest))
    assert re.findall(r"static inline (\S+ \w+)\(", text) == [
        "int8_t net_quantize_input_0",
        "float net_dequantize_output_0",
    ]
    assert "torch_fusion_quantize(number, 4.0f, NET_INPUT_0_ZERO_POINT, -128, 127)" in text
    assert "torch_fusion_dequantize(element, NET_OUTPUT_0_SCALE, NET_OUTPUT_0_ZERO_POINT)" in text


def test_headers_have_the_classes(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path, inputs=[{}, {}], labels=["y\u00e9s", 'n"o'])
    texts = compile_method(PROGRAMS / "add_unplanned.pte", "cortex-m4", "forward", "program", manifest)
    assert "#define PROGRAM_LABEL_COUNT 2\n" in texts["program.h"]
    assert r"""      "y\303\251s",
      "n\042o",
""" in texts["program.h"]
    assert "return program_label(index);" in texts["program.hpp"]


def test_the_first_constant_of_a_kind_says_what_its_numbers_are() -> None:
    source = _named("phyto_cnn")
    assert source.count("constexpr Window k") > 1
    remark = "// A window: {input, kernel, stride, padding, dilation, output} of each dimension.\nconstexpr Window k"
    assert source.count(remark) == source.count("// A window") == 1


def test_names_are_identifiers_and_unique() -> None:
    assert module_of("features.0.conv (Conv2d) at net.py:3") == "features.0.conv"
    assert module_of("net.py:3") == ""
    assert (snake("0"), camel("features.0.conv")) == ("layer_0", "Features0Conv")
    names = Names()
    assert [names.unique("weight") for _ in range(3)] == ["weight", "weight_2", "weight_3"]


def test_layers_with_other_parameters_have_constants_of_their_own() -> None:
    """For example, two sums are written to one tensor, each with its own scales."""
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
    # C literals, because a self-test is in C.
    longs = b"".join(number.to_bytes(8, "little", signed=True) for number in (-(2**63), -1, 2**62))
    assert data_array("x", "LONG", longs)[1].split() == ["INT64_MIN,", "-1,", f"{2**62},"]
    assert string('a"b\n') == '"a\\042b\\012"'
