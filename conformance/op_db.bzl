"""Rules that collect calls of operators and run them; conformance/op_db.py has the steps."""

load("//rules:launcher.bzl", "create_launcher")

OpDbInfo = provider("Calls of operators.", fields = {"calls": "File: the calls, their programs and what is refused."})

_TOOL = {"_tool": attr.label(default = "//conformance", executable = True, cfg = "exec")}

def _op_db_calls_impl(ctx):
    calls = ctx.actions.declare_file(ctx.label.name + ".pickle")
    ctx.actions.run(
        executable = ctx.attr._tool[DefaultInfo].files_to_run,
        arguments = [ctx.actions.args().add("collect").add("--out", calls).add_all(ctx.files.catalogs)],
        inputs = ctx.files.catalogs,
        outputs = [calls],
        mnemonic = "OpDbCollect",
        progress_message = "Collecting calls of operators %{label}",
    )
    return [DefaultInfo(files = depset([calls])), OpDbInfo(calls = calls)]

op_db_calls = rule(
    implementation = _op_db_calls_impl,
    doc = "Collects calls of all operators with all dtypes from PyTorch's database of samples, as programs.",
    attrs = _TOOL | {
        "catalogs": attr.label_list(mandatory = True, allow_files = [".yaml"], doc = "Our own operators.yaml files."),
    },
    provides = [OpDbInfo],
)

def _op_db_results_impl(ctx):
    calls = ctx.attr.calls[OpDbInfo].calls
    results = ctx.actions.declare_file(ctx.label.name + ".json")
    arguments = ctx.actions.args().add("run").add("--runner", ctx.attr.runner).add("--out", results).add(calls)
    ctx.actions.run(
        executable = ctx.attr.tool[DefaultInfo].files_to_run,
        arguments = [arguments],
        inputs = [calls],
        outputs = [results],
        mnemonic = "OpDbRun",
        progress_message = "Running calls of operators %{label}",
    )
    return [DefaultInfo(files = depset([results]))]

op_db_results = rule(
    implementation = _op_db_results_impl,
    doc = "Runs the calls and writes which fail, and why.",
    attrs = {
        "calls": attr.label(mandatory = True, providers = [OpDbInfo], doc = "The calls."),
        "runner": attr.string(mandatory = True, doc = "A board of //tools/verify/run_pte:runners, or `host`."),
        "tool": attr.label(
            mandatory = True,
            executable = True,
            # The runners are what is tested: those that tests have, too.
            cfg = "target",
            doc = "conformance/op_db.py with the runners.",
        ),
    },
)

def _op_db_sources_impl(ctx):
    calls = ctx.attr.calls[OpDbInfo].calls
    sources = [ctx.actions.declare_file("%s_%d.cpp" % (ctx.label.name, i)) for i in range(ctx.attr.files)]
    index = ctx.actions.declare_file(ctx.label.name + ".pickle")
    arguments = ctx.actions.args().add("--calls", calls).add("--every", ctx.attr.every).add("--per-row", ctx.attr.per_row)
    ctx.actions.run(
        executable = ctx.attr._compiled[DefaultInfo].files_to_run,
        arguments = [arguments.add("--index", index).add_all(sources)],
        inputs = [calls],
        outputs = sources + [index],
        mnemonic = "OpDbSources",
        progress_message = "Compiling calls of operators to C++ %{label}",
    )
    return [
        DefaultInfo(files = depset(sources)),
        OutputGroupInfo(index = depset([index])),
    ]

op_db_sources = rule(
    implementation = _op_db_sources_impl,
    doc = "Compiles calls to C++: the sources, for run_compiled.cpp, and in the output group `index` which calls are in them.",
    attrs = {
        "calls": attr.label(mandatory = True, providers = [OpDbInfo], doc = "The calls."),
        "every": attr.int(default = 1, doc = "Of every such combination of operator and dtype."),
        "per_row": attr.int(mandatory = True, doc = "Number of calls of a combination, at most."),
        "files": attr.int(mandatory = True, doc = "Number of sources that share them."),
        "_compiled": attr.label(default = "//conformance:compiled", executable = True, cfg = "exec"),
    },
)

def _update_docs_impl(ctx):
    calls = ctx.attr.calls[OpDbInfo].calls
    return [create_launcher(
        ctx,
        ctx.attr._tool,
        ["table", "--calls", calls, "--document", ctx.attr.document] + ctx.files.results,
        [],
    )]

update_docs = rule(
    implementation = _update_docs_impl,
    doc = "`bazel run` writes the table of operators into a document of the workspace.",
    attrs = _TOOL | {
        "calls": attr.label(mandatory = True, providers = [OpDbInfo], doc = "The calls."),
        "document": attr.string(mandatory = True, doc = "Path of the document from the workspace's root."),
        "results": attr.label_list(mandatory = True, doc = "Results of running them."),
    },
    executable = True,
)
