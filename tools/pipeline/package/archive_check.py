"""Writes PACKAGE_archive.h, which stops the compilation if a model is included for another core than the archive's.

The linker would accept an archive for a Cortex-M4 in an image for a Cortex-M0, where the first unknown instruction
causes a fault.
"""

import re
from collections.abc import Sequence

from tools.artifacts.core.core import has_dsp, has_fpu, has_vectors

_ADVICE = "take the archive of this core and float ABI, or change -mcpu, -mfpu and -mfloat-abi"

# Armv6-M and Armv8-M Baseline.
_BASELINE = re.compile(r"cortex_m(0|0plus|1|23)(_|$)")


def definition(package: str, identity: str) -> str:
    """Returns the macro by which a build system's file tells the archive that it links.

    Args:
        package: the package's name.
        identity: a core and float ABI, such as `cortex_m4-softfp`; empty: the macro's prefix.
    """
    return f"{package.upper()}_ARCHIVE_IS_{identity.replace('-', '_')}"


def archive_header(package: str, archives: Sequence[str], is_told: bool = True) -> str:
    """Returns the text of PACKAGE_archive.h.

    Args:
        package: the package's name.
        archives: cores and float ABIs.
        is_told: whether who links an archive has to tell it by the macro, as the package's files for CMake and make do.
    """
    guard = f"{package.upper()}_ARCHIVE_H"
    lines = [
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        f"/* What {package.upper()}_ARCHIVE was compiled for, what includes this has to be compiled for, too. */",
    ]
    if is_told:
        example = definition(package, archives[0])
        lines += [
            f"#if {' && '.join(f'!defined({definition(package, identity)})' for identity in archives)}",
            f'#error "define the archive that is linked by its folder, as {example} of lib/{archives[0]}"',
            "#endif",
        ]
    else:
        known = " || ".join("(" + " && ".join(condition for condition, _ in _needs(each)) + ")" for each in archives)
        lines += [
            # GCC for other machines does not know the macro.
            f"#if __ARM_ARCH_PROFILE != 'M' || !({known})",
            f'#error "{package} is compiled for {", ".join(archives)}; this board has another core or float ABI: '
            'choose another board, or add its core to cores of the torch_package"',
            "#endif",
        ]
    for identity in archives:
        lines += [f"#if defined({definition(package, identity)})"]
        # The first that is wrong says enough.
        for number, (condition, missing) in enumerate(_needs(identity)):
            lines += [
                f"#{'elif' if number else 'if'} !({condition})",
                f'#error "{package.upper()}_ARCHIVE is {identity}, and this is compiled {missing}; {_ADVICE}"',
            ]
        lines += ["#endif", "#endif"]
    return "\n".join([*lines, "", "#endif", ""])


def _needs(identity: str) -> list[tuple[str, str]]:
    """Returns preprocessor conditions of the Arm C Language Extensions, and descriptions of code violating them."""
    name, abi = identity.split("-")
    core = name.replace("_", "-")
    hard = "defined(__ARM_PCS_VFP)"
    needs = [
        (hard, "by another float ABI than -mfloat-abi=hard") if abi == "hard" else (f"!{hard}", "by -mfloat-abi=hard")
    ]
    if not _BASELINE.match(name):
        needs.append(("__ARM_ARCH_ISA_THUMB >= 2", "for a core of Armv6-M or Armv8-M Baseline"))
    if has_dsp(core):
        needs.append(("defined(__ARM_FEATURE_DSP)", "for a core without the DSP extension"))
    if has_vectors(core):
        needs.append(("defined(__ARM_FEATURE_MVE)", "for a core without MVE"))
    if has_fpu(core) and abi != "soft":
        needs.append(("defined(__ARM_FP)", "without an FPU"))
    return needs
