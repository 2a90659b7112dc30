"""Training and export give the same bytes on any processor and with any order of sets.

Settings that choose code in the libraries below torch, numbers of threads, another seed of hashes, and, by hand,
emulated processors, which have the instructions of their model only:

    ./bazelw test //tools/pipeline/export:emulated_processors_test
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.artifacts.document.document import to_json
from tools.pipeline.export.options import FORMAT, VERSION

# Layers, functions, random numbers, a batch norm, a sum and an optimizer, each of which differed between processors.
_MODEL = """\
import numpy, torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8)),
            *(nn.Conv2d(8, 16, 1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()),
            *(nn.Linear(16 * 9, 33), nn.Sigmoid(), nn.Linear(33, 4)),
        )
        # A constant that the export computes.
        self.register_buffer("scales", torch.linspace(0.1, 1, 4))

    def forward(self, x):
        return self.layers(x) * self.scales.sqrt().atan()


def model():
    return Model().eval()


def inputs(count):
    x = torch.randn(count, 3, 8, 8) + torch.sin(torch.linspace(0, 20, 64)).asin().reshape(8, 8)
    return x + torch.from_numpy(numpy.random.randn(8, 8).astype("f4") @ numpy.random.randn(8, 8).astype("f4"))


def example_inputs():
    return (inputs(1),)


def calibration_inputs():
    return [(x,) for x in inputs(8).split(1)]


def train():
    net = model().train()
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    for _ in range(10):
        x = inputs(32)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), x.std((1, 2, 3)).argsort() % 4).backward()
        optimizer.step()
    return net.eval()
"""

# What makes these libraries choose as on an older processor, and in other numbers of threads, unless launcher and
# make_deterministic() overrule it.
_SETTINGS = {
    "ATEN_CPU_CAPABILITY": "default",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F",
    "MKL_DYNAMIC": "FALSE",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "MKL_NUM_THREADS": "3",
    "OMP_NUM_THREADS": "5",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
    "OPENBLAS_NUM_THREADS": "4",
}


def run(train: list[str], export: list[str], environment: dict[str, str], folder: Path) -> dict[str, bytes]:
    """Trains and exports, in int8, which computes what float32 does and more; the files.

    Args:
      train, export: the tools' commands.
    """
    folder.mkdir()
    # Its path is part of the manifest.
    (folder.parent / "model.py").write_text(_MODEL, encoding="utf-8")
    weights = folder / "weights"

    def tool(command: list[str], *arguments: object) -> None:
        result = subprocess.run(
            [*command, "--model", "model.py", "--log", str(folder / "log"), *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment,
            cwd=folder.parent,
            check=False,
        )
        assert result.returncode == 0, result.stderr

    tool(train, "--output", weights)
    files = {f"--{kind}": folder / kind for kind in ("program", "golden", "manifest")}
    arguments = [word for item in files.items() for word in item]
    options = folder.parent / "options.json"
    content = {"core": "cortex-m4", "backend": "cortex_m"}
    options.write_text(to_json(FORMAT, VERSION, content), encoding="utf-8")
    tool(export, "--name", "model", "--options", options, "--weights", weights, *arguments)
    return {file.name: file.read_bytes() for file in (weights, *files.values())}


def run_modules(prefix: list[str], folder: Path, **changed: str) -> dict[str, bytes]:
    """By the tools' modules, with the environment that this test's own launcher made."""
    python = [*prefix, sys.executable, "-m"]
    return run([*python, "tools.pipeline.train"], [*python, "tools.pipeline.export"], {**os.environ, **changed}, folder)


def run_launchers(environment: dict[str, str], folder: Path) -> dict[str, bytes]:
    """By the tools' launchers, which get nothing of this test's environment."""
    train, export = (str(Path(os.environ[name]).absolute()) for name in ("TRAIN", "EXPORT"))
    return run([train], [export], {"PATH": os.environ["PATH"]} | environment, folder)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return run_launchers({}, tmp_path_factory.mktemp("expected") / "files")


def compare(files: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert sorted(files) == sorted(expected) == ["golden", "manifest", "program", "weights"]
    assert [name for name in files if files[name] != expected[name]] == []


@pytest.mark.skipif("EMULATED" in os.environ, reason="emulated processors only")
def test_settings_that_choose_code_change_no_byte(expected: dict[str, bytes], tmp_path: Path) -> None:
    compare(run_launchers(_SETTINGS, tmp_path / "files"), expected)


@pytest.mark.skipif("EMULATED" in os.environ, reason="emulated processors only")
def test_another_seed_of_hashes_changes_no_byte(expected: dict[str, bytes], tmp_path: Path) -> None:
    compare(run_modules([], tmp_path / "files", PYTHONHASHSEED="1"), expected)


@pytest.mark.skipif("EMULATED" not in os.environ, reason="takes minutes, and an emulator")
@pytest.mark.parametrize("processor", os.environ.get("EMULATED", "").split())
def test_emulated_processors_change_no_byte(processor: str, expected: dict[str, bytes], tmp_path: Path) -> None:
    emulator = Path(os.environ["EMULATOR"]).absolute()
    compare(run_modules([str(emulator), "-cpu", processor], tmp_path / "files"), expected)
