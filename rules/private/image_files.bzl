"""Makes further files of a linked image."""

visibility(["//rules/..."])

IMAGE_FILES_ATTRS = {
    "_executorch_version": attr.label(default = "@executorch//:version.txt", allow_single_file = True),
    "_image_files": attr.label(default = "//tools/pipeline/image_files", executable = True, cfg = "exec"),
    "_toolchain_packages": attr.label(default = "@arm_gnu_toolchain//:taken.txt", allow_single_file = True),
}

def write_image_files(ctx, board, programs, elf, map_file, summary, engine = "", parts = [], heap_stack = 0):
    """Writes the bytes of an image's flash, the report of its sizes, and the list of its components, sources and tools.

    Args:
      ctx: rule context, with IMAGE_FILES_ATTRS.
      board: BoardInfo of the image's board.
      programs: list of TorchProgramInfo of the programs in it.
      elf: File of the image.
      map_file: File of the linker's map.
      summary: whether the summary of the report is printed.
      engine: the engine of the model and the reason, for the report; empty to omit it.
      parts: names of folders and libraries that the report has apart from the application.
      heap_stack: the largest stack that a thread takes from the heap, in bytes; 0: no thread does.

    Returns:
      dict of Files by their extensions
    """
    files = {
        extension: ctx.actions.declare_file("%s.%s" % (ctx.label.name, extension))
        for extension in ["bin", "hex"] + (["uf2"] if board.uf2_family else []) + ["report.txt", "report.json", "spdx.json"]
    }
    models = depset([file for program in programs for file in [program.model, program.weights] if file]).to_list()
    inputs = [elf, map_file, board.description, ctx.file._executorch_version, ctx.file._toolchain_packages] + models + [file for program in programs for file in [program.program, program.manifest]]
    arguments = ctx.actions.args()
    arguments.add("--elf", elf)
    arguments.add("--map", map_file)
    arguments.add("--board", board.description)
    arguments.add_all([program.program for program in programs], before_each = "--program")
    arguments.add_all([program.manifest for program in programs], before_each = "--manifest")
    arguments.add_all(models, before_each = "--model")
    arguments.add("--executorch-version", ctx.file._executorch_version)
    arguments.add("--toolchain-packages", ctx.file._toolchain_packages)
    arguments.add_all(parts, before_each = "--part")
    if heap_stack:
        arguments.add("--heap-stack", heap_stack)
    if engine:
        arguments.add("--engine", engine)
    for extension, file in files.items():
        arguments.add("--" + extension.replace(".", "-"), file)
    if not summary:
        arguments.add("--quiet")
    ctx.actions.run(
        executable = ctx.executable._image_files,
        arguments = [arguments],
        inputs = inputs,
        outputs = files.values(),
        mnemonic = "ImageFiles",
        progress_message = "Writing and measuring %{label}",
    )
    return files
