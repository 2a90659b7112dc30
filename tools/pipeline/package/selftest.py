"""NAME_selftest.c: the example of a model, and a function that runs it and compares."""

from __future__ import annotations

from tools.pipeline.compile.values import array, data_array
from tools.pipeline.link.interface import Example, Interface

# How far from PyTorch's a number may be.
_TOLERANCE = "1e-4f"


def selftest_header(name: str) -> str:
    """The text of NAME_selftest.h."""
    return f"""\
#ifndef {name.upper()}_SELFTEST_H
#define {name.upper()}_SELFTEST_H

#include "{name}.h"

#ifdef __cplusplus
extern "C" {{
#endif

/**
 * Runs the model on the example that its PyTorch module computed.
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


def selftest_source(name: str, interface: Interface, example: Example) -> str:
    """The text of NAME_selftest.c."""
    lines = [f'#include "{name}_selftest.h"', "", "#include <string.h>", ""]
    checks: list[str] = []
    for place, data in enumerate(example.inputs):
        dtype = interface.inputs[place].dtype.name
        lines += [f"static {line}" if not i else line for i, line in enumerate(_array(f"input_{place}", dtype, data))]
        lines.append("")
    for place, data in enumerate(example.outputs):
        dtype = interface.outputs[place].dtype.name
        lines += [f"static {line}" if not i else line for i, line in enumerate(_array(f"output_{place}", dtype, data))]
        lines.append("")
        checks += [f"  if (!equals_{place}(model)) {{", f"    return {place + 1};", "  }"]
    for place, spec in enumerate(interface.outputs):
        lines += _comparison(name, place, spec.dtype.name)
    lines += [
        f"int {name}_selftest({name}_model_t* model) {{",
        f"  torch_fusion_status status = {name}_init(model, sizeof(*model));",
    ]
    for place in range(len(example.inputs)):
        lines += [
            "  if (status == TORCH_FUSION_OK) {",
            f"    status = {name}_set_input(model, {place}, input_{place}, sizeof(input_{place}));",
            "  }",
        ]
    lines += [
        "  if (status == TORCH_FUSION_OK) {",
        f"    status = {name}_run(model);",
        "  }",
        "  if (status != TORCH_FUSION_OK) {",
        "    return -(int)status;",
        "  }",
        *checks,
        "  return 0;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _array(name: str, dtype: str, data: bytes) -> list[str]:
    return data_array(name, dtype, data) if data else array("unsigned char", name, ["0"])


def _comparison(name: str, place: int, dtype: str) -> list[str]:
    head = [
        f"static int equals_{place}(const {name}_model_t* model) {{",
        f"  if ({name}_output_size(model, {place}) != sizeof(output_{place})) {{",
        "    return 0;",
        "  }",
    ]
    if dtype in ("FLOAT", "DOUBLE"):
        c_type = dtype.lower()
        return [
            *head,
            f"  const {c_type}* const y = (const {c_type}*){name}_output(model, {place});",
            f"  for (size_t i = 0; i < sizeof(output_{place}) / sizeof(output_{place}[0]); ++i) {{",
            f"    const {c_type} expected = output_{place}[i];",
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
        # Quantized by PyTorch's floats, which round otherwise now and then.
        c_type = {"CHAR": "signed char", "BYTE": "unsigned char", "SHORT": "short"}[dtype]
        return [
            *head,
            f"  const {c_type}* const y = (const {c_type}*){name}_output(model, {place});",
            f"  for (size_t i = 0; i < sizeof(output_{place}) / sizeof(output_{place}[0]); ++i) {{",
            f"    const int difference = (int)y[i] - (int)output_{place}[i];",
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
        f"  return memcmp({name}_output(model, {place}), output_{place}, sizeof(output_{place})) == 0;",
        "}",
        "",
    ]
