"""Describes every action below a target, as `aquery` would, for a test that runs with all the others."""

ActionGraphInfo = provider(
    doc = "The actions of a target and of what it depends on.",
    fields = {"actions": "depset of str: each one action as JSON, with owner, mnemonic, argv, env and inputs"},
)

# Attributes whose targets are no part of what gets built.
_NO_BUILD = ["licenses", "package_metadata", "applicable_licenses", "toolchains"]

def _describe(label, action):
    return json.encode({
        "owner": str(label),
        "mnemonic": action.mnemonic,
        "argv": action.argv,
        "env": action.env,
        "inputs": [file.path for file in action.inputs.to_list()],
    })

def _action_graph_aspect_impl(target, ctx):
    below = []
    for name in dir(ctx.rule.attr):
        if name in _NO_BUILD:
            continue
        value = getattr(ctx.rule.attr, name)
        for dependency in value if type(value) == "list" else value.keys() if type(value) == "dict" else [value]:
            if type(dependency) == "Target" and ActionGraphInfo in dependency:
                below.append(dependency[ActionGraphInfo].actions)

    # An action that runs nothing (writing a file, making a link) has no argv.
    own = [_describe(target.label, action) for action in target.actions if action.argv]
    return [ActionGraphInfo(actions = depset(own, transitive = below))]

action_graph_aspect = aspect(
    doc = "Collects the actions of a target and of everything below it, tools included.",
    implementation = _action_graph_aspect_impl,
    attr_aspects = ["*"],
)

def _action_graph_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".jsonl")
    arguments = ctx.actions.args()
    arguments.set_param_file_format("multiline")
    arguments.add_all(depset(transitive = [target[ActionGraphInfo].actions for target in ctx.attr.targets]))
    ctx.actions.write(output, arguments)
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

action_graph = rule(
    doc = "`<name>.jsonl`: one action of the targets per line. Nothing gets built for it.",
    implementation = _action_graph_impl,
    attrs = {
        "targets": attr.label_list(
            doc = "Targets whose actions are described.",
            aspects = [action_graph_aspect],
            mandatory = True,
        ),
    },
)
