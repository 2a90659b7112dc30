import json
from pathlib import Path

import pytest

from tools.artifacts.graph.graph import Graph, Step, Value, graph_json, read_graph
from tools.quiet.console import UserError

_GRAPH = Graph(
    name="net",
    core="cortex-m4",
    planned=32,
    inputs=(0,),
    outputs=(2,),
    tensors={
        0: Value("int8", (1, 4), 4, offset=0),
        1: Value("int8", (4, 4), 16, data=1, stored=16, parameter="fc.weight"),
        2: Value("int8", (1, 4), 4, offset=16),
    },
    steps=(Step("aten::linear", "fc (Linear) at net.py:3", 16, 0, (0, 1), (2,)),),
)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "net.graph.json"
    path.write_text(graph_json(_GRAPH))
    assert read_graph(path) == _GRAPH


def test_refuses_what_names_no_tensor(tmp_path: Path) -> None:
    path = tmp_path / "net.graph.json"
    path.write_text(json.dumps(json.loads(graph_json(_GRAPH)) | {"inputs": [7]}))
    with pytest.raises(UserError, match="there is no tensor 7"):
        read_graph(path)
