"""Attributes and actions of rules that write pages about images."""

visibility([
    "//docs",
    "//rules/...",
    "//tools/commands/explore",
    "//tools/commands/plot",
])

# The scripts that pages include, and their licences.
PAGE_LIBRARIES = ["@npm_d3//:dist/d3.min.js", "@npm_plot//:dist/plot.umd.min.js", "@npm_dagre//:dist/dagre.min.js"]
PAGE_LICENCES = ["@npm_d3//:LICENSE", "@npm_plot//:LICENSE", "@npm_dagre//:LICENSE"]

# The tool that describes a program's graph, and those scripts.
PAGE_ATTRS = {
    "_graph": attr.label(default = "//tools/pipeline/graph", executable = True, cfg = "exec"),
    "_libraries": attr.label_list(default = PAGE_LIBRARIES, allow_files = True),
    "_licences": attr.label_list(default = PAGE_LICENCES, allow_files = True),
}

def describe_graph(ctx, firmware, folder):
    """Describes an image's program as a graph.

    Args:
      ctx: rule context, with PAGE_ATTRS.
      firmware: FirmwareInfo of the image.
      folder: path below the package for what it writes.

    Returns:
      File
    """
    graph = ctx.actions.declare_file(folder + "/graph.json")
    arguments = ctx.actions.args()
    arguments.add("--program", firmware.program.program)
    arguments.add("--method", firmware.program.method)
    arguments.add("--manifest", firmware.program.manifest)
    arguments.add("--memory", firmware.program.memory)
    arguments.add("--board", firmware.board.description)
    arguments.add_all(firmware.memories, before_each = "--arena-memory")
    arguments.add("--output", graph)
    ctx.actions.run(
        executable = ctx.executable._graph,
        arguments = [arguments],
        inputs = [firmware.program.program, firmware.program.manifest, firmware.board.description],
        outputs = [graph],
        mnemonic = "ModelGraph",
        progress_message = "Describing the graph of %s for %%{label}" % firmware.program.name,
    )
    return graph
