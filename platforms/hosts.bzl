"""Defines the needs of targets of the machine that they run on."""

# Targets that make or run VGF have this in `target_compatible_with`: Arm's compiler and emulation layers are programs
# for such machines.
VGF_HOST = select({
    Label("//platforms:x86_64_linux"): [],
    "//conditions:default": [Label("//platforms:host_x86_64_linux")],
})

# Tests that run VGF have this: the chosen release of ExecuTorch has a runtime for it, too.
VGF_RUNTIME = VGF_HOST + [Label("@pypi//:release_with_vgf_runtime")]
