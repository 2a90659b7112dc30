"""Distinguishes packages of different versions of this project, which must not be in the same application.

If two packages contain the same kernels, the linker takes those of one, whose layouts and arguments may not match the
other's models. So each model refers to a symbol that is named after the sources that packages share. The object that
defines it also defines a symbol with the same name in all packages: the linker refuses a second definition, and names
the archives. Nothing of it remains in an image linked with --gc-sections.

In the same way, code that includes a model's header refers to a symbol that is named after that model's code and
weights: otherwise the linker would use one of two models with the same name for both. Its init() is named after the
float ABI that it is compiled by: about objects of two, the linker says which these are, but not what to change.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.pipeline.package.layout import SETTINGS

# The path by which a model's source includes it.
VERSION_HEADER = "runtime/compiled/package_version.h"
# The name that the linker shows.
_ONE_VERSION = "torch_fusion_packages_of_one_application_must_be_made_by_one_version"
_ONE_MODEL = "torch_fusion_two_models_of_one_application_are_called_"
_DIGITS = 16
# The text before and after the declarations of a model's header.
_START_OF_HEADER = '\n#ifdef __cplusplus\nextern "C" {'
_END_OF_HEADER = "\n#ifdef __cplusplus\n}"


def fingerprint(roots: Iterable[Path], files: Iterable[Path]) -> str:
    """Returns a hexadecimal number that only depends on the files' contents and their paths below the roots."""
    roots = list(roots)
    contents = {_below(roots, file): file.read_bytes() for file in files}
    contents["settings"] = SETTINGS.encode()
    return _digest(contents)


def fingerprint_of(texts: Mapping[str, str]) -> str:
    """Returns the same for files of a package: path -> text."""
    return _digest({path: text.encode() for path, text in texts.items()})


def version_files(version: str) -> dict[str, str]:
    """Returns the header that each model of a package includes, and its source: path in the package -> text.

    Args:
        version: the fingerprint of the sources that packages share.
    """
    symbol = f"torch_fusion_version_{version}"
    header = f"""\
#pragma once

// Named after the sources that packages share.
extern "C" const unsigned char {symbol};

// Packages of other sources must not be in the same application: package_version.cpp says why. The linker drops this
// with --gc-sections.
[[gnu::used]] static const unsigned char* const torch_fusion_version = &{symbol};
"""
    source = f"""\
#include "{VERSION_HEADER}"

// An application takes the kernels that two packages have from one of them. It ends in "multiple definition" of this if
// they were made by different versions of Torch Fusion, whose models need different kernels: make all packages by one.
extern "C" const unsigned char {_ONE_VERSION};
extern "C" const unsigned char {_ONE_VERSION} = 0;

extern "C" const unsigned char {symbol} = 0;
"""
    path = f"src/{VERSION_HEADER}"
    return {path: header, path.removesuffix(".h") + ".cpp": source}


def with_identity(name: str, model: str, header: str, source: str) -> tuple[str, str]:
    """Returns a model's header and source with which the linker refuses another model of the same name.

    Args:
        name: the model's name.
        model: the fingerprint of its code and weights.
        header: the text of NAME.h.
        source: the text of NAME.cpp.
    """
    symbol = f"{name}_model_{model}"
    abi = f"""\

/* An application of another float ABI misses the function of this name. */
#if defined(__ARM_PCS_VFP)
#define {name}_init {name}_init_of_a_package_by_mfloat_abi_hard
#elif defined(__arm__)
#define {name}_init {name}_init_of_a_package_without_mfloat_abi_hard
#endif
"""
    reference = f"""\

/* Named after the model's code and weights: an application that has another model of this name, too, ends in
 * "multiple definition" when it is linked. The linker drops this with --gc-sections. */
extern const unsigned char {symbol};
__attribute__((used)) static const unsigned char* const {name}_model_identity = &{symbol};
"""
    definition = f"""
// The linker would take one model for both of one name in an application: give one another program_name.
extern "C" const unsigned char {_ONE_MODEL}{name};
extern "C" const unsigned char {_ONE_MODEL}{name} = 0;
extern "C" const unsigned char {symbol} = 0;
"""
    includes, start, rest = header.partition(_START_OF_HEADER)
    declarations, end, rest = rest.rpartition(_END_OF_HEADER)
    assert start, f"{name}.h does not begin as headers do"
    assert end, f"{name}.h does not end as headers do"
    return f"{includes}{abi}{start}{declarations}{reference}{end}{rest}", source + definition


def _below(roots: Iterable[Path], file: Path) -> str:
    """Returns a file's path below the innermost root that contains it."""
    root = max((root for root in roots if file.is_relative_to(root)), key=lambda root: len(root.parts))
    return file.relative_to(root).as_posix()


def _digest(contents: Mapping[str, bytes]) -> str:
    """Hashes contents by path."""
    total = hashlib.sha256()
    for path, data in sorted(contents.items()):
        total.update(f"{path} {hashlib.sha256(data).hexdigest()}\n".encode())
    return total.hexdigest()[:_DIGITS]
