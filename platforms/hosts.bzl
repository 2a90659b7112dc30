"""What targets ask of the machine that they run on."""

# For `target_compatible_with` of what makes or runs VGF: Arm's compiler and emulation layers are programs for such machines.
VGF_HOST = select({
    Label("//platforms:x86_64_linux"): [],
    "//conditions:default": [Label("//platforms:host_x86_64_linux")],
})
