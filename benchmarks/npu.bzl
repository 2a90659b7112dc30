"""The images of the table in docs/ethos_u.md: networks on boards with an NPU, and on the same core alone."""

load("//rules:defs.bzl", "firmware_benchmark")
load(":images.bzl", "benchmark_image")

def npu_images(name, models, alone, boards):
    """Declares the images, `<name>_<model>` that measures those of a model, and the target that measures all.

    All of it is to be asked for: it takes minutes.

    Args:
      name: the firmware_benchmark of all.
      models: name -> (torch_program with backend = "ethos_u", that for the core alone).
      alone: the board without an NPU.
      boards: the boards with one.
    """
    rows = {}
    for model, (delegated, program) in models.items():
        rows_of_model = {}
        for board, each in [(alone, program)] + [(board, delegated) for board in boards]:
            image = "%s_%s_%s" % (name, model, Label(board).name)
            benchmark_image(
                name = image,
                testonly = True,
                board = board,
                model = each,
                tags = ["manual"],
            )
            rows_of_model[":" + image] = model + " int8"
        firmware_benchmark(
            name = "%s_%s" % (name, model),
            testonly = True,
            firmware = rows_of_model,
            tags = ["manual"],
        )
        rows |= rows_of_model
    firmware_benchmark(name = name, testonly = True, firmware = rows, tags = ["manual"])
