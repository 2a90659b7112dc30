"""Tests that kernels write to the arguments that the operators' schemas and the registry name."""

import torch

# Importing them defines the int8 operators of our own.
import tools.pipeline.export.backends.cortex_m.int4  # noqa: F401
import tools.pipeline.export.backends.cortex_m.norms  # noqa: F401
import tools.pipeline.export.backends.cortex_m.pack  # noqa: F401
import tools.pipeline.export.backends.cortex_m.prelu  # noqa: F401
import tools.pipeline.export.backends.cortex_m.recurrent  # noqa: F401
import tools.pipeline.export.backends.cortex_m.transposed  # noqa: F401
from conformance.operators import find_overload
from tools.pipeline.registry.catalog import read_catalog

# Operators that ExecuTorch 1.4 doesn't have, and 1.5 does.
_LATER = ("_nhwc.out", "quantized_div.out")


def _written(function: torch._ops.OpOverload) -> list[int]:
    arguments = function._schema.arguments
    return [i for i, argument in enumerate(arguments) if argument.alias_info and argument.alias_info.is_write]


def test_written_arguments_are_the_schemas() -> None:
    kernels = [kernel for kernel in read_catalog().values() if not kernel.is_boxed]
    found = {kernel.operator: find_overload(kernel.operator) for kernel in kernels}
    unknown = [name for name, overload in found.items() if overload is None]
    assert [name for name in unknown if not name.endswith(_LATER)] == []
    wrong = {
        kernel.operator: (kernel.writes, _written(overload))
        for kernel in kernels
        if (overload := found[kernel.operator]) is not None
        and list(kernel.writes or [len(overload._schema.arguments) - 1]) != _written(overload)
    }
    assert not wrong, "`writes` of operators.yaml, and the schema's"
