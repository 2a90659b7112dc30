"""The cores that this project knows: platforms, compiler flags, boards, and the tools derive from this list."""

# By name, which is the constraint value `core_<name>` of //platforms:core and the platform //platforms:<name>:
#   mcpu: GCC's name, which the export, board.json and the tools use, too
#   cpu: value of @platforms//cpu
#   flags: GCC's flags beside -mcpu; all use the hard-float calling convention
#   multilib: the toolchain's variant of the C and C++ libraries that these flags select
#   description: its floating-point unit and extensions
CORES = {
    "cortex_m4": struct(
        mcpu = "cortex-m4",
        cpu = "armv7e-mf",
        flags = ["-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"],
        multilib = "thumb/v7e-m+fp/hard",
        description = "Cortex-M4 with FPv4-SP, as on STM32WB55 and STM32F4",
    ),
    "cortex_m33": struct(
        mcpu = "cortex-m33",
        cpu = "armv8-m",
        flags = ["-mfloat-abi=hard"],
        multilib = "thumb/v8-m.main+fp/hard",
        description = "Cortex-M33 with FPv5-SP and the DSP extension",
    ),
    "cortex_m55": struct(
        mcpu = "cortex-m55",
        cpu = "armv8-m",
        # GCC 12 makes conversions conditional (vcvtne), which its assembler takes for a vector instruction.
        flags = ["-mfloat-abi=hard", "-fno-if-conversion2"],
        multilib = "thumb/v8-m.main+dp/hard",
        description = "Cortex-M55 with FPv5-DP and the vector extension (MVE, \"Helium\") for integers and floats",
    ),
}

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
