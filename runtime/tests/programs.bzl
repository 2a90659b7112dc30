"""Programs for the runtime's tests."""

def _test_programs_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    log = ctx.actions.declare_file(ctx.label.name + ".log")
    ctx.actions.run(
        executable = ctx.executable._make_programs,
        arguments = ["--output", folder.path, "--log", log.path],
        outputs = [folder, log],
        mnemonic = "TestPrograms",
        progress_message = "Making the programs of the runtime's tests",
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles([folder]))]

test_programs = rule(
    doc = "A folder with the programs of make_programs.py.",
    implementation = _test_programs_impl,
    attrs = {
        "_make_programs": attr.label(default = "//runtime/tests:make_programs", executable = True, cfg = "exec"),
    },
)
