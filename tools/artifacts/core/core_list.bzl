"""The `core_list` rule: //platforms:cores.bzl for the tools."""

load("//platforms:cores.bzl", "CORES", "core_name")

def _core_list_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".py")
    lines = [
        '    "%s": ("%s", %s),\n' % (core_name(name), core.kernels, core.fpu)
        for name, core in CORES.items()
    ]
    ctx.actions.write(output, '"""Made of platforms/cores.bzl."""\n\nCORES = {\n' + "".join(lines) + "}\n")
    return [DefaultInfo(files = depset([output]))]

core_list = rule(
    implementation = _core_list_impl,
    doc = "Writes `<name>.py` with `CORES`: of each core what int8 kernels compute with, and whether it has an FPU.",
)
