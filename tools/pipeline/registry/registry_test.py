"""Tests the selection of kernels, and the error for a missing kernel."""

import json
import os
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tools.abi.layouts.layouts import Variant
from tools.artifacts.manifest import manifest as manifests
from tools.artifacts.program import read
from tools.artifacts.program.program_schema import (
    Chain,
    Double,
    EValue,
    ExecutionPlan,
    Instruction,
    Int,
    KernelCall,
    Operator,
    Program,
    String,
    Tensor,
    TensorList,
)
from tools.pipeline.registry import __main__ as command
from tools.pipeline.registry.calls import OperatorUse, operator_uses
from tools.pipeline.registry.catalog import read_catalog
from tools.pipeline.registry.parts import ALL_PARTS, Part, needed_parts
from tools.pipeline.registry.registry import (
    Backend,
    UnsupportedError,
    origins_of,
    registry_source,
    select,
    select_all,
    select_backends,
)

Table = TypeVar("Table")

BYTE, CHAR, INT, LONG, HALF, FLOAT, COMPLEX, BOOL = 0, 1, 3, 4, 5, 6, 9, 11


def tensor(dtype: int = FLOAT, *sizes: int, order: list[int] | None = None, dynamism: int = 0) -> Tensor:
    return Tensor(
        scalar_type=dtype,
        storage_offset=0,
        sizes=list(sizes),
        dim_order=bytes(order or range(len(sizes))),
        requires_grad=False,
        data_buffer_idx=0,
        allocation_info=None,
        layout=0,
        shape_dynamism=dynamism,
        extra_tensor_info=None,
    )


def program_of(
    values: list[Any], operators: list[Operator], calls: list[KernelCall], outputs: tuple[int, ...] = ()
) -> Program:
    plan = empty(ExecutionPlan)
    plan.values = [EValue(value) for value in values]
    plan.operators = operators
    chain = empty(Chain)
    chain.instructions = [Instruction(call) for call in calls]
    plan.chains = [chain]
    plan.outputs = list(outputs)
    program = empty(Program)
    program.execution_plan = [plan]
    return program


def empty(table: type[Table]) -> Table:
    """A table of the schema with none of its fields."""
    return table(**dict.fromkeys((field.name for field in fields(table)), None))


def uses(
    operator: tuple[str, str], values: list[Any], args: list[int], outputs: tuple[int, ...] = ()
) -> list[OperatorUse]:
    return operator_uses(program_of(values, [Operator(*operator)], [KernelCall(0, args)], outputs))


def add(a: Tensor, b: Tensor, out: Tensor, alpha: int = 1) -> list[OperatorUse]:
    return uses(("aten::add", "out"), [a, b, Int(alpha), out], [0, 1, 2, 3, 3], (3,))


def selection(program: list[OperatorUse]) -> tuple[set[str], set[str]]:
    (entry,) = select([program], read_catalog(), {})
    assert entry.dtypes is not None and entry.variants is not None
    return entry.dtypes, {str(variant.name) for variant in type(entry.variants) if variant in entry.variants}


def test_only_the_dtypes_and_variants_in_use_are_selected() -> None:
    x = tensor(FLOAT, 2, 3)
    assert selection(add(x, x, x)) == ({"Float"}, set())
    assert selection(add(x, tensor(FLOAT, 3), x)) == ({"Float"}, {"BROADCAST"})
    assert selection(add(x, tensor(INT, 2, 3), x)) == ({"Float", "Int"}, {"MIXED_DTYPES"})
    assert selection(add(x, x, x, alpha=2)) == ({"Float"}, {"ALPHA"})
    bound = tensor(FLOAT, 2, 3, dynamism=1)
    assert selection(add(bound, bound, bound)) == ({"Float"}, {"DYNAMIC_SHAPE"})
    last = tensor(FLOAT, 1, 2, 3, 4, order=[0, 2, 3, 1])
    assert selection(add(last, last, last)) == ({"Float"}, {"DIM_ORDER"})
    # With one channel, both orders are the same.
    grey = tensor(FLOAT, 1, 1, 3, 4, order=[0, 2, 3, 1])
    assert selection(add(grey, grey, grey)) == ({"Float"}, set())


def test_halves_are_computed_with_in_float() -> None:
    x = tensor(HALF, 2, 3)
    assert selection(add(x, x, x)) == ({"Half", "Float"}, {"MIXED_DTYPES"})
    # Operators that only move elements need no other dtype.
    copy = uses(("aten::clone", "out"), [x, None, x], [0, 1, 2, 2], (2,))
    assert selection(copy) == ({"Half"}, set())


def test_only_the_modes_in_use_are_selected() -> None:
    x = tensor(FLOAT, 2)
    assert selection(uses(("aten::gelu", "out"), [x, String("tanh"), x], [0, 1, 2, 2], (2,)))[1] == {"SECOND_MODE"}
    division = uses(("aten::div", "out_mode"), [x, x, String("trunc"), x], [0, 1, 2, 3, 3], (3,))
    assert selection(division)[1] == {"THIRD_MODE"}
    assert selection(uses(("aten::div", "out_mode"), [x, x, None, x], [0, 1, 2, 3, 3], (3,)))[1] == {"FIRST_MODE"}


def test_masks_are_selected_where_an_index_is_one() -> None:
    x = tensor(FLOAT, 3)

    def index(kind: int) -> set[str]:
        values = [x, TensorList([2]), tensor(kind, 3), x]
        return selection(uses(("aten::index", "Tensor_out"), values, [0, 1, 3, 3], (3,)))[1]

    assert index(INT) == set()
    assert index(BOOL) == {"MASKS"}


def test_a_comparison_is_selected_with_the_dtype_it_computes_in() -> None:
    def less(x: Tensor, scalar: Any) -> tuple[set[str], set[str]]:
        program = uses(("aten::lt", "Scalar_out"), [x, scalar, tensor(BOOL, 2)], [0, 1, 2, 2], (2,))
        return selection(program)

    # The result is bool in any case and selects no code for bools.
    assert less(tensor(FLOAT, 2), Double(0.5)) == ({"Float"}, set())
    assert less(tensor(FLOAT, 2), Int(1)) == ({"Float"}, set())
    assert less(tensor(INT, 2), Int(1)) == ({"Int"}, set())
    assert less(tensor(INT, 2), Double(0.5)) == ({"Float", "Int"}, {"MIXED_DTYPES"})
    assert less(tensor(BOOL, 2), Int(1)) == ({"Bool", "Long"}, {"MIXED_DTYPES"})
    bytes_, chars = tensor(BYTE, 2), tensor(CHAR, 2)
    program = uses(("aten::lt", "Tensor_out"), [bytes_, chars, tensor(BOOL, 2)], [0, 1, 2, 2], (2,))
    assert selection(program) == ({"Byte", "Char", "Short"}, {"MIXED_DTYPES"})


@pytest.mark.parametrize("to_floating", [False, True])
def test_floating_point_symbols_take_code_only_where_there_are_some(to_floating: bool) -> None:
    # The exporter writes integers for all symbols, whatever they are going to be.
    operators = [Operator("executorch_prim::sym_float" if to_floating else "executorch_prim::neg", "Scalar")]
    operators += [Operator("executorch_prim::add", "Scalar"), Operator("executorch_prim::mul", "Scalar")]
    calls = [KernelCall(0, [0, 1]), KernelCall(1, [1, 2, 3]), KernelCall(2, [0, 2, 4])]
    program = program_of([Int(1) for _ in range(5)], operators, calls)
    converted, added, multiplied = select([operator_uses(program)], read_catalog(), {})
    expected = Variant.FLOATING_SYMBOLS if to_floating else Variant(0)
    assert (added.variants, multiplied.variants) == (expected, Variant(0))
    assert f"sym_add<torch::executor::native::Selection<0x0, {int(expected):#x}>>" in registry_source([added], Part(0))


@pytest.mark.parametrize("is_read", [False, True])
def test_an_output_that_nothing_reads_takes_no_code(is_read: bool) -> None:
    image, pooled, indices = tensor(FLOAT, 1, 4, 4), tensor(FLOAT, 1, 2, 2), tensor(LONG, 1, 2, 2)
    values = [image, Int(2), pooled, indices, TensorList([2, 3])]
    program = uses(
        ("aten::max_pool2d_with_indices", "out"), values, [0, 1, 1, 1, 1, 1, 2, 3, 4], (2, 3) if is_read else (2,)
    )
    dtypes, variants = selection(program)
    # The indices are int64 in any case and select no int64 pooling.
    assert dtypes == {"Float"}
    assert ("INDICES" in variants) == is_read


def test_what_is_checked_of_arguments_is_in_the_table() -> None:
    image, packed, scratch = tensor(CHAR, 1, 4, 2, 2, order=[0, 2, 3, 1]), tensor(CHAR, 40), tensor(BYTE, 8)
    values = [image, packed, Int(0), scratch, image]
    convolution = uses(("torch_fusion::convolution", "out"), values, [0, 1, 2, 3, 4, 4], (4,))
    source = registry_source(select([convolution], read_catalog(), {}), Part(0))
    # It writes to its scratch memory and its result, and its packed layer has to be a constant.
    assert "packed_convolution_out<torch::executor::native::Selection<0x2, 0x4>>, 0x18>," in source
    assert "{kFunctions[0], 1, Mark::Packed}," in source
    view = uses(("executorch_prim::et_view", "default"), [image, Int(1), image], [0, 1, 2])
    source = registry_source(select([view], read_catalog(), {}), Part(0))
    assert "{kFunctions[0], 2, Mark::Relocated}," in source
    relu = uses(("aten::relu", "out"), [tensor(FLOAT, 2), tensor(FLOAT, 2)], [0, 1, 1], (1,))
    source = registry_source(select([relu], read_catalog(), {}), Part(0))
    assert "    {}," in source and "kCheckedArguments" not in source


def test_several_programs_give_the_union_in_the_first_ones_order() -> None:
    relu = uses(("aten::relu", "out"), [tensor(FLOAT, 2), tensor(FLOAT, 2)], [0, 1, 1], (1,))
    floats, integers = tensor(FLOAT, 2), tensor(INT, 2)
    selected = select([[*relu, *add(floats, floats, floats)], add(integers, integers, integers)], read_catalog(), {})
    assert [entry.kernel.operator for entry in selected] == ["aten::relu.out", "aten::add.out"]
    assert selected[1].dtypes == {"Float", "Int"}
    source = registry_source(selected, Part(0))
    assert source.index('"aten::relu.out"') < source.index('"aten::add.out"')
    assert "add_out<torch::executor::native::Selection<0x48, 0x0>>" in source


def test_a_missing_operator_is_named_with_its_place_and_what_there_is() -> None:
    program = uses(("aten::add", "Complex_out"), [tensor(FLOAT, 2)], [0])
    operator = manifests.Operator("aten::add", "Complex_out", ("layer (Net) at models/net.py:12",))
    manifest = manifests.Manifest("net", "portable", (operator,), (), (), (), False)
    with pytest.raises(UnsupportedError) as error:
        select([program], read_catalog(), origins_of([manifest]))
    message = str(error.value)
    assert "no kernel for operator aten::add.Complex_out (dtypes Float)" in message
    assert "layer (Net) at models/net.py:12" in message
    assert "nearest with a kernel: aten::add.Scalar_out, aten::add.out" in message
    assert "aten::_softmax.out" in message
    assert "next step" in message


def test_a_dtype_without_kernel_is_named() -> None:
    x = tensor(COMPLEX, 2)
    with pytest.raises(UnsupportedError) as error:
        select([add(x, x, x)], read_catalog(), {})
    assert "the kernel of operator aten::add.out does not support dtype ScalarType 9" in str(error.value)
    assert "supported: dtypes Byte, Char, Short, Int, Long, Half, Float, Double, BFloat16, Bool" in str(error.value)


def test_what_a_kernel_refuses_at_run_time_fails_the_build() -> None:
    last = tensor(FLOAT, 1, 2, 3, 4, order=[0, 2, 3, 1])
    program = uses(("aten::tril", "out"), [last, Int(0), last], [0, 1, 2, 2], (2,))
    with pytest.raises(UnsupportedError, match="not contiguous"):
        select([program], read_catalog(), {})


def test_an_operator_of_another_release_is_refused_with_both_argument_lists() -> None:
    (program,) = [path for path in os.environ["PROGRAM"].split() if path.endswith(".pte")]
    use = operator_uses(read(Path(program)))[0]
    (call, *_) = use.calls
    longer = replace(call, **{field.name: (*getattr(call, field.name), None) for field in fields(call)})
    longer = replace(longer, arguments=(*call.arguments, ()))
    with pytest.raises(UnsupportedError) as raised:
        select([[OperatorUse(use.name, [longer])]], read_catalog(), {use.name: ["net.py:3"]})
    count = len(call.arguments)
    assert f"{use.name} has {count + 1} arguments in the program" in str(raised.value)
    assert f"takes {count}: " in str(raised.value) and "net.py:3" in str(raised.value)
    assert "next step: export the model with this project's ExecuTorch" in str(raised.value)


def test_a_kernel_of_a_users_own_is_called_as_it_is(tmp_path: Path) -> None:
    catalog_file = tmp_path / "mine.yaml"
    entry = {"kernels": {"mine::smooth.out": "mine::smooth_out"}, "header": "dsp/smooth.h", "dtypes": ["Float"]}
    catalog_file.write_text(json.dumps([entry | {"variants": ["mixed_dtypes"], "template": False}]))
    catalog = read_catalog(own=[catalog_file])
    x = tensor(FLOAT, 2, 3)
    program = uses(("mine::smooth", "out"), [x, Double(0.5), x], [0, 1, 2, 2], (2,))
    source = registry_source(select([program], catalog, {}), Part(0))
    assert '#include "dsp/smooth.h"' in source
    assert "boxed<&mine::smooth_out, torch::executor::native::internal::kAsTaken>," in source
    image = tensor(LONG, 2, 3)
    with pytest.raises(UnsupportedError, match=r"mine::smooth.out does not support dtype Long"):
        select([uses(("mine::smooth", "out"), [image, Double(0.5), image], [0, 1, 2, 2], (2,))], catalog, {})


def test_all_has_every_kernel() -> None:
    catalog = read_catalog()
    source = registry_source(select_all(catalog), ALL_PARTS)
    assert all(f'"{operator}"' in source for operator in catalog)
    assert "Selection<" not in source


def test_no_operators_give_an_empty_table() -> None:
    assert "kStaticKernels;" in registry_source([], Part(0))


def test_a_real_program(tmp_path: Path) -> None:
    (program,) = [path for path in os.environ["PROGRAM"].split() if path.endswith(".pte")]
    manifest = tmp_path / "manifest.json"
    content = {"name": "sine", "core": "portable", "operators": [], "instructions": [], "inputs": [], "outputs": []}
    content["keeps_state"] = False
    manifest.write_text(manifests.manifest_json(content))
    source = tmp_path / "registry.cpp"
    arguments = ["--program", program, "--manifest", manifest, "--output", source]
    assert command.main([str(argument) for argument in arguments]) == 0
    assert re.findall(r'Kernel\("(.*?)"', source.read_text()) == ["aten::linear.out", "aten::relu.out"]
    assert "linear_out<torch::executor::native::Selection<0x40, 0x0>>" in source.read_text()


def test_backends_are_those_that_programs_have_delegates_of() -> None:
    given = [("Mine", "mine.h", "mine::backend"), ("Other", "other.h", "other::backend")]
    backends = select_backends(["Mine", "Mine"], given)
    assert backends == [Backend("Mine", "mine.h", "mine::backend")]
    source = registry_source([], Part(0), backends)
    assert '#include "mine.h"' in source and '{"Mine", &mine::backend},' in source and "other" not in source
    assert "kStaticBackends;" in registry_source([], Part(0), [])
    # An image with every kernel registers its backends when it runs.
    assert "kStaticBackends" not in registry_source([], Part(0), None)


def test_a_missing_backend_is_named_with_those_that_there_are() -> None:
    with pytest.raises(UnsupportedError, match="no backend Third, which its programs have delegates of.* Mine, Other"):
        select_backends(["Third", "Mine"], [("Other", "", ""), ("Mine", "", "")])


def test_what_is_no_program_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.pte"
    broken.write_bytes(b"no program")
    arguments = ["--program", broken, "--output", tmp_path / "out.cpp"]
    assert command.main([str(argument) for argument in arguments]) == 1
    assert "broken.pte" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "[]", '{"operators": 3}', '{"operators": [{}]}'])
def test_what_is_no_manifest_is_refused_and_nothing_written(tmp_path, capsys, content) -> None:
    (program,) = [path for path in os.environ["PROGRAM"].split() if path.endswith(".pte")]
    manifest, source = (tmp_path / name for name in ("manifest.json", "registry.cpp"))
    manifest.write_text(content)
    arguments = ["--program", program, "--manifest", manifest, "--output", source]
    assert command.main([str(argument) for argument in arguments]) == 1
    assert "manifest.json is no manifest" in capsys.readouterr().err
    assert not source.exists()


def test_the_runtime_keeps_only_the_parts_that_a_program_needs() -> None:
    (path,) = [path for path in os.environ["PROGRAM"].split() if path.endswith(".pte")]
    program = read(Path(path))
    # Weights in a segment, and no list.
    assert needed_parts(program) == Part.FIND_CONSTANT | Part.LOCATE_SEGMENT
    source = registry_source([], needed_parts(program))
    assert "&deserialization::TensorParser::find_constant," in source
    assert "nullptr, // deserialization::TensorParser::parse_list" in source
    assert "nullptr" not in registry_source([], ALL_PARTS)
