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
      arguments: list of str, File and Target; a File, or a Target's only file, becomes its path in the runfiles, where what the
        Target needs at run time is, too. What the user gives comes after them.
      files: list of Files that the tool needs at run time, besides those named in arguments.

    Returns:
      DefaultInfo
    """
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    words = []
    files = list(files)
    needed = [tool[DefaultInfo].default_runfiles]
    for argument in arguments:
        if type(argument) == "string":
            words.append("'%s'" % argument.replace("'", "'\\''"))
            continue
        if type(argument) == "Target":
            needed.append(argument[DefaultInfo].default_runfiles)
            (argument,) = argument[DefaultInfo].files.to_list()
        files.append(argument)
        words.append('"$runfiles/%s"' % runfiles_path(ctx, argument))
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
    return DefaultInfo(
        executable = script,
        runfiles = ctx.runfiles(files).merge_all(needed),
    )
