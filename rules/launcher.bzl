"""Makes executable targets that start one of the tools with arguments from the build."""

def runfiles_path(ctx, file):
    """Returns the path of a file from the root of the runfiles tree.

    Args:
      ctx: rule context.
      file: File, which may be of another repository.

    Returns:
      str.
    """
    path = file.short_path
    return path.removeprefix("../") if path.startswith("../") else ctx.workspace_name + "/" + path

def link_apart(ctx, folder, file):
    """Links a file under a path of the target's own: builds for several boards would all have the same path in the runfiles.

    Args:
      ctx: rule context.
      folder: path below the target's name, which distinguishes the link from others.
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
      arguments: list of str, File and Target; a File, or a Target's only file, becomes its path in the runfiles, which
        also contain the Target's own runfiles. The user's arguments follow.
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
