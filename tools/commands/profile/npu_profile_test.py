"""Tests that executed operations are assigned to layers, or listed if that is impossible."""

from npu.engine import Operation, Traffic
from tools.artifacts.npu_report.npu_report import Delegate, NpuReport
from tools.commands.profile.npu_profile import npu_rows, npu_table, operations_by_layer


def _layers(*layers: tuple[str, int]) -> Delegate:
    rows = tuple(
        {"operator": name, "name": f"layer{i}", "cycles": 10 * i, "macs": m} for i, (name, m) in enumerate(layers)
    )
    return Delegate(0, 0, 0, 0, {}, rows)


def _names(groups: list[list[Operation]] | None) -> list[list[str]]:
    assert groups is not None
    return [[operation.name for operation in group] for group in groups]


def test_a_layer_has_its_dma_and_all_that_it_was_cut_into() -> None:
    delegate = _layers(("Conv2D", 30), ("Add", 0), ("Clamp", 0), ("Conv2D", 5))
    done = [("DMA_START", 0), ("CONV", 10), ("DMA_START", 0), ("CONV", 20), ("ELEMENTWISE ADD", 0), ("CONV", 5)]
    groups = operations_by_layer(delegate, [Operation(*each) for each in done])
    assert _names(groups) == [["DMA_START", "CONV", "DMA_START", "CONV"], ["ELEMENTWISE ADD"], [], ["CONV"]]


def test_layers_that_take_turns_are_not_told_apart() -> None:
    delegate = _layers(("Conv2D", 30), ("Conv2D", 30))
    done = [Operation("CONV", 20), Operation("CONV", 20), Operation("CONV", 20)]
    assert operations_by_layer(delegate, done) is None
    # Nor where something is left over.
    assert operations_by_layer(_layers(("Conv2D", 20)), done) is None


def test_the_table_has_both() -> None:
    traffic = {0: Traffic(7, 0), 1: Traffic(100, 40), 2: Traffic(1, 2)}
    report = NpuReport("net", "ethos-u55-128", "shared_sram", 1, (_layers(("Conv2D", 0), ("Conv2D", 30)),), ())
    rows = npu_rows(report, [[Operation("CONV", 30, traffic)]])
    lines = [line.split() for line in npu_table(rows).splitlines()]
    assert lines[2] == ["1", "Conv2D", "layer1", "10", "30", "1", "30", "101", "7", "42"]
    assert lines[3] == ["total", "10", "30", "1", "30", "101", "7", "42"]
    mixed = npu_rows(report, [[Operation("CONV", 29, traffic)]])
    lines = [line.split() for line in npu_table(mixed).splitlines()]
    assert lines[2] == ["1", "Conv2D", "layer1", "10", "30"]
    assert lines[3] == ["2", "CONV", "1", "29", "101", "7", "42"]
