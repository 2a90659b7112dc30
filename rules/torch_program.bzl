"""The `torch_program` rule: exports a PyTorch module to an ExecuTorch program."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_python//python:py_info.bzl", "PyInfo")
load("//platforms:cores.bzl", "CORES", "core_name")
load("//platforms:hosts.bzl", "VGF_HOST")
load("//rules/private:actions.bzl", "CORE_ATTRS", "NO_NETWORK", "check_npu", "check_program_name", "is_identifier", "target_core")
load("//rules/private:file_errors.bzl", "program_error")
load("//rules/private:quantization_attrs.bzl", "QUANTIZATION_ATTRS", "quantization_error", "quantization_values")
load("//rules/private:transitions.bzl", "program_transition")
load(":providers.bzl", "NpuInfo", "TorchOperatorInfo", "TorchProgramInfo")
load(":quantization.bzl", default_quantization = "quantization")
load(":quantization_report.bzl", "quantization_report")

_BACKENDS = ["portable", "cortex_m", "ethos_u", "vgf"]
_IO = ["float32", "int8", "int16"]

# PyTorch is imported once, instead of by each export: tools/pipeline/persistent_worker.
_PERSISTENT_WORKER = {
    "requires-worker-protocol": "json",
    "supports-multiplex-workers": "1",
    "supports-worker-cancellation": "1",
    "supports-workers": "1",
}

def _export_tool(backend):
    # Some backends need a compiler, which is only fetched for targets that use it.
    return Label("//tools/pipeline/export:export_" + backend if backend in ["ethos_u", "vgf"] else "//tools/pipeline/export")

def _target_core(ctx):
    if ctx.attr.backend in ["portable", "vgf"]:
        return "portable"
    core = target_core(ctx)
    if core != "host":
        return core
    return fail("%s: backend '%s' needs a board's core, and the platform has none of %s; build a torch_firmware that uses this program" % (
        ctx.label,
        ctx.attr.backend,
        [core_name(core) for core in CORES],
    ))

def _import_folders(ctx):
    """Returns the folders that the model file imports from, besides its own folder and the workspace, without duplicates.

    Returns:
      (folders of `operators` and `deps`, those of installed packages: files of another repository than the target's)
    """
    folders, packages = {}, {}
    for target in ctx.attr.operators + ctx.attr.deps:
        if target.label.workspace_root:
            folders[target.label.workspace_root] = None
    for target in ctx.attr.deps:
        roots = {file.root.path: None for file in target[PyInfo].transitive_sources.to_list()} | {"": None}
        for entry in target[PyInfo].imports.to_list():
            # The repository's name comes first, as in runfiles.
            repository, _, folder = entry.partition("/")
            is_main = repository == ctx.workspace_name
            path = folder if is_main else "external/" + entry
            for root in roots:
                full = "/".join([part for part in [root, path] if part]) or "."
                (folders if is_main else packages)[full] = None
    return folders.keys(), packages.keys()

def _check_attributes(ctx, name, npu, quantization):
    """Fails for attributes that can't be combined."""
    backend = ctx.attr.backend
    check_program_name(ctx, name)
    if backend == "portable" and ctx.attr.io != "float32":
        fail("%s: io is for backends that quantize; a portable program takes the dtypes of the model" % ctx.label)
    if quantization and backend != "cortex_m":
        fail("%s: quantization is for backend = \"cortex_m\", not '%s'" % (ctx.label, backend))
    error = quantization_error(quantization, ctx.attr.io) if quantization else None
    if error:
        fail("%s: quantization: %s" % (ctx.label, error))
    if backend != "ethos_u" and ctx.attr.io == "int16":
        fail("%s: io = \"int16\" is for backend = \"ethos_u\"; backend '%s' has 'float32' and, if it quantizes, 'int8'" % (ctx.label, backend))
    if backend != "cortex_m" and ctx.attr.memory != "layers":
        fail("%s: memory = \"%s\" is for backend = \"cortex_m\", not '%s'; leave it out" % (ctx.label, ctx.attr.memory, backend))
    if backend == "ethos_u":
        check_npu(ctx, npu)
    if ctx.attr.weights and not ctx.attr.weights[TorchProgramInfo].weights:
        fail("%s: weights = %s is a program that is not trained; set train = True there" % (ctx.label, ctx.attr.weights.label))
    if ctx.attr.weights and ctx.attr.train:
        fail("%s: train = True and weights = %s exclude each other" % (ctx.label, ctx.attr.weights.label))
    for method in ctx.attr.methods:
        if method == "forward" or not is_identifier(method):
            fail("%s: methods: '%s' is not the name of a method besides forward" % (ctx.label, method))
    if ctx.attr.methods and backend != "portable":
        fail("%s: methods are for backend = \"portable\"; make a torch_program of each for %s" % (ctx.label, backend))

def _model(ctx, operators):
    """Returns the files that the model file may read.

    Returns:
      struct of `declared`, a depset of Files besides itself, `sources`, both together, and the results of
      _import_folders as `path` and `packages`
    """
    declared = depset(
        [operator.module for operator in operators] + ctx.files.data,
        transitive = [target[PyInfo].transitive_sources for target in ctx.attr.deps] +
                     [target[DefaultInfo].default_runfiles.files for target in ctx.attr.deps],
    )
    path, packages = _import_folders(ctx)
    return struct(
        declared = declared,
        sources = depset([ctx.file.src], transitive = [declared]),
        path = path,
        packages = packages,
    )

def _add_model(ctx, arguments, model):
    arguments.add("--model", ctx.file.src)
    arguments.add_all(model.declared, before_each = "--data", expand_directories = False)

def _add_imports(arguments, model):
    arguments.add_all(model.path, before_each = "--path")
    arguments.add_all(model.packages, before_each = "--packages")

def _train(ctx, name, model):
    """Trains the model; returns the Files of its weights and of the log."""
    weights = ctx.actions.declare_file(name + ".weights")
    log = ctx.actions.declare_file(name + ".train.log")
    arguments = ctx.actions.args()
    _add_model(ctx, arguments, model)
    if ctx.attr.entry:
        arguments.add("--entry", ctx.attr.entry)
    arguments.add("--output", weights)
    arguments.add("--log", log)
    _add_imports(arguments, model)
    ctx.actions.run(
        executable = ctx.executable._train,
        arguments = [arguments],
        inputs = model.sources,
        outputs = [weights, log],
        execution_requirements = NO_NETWORK,
        mnemonic = "TorchTrain",
        progress_message = "Training %{label}",
    )
    return weights, log

def _method_files(ctx, name, method):
    """Returns the files that each method has: a dict."""
    return {
        "golden": ctx.actions.declare_file("%s.%s.golden.npz" % (name, method)),
        "manifest": ctx.actions.declare_file("%s.%s.manifest.json" % (name, method)),
    }

def _write_options(ctx, name, core, operators, quantization):
    """Writes the record of what the program is exported to, which tools/pipeline/export/options.py reads; a File."""
    options = ctx.actions.declare_file(name + ".options.json")
    ctx.actions.write(options, json.encode_indent({
        "format": "options of an export",
        "version": 1,
        "core": core,
        "backend": ctx.attr.backend,
        "io": ctx.attr.io,
        "entry": ctx.attr.entry,
        "methods": ctx.attr.methods,
        "operators": [operator.operator for operator in operators],
    } | quantization, indent = "  ") + "\n")
    return options

def _export(ctx, name, core, npu, model, weights, operators, quantization):
    """Exports the model; returns a struct of Files: those of TorchProgramInfo, `methods` with dicts of further ones', `vgf` and `npu_report`."""
    program = ctx.actions.declare_file(name + ".pte")
    manifest = ctx.actions.declare_file(name + ".manifest.json")
    golden = ctx.actions.declare_file(name + ".golden.npz")
    log = ctx.actions.declare_file(name + ".export.log")
    methods = {method: _method_files(ctx, name, method) for method in ctx.attr.methods}
    report = None
    vgf = []
    npu_report = []
    options = _write_options(ctx, name, core, operators, quantization)
    inputs = [options] + ([weights] if weights else [])

    arguments = ctx.actions.args()
    arguments.use_param_file("@%s", use_always = True)
    arguments.set_param_file_format("multiline")
    _add_model(ctx, arguments, model)
    arguments.add("--name", name)
    arguments.add("--options", options)
    if ctx.attr._dump_after[BuildSettingInfo].value:
        arguments.add("--dump-after", ctx.attr._dump_after[BuildSettingInfo].value)
    if weights:
        arguments.add("--weights", weights)
    arguments.add("--program", program)
    arguments.add("--manifest", manifest)
    arguments.add("--golden", golden)
    arguments.add("--log", log)
    _add_imports(arguments, model)
    for files in methods.values():
        arguments.add_all("--method", [files["golden"], files["manifest"]])
    if ctx.attr.backend in ["cortex_m", "ethos_u"] or ctx.attr.io != "float32":
        report = ctx.actions.declare_file(name + ".quantization.json")
        arguments.add("--report", report)
    if ctx.attr.backend == "vgf":
        vgf = [ctx.actions.declare_directory(name + ".vgf")]
        arguments.add_all("--vgf", vgf, expand_directories = False)
    if ctx.attr.backend == "ethos_u":
        npu_report = [ctx.actions.declare_file(name + ".npu." + kind) for kind in ["txt", "json"]]
        arguments.add("--npu", npu.description)
        arguments.add("--npu-text", npu_report[0])
        arguments.add("--npu-json", npu_report[1])
        inputs.append(npu.description)
    ctx.actions.run(
        executable = ctx.executable._export,
        arguments = [arguments],
        inputs = depset(inputs, transitive = [model.sources]),
        outputs = [program, manifest, golden, log] + [file for files in methods.values() for file in files.values()] +
                  ([report] if report else []) + vgf + npu_report,
        execution_requirements = NO_NETWORK | _PERSISTENT_WORKER,
        mnemonic = "TorchExport",
        progress_message = "Exporting %{label} for " + (npu.accelerator if npu_report else "vgf" if vgf else core),
    )
    return struct(
        program = program,
        manifest = manifest,
        golden = golden,
        log = log,
        methods = methods,
        report = report,
        vgf = vgf,
        npu_report = npu_report,
    )

def _torch_program_impl(ctx):
    name = ctx.attr.program_name or ctx.label.name
    npu = ctx.attr._npu[NpuInfo]
    quantization = quantization_values(ctx.attr)
    _check_attributes(ctx, name, npu, quantization)
    core = _target_core(ctx)
    operators = [target[TorchOperatorInfo] for target in ctx.attr.operators]
    model = _model(ctx, operators)
    weights = ctx.attr.weights[TorchProgramInfo].weights if ctx.attr.weights else None
    logs = []
    if ctx.attr.train:
        weights, log = _train(ctx, name, model)
        logs.append(log)
    exported = _export(ctx, name, core, npu, model, weights, operators, quantization)
    methods = [
        TorchProgramInfo(
            name = "%s_%s" % (name, method),
            program = exported.program,
            core = core,
            accelerator = "",
            model = ctx.file.src,
            weights = None,
            report = None,
            npu_report = None,
            operators = operators,
            method = method,
            methods = [],
            memory = ctx.attr.memory,
            **files
        )
        for method, files in exported.methods.items()
    ]
    files = [exported.program, exported.manifest, exported.golden] + exported.npu_report
    return [
        DefaultInfo(files = depset(files + [file for method in methods for file in [method.manifest, method.golden]])),
        OutputGroupInfo(
            log = depset(logs + [exported.log]),
            npu_report = depset(exported.npu_report),
            quantization_report = depset([exported.report] if exported.report else []),
            vgf = depset(exported.vgf),
        ),
        TorchProgramInfo(
            name = name,
            program = exported.program,
            manifest = exported.manifest,
            golden = exported.golden,
            core = core,
            accelerator = npu.accelerator if exported.npu_report else "",
            model = ctx.file.src,
            weights = weights,
            report = exported.report,
            npu_report = exported.npu_report[1] if exported.npu_report else None,
            operators = operators,
            method = "forward",
            methods = methods,
            memory = ctx.attr.memory,
        ),
    ]

torch_program_rule = rule(
    implementation = _torch_program_impl,
    doc = "See the macro `torch_program`.",
    attrs = CORE_ATTRS | {
        "src": attr.label(mandatory = True, allow_single_file = [".py"], doc = "The model file."),
        "data": attr.label_list(allow_files = True, doc = "Files that the model file reads or imports, by path from the workspace root."),
        "deps": attr.label_list(
            cfg = "exec",
            providers = [PyInfo],
            doc = "Python libraries that the model file imports: `py_library`, or packages of your own lock. They can't replace a package that Torch Fusion has.",
        ),
        "entry": attr.string(
            doc = "The model to take from a file that describes several: a key of the result of its `entries()`. Empty: the file describes one.",
        ),
        "methods": attr.string_list(
            doc = "Methods of the module, besides forward(), that the program has; `method_inputs()` of the model file returns their inputs.",
        ),
        "operators": attr.label_list(
            providers = [TorchOperatorInfo],
            doc = "Your own operators that the model uses: torch_operator. The model file imports their modules by path from the workspace root, or from its own folder.",
        ),
        "train": attr.bool(doc = "Whether the model file has `train()`."),
        "weights": attr.label(providers = [TorchProgramInfo], doc = "A trained program of the same model file, whose weights this one uses."),
        "backend": attr.string(default = "portable", values = _BACKENDS, doc = "The target of lowering, of %s: kernels in the model's own dtypes, int8 for the board's core, the board's NPU, or Vulkan on the host." % _BACKENDS),
        "io": attr.string(
            default = "float32",
            values = _IO,
            doc = """Dtype of a quantized program's inputs and outputs. With `int8` and `int16` the caller quantizes, by
the scales and zero points in header and manifest. `int16` is for `ethos_u`, and makes all activations 16 bits wide.
""",
        ),
        "memory": attr.string(
            default = "layers",
            values = ["layers", "smallest", "stream_rows"],
            doc = """Chooses what layers pass to each other, with `cortex_m`: `layers`: whole tensors, or the same as `smallest` where these don't fit the board's
RAM; `smallest`: rows of images where that makes the arena smaller, by chains of layers that compute a few rows at a time. The outputs are the same, to the bit, and nothing is computed
twice; `stream_rows`: the same, and the application hands over the rows of an int8 image one after another, such as a camera's lines, so that the arena doesn't have the image. Images with `engine = \"loaded\"` can't have it.
""",
        ),
        "program_name": attr.string(doc = "Name of the program, a C identifier; the target's name by default."),
        "cores": attr.string_list(doc = "The cores that the model is for, of those in docs/boards.md; empty: all."),
        "_train": attr.label(default = "//tools/pipeline/train", executable = True, cfg = "exec"),
        "_dump_after": attr.label(default = "//rules:dump_after", providers = [BuildSettingInfo]),
        "_export": attr.label(default = _export_tool, executable = True, cfg = "exec"),
        "_npu": attr.label(default = "//rules:npu", providers = [NpuInfo]),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    } | QUANTIZATION_ATTRS,
    cfg = program_transition,
    provides = [TorchProgramInfo],
)

def torch_program(name, cores = [], backend = "portable", quantization = None, train = False, weights = None, **kwargs):
    """Exports a model file to `<name>.pte` with golden inputs and outputs and a manifest.

    The model file has `model()`, which returns an eval-mode nn.Module, and `example_inputs()`, a tuple of tensors; with
    `train = True` also `train()`, which runs as its own cached action and returns the trained module. docs/models.md
    describes the rest.

    A quantized program comes with `<name>.quantization_report`, see the rule of this name.

    Args:
      name: the target, and the program unless program_name is set.
      cores: the cores that the model is for, values of //platforms:core without `core_`; an image for a board with
        another core is incompatible. Empty: all.
      backend: `portable`; `cortex_m`, which quantizes the model to int8 for the core of the board that uses it;
        `ethos_u`, which quantizes it and compiles the supported parts for the board's NPU; or `vgf`, for Vulkan on the
        host (docs/vgf.md), whose .vgf files are the output group `vgf`. Built by itself, without a board, a program for
        `cortex_m` is for a Cortex-M4. `ethos_u` is incompatible without a board that has an NPU, `vgf` with boards, and
        with machines that Arm's compiler doesn't support.
      quantization: how the model becomes int8, with `cortex_m`: a value of `quantization()`. None: its defaults.
      train: whether the model file has `train()`.
      weights: a trained torch_program of the same model file, whose weights this one uses, so that both are trained
        once.
      **kwargs: attributes of `torch_program_rule`.
    """
    problem = program_error(kwargs.get("src"), weights, kwargs)
    if problem:
        fail("torch_program %s: %s" % (name, problem))
    unknown = [core for core in cores if core not in CORES]
    if unknown:
        fail("torch_program %s: cores %s are unknown; allowed: %s" % (name, unknown, sorted(CORES)))
    if backend == "cortex_m":
        quantization = quantization or default_quantization()
    if backend in ["cortex_m", "ethos_u"] and not cores:
        cores = sorted(CORES)
    if backend != "portable" and train:
        # The model is trained once, not for every core.
        portable = {key: value for key, value in kwargs.items() if key in ["src", "data", "deps", "entry", "operators"]}
        torch_program_rule(name = name + ".trained", program_name = name, train = True, tags = ["manual"], **portable)
        train, weights = False, name + ".trained"
    if backend == "cortex_m":
        quantization_report(
            name = name + ".quantization_report",
            program = name,
            tags = ["manual"],
            visibility = kwargs.get("visibility"),
        )
    torch_program_rule(
        name = name,
        backend = backend,
        train = train,
        weights = weights,
        cores = cores,
        target_compatible_with = select({
            Label("//platforms:core_" + core): []
            for core in cores
        } | {
            os: [Label("//platforms:build_a_torch_firmware_or_another_target_with_board_or_core_that_uses_this_program")] if cores else []
            for os in [Label("@platforms//os:linux"), Label("@platforms//os:osx")]
        } | {
            "//conditions:default": [Label("//platforms:add_this_core_to_cores_of_the_torch_program")] if cores else [],
        }) + ([Label("//platforms:npu_ethos_u")] if backend == "ethos_u" else []) + (VGF_HOST if backend == "vgf" else []),
        **(kwargs | {"quantization_" + key: value for key, value in (quantization or {}).items()})
    )
