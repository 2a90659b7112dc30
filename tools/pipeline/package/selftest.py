"""Writes NAME_selftest.c: examples of a model, and a function that runs it and compares the results."""

from collections.abc import Sequence

from tools.artifacts.program.program import ELEMENT_SIZES
from tools.pipeline.compile.values import array, data_array
from tools.pipeline.link.interface import Example, Interface

# The largest difference from PyTorch's numbers.
_TOLERANCE = "1e-4f"


def selftest_header(name: str) -> str:
    """Returns the text of NAME_selftest.h."""
    return f"""\
#ifndef {name.upper()}_SELFTEST_H
#define {name.upper()}_SELFTEST_H

#include "{name}.h"

#ifdef __cplusplus
extern "C" {{
#endif

/**
 * Runs the model on the example that its PyTorch module computed, one that keeps state on several, one after another.
 *
 * @param model Any memory; initialized by this.
 * @returns 0 if the outputs are PyTorch's; the index of the first output that is not, from 1 on; a negative
 *     torch_fusion_status if a call failed.
 */
int {name}_selftest({name}_model_t* model);

#ifdef __cplusplus
}}
#endif

#endif
"""


def selftest_source(name: str, interface: Interface, examples: Sequence[Example]) -> str:
    """Returns the text of NAME_selftest.c.

    Args:
        name: the model's name.
        interface: its inputs and outputs.
        examples: its successive inputs and expected outputs.
    """
    lines = [f'#include "{name}_selftest.h"', "", "#include <string.h>", "", f"enum {{ STEPS = {len(examples)} }};", ""]
    for kind, specs in (("input", interface.inputs), ("output", interface.outputs)):
        for place, spec in enumerate(specs):
            data = b"".join((example.inputs if kind == "input" else example.outputs)[place] for example in examples)
            if kind == "output" and not data:
                continue
            first, *others = _array(f"{kind}_{place}", spec.dtype.name, data)
            lines += [f"static {first}", *others, ""]
    checks: list[str] = []
    for place, spec in enumerate(interface.outputs):
        lines += _comparison(name, place, spec.dtype.name, len(examples[0].outputs[place]))
        checks += [f"    if (!equals_{place}(model, step)) {{", f"      return {place + 1};", "    }"]
    lines += [
        f"int {name}_selftest({name}_model_t* model) {{",
        f"  torch_fusion_status status = {name}_init(model, sizeof(*model));",
        "  for (size_t step = 0; step < STEPS; ++step) {",
    ]
    for place, data in enumerate(examples[0].inputs):
        lines += [
            "    if (status == TORCH_FUSION_OK) {",
            f"      const unsigned char* const data = (const unsigned char*)input_{place} + step * {len(data)};",
            f"      status = {name}_set_input(model, {place}, data, {len(data)});",
            "    }",
        ]
    lines += [
        "    if (status == TORCH_FUSION_OK) {",
        f"      status = {name}_run(model);",
        "    }",
        "    if (status != TORCH_FUSION_OK) {",
        "      return -(int)status;",
        "    }",
        *checks,
        "  }",
        "  return 0;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _array(name: str, dtype: str, data: bytes) -> list[str]:
    return data_array(name, dtype, data) if data else array("unsigned char", name, ["0"])


def _comparison(name: str, place: int, dtype: str, size: int) -> list[str]:
    """Returns the function that compares an output of `size` bytes with that of a step."""
    count = size // ELEMENT_SIZES[dtype]
    head = [
        f"static int equals_{place}(const {name}_model_t* model, size_t step) {{",
        f"  if ({name}_output_size(model, {place}) != {size}) {{",
        "    return 0;",
        "  }",
    ]
    if not count:
        return [*head, "  (void)step;", "  return 1;", "}", ""]
    if dtype in ("FLOAT", "DOUBLE"):
        c_type = dtype.lower()
        return [
            *head,
            f"  const {c_type}* const y = (const {c_type}*){name}_output(model, {place});",
            f"  for (size_t i = 0; i < {count}; ++i) {{",
            f"    const {c_type} expected = output_{place}[step * {count} + i];",
            f"    const {c_type} difference = y[i] > expected ? y[i] - expected : expected - y[i];",
            f"    const {c_type} size = expected > 0 ? expected : -expected;",
            "    if (y[i] == expected || (y[i] != y[i] && expected != expected)) {",
            "      continue;",
            "    }",
            f"    if (!(difference <= {_TOLERANCE} + {_TOLERANCE} * size)) {{",
            "      return 0;",
            "    }",
            "  }",
            "  return 1;",
            "}",
            "",
        ]
    if dtype in ("CHAR", "BYTE", "SHORT"):
        # Quantized from PyTorch's floats, which are sometimes rounded differently.
        c_type = {"CHAR": "signed char", "BYTE": "unsigned char", "SHORT": "short"}[dtype]
        return [
            *head,
            f"  const {c_type}* const y = (const {c_type}*){name}_output(model, {place});",
            f"  for (size_t i = 0; i < {count}; ++i) {{",
            f"    const int difference = (int)y[i] - (int)output_{place}[step * {count} + i];",
            "    if (difference < -1 || difference > 1) {",
            "      return 0;",
            "    }",
            "  }",
            "  return 1;",
            "}",
            "",
        ]
    return [
        *head,
        f"  const unsigned char* const expected = (const unsigned char*)output_{place} + step * {size};",
        f"  return memcmp({name}_output(model, {place}), expected, {size}) == 0;",
        "}",
        "",
    ]
