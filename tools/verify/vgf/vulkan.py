"""Runs programs with VGF on this machine's processor.

ExecuTorch's VgfBackend needs Vulkan with Arm's extensions for machine learning. Arm's emulation layers add these to any
driver, here Mesa's lavapipe, which computes on the processor.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import emulation_layer
import lavapipe
import numpy as np

from tools.artifacts.program.program import Tensor, read
from tools.quiet.console import UserError

# Vulkan's names of the layers, the topmost first.
_LAYERS = {"VkLayer_Graph.json": "VK_LAYER_ML_Graph_Emulation", "VkLayer_Tensor.json": "VK_LAYER_ML_Tensor_Emulation"}

# The runtime logs these steps, which say nothing about an error.
_PROGRESS = ("[VGFSetup.cpp", "[VGFBackend.cpp")


class VulkanError(UserError):
    """The program could not be run."""


def _environment(folder: Path) -> dict[str, str]:
    """Returns the variables with which Vulkan's loader finds the layers and the driver, and nothing that the machine
    has.

    Args:
      folder: a temporary one.
    """
    layers = Path(emulation_layer.__file__).parent / "deploy"
    driver = Path(lavapipe.__file__).parent
    manifests = []
    # The loader takes layers in the order that a folder lists them, so each has a folder.
    for name in _LAYERS:
        manifests.append(folder / Path(name).stem)
        manifests[-1].mkdir()
        shutil.copy(layers / "share/vulkan/explicit_layer.d" / name, manifests[-1])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VK_", "LD_", "MESA_"))}
    return kept | {
        "LD_LIBRARY_PATH": f"{driver / 'lib'}:{layers / 'lib'}",
        "MESA_SHADER_CACHE_DISABLE": "true",
        "VK_ADD_LAYER_PATH": ":".join(map(str, manifests)),
        # Loaders have the one or the other.
        "VK_DRIVER_FILES": str(driver / "driver.json"),
        "VK_ICD_FILENAMES": str(driver / "driver.json"),
        "VK_INSTANCE_LAYERS": ":".join(_LAYERS.values()),
        "VK_LOADER_LAYERS_DISABLE": "~implicit~",
    }


def run(program: Path, samples: Sequence[Sequence[np.ndarray]], timeout: float) -> list[list[np.ndarray]]:
    """Returns the outputs of a program for each of the samples.

    Args:
      program: the .pte.
      samples: the inputs of each inference, in the shapes of the model.
      timeout: seconds that all of them may take.

    Raises:
      ProgramError: the file is no program.
      VulkanError: it could not be run, for a reason that the message has.
    """
    plan = read(program).execution_plan[0]
    arrays: dict[str, np.ndarray] = {"samples": np.array(len(samples))}
    for index, place in enumerate(plan.inputs or []):
        value = plan.values[place].val
        if not isinstance(value, Tensor):
            raise VulkanError(f"{program}: input {index} is no tensor, and only tensors can be passed here.")
        arrays[f"order_{index}"] = np.array(list(value.dim_order or b""), dtype=np.int64)
    for number, sample in enumerate(samples):
        arrays |= {f"{number}_{index}": array for index, array in enumerate(sample)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "inputs.npz", **arrays)
        command = [
            Path(__file__).with_name("runtime.py"),
            program.absolute(),
            *(folder / f for f in ("inputs.npz", "outputs.npz")),
        ]
        try:
            result = subprocess.run(
                [sys.executable, *map(str, command)],
                env=_environment(folder),
                timeout=timeout,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise VulkanError(f"{program} did not end within {timeout:g} s.") from error
        if result.returncode:
            raise VulkanError(f"{program}: {_explain(result)}")
        with np.load(folder / "outputs.npz") as outputs:
            return [
                [outputs[f"{number}_{index}"] for index in range(sum(key.startswith(f"{number}_") for key in outputs))]
                for number in range(len(samples))
            ]


def _explain(result: subprocess.CompletedProcess[str]) -> str:
    """Returns what the runtime said last, and how it ended."""
    missing = re.findall(r"Missing operator: \[\d+\] (\S+)", result.stderr)
    if missing:
        return f"ExecuTorch's runtime has no kernels of {', '.join(missing)}; write the layers another way."
    if "VgfBackend is not registered" in result.stderr:
        return (
            "the runtime in this release's wheel of ExecuTorch has no VGF backend; it exports such programs, and the "
            "default release runs them: docs/build.md"
        )
    lines = [line for line in result.stderr.splitlines() if line.strip() and not line.startswith(_PROGRESS)]
    # Keeps only the error of a traceback.
    said = [line for line in lines if line.startswith("[") or not line.startswith((" ", "Traceback"))][-5:]
    if result.returncode < 0:
        said.append(f"the runtime ended by {signal.Signals(-result.returncode).name}")
    return "; ".join(said) or f"the runtime ended with status {result.returncode}"
