"""The `core_list` rule: //platforms:cores.bzl for the tools."""

load("//platforms:cores.bzl", "CORES")

def _core_list_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".py")
    names = "".join(['    "%s": "%s",\n' % (core.mcpu, name) for name, core in CORES.items()])
    ctx.actions.write(output, '"""Made of platforms/cores.bzl."""\n\nCORES = {\n' + names + "}\n")
    return [DefaultInfo(files = depset([output]))]

core_list = rule(
    implementation = _core_list_impl,
    doc = "Writes `<name>.py` with `CORES`: the cores, by GCC's name, with the name of each in //platforms.",
)
