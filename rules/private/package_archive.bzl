"""Compiles a package's sources separately, without this build's flags, as its user's build system does."""

load("//platforms:cores.bzl", "CORES", "float_abi", "float_abi_flags")
load(":toolchain_files.bzl", "tools_of")

visibility(["//rules/..."])

PACKAGE_ATTRS = {
    "_package": attr.label(default = "//tools/pipeline/package", executable = True, cfg = "exec"),
    "_compiler": attr.label(default = "@arm_gnu_toolchain//:all_files", cfg = "exec"),
}

def compile_package(ctx, sources, models, core, abi, sizes):
    """Compiles a package's sources into an archive.

    Args:
      ctx: rule context, with PACKAGE_ATTRS.
      sources: the folder of a package.
      models: list of str: names of its models.
      core: a key of CORES.
      abi: one of float_abis(core), or None for that of images.
      sizes: whether to measure the models' sizes, and their stack.

    Returns:
      (File of the archive, File of the sizes or None)
    """
    abi = abi or float_abi(core)
    directory = "%s.archives/%s-%s" % (ctx.label.name, core, abi)
    archive = ctx.actions.declare_file(directory + "/lib%s.a" % ctx.label.name)
    measured = ctx.actions.declare_file(directory + "/sizes.txt") if sizes else None

    # By the macro NAME_archive.h knows that it is for this core.
    macro = "%s_ARCHIVE_IS_%s_%s" % (ctx.label.name.upper(), core, abi)
    flags = ["-mthumb", "-D" + macro] + float_abi_flags(core, abi)
    toolchain = ctx.attr._compiler[DefaultInfo].files
    tools = tools_of(toolchain.to_list())

    # libstdc++'s configuration has a folder for each variant of the libraries. The one for images exists, and all are
    # the same.
    configuration = "/%s/bits/c++config.h" % CORES[core].multilib
    includes = [file.dirname.removesuffix("/bits") for file in toolchain.to_list() if file.path.endswith(configuration)]
    arguments = ctx.actions.args()
    arguments.add("archive")
    arguments.add_all([sources], before_each = "--sources", expand_directories = False)
    arguments.add_all(models, before_each = "--model")
    arguments.add("--gcc", tools["gcc"])
    arguments.add("--ar", tools["ar"])
    arguments.add("--size-tool", tools["size"])
    arguments.add_all(flags, format_each = "--flag=%s")
    arguments.add_all(includes, before_each = "--include")
    arguments.add("--archive", archive)
    if measured:
        arguments.add("--sizes", measured)
    ctx.actions.run(
        executable = ctx.executable._package,
        arguments = [arguments],
        inputs = depset([sources], transitive = [toolchain]),
        outputs = [archive] + ([measured] if measured else []),
        mnemonic = "PackageArchive",
        progress_message = "Compiling the package %{label} for " + core + ", " + abi,
    )
    return archive, measured
