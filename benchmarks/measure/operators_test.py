"""Tests the limits of images of one operator: the goals of the operators' flash and speed, on a Cortex-M4."""

import json
import os
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tools.artifacts.image_index.image_index import read_image_index
from tools.artifacts.size_report.size_report import Memory, read_size_report
from tools.commands.benchmark.benchmark import main

INDEX = Path(os.environ["INDEX"])
IMAGES = {image.variant: image for image in read_image_index(INDEX) if image.model == "operator"}
ELEMENTS = 1024
# The limit of the whole image of `add`.
FLASH = 5_000
# The limit of an operator's own code, for one dtype without broadcasting. The largest is pad, with a loop for each way
# that its rows may lie.
KERNEL_BYTES = 1_700
# Instructions per element of all that an inference takes.
INSTRUCTIONS = {"add": 5, "mul": 5, "relu": 5, "sigmoid": 47, "softmax": 45, "layer_norm": 12}


def flash(operator: str) -> Memory:
    """Returns the contents of the flash of an operator's image."""
    return read_size_report(IMAGES[operator].report).flash


def test_add_of_equal_shapes_is_small_with_all_around_it() -> None:
    assert flash("add").used <= FLASH


@pytest.mark.parametrize("operator", IMAGES)
def test_an_operator_is_small(operator: str) -> None:
    assert flash(operator).parts["kernels"] <= KERNEL_BYTES


@pytest.mark.parametrize("operator", IMAGES)
def test_floats_need_no_double_precision_in_software(operator: str) -> None:
    with IMAGES[operator].elf.open("rb") as file:
        symbols = {symbol.name for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}
    assert "cortex_m_reset" in symbols
    assert not [name for name in symbols if name.startswith("__aeabi_d") or name in ("__aeabi_f2d", "__aeabi_l2d")]


def test_inner_loops_are_fast(tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    arguments = ["--index", str(INDEX), "--qemu", os.environ["QEMU"], "--model", "operator", "--json", str(rows)]
    assert main(arguments) == 0
    measured = {row["variant"]: row["inference"] / ELEMENTS for row in json.loads(rows.read_text())}
    slow = {name: measured[name] for name, limit in INSTRUCTIONS.items() if measured[name] > limit}
    assert not slow
