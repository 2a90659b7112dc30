"""What a layout is, and what all of them have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# The first line of each C++ source of a package: nothing else has to be said to the compiler than where headers are.
SETTINGS_HEADER = "torch_fusion_settings.h"
SETTINGS = """\
#pragma once

/* What the sources of this folder are compiled with, by any build system. */
#if __cplusplus < 201703L
#error "C++17 is needed: -std=c++17 or -std=gnu++17"
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


@dataclass(frozen=True)
class Package:
    """A package.

    Attributes:
        name: its name, a C identifier.
        core: the core that it is for, `host` for any: its models are portable.
        models: names of its models.
        sources: C and C++ sources in it.
        version: its version, of three numbers.
        author: who publishes it.
        url: where it is described; empty: nowhere.
        archives: cores and float ABIs, such as `cortex_m4-softfp`, that it has archives for in place of sources.
    """

    name: str
    core: str
    models: tuple[str, ...]
    sources: tuple[str, ...]
    version: str = "1.0.0"
    author: str = "Torch Fusion"
    url: str = ""
    archives: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What it is, in one sentence."""
        target = "any processor" if self.core == "host" else self.core
        return f"PyTorch models as plain C++17 for {target}: {', '.join(self.models)}."


@dataclass(frozen=True)
class Layout:
    """How a build system wants a package.

    Attributes:
        files: path -> text of what it reads, examples included.
        use: what a user writes, as Markdown.
        headers: the folder of the models' headers.
        archive: where a package has an archive, by the package's name and the core with its float ABI; None: nowhere.
        check: refuses a package whose name the build system does not take, with a UserError; None: it takes any.
    """

    files: Callable[[Package], Mapping[str, str]]
    use: Callable[[Package], str]
    headers: str = "include"
    archive: Callable[[str, str], str] | None = None
    check: Callable[[Package], None] | None = None


def archive_path(name: str, identity: str) -> str:
    """Where most packages have an archive."""
    return f"lib/{identity}/lib{name}.a"


def main_c(package: Package) -> str:
    """A program that runs the self-tests: its exit status says whether they passed."""
    includes = "\n".join(f'#include "{model}_selftest.h"' for model in package.models)
    instances = "\n".join(f"static {model}_model_t {model};" for model in package.models)
    calls = "\n".join(f"  failed |= {model}_selftest(&{model});" for model in package.models)
    return f"""\
/* Runs each model of {package.name} on its example. The exit status is 0 if all compute what PyTorch does. */
{includes}

{instances}

int main(void) {{
  int failed = 0;
{calls}
  return failed != 0;
}}
"""


def instances(package: Package) -> str:
    """Includes and instances of the models, for an example."""
    includes = "\n".join(f"#include <{model}_selftest.h>" for model in package.models)
    lines = "\n".join(f"static {model}_model_t {model};" for model in package.models)
    return f"{includes}\n\n{lines}"


def reports(package: Package, statement: str) -> str:
    """A statement for each model, of its name and the result of its self-test.

    Args:
        package: the package.
        statement: C++ with `{name}` and `{result}`.
    """
    return "\n".join(statement.format(name=model, result=f"{model}_selftest(&{model})") for model in package.models)


def lines(items: Sequence[str], indent: str = "  ") -> str:
    """Items below each other."""
    return "\n".join(f"{indent}{item}" for item in items)
