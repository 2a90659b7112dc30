"""The images that //benchmarks measures: every model on every emulated board, without a console. Int8 kernels have code of
their own for one core more."""

load("//firmware/boards:boards.bzl", "EMULATED_BOARDS", "INT8_BOARDS")
load("//rules:defs.bzl", "firmware_benchmark", "size_report", "torch_firmware")

def benchmark_image(name, **kwargs):
    """Declares an image that is measured: what a product has of it, without console and examples.

    Args:
      name: the image.
      **kwargs: further attributes of torch_firmware.
    """

    # An application gets its input from somewhere else.
    torch_firmware(name = name, console = "off", example = False, summary = False, **kwargs)

def benchmark_images(name, models, layers = {}, engine = "auto", boards = None, limited = [], tags = []):
    """Declares the images and the target that measures them.

    Args:
      name: the firmware_benchmark; `<name>_sizes` is the size_report of the same images.
      models: row of the table, 'model variant' -> torch_program.
      engine: as of torch_firmware; models of another than `auto` are on the first emulated board alone.
      layers: as models, but on the first emulated board alone.
      boards: list of labels of boards for all models; None: the emulated boards.
      limited: rows whose limits every run of the tests holds, in `<name>_limited`: on the first emulated board, since other
        cores would cost the tests all kernels once more.
      tags: of all targets.
    """
    rows = {}
    limited_rows = {}
    for row, model in (models | layers).items():
        row_boards = boards or (INT8_BOARDS if row.endswith(" int8") else EMULATED_BOARDS)
        for board in row_boards[:1] if row in layers or engine != "auto" else row_boards:
            image = "%s_%s" % (row.replace(" ", "_"), Label(board).name)
            if engine != "auto":
                image += "_" + engine
            benchmark_image(
                name = image,
                board = board,
                engine = engine,
                model = model,
                tags = tags,
            )
            rows[":" + image] = row
            if row in limited and board in EMULATED_BOARDS[:1]:
                limited_rows[":" + image] = row
    _benchmark(name, "index" if name == "benchmarks" else "index_" + name, rows, tags)
    if limited:
        _benchmark(name + "_limited", "index_limited", limited_rows, tags)
    size_report(name = name + "_sizes", firmware = rows.keys(), tags = tags)

def variant_images(name, variant, models, boards):
    """Declares the images of models in another variant than int8 and the target that measures them beside those in int8.

    Args:
      name: the firmware_benchmark.
      variant: the rows' name for it.
      models: dict from names of models, which `benchmark_images` has in int8, to their programs in this variant.
      boards: boards of INT8_BOARDS.
    """
    rows = {}
    for model, program in models.items():
        for board in boards:
            short = Label(board).name
            image = "%s_%s_%s" % (model, name, short)
            benchmark_image(
                name = image,
                board = board,
                model = program,
                tags = ["manual"],
            )
            rows[":%s_int8_%s" % (model, short)] = model + " int8"
            rows[":" + image] = "%s %s" % (model, variant)
    firmware_benchmark(name = name, firmware = rows, tags = ["manual"])

def _benchmark(name, index, rows, tags):
    firmware_benchmark(name = name, firmware = rows, tags = tags)
    native.filegroup(
        name = index,
        srcs = [name],
        output_group = "index",
        tags = tags,
    )
