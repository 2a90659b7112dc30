"""Python 3.11 and its packages as repositories; the host's own Python is neither used nor needed."""

load("@rules_python//python:versions.bzl", "MINOR_MAPPING", "TOOL_VERSIONS", "get_release_info")
load("//third_party/debian:debian.bzl", "debian_available", "debian_multiarch", "debian_unpack")

# The interpreter, the libraries that it and its modules load, what makes the interpreter find those, and pip with the
# certificates it needs where the machine has none.
_DEBIAN_PACKAGES = [
    "ca-certificates",
    "libbz2-1.0",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "liblzma5",
    "libncursesw6",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libreadline8",
    "libsqlite3-0",
    "libssl3",
    "libtinfo6",
    "libuuid1",
    "patchelf",
    "python3-pip-whl",
    "python3.11-minimal",
    "zlib1g",
]

# Where Debian's pip expects them.
_HOST_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

# The interpreter while it makes the repositories: they hold the same bytes on every machine.
_PYTHON_ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONSAFEPATH": "1",
}

_PYTHON_BUILD = """\
load("@rules_python//python:py_runtime.bzl", "py_runtime")
load("@rules_python//python:py_runtime_pair.bzl", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

# For actions: the installation as one directory, because hundreds of single inputs cost time in each action.
exports_files(["python"])

# For py_binary and py_test.
py_runtime(
    name = "runtime",
    files = glob(["python/**"], exclude = ["**/* *"]),
    interpreter = "python/bin/python3.11",
    python_version = "PY3",
)

py_runtime_pair(
    name = "runtime_pair",
    py3_runtime = ":runtime",
)
"""

def _check(rctx, what, result):
    if result.return_code:
        fail("{}: {} failed.\n{}{}".format(rctx.name, what, result.stdout, result.stderr))

def _compile(rctx, python, directory, exclude):
    """Compiles a directory's modules to byte code, except those whose path matches `exclude`.

    The code is valid whatever the files' times are: remote workers and caches don't keep them. What the compiler itself
    imports must not be written: that code names times, and compileall keeps it.
    """
    return rctx.execute(
        [python, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode=unchecked-hash", "-x", exclude, directory],
        environment = _PYTHON_ENVIRONMENT,
        timeout = 3600,
        quiet = True,
    )

def _python3_11_impl(rctx):
    if debian_available(rctx, rctx.attr.suite):
        debian_unpack(
            rctx,
            suite = rctx.attr.suite,
            packages = _DEBIAN_PACKAGES,
            exclude = ["./etc", "./usr/share/doc", "./usr/share/man", "./usr/share/lintian", "./usr/share/binfmts", "./usr/lib/binfmt.d", "./usr/sbin"],
        )
        _check(rctx, "cat", rctx.execute(["sh", "-c", "cat usr/share/ca-certificates/mozilla/*.crt >usr/share/ca-certificates.crt"]))

        # Beside the executable, and not by LD_LIBRARY_PATH: the host's programs that Python starts must not see them.
        libraries = "$ORIGIN/../lib/" + debian_multiarch(rctx)
        _check(rctx, "patchelf", rctx.execute(["usr/bin/patchelf", "--force-rpath", "--set-rpath", libraries, "usr/bin/python3.11"]))
        rctx.delete("usr/bin/patchelf")
        _check(rctx, "mv", rctx.execute(["mv", "usr", "python"]))
    else:
        # The build that rules_python would take. Not tested where this was developed.
        version = MINOR_MAPPING["3.11"]
        platform = rctx.os.arch.replace("amd64", "x86_64") + "-unknown-linux-gnu"
        url = get_release_info(platform, version)[1]
        rctx.download_and_extract(
            url,
            sha256 = TOOL_VERSIONS[version]["sha256"][platform],
            stripPrefix = "python",
            output = "python",
        )

    _check(rctx, "compileall", _compile(rctx, "python/bin/python3.11", "python/lib/python3.11", "/(test|lib2to3)/"))
    rctx.file("BUILD.bazel", _PYTHON_BUILD)

python3_11 = repository_rule(
    doc = """Python 3.11 in the directory `python`: Debian's packages, or away from Debian the build that rules_python knows.

Any signed version of Debian's suite will do: the language doesn't change within 3.11.""",
    implementation = _python3_11_impl,
    attrs = {
        "suite": attr.label(doc = "`mirror.txt` of a `debian_suite`.", mandatory = True),
    },
)

_PYPI_BUILD = """\
load("@rules_python//python:py_library.bzl", "py_library")

package(default_visibility = ["//visibility:public"])

# One directory, and not its tens of thousands of files: importing torch costs 5 s instead of 15 s in each action.
py_library(
    name = "site",
    data = ["site-packages"],
    imports = ["site-packages"],
)

"""

def _pip_command(rctx, python):
    """Returns the command line that starts pip and its environment, for an installation in the directory `python`."""
    environment = dict(_PYTHON_ENVIRONMENT)
    wheels = python.get_child("share", "python-wheels")
    if wheels.exists:
        # Debian packs pip as a wheel, which can run as it is.
        environment["PYTHONPATH"] = [str(wheel) for wheel in wheels.readdir() if wheel.basename.startswith("pip-")][0]
        if "PIP_CERT" not in rctx.os.environ and not rctx.path(_HOST_CERTIFICATES).exists:
            environment["PIP_CERT"] = str(python.get_child("share", "ca-certificates.crt"))
    return [str(python.get_child("bin", "python3.11")), "-m", "pip"], environment

def _pypi_impl(rctx):
    python = rctx.path(rctx.attr.python).dirname.get_child("python")
    lock = rctx.path(rctx.attr.lock)
    pip, environment = _pip_command(rctx, python)
    install = pip + ["install", "--quiet", "--no-deps", "--no-input", "--no-compile", "--no-warn-script-location", "--disable-pip-version-check", "--require-hashes", "--only-binary=:all:"]

    rctx.report_progress("installing PyTorch, ExecuTorch and the other packages of the lock")
    result = rctx.execute(
        install + ["--target", str(rctx.path("site-packages")), "--requirement", str(lock)],
        environment = environment,
        timeout = 3600,
        quiet = True,
    )
    if result.return_code:
        fail("""The Python packages could not be installed from third_party/python/requirements_lock.txt.
If it is torch that doesn't match, pip found another build than the one for the CPU: point PIP_FIND_LINKS or
PIP_EXTRA_INDEX_URL to PyTorch's wheels for the CPU. The head of that file says more. pip said:
{}""".format(result.stdout + result.stderr))

    # pip leaves out all of the packages' programs where a package has a directory `bin` of its own, as tosa-tools does.
    wanted = [line for line in rctx.read(lock).split("\n") if line.split("==")[0] in rctx.attr.programs]
    rctx.file("programs.txt", "\n".join(wanted))
    _check(rctx, "pip", rctx.execute(install + ["--target", "programs", "--requirement", "programs.txt"], environment = environment, timeout = 3600))
    _check(rctx, "mkdir", rctx.execute(["mkdir", "-p", "site-packages/bin"]))
    for program in rctx.attr.programs:
        _check(rctx, "mv", rctx.execute(["mv", "programs/bin/" + program, "site-packages/bin/" + program]))
    rctx.delete("programs")
    rctx.delete("programs.txt")
    rctx.file("BUILD.bazel", _PYPI_BUILD)

    # The packages' programs begin with the interpreter's path here, which other directories must not hold, nor hashes of it.
    _check(rctx, "sed", rctx.execute(["sh", "-c", "sed -i '/^\\.\\.\\/\\.\\.\\/bin\\//d' site-packages/*.dist-info/RECORD"]))

    # Some packages have files that are no Python of this version, so the status says nothing.
    rctx.report_progress("compiling the packages")
    _compile(rctx, pip[0], "site-packages", "/(tests?|testing/_internal)/")

pypi = repository_rule(
    doc = "The Python packages of a lock, as one directory `site-packages`.",
    implementation = _pypi_impl,
    attrs = {
        "lock": attr.label(doc = "requirements with hashes", mandatory = True),
        "programs": attr.string_list(doc = "Packages of the lock that are a program of the same name: `site-packages/bin` has it."),
        "python": attr.label(doc = "BUILD.bazel of a `python3_11` repository.", mandatory = True),
    },
    # Where pip looks for packages is the user's choice, and what it may install is the lock's.
    environ = [
        "PIP_CERT",
        "PIP_CONFIG_FILE",
        "PIP_DEFAULT_TIMEOUT",
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
        "PIP_INDEX_URL",
        "PIP_NO_INDEX",
        "PIP_PROXY",
        "PIP_TRUSTED_HOST",
    ],
)
