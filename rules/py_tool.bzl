"""Python programs and tests that run on the declared interpreter alone.

`py_binary` starts with a stub that needs a Python on the machine. `py_tool` starts with a few lines of /bin/sh and runs
@python3 with the packages of its deps, so it works as a tool in an action, with `bazel run`, and on a remote worker that
has no Python. Hash seed, locale and what numerical libraries choose by the processor are fixed, so what a tool writes does not vary.

    load("@rules_python//python:py_library.bzl", "py_library")
    load("//rules:py_tool.bzl", "py_tool", "py_tool_test")

    py_library(
        name = "lib",
        srcs = glob(["*.py"], exclude = ["*_test.py"]),
        deps = ["//tools/artifacts/program:lib", "@pypi//:export"],
    )

    # Runs the package's __main__, or else main() of tools.pipeline.export.export.
    py_tool(
        name = "export",
        deps = [":lib"],
    )

    # Runs pytest on export_test.py, from the root of the runfiles.
    py_tool_test(
        name = "export_test",
        env = {"MODEL": "$(rootpath //models/sine:sine.py)"},
        deps = [":lib"],
    )

In an action: `attr.label(default = "//tools/pipeline/export", executable = True, cfg = "exec")` and `ctx.actions.run(executable =
ctx.executable._export, ...)`.
"""

load("@rules_python//python:py_info.bzl", "PyInfo")
load("//rules/private:transitions.bzl", "tool_transition")
load(":launcher.bzl", "runfiles_path")

# Tags of tests that `bazel test //...` leaves to //:nightly.
NIGHTLY = ["manual", "nightly"]

# Settings that numerical libraries would otherwise choose by the processor they run on, so that torch and NumPy compute
# the same bytes on every x86-64 processor, of any maker. Most of them are read once, when a library is loaded, so they
# cannot wait for Python; settings of torch by Python are in tools/pipeline/model_file/deterministic.py.
_ANY_PROCESSOR = {
    # torch's own kernels, which are compiled for SSE2, AVX2 and AVX-512.
    "ATEN_CPU_CAPABILITY": "default",
    # The C library's functions with fused multiplications, which Python, NumPy and torch call, for example for sines.
    # The names are those before and since glibc 2.33; it ignores unknown ones.
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-FMA_Usable,-FMA4_Usable",
    # This is for MKL, torch's BLAS and LAPACK. Processors of other makers support only this of its settings, and AUTO;
    # it also fixes the sizes of caches for which matrices are split into blocks.
    "MKL_CBWR": "COMPATIBLE",
    # Threads would change the order of sums.
    "MKL_NUM_THREADS": "1",
    # NumPy's own kernels beyond its baseline, SSE3.
    "NPY_DISABLE_CPU_FEATURES": "SSSE3 SSE41 POPCNT SSE42 AVX F16C FMA3 AVX2 AVX512F AVX512CD AVX512_KNL AVX512_KNM " +
                                "AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
    "OMP_NUM_THREADS": "1",
    # OpenBLAS, NumPy's and SciPy's BLAS and LAPACK: the oldest of its processors.
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "1",
}

# The same for processors of arm64, on which NumPy has other kernels beyond its baseline, and OpenBLAS other processors.
_ANY_ARM_PROCESSOR = _ANY_PROCESSOR | {
    "NPY_DISABLE_CPU_FEATURES": "ASIMDHP ASIMDFHM SVE",
    "OPENBLAS_CORETYPE": "ARMV8",
}

_LAUNCHER = """\
#!/bin/sh
# Runs Python code of {label} on the interpreter it declares.
case $0 in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
# Started by itself it has runfiles of its own; as another target's data it lies in that target's.
if [ -d "$self.runfiles" ]; then
  runfiles=$self.runfiles
else
  case $self in
    *.runfiles/*) runfiles=${{self%%.runfiles/*}}.runfiles ;;
    *) runfiles=${{RUNFILES_DIR:-${{TEST_SRCDIR:?the runfiles of $0 are missing}}}} ;;
  esac
fi
# Interpreter and packages are directories of other repositories. On a remote worker Bazel before 8.3 lays out such a directory
# only at its place in the execution root, and not among the runfiles.
locate() {{
  found=$runfiles/$1
  [ -e "$found" ] || found=${{self%%/bazel-out/*}}/external/$1
}}
unset PYTHONHOME PYTHONSTARTUP PYTHONINSPECT
export RUNFILES_DIR="$runfiles"
export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 PYTHONNOUSERSITE=1 PYTHONSAFEPATH=1 PYTHONUTF8=1
{any_processor}
PYTHONPATH=
for entry in {path}; do
  locate "$entry"
  PYTHONPATH=$PYTHONPATH${{PYTHONPATH:+:}}$found
done
export PYTHONPATH
locate {python}
python=$found
{command}
"""

_ATTRS = {
    "data": attr.label_list(
        doc = "Files that the program reads at run time.",
        allow_files = True,
    ),
    "deps": attr.label_list(
        doc = "`py_library` targets; those of `@pypi` are sets of packages: see third_party/python/requirements.",
        providers = [PyInfo],
    ),
    "env": attr.string_dict(
        doc = "Environment variables of `bazel run` and `bazel test`; $(rootpath ...) of data is expanded.",
    ),
    "srcs": attr.label_list(
        doc = "Python files of this target only.",
        allow_files = [".py"],
    ),
    "_arm64": attr.label(default = "@platforms//cpu:aarch64"),
    "_python": attr.label(
        default = "@python3//:python",
        allow_single_file = True,
        cfg = "exec",
    ),
    # Tells Bazel, which does not watch a directory's contents, that Python has changed.
    "_python_taken": attr.label(
        default = "@python3//:taken.txt",
        allow_single_file = True,
        cfg = "exec",
    ),
}

def _launch(ctx, command, deps, files = []):
    """Returns the providers of an executable; `command` is in sh, where $python is the interpreter and $runfiles the tree's root.
    """
    imports = depset(transitive = [dep[PyInfo].imports for dep in deps])

    # The tool's own repository, which is not the main one if another workspace depends on this module.
    path = [ctx.label.repo_name or ctx.workspace_name] + imports.to_list()
    is_arm64 = ctx.target_platform_has_constraint(ctx.attr._arm64[platform_common.ConstraintValueInfo])
    variables = _ANY_ARM_PROCESSOR if is_arm64 else _ANY_PROCESSOR
    launcher = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(launcher, is_executable = True, content = _LAUNCHER.format(
        any_processor = "\n".join(["export %s='%s'" % variable for variable in variables.items()]),
        command = command,
        label = ctx.label,
        path = " ".join(["'%s'" % entry for entry in path]),
        python = "'%s/bin/python3'" % runfiles_path(ctx, ctx.file._python),
    ))

    runfiles = ctx.runfiles(
        files = ctx.files.srcs + ctx.files.data + [ctx.file._python, ctx.file._python_taken] + files,
        transitive_files = depset(transitive = [dep[PyInfo].transitive_sources for dep in deps]),
    ).merge_all([target[DefaultInfo].default_runfiles for target in deps + ctx.attr.data])
    return [
        DefaultInfo(executable = launcher, runfiles = runfiles),
        RunEnvironmentInfo(environment = {
            name: ctx.expand_location(value, ctx.attr.data)
            for name, value in ctx.attr.env.items()
        }),
    ]

# Ctrl-C is ignored until a handler is installed: Python would end with a traceback while it starts.
_START = """\
trap '' INT
exec "$python" "$runfiles/{start}" {name} {module} "$@"
"""

def _py_tool_impl(ctx):
    module = ctx.attr.module or ctx.label.package.replace("/", ".")
    return _launch(ctx, _START.format(
        module = module,
        name = ctx.label.name,
        start = runfiles_path(ctx, ctx.file._start),
    ), ctx.attr.deps, [ctx.file._start])

py_tool = rule(
    doc = "A Python program. See the docstring of this file.",
    implementation = _py_tool_impl,
    executable = True,
    cfg = tool_transition,
    attrs = _ATTRS | {
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
        "module": attr.string(
            doc = "Module to run as a program, by its name from the repository's root: its main(), or else as `python -m`; " +
                  "default: this package's `__main__`, or else its module of the same name.",
        ),
        "_start": attr.label(default = "//tools/quiet:start.py", allow_single_file = [".py"]),
    },
)

# pytest's own cache and configuration can't be in runfiles; it would record torch's debug log, which takes longer than the
# tests; `importlib` keeps the directories of tests off the module path.
_PYTEST = """\
set -- "$@" {sources}
[ -z "${{XML_OUTPUT_FILE:-}}" ] || set -- "--junitxml=$XML_OUTPUT_FILE" "$@"
[ -z "${{TESTBRIDGE_TEST_ONLY:-}}" ] || set -- -k "$TESTBRIDGE_TEST_ONLY" "$@"
cd "$runfiles/{workspace}"
exec "$python" -m pytest -p no:cacheprovider -p no:logging --import-mode=importlib --rootdir=. --tb=short -q "$@"
"""

def _py_tool_test_impl(ctx):
    return _launch(ctx, _PYTEST.format(
        sources = " ".join(["'%s'" % source.short_path for source in ctx.files.srcs]),
        workspace = ctx.workspace_name,
    ), ctx.attr.deps + [ctx.attr._pytest, ctx.attr._testing])

_py_tool_test = rule(
    doc = "Tests in Python, run by pytest. See the docstring of this file.",
    implementation = _py_tool_test_impl,
    test = True,
    attrs = _ATTRS | {
        "_pytest": attr.label(
            default = "@pypi//:test",
            providers = [PyInfo],
        ),
        "_testing": attr.label(default = "//tools/quiet:testing", providers = [PyInfo]),
    },
)

def py_tool_test(name, size = "small", srcs = [], data = [], env = {}, **kwargs):
    """Declares tests in Python, run by pytest. See the docstring of this file.

    Args:
      name: the target.
      size: Bazel's test size.
      srcs: the files that have the tests; `<name>.py` by default.
      data: files that the tests read, besides those that env names.
      env: environment variables; $(rootpath ...) of targets is expanded, and makes them data.
      **kwargs: attributes of `py_tool`, and those of all tests.
    """
    named = [part.partition(" ")[2].partition(")")[0] for value in env.values() for part in value.split("$(rootpath")[1:]]
    _py_tool_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".py"],
        data = {native.package_relative_label(label): None for label in data + named}.keys(),
        env = env,
        **kwargs
    )
