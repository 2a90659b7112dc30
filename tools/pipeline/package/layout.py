"""Defines layouts, and their common parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# The first line of each C++ source of a package: compilers then need no other options than the include path.
SETTINGS_HEADER = "torch_fusion_settings.h"
SETTINGS = """\
#pragma once

/* What the sources of this folder are compiled with, by any build system. */
#if __cplusplus < 201703L
#error "C++17 is needed: -std=c++17 or -std=gnu++17"
#endif
/* By default GCC and Clang make ARM instructions, which fault on every Cortex-M, and linkers take them. */
#if defined(__ARM_ARCH) && __ARM_ARCH < 6 && !defined(__linux__)
#error "no core is chosen for these sources: compile them by -mcpu and -mfloat-abi of the application"
#endif
/* Inner loops take all registers, of which GCC keeps some for itself at -O0, with "Os" here (14), and by -O3 (14, for a
   Cortex-M7). Clang has enough of them. */
#if defined(__GNUC__) && !defined(__clang__)
#if !defined(__OPTIMIZE__) || (__GNUC__ >= 14 && !defined(__OPTIMIZE_SIZE__))
#pragma GCC optimize("O2", "omit-frame-pointer")
#endif
#endif
/* Checks of the headers in third parties' code cost flash; what can go wrong is checked without them. */
#ifndef NDEBUG
#define NDEBUG
#endif
/* No messages: a model has no console. */
#ifndef ET_LOG_ENABLED
#define ET_LOG_ENABLED 0
#endif
/* There is no header that PyTorch's build would have made. */
#ifndef C10_USING_CUSTOM_GENERATED_MACROS
#define C10_USING_CUSTOM_GENERATED_MACROS
#endif
"""

# The limit of characters in PlatformIO.
_LONGEST_SENTENCE = 255


@dataclass(frozen=True)
class Package:
    """A package.

    Attributes:
        name: its name, a C identifier.
        core: the core that it is for, or `host` for any: its models are portable.
        models: names of its models.
        sources: its C and C++ sources.
        version: its version, of three numbers.
        author: the publisher.
        url: the address of its description; empty: none.
        archives: cores and float ABIs, such as `cortex_m4-softfp`, of its archives; empty: it has sources.
        fingerprint: the fingerprint of the parts shared with other packages, see fingerprint.py.
        model_fingerprints: the fingerprint of each model's code and weights.
        content_fingerprint: the fingerprint of everything but the build system's files.
    """

    name: str
    core: str
    models: tuple[str, ...]
    sources: tuple[str, ...]
    version: str = "1.0.0"
    author: str = "Torch Fusion"
    url: str = ""
    archives: tuple[str, ...] = ()
    fingerprint: str = ""
    model_fingerprints: Mapping[str, str] = field(default_factory=dict)
    content_fingerprint: str = ""

    @property
    def sentence(self) -> str:
        """Describes the package in one sentence, with all models' names if that fits into build systems' limits."""
        target = "any processor" if self.core == "host" else self.core
        for count in range(len(self.models), 0, -1):
            more = [] if count == len(self.models) else [f"and {len(self.models) - count} more"]
            text = f"PyTorch models as plain C++17 for {target}: {', '.join([*self.models[:count], *more])}."
            if len(text) <= _LONGEST_SENTENCE:
                return text
        return f"PyTorch models as plain C++17 for {target}."


@dataclass(frozen=True)
class Layout:
    """A build system's requirements for a package.

    Attributes:
        files: path -> text of the build system's files, including examples.
        use: the code that a user writes, as Markdown.
        headers: the folder of the models' headers.
        archive: the path of an archive, by the package's name and the core with its float ABI; None: it has none.
        check: raises UserError if the build system refuses the package's name; None: it accepts any.
    """

    files: Callable[[Package], Mapping[str, str]]
    use: Callable[[Package], str]
    headers: str = "include"
    archive: Callable[[str, str], str] | None = None
    check: Callable[[Package], None] | None = None


def archive_path(name: str, identity: str) -> str:
    """Returns the usual path of an archive."""
    return f"lib/{identity}/lib{name}.a"


def main_c(package: Package) -> str:
    """Returns a program that runs the self-tests and reports success by its exit status."""
    includes = "\n".join(f'#include "{model}_selftest.h"' for model in package.models)
    calls = reports(package, '  failed |= report("{name}", {result});')
    return f"""\
/* Runs each model of {package.name} on its example. The exit status is 0 if all compute what PyTorch does. */
#include <stdio.h>

{includes}

{_variables(package)}

static int report(const char* model, int result) {{
  printf("%s: %s (%d)\\n", model, result == 0 ? "as PyTorch" : "wrong", result);
  return result != 0;
}}

int main(void) {{
  int failed = 0;
{calls}
  return failed;
}}
"""


def instances(package: Package) -> str:
    """Returns includes and instances of the models, for an example."""
    includes = "\n".join(f"#include <{model}_selftest.h>" for model in package.models)
    return f"{includes}\n\n{_variables(package)}"


def reports(package: Package, statement: str) -> str:
    """Returns a statement for each model, with its name and the result of its self-test.

    Args:
        package: the package.
        statement: C++ with `{name}` and `{result}`.
    """
    return "\n".join(statement.format(name=model, result=_selftest(model)) for model in package.models)


def _variables(package: Package) -> str:
    """Defines an instance of each model. Its name differs from the model's, which may be that of a function, such as
    `exp`.
    """
    return "\n".join(f"static {model}_model_t {model}_instance;" for model in package.models)


def _selftest(model: str) -> str:
    return f"{model}_selftest(&{model}_instance)"


def lines(items: Sequence[str], indent: str = "  ") -> str:
    """Joins items, one per line."""
    return "\n".join(f"{indent}{item}" for item in items)
