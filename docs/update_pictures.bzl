"""The `update_pictures` rule: `bazel run` puts pictures that the build makes among the documents."""

def _update_pictures_impl(ctx):
    pictures = [file for file in ctx.files.srcs if file.extension == "png"]
    if not pictures:
        fail("%s: srcs = %s make no .png" % (ctx.label, [str(src.label) for src in ctx.attr.srcs]))
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(
        script,
        "\n".join(["#!/bin/sh", "set -e"] + [
            'cp -f --no-preserve=mode "%s" "$BUILD_WORKSPACE_DIRECTORY/%s/%s"' % (file.short_path, ctx.attr.output, file.basename)
            for file in pictures
        ]) + "\n",
        is_executable = True,
    )
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(pictures))]

update_pictures = rule(
    implementation = _update_pictures_impl,
    doc = "`bazel run` copies the .png files of targets into a folder of the workspace.",
    attrs = {
        "output": attr.string(mandatory = True, doc = "The folder, from the workspace's root."),
        "srcs": attr.label_list(mandatory = True, allow_files = True, doc = "What makes the pictures."),
    },
    executable = True,
)
