"""Executable targets that start one of the tools with arguments from the build."""

def runfiles_path(ctx, file):
    """The path of a file in the runfiles tree, from its root.

    Args:
      ctx: rule context.
      file: File, which may be of another repository.

    Returns:
      str.
    """
    path = file.short_path
    return path.removeprefix("../") if path.startswith("../") else ctx.workspace_name + "/" + path

def link_apart(ctx, folder, file):
    """Links a file under a path of the target's own: what is built for several boards has one path in the runfiles for all of them.

    Args:
      ctx: rule context.
      folder: path below the target's name, which keeps it apart from others.
      file: File.

    Returns:
      File, of the same name.
    """
    link = ctx.actions.declare_file("%s.apart/%s/%s" % (ctx.label.name, folder, file.basename))
    ctx.actions.symlink(output = link, target_file = file)
    return link

def create_launcher(ctx, tool, arguments, files):
    """Writes a shell script that runs a tool from its runfiles.

    Args:
      ctx: rule context.
      tool: the tool's Target.
      arguments: list of str and File; a File becomes its path in the runfiles. What the user gives comes after them.
      files: list of Files that the tool needs at run time, besides those named in arguments.

    Returns:
      DefaultInfo
    """
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    words = []
    for argument in arguments:
        is_file = type(argument) == "File"
        words.append('"$runfiles/%s"' % runfiles_path(ctx, argument) if is_file else "'%s'" % argument.replace("'", "'\\''"))
    executable = tool[DefaultInfo].files_to_run.executable
    ctx.actions.write(script, is_executable = True, content = """#!/bin/sh
set -eu
runfiles="${{RUNFILES_DIR:-$0.runfiles}}"
case "$runfiles" in /*) ;; *) runfiles="$PWD/$runfiles" ;; esac
export RUNFILES_DIR="$runfiles"
exec "$runfiles/{tool}" {arguments} "$@"
""".format(
        tool = runfiles_path(ctx, executable),
        arguments = " ".join(words),
    ))
    runfiles = ctx.runfiles(files + [a for a in arguments if type(a) == "File"])
    return DefaultInfo(
        executable = script,
        runfiles = runfiles.merge(tool[DefaultInfo].default_runfiles),
    )
