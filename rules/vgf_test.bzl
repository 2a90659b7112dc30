"""The `vgf_test` rule: a program with VGF on this machine, compared with PyTorch or the TOSA reference model."""

load("//platforms:hosts.bzl", "VGF_RUNTIME")
load(":launcher.bzl", "create_launcher")
load(":providers.bzl", "TorchProgramInfo")

def _vgf_test_impl(ctx):
    program = ctx.attr.program[TorchProgramInfo]
    arguments = ["--program", program.program, "--golden", program.golden, "--atol", ctx.attr.atol, "--rtol", ctx.attr.rtol]
    return [create_launcher(ctx, ctx.attr._check, arguments, [])]

_vgf_test = rule(
    implementation = _vgf_test_impl,
    doc = "See the macro `vgf_test`.",
    attrs = {
        "program": attr.label(mandatory = True, providers = [TorchProgramInfo], doc = "The torch_program with backend = \"vgf\"."),
        "atol": attr.string(doc = "Absolute tolerance of an output element."),
        "rtol": attr.string(doc = "Relative tolerance of an output element."),
        "_check": attr.label(default = "//tools/verify/vgf:check", executable = True, cfg = "exec"),
    },
    test = True,
)

def vgf_test(name, program, atol = "1e-5", rtol = "1e-5", size = "medium", **kwargs):
    """Runs a program with VGF and compares its outputs with the golden ones: PyTorch's in float32, the TOSA reference model's in int8.

    It uses the runtime in ExecuTorch's wheel on Vulkan, by Mesa's driver lavapipe and Arm's emulation layers, which the
    build fetches. These exist for Linux on x86-64 only; the test is incompatible with other machines, and with a release of ExecuTorch whose wheel has
    no VGF backend (1.5).

    Args:
      name: name of the test.
      program: the torch_program, with backend = "vgf".
      atol: absolute tolerance of an output element, a string; with int8, "0" demands the exact integers.
      rtol: relative tolerance.
      size: Bazel's test size.
      **kwargs: attributes that all tests have, such as tags.
    """
    _vgf_test(name = name, program = program, atol = atol, rtol = rtol, size = size, target_compatible_with = VGF_RUNTIME, **kwargs)
