"""The cores that this project knows: platforms, compiler flags, boards, and the tools derive from this list."""

# Floating-point arguments are passed in these: registers of the FPU, which MVE has, too, or the core's.
_HARD = "-mfloat-abi=hard"
_SOFT = "-mfloat-abi=soft"

# GCC 12 makes conversions conditional (vcvtne), which its assembler takes for a vector instruction.
_MVE = [_HARD, "-fno-if-conversion2"]

def _core(flags, cpu, multilib, kernels, description):
    return struct(
        flags = flags,
        cpu = cpu,
        multilib = multilib,
        kernels = kernels,
        fpu = multilib.endswith("p/hard"),
        description = description,
    )

def _vector_cores(name, title, mve, mve_int, nomve, nomve_nofp):
    """The four variants of a core of Armv8.1-M Mainline, by what GCC's flags say of MVE and FPU."""
    return {
        name: _core(mve + _MVE, "armv8-m", "thumb/v8-m.main+dp/hard", "mve", title + " with FPv5-DP and the vector extension (MVE, \"Helium\") for integers and floats"),
        name + "_mve_int": _core(mve_int + _MVE, "armv8-m", "thumb/v8.1-m.main+mve/hard", "mve", title + " with the vector extension for integers, without FPU"),
        name + "_nomve": _core(nomve + [_HARD], "armv8-m", "thumb/v8-m.main+dp/hard", "dsp", title + " with FPv5-DP and the DSP extension, without MVE"),
        name + "_nomve_nofp": _core(nomve_nofp + [_SOFT], "armv8-m", "thumb/v8-m.main/nofp", "dsp", title + " with the DSP extension, without FPU and MVE"),
    }

# GCC 12 knows the architecture of Cortex-M52 and M85, Armv8.1-M Mainline, but not them.
_ARMV8_1 = {
    variant: ["-march=armv8.1-m.main+dsp" + extensions, "-mtune=cortex-m55"]
    for variant, extensions in {
        "mve": "+mve.fp+fp.dp",
        "mve_int": "+mve",
        "nomve": "+fp.dp",
        "nomve_nofp": "",
    }.items()
}

# The cores by name, which is the constraint value `core_<name>` of //platforms:core and the platform
# //platforms:<name>, and with hyphens the name that programs, plans, board.json and command lines use:
#   flags: GCC's flags
#   cpu: value of @platforms//cpu
#   multilib: the toolchain's variant of the C and C++ libraries that these flags select
#   kernels: what the int8 kernels compute with: `scalar`, the instructions that all cores have; `dsp`, pairs of 16-bit
#     numbers; `mve`, vectors
#   fpu: whether it has one
#   description: its floating-point unit and extensions
CORES = {
    "cortex_m0": _core(["-mcpu=cortex-m0", _SOFT], "armv6-m", "thumb/v6-m/nofp", "scalar", "Cortex-M0, as on nRF51 and STM32F0: no FPU, no division, aligned accesses only"),
    "cortex_m0plus": _core(["-mcpu=cortex-m0plus", _SOFT], "armv6-m", "thumb/v6-m/nofp", "scalar", "Cortex-M0+, as on RP2040 and STM32L0: as Cortex-M0"),
    "cortex_m1": _core(["-mcpu=cortex-m1", _SOFT], "armv6-m", "thumb/v6-m/nofp", "scalar", "Cortex-M1, for FPGAs: as Cortex-M0"),
    "cortex_m3": _core(["-mcpu=cortex-m3", _SOFT], "armv7-m", "thumb/v7-m/nofp", "scalar", "Cortex-M3, as on STM32F1: no FPU, no DSP extension"),
    "cortex_m4": _core(["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", _HARD], "armv7e-mf", "thumb/v7e-m+fp/hard", "dsp", "Cortex-M4 with FPv4-SP, as on STM32WB55 and STM32F4"),
    "cortex_m4_nofp": _core(["-mcpu=cortex-m4+nofp", _SOFT], "armv7e-m", "thumb/v7e-m/nofp", "dsp", "Cortex-M4 without FPU"),
    "cortex_m7": _core(["-mcpu=cortex-m7", _HARD], "armv7e-mf", "thumb/v7e-m+dp/hard", "dsp", "Cortex-M7 with FPv5-DP, as on STM32H7"),
    "cortex_m7_sp": _core(["-mcpu=cortex-m7+nofp.dp", _HARD], "armv7e-mf", "thumb/v7e-m+fp/hard", "dsp", "Cortex-M7 with FPv5-SP, as on STM32F746"),
    "cortex_m7_nofp": _core(["-mcpu=cortex-m7+nofp", _SOFT], "armv7e-m", "thumb/v7e-m/nofp", "dsp", "Cortex-M7 without FPU"),
    "cortex_m23": _core(["-mcpu=cortex-m23", _SOFT], "armv8-m", "thumb/v8-m.base/nofp", "scalar", "Cortex-M23: no FPU, aligned accesses only"),
    "cortex_m33": _core(["-mcpu=cortex-m33", _HARD], "armv8-m", "thumb/v8-m.main+fp/hard", "dsp", "Cortex-M33 with FPv5-SP and the DSP extension"),
    "cortex_m33_nodsp": _core(["-mcpu=cortex-m33+nodsp", _HARD], "armv8-m", "thumb/v8-m.main+fp/hard", "scalar", "Cortex-M33 with FPv5-SP, without the DSP extension"),
    "cortex_m33_nofp": _core(["-mcpu=cortex-m33+nofp", _SOFT], "armv8-m", "thumb/v8-m.main/nofp", "dsp", "Cortex-M33 with the DSP extension, without FPU"),
    "cortex_m33_nodsp_nofp": _core(["-mcpu=cortex-m33+nodsp+nofp", _SOFT], "armv8-m", "thumb/v8-m.main/nofp", "scalar", "Cortex-M33 without FPU and DSP extension"),
    "cortex_m35p": _core(["-mcpu=cortex-m35p", _HARD], "armv8-m", "thumb/v8-m.main+fp/hard", "dsp", "Cortex-M35P with FPv5-SP and the DSP extension"),
    "cortex_m35p_nofp": _core(["-mcpu=cortex-m35p+nofp", _SOFT], "armv8-m", "thumb/v8-m.main/nofp", "dsp", "Cortex-M35P with the DSP extension, without FPU"),
} | _vector_cores("cortex_m52", "Cortex-M52", **_ARMV8_1) | _vector_cores(
    "cortex_m55",
    "Cortex-M55",
    mve = ["-mcpu=cortex-m55"],
    mve_int = ["-mcpu=cortex-m55+nofp"],
    nomve = ["-mcpu=cortex-m55+nomve"],
    nomve_nofp = ["-mcpu=cortex-m55+nomve+nofp"],
) | _vector_cores("cortex_m85", "Cortex-M85", **_ARMV8_1)

# A program for several cores that no board chooses among, as when its quantization is reported, is for this one.
DEFAULT_CORE = "cortex_m4"

# The core that int8 programs of a layout, which is that of `kernels`, are made for, where it is among those they are for.
_PREFERRED = {
    "dsp": DEFAULT_CORE,
    "mve": "cortex_m55",
    "scalar": "cortex_m0",
}

def has_vectors(core):
    """Returns whether int8 programs for a core are laid out for vectors."""
    return CORES[core].kernels == "mve"

_FLOAT_ABI = "-mfloat-abi="

# GCC's float ABIs: what arguments are passed in and who computes, the core's registers and a library; the core's registers and
# the FPU; the FPU's registers and the FPU.
FLOAT_ABIS = ["soft", "softfp", "hard"]

def float_abi(core):
    """The float ABI that images for a core, a key of CORES, have."""
    return [flag for flag in CORES[core].flags if flag.startswith(_FLOAT_ABI)][0].removeprefix(_FLOAT_ABI)

def float_abis(core):
    """The float ABIs that code for a core can have: by `soft` GCC makes no vector instructions, which programs need that are
    laid out for them.

    Args:
      core: a key of CORES.

    Returns:
      list of str, some of FLOAT_ABIS
    """
    if float_abi(core) == "soft":
        return ["soft"]
    return [abi for abi in FLOAT_ABIS if abi != "soft" or not has_vectors(core)]

def float_abi_flags(core, abi):
    """GCC's flags for a core and a float ABI.

    Args:
      core: a key of CORES.
      abi: one of float_abis(core).

    Returns:
      list of str
    """
    flags = [flag for flag in CORES[core].flags if not flag.startswith(_FLOAT_ABI)]
    return [_FLOAT_ABI + abi] + [flag for flag in flags if abi != "soft" or not flag.startswith("-mfpu=")]

def softfp_multilibs():
    """The toolchain's variants of the libraries that the float ABI `softfp` selects, where they aren't those of `soft`."""
    return sorted({core.multilib.removesuffix("hard") + "softfp": None for core in CORES.values() if core.fpu})

def float_abi_error(abi):
    """Returns the error in a float ABI that a user gives; None: nothing. Empty is the one of images."""
    if abi in [""] + FLOAT_ABIS:
        return None
    return "float_abi = \"%s\" is unknown; allowed: %s, or none for the one that images for the core have" % (abi, FLOAT_ABIS)

def float_abi_constraints(abi):
    """Returns the reasons why cores can't have a float ABI, for `target_compatible_with` of targets built by it.

    Args:
      abi: one of FLOAT_ABIS; empty: the one of images, which every core has.

    Returns:
      dict for select()
    """
    reasons = {
        "soft": Label("//platforms:float_abi_soft_has_no_vector_instructions"),
        "softfp": Label("//platforms:float_abi_softfp_needs_an_fpu"),
        "hard": Label("//platforms:float_abi_hard_needs_an_fpu"),
    }
    return {
        Label("//platforms:core_" + core): [reasons[abi]]
        for core in CORES
        if abi and abi not in float_abis(core)
    } | {"//conditions:default": []}

def _has_costs(core):
    """Returns whether float_where_faster of torch_program knows the costs of a core."""
    return CORES[core].kernels != "scalar" and CORES[core].fpu

def representative(core, cores, by_cost):
    """The core that an int8 program for a core is made for: one for all of `cores` that take the same program.

    Args:
      core: one of CORES.
      cores: list of those that the program is for, `core` among them.
      by_cost: whether the program depends on what costs less on a core, and not on the layout only.
    """

    def kind(other):
        return (CORES[other].kernels, by_cost and _has_costs(other))

    preferred = _PREFERRED[CORES[core].kernels]
    alike = [other for other in cores if kind(other) == kind(core)]
    return preferred if preferred in alike else alike[0]

def core_name(core):
    """A core of CORES as programs, plans, board.json and command lines name it, such as `cortex-m4`."""
    return core.replace("_", "-")

def core_of(name):
    """The entry of CORES with a core_name()."""
    return CORES[name.replace("-", "_")]

def takes_program_for(core, lowered):
    """Returns whether images for a core take programs that were lowered for another; both by their core_name()."""
    return core_of(core).kernels == core_of(lowered).kernels

def core_platforms():
    """Defines, in //platforms, each core's constraint value, platform, and condition `<name>_alone`: a board with it and no NPU."""
    for name, core in CORES.items():
        native.constraint_value(
            name = "core_" + name,
            constraint_setting = ":core",
        )
        native.platform(
            name = name,
            constraint_values = [
                ":core_" + name,
                Label("@platforms//cpu:" + core.cpu),
                Label("@platforms//os:none"),
            ],
        )
        native.config_setting(
            name = name + "_alone",
            constraint_values = [
                ":core_" + name,
                ":npu_none",
            ],
        )
