"""The operators that must work: ExecuTorch's portable and quantized ones, and what else has a kernel here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Imports without a name here define the operators of ExecuTorch's own namespaces.
import executorch.exir.passes._device_copy_ops_registry
import executorch.exir.passes._quant_patterns_and_replacements
import executorch.exir.passes.dim_order_ops_registry
import executorch.exir.passes.executorch_prim_ops_registry
import executorch.kernels.quantized  # noqa: F401
import torch
import yaml
from executorch import exir

import tools.pipeline.export.rewrite.own_operators
import tools.pipeline.export.rewrite.spectra.spectrum_operators  # noqa: F401

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


# These of our own operators take PyTorch's tensors; conformance/cortex_m has the packed int8 layers.
_OWN = ("torch_fusion::gru.out", "torch_fusion::lstm.out", "torch_fusion::max_pool2d.out")


def dtype_text(dtype: torch.dtype) -> str:
    """Returns PyTorch's name of a dtype without its scope."""
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Operator:
    """An operator of the list.

    Attributes:
      name: as in programs, `aten::add.out`.
      group: its list: portable, quantized, extra or symbols.
      overload: the operator in torch; None if torch doesn't know it.
    """

    name: str
    group: str
    overload: torch._ops.OpOverload | None


def find_overload(name: str) -> torch._ops.OpOverload | None:
    """Returns the operator that programs call `namespace::name.overload`."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload or "default", None)


def _listed(path: Path) -> Iterable[str]:
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
        name = entry["op"] if "op" in entry else entry["func"].partition("(")[0]
        yield name if "::" in name else f"aten::{name}"


def listed_operators(catalogs: Sequence[Path], symbols: Iterable[str]) -> list[Operator]:
    """Returns all operators of the list, by group and name.

    Args:
      symbols: the operators on numbers.
      catalogs: our own operators.yaml files; what they hold beyond ExecuTorch's lists is the group `extra`.
    """
    kernels = Path(exir.__file__).parents[1] / "kernels"
    groups = {
        "portable": list(_listed(kernels / "portable" / "functions.yaml")),
        "quantized": list(_listed(kernels / "quantized" / "quantized.yaml")),
    }
    known = {name for names in groups.values() for name in names}
    own = {name for path in catalogs for entry in yaml.safe_load(path.read_text()) for name in entry["kernels"]}
    known |= set(symbols)
    groups["extra"] = [name for name in own - known if name.startswith("aten::") or name in _OWN]
    groups["symbols"] = list(symbols)
    return [Operator(name, group, find_overload(name)) for group in groups for name in sorted(groups[group])]
