"""The `model_page` rule and macro: one HTML file that shows models on boards."""

load("//rules/private:page.bzl", "PAGE_ATTRS", "describe_graph")
load("//rules/private:profile.bzl", "PROFILE_ATTRS", "profile_image")
load("//rules/private:transitions.bzl", "profile_transition")
load(":firmware_image.bzl", "firmware_image")
load(":providers.bzl", "FirmwareInfo")

def _model_page_impl(ctx):
    arguments = ctx.actions.args()
    inputs = []
    for target, profiled in zip(ctx.attr.firmware, ctx.attr.profiled):
        firmware = target[FirmwareInfo]
        folder = "%s.data/%s" % (ctx.label.name, firmware.name)
        files = [firmware.report_json, firmware.board.description, describe_graph(ctx, firmware, folder)]
        profile = [profile_image(ctx, profiled[FirmwareInfo], folder)] if firmware.board.emulated and not firmware.board.npu else []
        program = firmware.program
        optional = [
            [program.report] if program.report else [],
            profile,
            [program.npu_report] if program.npu_report else [],
        ]
        arguments.add("--image")
        arguments.add_all(files + [file[0] if file else "" for file in optional])
        inputs += files + [file for found in optional for file in found]
    page = ctx.actions.declare_file(ctx.label.name + ".html")
    data = ctx.actions.declare_file(ctx.label.name + ".json")
    arguments.add_all(ctx.files._libraries, before_each = "--library")
    arguments.add_all(ctx.files._licences, before_each = "--licence")
    arguments.add("--title", ctx.attr.title or ctx.label.name)
    arguments.add("--json", data)
    arguments.add("--output", page)
    ctx.actions.run(
        executable = ctx.executable._page,
        arguments = [arguments],
        inputs = inputs + ctx.files._libraries + ctx.files._licences,
        outputs = [page, data],
        mnemonic = "ModelPage",
        progress_message = "Writing the page %{label}",
    )
    return [DefaultInfo(files = depset([page])), OutputGroupInfo(json = depset([data]), reports = depset(inputs))]

model_page_rule = rule(
    implementation = _model_page_impl,
    doc = "Writes `<name>.html` about images, see the macro.",
    attrs = PROFILE_ATTRS | PAGE_ATTRS | {
        "firmware": attr.label_list(mandatory = True, allow_empty = False, providers = [FirmwareInfo], doc = "The images."),
        "profiled": attr.label_list(
            mandatory = True,
            cfg = profile_transition,
            providers = [FirmwareInfo],
            doc = "The same images, which are built with //firmware:profiling=on. Set by the macro.",
        ),
        "title": attr.string(doc = "The page's title; the target's name by default."),
        "_page": attr.label(default = "//tools/pipeline/page", executable = True, cfg = "exec"),
    },
)

def model_page(name, models, boards, title = "", tags = [], visibility = None, testonly = None):
    """One HTML file, `<name>.html`, that shows models on boards: graph, time, memory, flash, and int8 beside floating point.

    It needs no network and opens from disk; docs/page.md says what is on it. Times are measured on boards that QEMU emulates;
    another board of the page shows, at its own clock, what one with the same core measured.

    Args:
      name: the target.
      models: list of torch_program targets.
      boards: list of boards, for each of which there is an image of each model, `<name>_<model>_<board>`.
      title: the page's title; the target's name by default.
      tags: tags of the page.
      visibility: visibility of the page.
      testonly: whether only tests use it.
    """
    if not models or not boards:
        fail("model_page %s: give at least one of models and one of boards" % name)
    images = {}
    for model in models:
        for board in boards:
            image = "%s_%s_%s" % (name, native.package_relative_label(model).name, native.package_relative_label(board).name)
            if image in images:
                fail("model_page %s: two models and boards have the names of %s; give each its own" % (name, image))
            images[image] = None
            firmware_image(name = image, board = board, model = model, summary = False, tags = ["manual"], testonly = testonly)
    model_page_rule(
        name = name,
        firmware = images.keys(),
        profiled = images.keys(),
        tags = tags,
        testonly = testonly,
        title = title,
        visibility = visibility,
    )
