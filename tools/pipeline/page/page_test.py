import json
import math
import re
from dataclasses import replace

from tools.artifacts.board.board import Board, Region
from tools.artifacts.graph.graph import Graph, Step, Value
from tools.artifacts.npu_report.npu_report import Delegate, NpuReport, OnCore
from tools.artifacts.profile.profile import Row
from tools.artifacts.quantization_report.quantization_report import Accuracy, Layer, QuantizationReport
from tools.artifacts.size_report.size_report import Memory, SizeReport
from tools.pipeline.page.memory import Span, peak_of, results_of, sources_of, spans_of
from tools.pipeline.page.page import Image, page_data, page_html

_BOARD = Board(
    "desk", "A desk", "cortex-m4", Region("flash", 0, 1024), Region("ram", 2048, 512), (), 64_000_000, stack_size=64
)
_SIZES = SizeReport("x", "x.pte", "desk", "cortex-m4", Memory(90, 1024, {"weights": 40}), Memory(48, 512, {}))

# A convolution with scratch memory, an activation in place, and a linear layer that reads a view of its result.
_GRAPH = Graph(
    name="net",
    core="cortex-m4",
    planned=64,
    inputs=(0,),
    outputs=(5,),
    tensors={
        0: Value("int8", (1, 16), 16, offset=0),
        1: Value("int8", (20,), 20, data=1, stored=24, parameter="conv.weight"),
        2: Value("uint8", (8,), 8, offset=48),
        3: Value("int8", (1, 2, 8), 16, offset=16),
        4: Value("int8", (16,), 16, offset=16),
        5: Value("float32", (1, 2), 8, offset=32),
    },
    steps=(
        Step("torch_fusion::convolution", "conv (Conv2d) at net.py:5", 320, 0, (0, 1), (3,), (2,), "prepare"),
        Step("aten::relu_", "act (ReLU) at net.py:6", 0, 1, (3,), (3,)),
        Step("aten::linear", "fc (Linear)", 32, 2, (4, 1), (5,)),
    ),
)

_LAYER = {"name": "conv", "operator": "Conv2D", "cycles": 40, "macs": 320, "sram_bytes": 64, "sram_cycles": 9}
_NPU = NpuReport(
    "net",
    "ethos-u55-128",
    "Shared_Sram",
    1_000_000,
    (Delegate(90, 50, 40, 64, {"cycles_total": 40}, (_LAYER,)),),
    (OnCore("softmax", "net.py:7", "no form", "floating point"),),
)


def _data(*images: Image) -> dict[str, object]:
    return page_data("title", images)


def test_memory_over_time() -> None:
    assert spans_of(_GRAPH) == [
        Span(0, "input", -1, 0, 0, 16),
        Span(3, "activation", 0, 2, 16, 16),
        Span(2, "scratch", 0, 0, 48, 8),
        Span(5, "output", 2, 3, 32, 8),
    ]
    assert peak_of(_GRAPH).step == 0
    assert peak_of(_GRAPH).nbytes == 40
    assert peak_of(_GRAPH).tensors == (0, 3, 2)
    assert sources_of(_GRAPH) == [[(-1, 0)], [(0, 3)], [(1, 3)]]
    assert results_of(_GRAPH) == [(5, 2)]


def test_memory_of_a_chain() -> None:
    """Layers of a chain run alternately: whole tensors hold their memory all the time, and so do rows that are kept."""
    tensors = {
        0: Value("int8", (16,), 16, offset=0),
        1: Value("int8", (16,), 8, offset=16, kept=4),
        2: Value("int8", (16,), 2, offset=24, kept=0),
        3: Value("int8", (16,), 16, offset=32),
    }
    steps = tuple(Step("torch_fusion::convolution", "", 0, step, (step,), (step + 1,)) for step in range(3))
    graph = Graph("net", "cortex-m4", 48, (0,), (3,), tensors, steps, ((0, 2),))
    assert spans_of(graph) == [
        Span(0, "input", -1, 2, 0, 16),
        Span(1, "activation", 0, 1, 16, 8),
        Span(1, "activation", 0, 2, 16, 4),
        Span(3, "output", 0, 3, 32, 16),
        Span(2, "activation", 1, 2, 24, 2),
    ]
    assert peak_of(graph).nbytes == 42


def test_memory_written_twice_and_kept() -> None:
    tensors = {
        0: Value("int8", (8,), 8, offset=0),
        1: Value("int8", (8,), 8, offset=8),
        2: Value("int8", (4,), 4, offset=16),
    }
    steps = tuple(
        Step("aten::add", "", 0, row, reads, writes)
        for row, (reads, writes) in enumerate([((0, 2), (1,)), ((1,), (0,)), ((0,), (1,))])
    )
    graph = Graph("net", "portable", 24, (0,), (1,), tensors, steps)
    assert spans_of(graph) == [
        Span(0, "input", -1, 0, 0, 8),
        Span(2, "activation", -1, 0, 16, 4),
        Span(1, "activation", 0, 1, 8, 8),
        Span(0, "activation", 1, 2, 0, 8),
        Span(1, "output", 2, 3, 8, 8),
    ]


def test_a_view_may_have_the_name_of_what_was_there_before() -> None:
    tensors = {index: Value("int8", (8,), 8, offset=offset) for index, offset in enumerate((0, 8, 16, 8))}
    calls = (((0,), (1,)), ((1,), (2,)), ((2,), (3,)), ((1,), (0,)))
    steps = tuple(Step("aten::add", "", 0, row, *call) for row, call in enumerate(calls))
    graph = Graph("net", "portable", 24, (0,), (0,), tensors, steps)
    assert sources_of(graph) == [[(-1, 0)], [(0, 1)], [(1, 2)], [(2, 3)]]


def test_steps_have_places_weights_and_ratios() -> None:
    layers = (
        Layer("conv (Conv2d) at net.py:5", "aten::conv2d", "fused"),
        Layer("act (ReLU) at net.py:6", "aten::relu", "int8", snr_db=31.5),
        Layer("fc (Linear)", "aten::linear", "float32", "no int8 form", snr_db=math.inf),
    )
    report = QuantizationReport("net", "cortex-m4", 8, layers, None, ("a note",))
    (program,) = _data(Image(_SIZES, _BOARD, _GRAPH, report))["programs"]  # type: ignore[misc]
    conv, act, linear = program["steps"]
    assert conv["made_by"] == "prepare"
    assert (conv["module"], conv["kind"], conv["line"]) == ("conv", "Conv2d", "net.py:5")
    # A layer that is computed together with the next one has its result, and data that two layers read counts once.
    assert [step["snr"] for step in (conv, act, linear)] == [31.5, 31.5, "exact"]
    assert [step["weights"] for step in (conv, act, linear)] == [24, 0, 0]
    assert linear["reasons"] == ["no int8 form"]
    assert program["notes"] == ["a note"]


def test_step_between_those_of_a_module_is_its_own() -> None:
    places = ["quantize", "a (A) at net.py:1", "transpose", "a (A)", "transpose", "b (B)"]
    steps = tuple(Step("aten::relu", place, 0, row, (), ()) for row, place in enumerate(places))
    graph = Graph("net", "portable", 0, (), (), {}, steps)
    (program,) = _data(Image(_SIZES, _BOARD, graph))["programs"]  # type: ignore[misc]
    assert [step["module"] for step in program["steps"]] == ["", "a", "a", "a", "", "b"]


def test_board_without_emulator_shows_times_of_its_core() -> None:
    rows = (Row(10, 20), Row(1, None), Row(5, 7))
    emulated = Image(
        replace(_SIZES, board="emulated"), replace(_BOARD, name="emulated", clock_hz=25_000_000), _GRAPH, None, rows
    )
    data = _data(Image(_SIZES, _BOARD, _GRAPH), emulated, Image(_SIZES, replace(_BOARD, core="cortex-m7"), _GRAPH))
    first, second, third = data["images"]  # type: ignore[misc]
    assert len(data["programs"]) == 1  # type: ignore[arg-type]
    assert (first["measured_on"], first["clock_hz"], first["rows"]) == (
        "emulated",
        64_000_000,
        [[10, 20], [1, None], [5, 7]],
    )
    assert (second["measured_on"], third["measured_on"], third["rows"]) == ("emulated", None, [])
    assert first["untimed"] == "the manual of cortex-m4 has no cycle counts to estimate from; compare instructions"
    assert third["untimed"] == "none of these boards emulates a cortex-m7"


def test_layers_of_an_npu_have_its_compilers_estimates() -> None:
    (program,) = _data(Image(_SIZES, _BOARD, _GRAPH, npu=_NPU))["programs"]  # type: ignore[misc]
    assert program["npu"] == {
        "accelerator": "ethos-u55-128",
        "clock_hz": 1_000_000,
        "layers": [{"name": "conv", "operator": "Conv2D", "cycles": 40, "macs": 320, "sram_bytes": 64}],
        "core": ["softmax in floating point: net.py:7: no form"],
    }


def test_hostile_text_is_text() -> None:
    hostile = "</script><script>alert(1)</script><!--<script> & \u2028 {{data}} </SCRIPT>"
    step = replace(_GRAPH.steps[0], place=f"a.{hostile}".replace(" ", "") + " (Conv2d)", operator=hostile)
    graph = replace(_GRAPH, name=hostile, steps=(step, *_GRAPH.steps[1:]))
    board = replace(_BOARD, description=hostile)
    accuracy = Accuracy(1, 1.0, 1.0, (hostile,), ((1,),), ((1,),))
    report = QuantizationReport("net", "cortex-m4", 8, (), accuracy, (hostile,))
    npu = replace(_NPU, accelerator=hostile)
    data = page_data(hostile, [Image(_SIZES, board, graph, report, npu=npu)])
    text = page_html(data, ["const end = '</script>';"], ["Copyright </script> & others"])
    # The page has as many elements as without the hostile text, and its script reads the data that was given.
    plain = page_html(_data(Image(_SIZES, _BOARD, _GRAPH)), ["const end = '';"], ["Copyright"])
    for tag in ("<script", "</script", "<!--"):
        assert text.lower().count(tag) == plain.lower().count(tag)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    assert json.loads(found[1]) == json.loads(json.dumps(data))
    assert "<title>&lt;/script&gt;" in text


def test_page_asks_for_nothing() -> None:
    text = page_html(_data(Image(_SIZES, _BOARD, _GRAPH)))
    assert "default-src 'none'" in text
    assert not re.search(r"""(src|href)\s*=|url\((?!#)|@import|\bfetch\(|innerHTML|insertAdjacentHTML|\beval\(""", text)
