"""Selects the kernels that programs use and writes the table in which the runtime looks them up."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tools.abi.layouts.layouts import Variant
from tools.artifacts.manifest.manifest import Manifest
from tools.artifacts.program.program import operator_name
from tools.pipeline.registry.calls import SCALAR_TYPES, OperatorUse
from tools.pipeline.registry.catalog import Kernel
from tools.pipeline.registry.parts import Part, checked_arguments, parts_source
from tools.pipeline.registry.signature import argument_names
from tools.pipeline.registry.variants import MODES, REFUSED_UNLESS_LISTED, computing_dtypes, needed_variants
from tools.quiet.console import UserError
from tools.quiet.troubleshooting import more_about

_VALUES = {name: value for value, name in SCALAR_TYPES.items()}


class UnsupportedError(UserError):
    """No kernel supports an operator or its use in a program."""


@dataclass
class Selected:
    """A kernel with its used dtypes and variants; None means all."""

    kernel: Kernel
    dtypes: set[str] | None
    variants: Variant | None


def select_all(catalog: dict[str, Kernel]) -> list[Selected]:
    """Selects every kernel with every dtype and variant."""
    return [Selected(kernel, None, None) for kernel in catalog.values()]


def select(
    programs: Iterable[Sequence[OperatorUse]], catalog: dict[str, Kernel], origins: dict[str, list[str]]
) -> list[Selected]:
    """Selects the kernels of programs: the union of their dtypes and variants, operators in the first program's order.

    Args:
      origins: locations in the user's model by operator, from the manifests.

    Raises:
      UnsupportedError: names every operator that has no kernel, or none for its dtypes or variants.
    """
    selected: dict[str, Selected] = {}
    errors: list[str] = []
    for uses in programs:
        for use in uses:
            kernel = catalog.get(use.name)
            if kernel is None:
                errors.append(_missing(use, catalog, origins))
                continue
            entry = selected.setdefault(use.name, Selected(kernel, set(), Variant(0)))
            assert entry.dtypes is not None and entry.variants is not None
            problems: list[str] = []
            names, listed = argument_names(kernel), _listed(kernel)
            for call in use.calls:
                needed = needed_variants(kernel, call)
                entry.variants |= needed & listed
                entry.dtypes |= computing_dtypes(kernel, call)
                problems += [REFUSED_UNLESS_LISTED[v] for v in REFUSED_UNLESS_LISTED if v in needed & ~listed]
                # The exporter appends the result; if that is a list of tensors, it appends the list.
                is_repeated = call.arguments[-2:-1] == call.arguments[-1:] != ((),)
                if names and len(call.arguments) not in (len(names), len(names) + is_repeated):
                    errors.append(_other_schema(use, kernel, len(call.arguments), names, origins))
                    break
                for position, tensors in enumerate(call.arguments):
                    allowed = kernel.fixed_dtypes.get(position, kernel.dtypes)
                    problems += [f"dtype {tensor.dtype}" for tensor in tensors if tensor.dtype not in allowed]
            if problems and kernel.is_limited:
                errors.append(_unsupported(use, kernel, sorted(set(problems)), origins))
    if errors:
        raise UnsupportedError("\n".join([*errors, f"  operators with a kernel: {', '.join(sorted(catalog))}"]))
    return list(selected.values())


def _listed(kernel: Kernel) -> Variant:
    listed = Variant.DYNAMIC_SHAPE
    for name in kernel.variants:
        listed |= Variant[name.upper()]
    if kernel.factors:
        listed |= Variant.ALPHA
    if kernel.index_outputs:
        listed |= Variant.INDICES
    if kernel.options:
        listed |= Variant.OPTION
    if kernel.masks:
        listed |= Variant.MASKS
    for modes in kernel.modes.values():
        for mode in MODES[: len(modes)]:
            listed |= mode
    return listed


def _missing(use: OperatorUse, catalog: dict[str, Kernel], origins: dict[str, list[str]]) -> str:
    dtypes = sorted({t.dtype for call in use.calls for argument in call.arguments for t in argument})
    base = use.name.partition(".")[0]
    near = [name for name in sorted(catalog) if name.partition(".")[0] == base]
    near = near or difflib.get_close_matches(use.name, list(catalog), n=3, cutoff=0.8)
    lines = [f"no kernel for operator {use.name} (dtypes {', '.join(dtypes) or 'none'})", *_places(use.name, origins)]
    if near:
        lines.append(f"  nearest with a kernel: {', '.join(near)}")
    lines.append(
        "  next step: express that part of the model by others, or add a kernel: kernels/README.md"
        f"{more_about('NoKernel')}"
    )
    return "\n".join(lines)


def _other_schema(
    use: OperatorUse, kernel: Kernel, given: int, names: Sequence[str], origins: dict[str, list[str]]
) -> str:
    return "\n".join(
        [
            f"operator {use.name} has {given} arguments in the program, and the kernel in {kernel.header} takes "
            f"{len(names)}: {', '.join(names)}",
            *_places(use.name, origins),
            "  the program comes from a release of ExecuTorch in which the operator has other arguments",
            "  next step: export the model with this project's ExecuTorch, from its model file (docs/models.md)",
        ]
    )


def _unsupported(use: OperatorUse, kernel: Kernel, problems: list[str], origins: dict[str, list[str]]) -> str:
    also = ", ".join(kernel.variants)
    return "\n".join(
        [
            f"the kernel of operator {use.name} does not support {', nor '.join(problems)}",
            *_places(use.name, origins),
            f"  supported: dtypes {', '.join(kernel.dtypes)}" + (f"; {also.replace('_', ' ')}" if also else ""),
            "  next step: convert the tensors there (x.to(torch.float32), x.contiguous()), or extend "
            f"{kernel.header} and its operators.yaml{more_about('NoKernel')}",
        ]
    )


def _places(name: str, origins: dict[str, list[str]]) -> list[str]:
    places = origins.get(name, [])
    return ["  in the model: " + "; ".join(places)] if places else []


def origins_of(manifests: Iterable[Manifest]) -> dict[str, list[str]]:
    """Returns the locations in the user's models by operator."""
    origins: dict[str, list[str]] = {}
    for manifest in manifests:
        for operator in manifest.operators:
            name = operator_name(operator.name, operator.overload)
            known = origins.setdefault(name, [])
            known += [place for place in operator.places if place not in known]
    return origins


@dataclass(frozen=True)
class Backend:
    """A backend of an image: its name in programs, and its C++ object with the header that declares it."""

    id: str
    header: str
    object: str


def select_backends(needed: Iterable[str], given: Iterable[Sequence[str]]) -> list[Backend]:
    """Selects the backends of programs' delegates.

    Args:
      needed: their names in the programs.
      given: the image's backends, as the fields of Backend.

    Raises:
      UnsupportedError: names those that are missing.
    """
    backends = {fields[0]: Backend(*fields) for fields in given}
    missing = sorted(set(needed) - set(backends))
    if missing:
        raise UnsupportedError(
            f"the image has no backend {', '.join(missing)}, which its programs have delegates of; give the "
            f"torch_backend to `backends` of the torch_firmware; it has {', '.join(sorted(backends)) or 'none'}"
        )
    return [backends[name] for name in sorted(set(needed))]


def registry_source(selected: Sequence[Selected], parts: Part, backends: Sequence[Backend] | None = ()) -> str:
    """The C++ source of the kernel table.

    Args:
      selected: the kernels.
      parts: the parts of the runtime that load the programs.
      backends: what runs delegates; None: any that is registered when the image runs.
    """
    headers = sorted({entry.kernel.header for entry in selected} | {backend.header for backend in backends or ()})
    lines = [
        "// Generated by //tools/pipeline/registry.",
        '#include "runtime/executor/optional_parts.h"',
        '#include "runtime/backend/static_backends.h"',
        '#include "runtime/kernel/static_kernels.h"',
        "",
        '#include "kernels/boxed.h"',
        '#include "kernels/selection.h"',
        *[f'#include "{header}"' for header in headers],
        "",
        "namespace executorch {",
        "namespace runtime {",
        "namespace internal {",
        "",
    ]
    if selected:
        kernels = [f'    Kernel("{entry.kernel.operator}", kFunctions[{i}]),' for i, entry in enumerate(selected)]
        lines += ["namespace {", "constexpr OpFunction kFunctions[] = {", *map(_function, selected), "};"]
        lines += ["constexpr Kernel kKernels[] = {", *kernels, "};", "} // namespace", ""]
    checked = [
        checked for i, entry in enumerate(selected) for checked in checked_arguments(f"kFunctions[{i}]", entry.kernel)
    ]
    table = "(kKernels)" if selected else ""
    lines += [
        "extern const Span<const Kernel> kStaticKernels;",
        f"const Span<const Kernel> kStaticKernels{table};",
        "",
        *parts_source(parts, checked),
        "",
        *_backends_source(backends),
        "",
        "} // namespace internal",
        "} // namespace runtime",
        "} // namespace executorch",
        "",
    ]
    return "\n".join(lines)


def _backends_source(backends: Sequence[Backend] | None) -> list[str]:
    if backends is None:
        return []
    rows = [f'    {{"{backend.id}", &{backend.object}}},' for backend in backends]
    table = ["namespace {", "const Backend kBackends[] = {", *rows, "};", "} // namespace"] if rows else []
    return [
        *table,
        "extern const Span<const Backend> kStaticBackends;",
        f"const Span<const Backend> kStaticBackends{'(kBackends)' if rows else ''};",
    ]


def _function(entry: Selected) -> str:
    kernel = entry.kernel
    native = "torch::executor::native"
    writes = f", {sum(1 << position for position in kernel.writes):#x}" if kernel.writes else ""
    if not kernel.is_template:
        # A user's own operator, whose schema is not in the description that the build writes.
        own = f"    {native}::boxed<&{kernel.function}, {native}::internal::kAsTaken>,"
        return f"    &{kernel.function}," if kernel.is_boxed else own
    comment = ""
    if entry.dtypes is None or entry.variants is None:
        selection = "SelectAll"
    else:
        mask = sum(1 << _VALUES[dtype] for dtype in entry.dtypes)
        selection = f"Selection<{mask:#x}, {int(entry.variants):#x}>"
        words = sorted(entry.dtypes) + [variant.lower() for variant in _names(entry.variants)]
        comment = f"    // {' '.join(words)}\n"
    function = f"{kernel.function}<{native}::{selection}>"
    if kernel.is_boxed:
        return f"{comment}    &{function},"
    if entry.variants is None or Variant.DYNAMIC_SHAPE in entry.variants:
        writes = f"{writes or ', 0'}, true"
    return f"{comment}    {native}::boxed<&{function}{writes}>,"


def _names(variants: Variant) -> list[str]:
    return [str(variant.name) for variant in Variant if variant in variants]
