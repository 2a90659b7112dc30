"""The `exploration_test` rule and macro: whether a model on a board keeps to a budget, and which is the best."""

load(":launcher.bzl", "create_launcher")

def _exploration_test_impl(ctx):
    if not ctx.attr.budget:
        fail("%s: it has no limit; give at least one of flash, ram, instructions, ms and accuracy" % ctx.label)
    budget = ",".join(["%s=%s" % limit for limit in ctx.attr.budget.items()])
    if not hasattr(ctx.attr.page[OutputGroupInfo], "json"):
        fail("%s: page = %s is not a model_page" % (ctx.label, ctx.attr.page.label))
    (page,) = ctx.attr.page[OutputGroupInfo].json.to_list()
    return [create_launcher(ctx, ctx.attr._exploration, ["--page", page, "--budget", budget], [])]

_exploration_test = rule(
    implementation = _exploration_test_impl,
    doc = "Compares all models and boards of a page with a budget.",
    attrs = {
        "budget": attr.string_dict(mandatory = True, doc = "Limits by what they are of."),
        "page": attr.label(mandatory = True, providers = [OutputGroupInfo], doc = "The model_page."),
        "_exploration": attr.label(default = "//tools/verify/exploration", executable = True, cfg = "exec"),
    },
    test = True,
)

def exploration_test(name, page, flash = "", ram = "", instructions = 0, ms = "", accuracy = "", tags = []):
    """Fails if no model of a page keeps to the budget on any of its boards; prints what fits, and the best choices.

    The table is `exploration.md` among the test's undeclared outputs, for a pull request.

    Args:
      name: the test.
      page: the model_page with the models and boards to compare.
      flash: bytes, such as "64K"; of the images as they are built, with their consoles.
      ram: bytes, such as "16K".
      instructions: those of an inference, counted in QEMU.
      ms: milliseconds of an inference, estimated at the board's clock, such as "20" or "2.5".
      accuracy: the smallest share of the evaluation set that a model gets right, such as "0.95".
      tags: tags of the test.
    """
    limits = {"flash": flash, "ram": ram, "instructions": str(instructions or ""), "ms": ms, "accuracy": accuracy}
    _exploration_test(
        name = name,
        size = "small",
        budget = {key: limit for key, limit in limits.items() if limit},
        page = page,
        tags = tags,
    )
