"""Records of formats whose files are records alone, for tests."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tools.artifacts.board_report.board_report import board_report_json, read_board_report
from tools.artifacts.board_report.testing import make_report
from tools.artifacts.graph.graph import Graph, Step, Value, graph_json, read_graph
from tools.artifacts.npu_report.npu_report import Delegate, NpuReport, OnCore, npu_report_json, read_npu_report
from tools.artifacts.quantization_report import quantization_report as quantization
from tools.artifacts.quantization_report.quantization_report import Accuracy, QuantizationReport
from tools.artifacts.size_report.size_report import Memory, SizeReport, read_size_report, size_report_json


class Format(NamedTuple):
    """A format, a record of it, and what tells the record from others of that format."""

    name: str
    write: Callable[[Any], str]
    read: Callable[[Path], Any]
    record: Any
    kind: str = ""


_TENSORS = {
    0: Value("int8", (1, 4), 4, offset=0),
    1: Value("int8", (4, 4), 16, data=1, stored=16, parameter="fc.weight"),
    2: Value("int8", (1, 4), 4, offset=16),
}
_LINEAR = Step("aten::linear", "fc (Linear) at net.py:3", 16, 0, (0, 1), (2,))
_COSTS = {"operator": "Conv2D", "name": "aten_conv2d", "cycles": 1200, "macs": 4096, "sram_bytes": 512}
_NPU_REPORT = NpuReport(
    "net",
    "ethos-u55-128",
    "shared_sram",
    500_000_000,
    (Delegate(9000, 2000, 6800, 1024, {"cycles_total": 1200, "nn_macs": 4096}, (_COSTS,)),),
    (OnCore("aten::sin", "net.py:12 (sin)", "the NPU has no such operator", "floating point"),),
)
_LAYERS = (
    quantization.Layer("conv", "aten::conv2d", "fused", weight=quantization.Weight("per channel", 8, 0.1, 0.2)),
    quantization.Layer("relu", "aten::relu", "int8", output=quantization.QParams(0.125, -128), snr_db=41.23),
    quantization.Layer("pool", "aten::max_pool2d", "int8", snr_db=math.inf),
    quantization.Layer("norm", "aten::layer_norm", "float32", reason="no form"),
)
_CLASSES = (("no", "yes"), ((1, 0), (0, 2)), ((1, 0), (1, 1)))
_FLASH = Memory(30, 4096, {"runtime": 20, "kernels": 10})
FORMATS = [
    Format("board report", board_report_json, read_board_report, make_report()),
    Format("graph", graph_json, read_graph, Graph("net", "cortex-m4", 32, (0,), (2,), _TENSORS, (_LINEAR,))),
    Format("NPU report", npu_report_json, read_npu_report, _NPU_REPORT),
    *(
        Format(
            "quantization report",
            quantization.quantization_report_json,
            quantization.read_quantization_report,
            QuantizationReport("net", "cortex-m4", 8, _LAYERS, accuracy),
            kind,
        )
        for kind, accuracy in {
            "": None,
            ", accuracy": Accuracy(360, 0.975, 0.9722),
            ", classes": Accuracy(3, 1.0, 0.67, *_CLASSES),
        }.items()
    ),
    Format(
        "size report",
        size_report_json,
        read_size_report,
        SizeReport("firmware", "sine", "tiny", "cortex-m4", _FLASH, Memory(0, 2048, {})),
    ),
]
