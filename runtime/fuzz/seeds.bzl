"""The `fuzz_seeds` rule: makes the seeds of a fuzzer of programs."""

def _name(prefix, file):
    return "{}{}={}".format(prefix + "." if prefix else "", file.basename.removesuffix(".pte"), file.path)

def _fuzz_seeds_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add("--output", folder.path)
    inputs = []
    for programs, prefix in ctx.attr.programs.items():
        files = [file for file in programs[DefaultInfo].files.to_list() if file.is_directory or file.extension == "pte"]
        inputs += files
        arguments.add_all([_name(prefix, file) for file in files])
    ctx.actions.run(
        executable = ctx.executable._make_seeds,
        arguments = [arguments],
        inputs = inputs,
        outputs = [folder],
        mnemonic = "FuzzSeeds",
        progress_message = "Making the seeds %{label}",
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles([folder]))]

fuzz_seeds = rule(
    doc = "Makes a folder with programs and descriptions of their fields; make_seeds.py documents its contents.",
    implementation = _fuzz_seeds_impl,
    attrs = {
        "programs": attr.label_keyed_string_dict(
            doc = "Targets with .pte files, or with folders of them, and the prefixes of their names.",
            allow_files = True,
            mandatory = True,
        ),
        "_make_seeds": attr.label(default = "//runtime/fuzz:make_seeds", executable = True, cfg = "exec"),
    },
)
