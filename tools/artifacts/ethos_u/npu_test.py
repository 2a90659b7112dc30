"""The description of an NPU, and the configuration that Vela gets of it."""

import configparser
import json
from pathlib import Path

import pytest

from tools.artifacts.ethos_u.npu import read_npu
from tools.quiet.console import UserError

_PORT = {
    "clock_scale": "0.5",
    "burst_length": 32,
    "read_latency": 8,
    "write_latency": 8,
    "max_reads": 4,
    "max_writes": 4,
}


def _description(**changed: object) -> str:
    content = {
        "format": "NPU description",
        "version": 1,
        "accelerator": "ethos-u65-256",
        "memory_mode": "shared_sram",
        "clock_hz": 400_000_000,
        "ports": {"axi0": {"memory": "Sram"} | _PORT, "axi1": {"memory": "Dram"} | _PORT},
        "arena_bytes": 1 << 20,
        "cache_bytes": 0,
    }
    return json.dumps(content | changed)


@pytest.mark.parametrize(
    ("mode", "cache", "areas", "size"),
    [
        ("shared_sram", 0, ("Axi1", "Axi0", "Axi0"), 1 << 20),
        ("sram_only", 0, ("Axi0", "Axi0", "Axi0"), 1 << 20),
        ("dedicated_sram", 384 << 10, ("Axi1", "Axi1", "Axi0"), 384 << 10),
    ],
)
def test_vela_config(tmp_path: Path, mode: str, cache: int, areas: tuple[str, str, str], size: int) -> None:
    path = tmp_path / "npu.json"
    path.write_text(_description(memory_mode=mode, cache_bytes=cache))
    config = configparser.ConfigParser()
    config.read_string(read_npu(path).vela_config())
    system, memory = config["System_Config.board"], config["Memory_Mode.board"]
    assert (system["axi0_port"], system["axi1_port"], system["core_clock"]) == ("Sram", "Dram", "400000000")
    assert system["Dram_clock_scale"] == "0.5"
    assert (memory["const_mem_area"], memory["arena_mem_area"], memory["cache_mem_area"]) == areas
    assert int(memory["arena_cache_size"]) == size


def test_one_memory_behind_both_ports(tmp_path: Path) -> None:
    path = tmp_path / "npu.json"
    path.write_text(_description(ports=dict.fromkeys(("axi0", "axi1"), {"memory": "Sram"} | _PORT)))
    config = configparser.ConfigParser()
    config.read_string(read_npu(path).vela_config())
    system = config["System_Config.board"]
    assert (system["axi0_port"], system["axi1_port"], system["Sram_burst_length"]) == ("Sram", "Sram", "32")


@pytest.mark.parametrize("text", ["", "[]", "{}", _description(format="manifest"), _description(macs=7)])
def test_another_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "npu.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"npu\.json is no NPU description.*board_npu"):
        read_npu(path)
