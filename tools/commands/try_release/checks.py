"""Checks of a release of ExecuTorch, in a process that has it in front of its path."""

import importlib
import importlib.metadata
import pkgutil
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from packaging.requirements import Requirement

from tools.quiet.console import SilentConsole

_SAMPLE = """\
import torch
from torch import nn


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(72, 4)).eval()


def example_inputs():
    torch.manual_seed(1)
    return (torch.rand(1, 4, 8, 8),)
"""


@dataclass(frozen=True)
class Finding:
    """Something that a release breaks.

    Attributes:
      kind: of the check that found it.
      symbol: the symbol, operator, header or backend.
      reason: what is wrong, on one line.
    """

    kind: str
    symbol: str
    reason: str

    def line(self) -> str:
        """Returns the finding as the parent process reads it."""
        return "\t".join(["broken", self.kind, self.symbol, " ".join(self.reason.split())])

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Reads a line()."""
        return cls(*line.split("\t")[1:4])


def other_versions(requirements: Iterable[str], installed: dict[str, str]) -> Iterator[str]:
    """Yields a line for each package that is checked in another version than the release names.

    Args:
      requirements: of the release, those of its extras for VGF and Ethos-U among them.
      installed: version by package; those that it lacks are left out of the lock on purpose.
    """
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        version = installed.get(requirement.name.replace("_", "-").lower())
        if version is None or marker and not any(marker.evaluate({"extra": e}) for e in ("", "vgf", "ethos-u")):
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            yield f"the release names {requirement.name}{requirement.specifier}; checked with {version}"


def _checked() -> Iterator[str]:
    # The first of several of a name is the one that is imported.
    installed: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        installed.setdefault(distribution.name.replace("_", "-").lower(), distribution.version)
    yield ", ".join(f"{name} {installed[name]}" for name in ("executorch", "torch", "torchao"))
    yield from dict.fromkeys(other_versions(importlib.metadata.requires("executorch") or [], installed))


def broken_gaps() -> Iterator[Finding]:
    """Yields the symbols that upstream/gaps.py replaces, and the release lacks."""
    from tools.pipeline.export.upstream.gaps import GAPS

    for gap in GAPS:
        if gap.is_open():
            try:
                gap.resolve()
            except (ImportError, AttributeError) as error:
                yield Finding("replaced symbol", gap.symbol, str(error))


def broken_imports() -> Iterator[Finding]:
    """Yields the modules of the export that can't be imported."""
    import tools.pipeline.export as package

    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name.endswith(("_test", "__main__", ".testing")):
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:
            yield Finding("import", module.name, f"{type(error).__name__}: {error}")


def differing_schemas(schemas: dict[str, Any], kernels: dict[str, tuple[str, ...]]) -> Iterator[Finding]:
    """Yields the operators whose arguments are not those of the kernel here.

    Args:
      schemas: by operator, the release's.
      kernels: by operator, the names of the kernel's arguments, results included.
    """
    for operator, names in kernels.items():
        schema = schemas.get(operator)
        if schema is not None and names and len(schema.arguments) != len(names):
            yield Finding("schema", operator, f"the release has {schema}; the kernel here has ({', '.join(names)})")


def broken_schemas() -> Iterator[Finding]:
    """Yields the operators of PyTorch's and ExecuTorch's whose arguments are not those of the kernel here."""
    import torch

    # Declares ExecuTorch's operators.
    import tools.pipeline.export.backends.cortex_m.lower  # noqa: F401
    from tools.pipeline.registry.catalog import read_catalog
    from tools.pipeline.registry.signature import argument_names

    schemas = {}
    for schema in torch._C._jit_get_all_schemas():
        schemas[f"{schema.name}.{schema.overload_name}"] = schema
    kernels = {name: argument_names(kernel) for name, kernel in read_catalog().items()}
    yield from differing_schemas(schemas, kernels)


def _exports() -> Iterator[Finding]:
    from tools.artifacts.ethos_u.npu import Npu
    from tools.pipeline.export.export import export
    from tools.pipeline.export.options import Options

    port = {"burst_length": 32, "read_latency": 32, "write_latency": 32, "max_reads": 4, "max_writes": 4}
    npu = Npu(
        accelerator="ethos-u55-128",
        memory_mode="shared_sram",
        clock_hz=400_000_000,
        ports={
            "axi0": {"memory": "Sram", "clock_scale": "1.0"} | port,
            "axi1": {"memory": "OffChipFlash", "clock_scale": "0.5"} | port,
        },
        arena_bytes=1 << 20,
        cache_bytes=0,
    )
    choices = [
        Options(),
        Options("cortex-m4", "cortex_m", "int8"),
        Options("cortex-m4", "cortex_m", "int8", packed=False),
        Options("cortex-m55", "ethos_u", "int8", npu=npu),
        Options(backend="vgf"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.py"
        path.write_text(_SAMPLE, encoding="utf-8")
        for options in choices:
            try:
                exported = export(path, "sample", options, None, SilentConsole())
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                reason = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
                yield Finding("export", options.backend, reason)
                continue
            if options.backend in ("ethos_u", "vgf") and b"aten::convolution" in exported.program:
                yield Finding("export", options.backend, "a convolution is not delegated")


CHECKS: tuple[Callable[[], Iterable[Finding]], ...] = (broken_gaps, broken_imports, broken_schemas, _exports)


def main() -> None:
    """Prints which versions are checked, and each finding, as lines."""
    for line in _checked():
        print(f"checked\t{line}", flush=True)
    for check in CHECKS:
        try:
            for finding in check():
                print(finding.line(), flush=True)
        except Exception as error:
            kind = check.__name__.strip("_").removeprefix("broken_")
            print(Finding(kind, type(error).__name__, str(error)).line(), flush=True)


if __name__ == "__main__":
    main()
