"""Runs ExecuTorch's own tests of operators for Ethos-U with the model of the NPU in place of Arm's simulators.

The wheel has the tests, `executorch/backends/arm/test/ops`: each operator is quantized, delegated, compiled by Vela and
run, and its outputs are compared with the quantized module's. Here the program runs in PyTorch, its delegates on //npu.

    bazel run //conformance/ethos_u:arm_suite                    # all operators, which takes hours
    bazel run //conformance/ethos_u:arm_suite -- add conv2d      # those of these files
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch
from executorch.backends.arm.test import runner_utils
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch.overrides import TorchFunctionMode

from conformance.ethos_u.compare import CONFIGURATIONS, execute
from tools.artifacts.ethos_u.payload import parse, parse_commands
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

# Passed on to the plugin: every how many-th test is run.
_EVERY = "ARM_SUITE_EVERY"
_ACCELERATORS = {configuration.config: name for name, configuration in CONFIGURATIONS.items()}


# Delegates that were run, by configuration.
_CALLS: Counter[str] = Counter()


class _Npu(TorchFunctionMode):
    """Lets the model of the NPU do what delegates for it are called for."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch._higher_order_ops.executorch_call_delegate and args[0].backend_id == "EthosUBackend":
            return _call(args[0], args[1:])
        return func(*args, **(kwargs or {}))


def _call(module: LoweredBackendModule, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    payload = parse(module.processed_bytes)
    accelerator = _ACCELERATORS[parse_commands(payload.commands).config]
    _CALLS[accelerator] += 1
    given = [tensor.permute(tensor.dim_order()).contiguous().numpy().tobytes() for tensor in inputs]
    run = execute(payload, given, accelerator)
    tensors = []
    results = module.original_module.graph_module.graph.output_node().args[0]
    for data, result in zip(run.outputs, results, strict=True):
        value = result.meta["val"]
        order = list(value.dim_order())
        array = numpy.frombuffer(data, torch.empty(0, dtype=value.dtype).numpy().dtype)
        tensor = torch.from_numpy(array.copy()).reshape([value.shape[axis] for axis in order])
        tensors.append(tensor.permute([order.index(axis) for axis in range(len(order))]))
    return tensors


def _run_target(program: Any, inputs: tuple[torch.Tensor, ...], *_: Any, **__: Any) -> Any:
    exported = program.exported_program()
    with _Npu(), torch.no_grad():
        return exported.graph_module(*exported.buffers(), *inputs)


def pytest_configure(config: pytest.Config) -> None:
    """Puts the model in the place of simulators before a test asks whether there is one."""
    # Tables of what was delegated, which need packages that are not here.
    for name in ("executorch.devtools", "executorch.devtools.backend_debug"):
        sys.modules[name] = ModuleType(name)
    vars(sys.modules[name])["get_delegation_info"] = None
    for name in ("corstone300_installed", "corstone300_u65_installed", "corstone320_installed"):
        setattr(runner_utils, name, lambda: True)
    runner_utils.arm_executor_runner_exists = lambda *_, **__: True
    runner_utils.get_elf_path = lambda *_, **__: Path("npu")
    runner_utils.run_target = _run_target


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves every n-th test."""
    items[:] = items[:: int(os.environ.get(_EVERY, "1"))]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says how often the model was asked."""
    calls = ", ".join(f"{name} {count}" for name, count in sorted(_CALLS.items()))
    terminalreporter.write_line(f"the model ran {_CALLS.total()} delegates: {calls}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="arm_suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("operators", nargs="*", help="names of test files without test_ and .py; default: all")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run every N-th test alone")
    parser.add_argument("-k", default="u55_INT or u85_INT or u65_INT", help="pytest's choice of tests")
    return run_tool("arm_suite", _run, parser.parse_args(argv))


def _run(options: argparse.Namespace) -> int:
    folder = Path(runner_utils.__file__).parent / "ops"
    files = [folder / f"test_{name}.py" for name in options.operators] or sorted(folder.glob("test_*.py"))
    missing = [file.name for file in files if not file.exists()]
    if missing:
        known = ", ".join(sorted(file.stem.removeprefix("test_") for file in folder.glob("test_*.py")))
        raise UserError(f"ExecuTorch has no {', '.join(missing)} among its tests; there are: {known}")
    os.environ[_EVERY] = str(options.every)
    # Some of the tests import their conftest.
    sys.path.append(str(folder.parent))
    plugins = ["-p", "conformance.ethos_u.arm_suite", "-p", "no:cacheprovider", "-p", "no:logging", "-W", "ignore"]
    shown = ["--import-mode=importlib", "--tb=line", "-q", "-rfExX", "-k", options.k]
    return int(pytest.main([*plugins, *shown, *map(str, files)]))
