"""Python and its packages as repositories; the host's own Python is neither used nor needed."""

load("@rules_python//python:versions.bzl", "MINOR_MAPPING", "TOOL_VERSIONS", "get_release_info")
load("//third_party:shared.bzl", "shared_restore", "shared_store")
load("//third_party/debian:debian.bzl", "DEBIAN_ENVIRON", "debian_available", "debian_held", "debian_multiarch", "debian_unpack")

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

# Debian's pip expects them there.
_HOST_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

# Pip, which isn't in the interpreter's directory, as actions have that.
_PIP = "pip"

# The versions that `python/requirements/*.txt` have files for, the default first.
_VERSIONS = ["3.11", "3.12", "3.13"]

# Makes byte code that is valid whatever the files' times are: remote workers and caches don't keep them.
_COMPILE = [
    "-m",
    "compileall",
    "-q",
    "-j",
    "0",
    "--invalidation-mode=unchecked-hash",
    "-x",
    "/(test|lib2to3)/",
]

# The interpreter while it makes the repositories: they hold the same bytes on every machine. Byte code of a compiler's
# own imports must not be written: it names times, and compileall keeps it.
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

# Actions use this: the installation as one directory, because hundreds of single inputs cost time in each action.
exports_files(["python", "taken.txt"])

# py_binary and py_test use this.
py_runtime(
    name = "runtime",
    files = glob(["python/**"], exclude = ["**/* *"]),
    interpreter = "python/bin/python3",
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

def _fetch_python_from_debian(rctx):
    """Makes the directory `python` of Debian's packages. Returns a list of what was taken."""
    taken = debian_unpack(
        rctx,
        suite = rctx.attr.suite,
        packages = _DEBIAN_PACKAGES,
        exclude = ["./etc", "./usr/share/doc", "./usr/share/man", "./usr/share/lintian", "./usr/share/binfmts", "./usr/lib/binfmt.d", "./usr/sbin"],
    ).taken
    _check(rctx, "cat", rctx.execute(["sh", "-c", "cat usr/share/ca-certificates/mozilla/*.crt >usr/share/ca-certificates.crt"]))

    # They are beside the executable, not in LD_LIBRARY_PATH: the host's programs that Python starts must not see them.
    libraries = "$ORIGIN/../lib/" + debian_multiarch(rctx)
    _check(rctx, "mv", rctx.execute(["mv", "usr/bin/python3.11", "usr/bin/python3"]))
    _check(rctx, "patchelf", rctx.execute(["usr/bin/patchelf", "--force-rpath", "--set-rpath", libraries, "usr/bin/python3"]))
    rctx.delete("usr/bin/patchelf")
    _check(rctx, "mv", rctx.execute(["mv", "usr", "python"]))
    return taken

def _fetch_python_as_rules_python(rctx):
    """Makes the directory `python` of the build that rules_python would take. Not tested where this was developed."""
    version = MINOR_MAPPING[_VERSIONS[0]]
    platform = rctx.os.arch.replace("amd64", "x86_64") + "-unknown-linux-gnu"
    url = get_release_info(platform, version)[1]
    sha256 = TOOL_VERSIONS[version]["sha256"][platform]
    rctx.download_and_extract(url, sha256 = sha256, stripPrefix = "python", output = "python")
    return ["{} {}".format(url, sha256)]

# Copies the interpreter $1 of version $3 with what it has below the directory $2, but for its tests and static library.
_COPY = """\
set -eu
mkdir -p python/bin python/lib
cp -L "$1" python/bin/python3
cp -R "$2/lib/python$3" python/lib/
for library in "$2"/lib/libpython*.so*; do
  if [ -e "$library" ]; then cp -R "$library" python/lib/; fi
done
rm -rf python/lib/python*/test python/lib/python*/config-*
"""

def _copy_python(rctx):
    """Makes the directory `python` of the interpreter that the workspace names."""
    what = "third_party.python in MODULE.bazel: {}".format(rctx.attr.interpreter)
    interpreter = rctx.path(rctx.attr.interpreter).realpath
    found = rctx.execute([interpreter, "-I", "-c", "import platform, sys; print(sys.base_prefix, platform.python_version())"])
    _check(rctx, what, found)
    prefix, _, version = found.stdout.strip().rpartition(" ")
    minor = version.rpartition(".")[0]
    if minor not in _VERSIONS:
        fail("{} is Python {}; it can be {}.".format(what, version, ", ".join(_VERSIONS)))
    if not rctx.path(prefix + "/lib/python" + minor + "/ensurepip/_bundled").exists:
        fail("{} has no pip in {}/lib/python{}/ensurepip; take an interpreter of rules_python.".format(what, prefix, minor))
    _check(rctx, what, rctx.execute(["sh", "-c", _COPY, "sh", interpreter, prefix, minor]))
    return ["Python {} of {}".format(version, rctx.attr.interpreter)]

def _complete(rctx):
    """Moves pip out of the directory `python`, where it is a wheel, and compiles the standard library."""
    library = [path for path in rctx.path("python/lib").readdir() if path.basename.startswith("python3.") and path.get_child("os.py").exists][0]

    # Packages beside the standard library would be there for every action.
    for folder in ["site-packages", "dist-packages"]:
        rctx.delete(library.get_child(folder))

    # The wheel could run as it is, but would be compiled at each start.
    wheels = rctx.path("python/share/python-wheels")
    wheels = wheels if wheels.exists else library.get_child("ensurepip").get_child("_bundled")
    wheel = [str(path) for path in wheels.readdir() if path.basename.startswith("pip-")][0]
    _check(rctx, "unpacking pip", rctx.execute(["python/bin/python3", "-m", "zipfile", "-e", wheel, _PIP], environment = _PYTHON_ENVIRONMENT))
    rctx.delete(wheels)
    compile = ["python/bin/python3"] + _COMPILE + ["python/lib/" + library.basename, _PIP]
    _check(rctx, "compileall", rctx.execute(compile, environment = _PYTHON_ENVIRONMENT, timeout = 3600))

def _python3_impl(rctx):
    # Byte code of the standard library is what compileall of this makes.
    held = _DEBIAN_PACKAGES + debian_held(rctx) + _COMPILE + [_PIP, "python3"]
    if rctx.attr.interpreter or not shared_restore(rctx, "python", held):
        if rctx.attr.interpreter:
            taken = _copy_python(rctx)
        elif debian_available(rctx, rctx.attr.suite):
            taken = _fetch_python_from_debian(rctx)
        else:
            taken = _fetch_python_as_rules_python(rctx)
        _complete(rctx)
        rctx.file("taken.txt", "".join([line + "\n" for line in taken]), executable = False)
        if not rctx.attr.interpreter:
            shared_store(rctx, "python")
    rctx.file("BUILD.bazel", _PYTHON_BUILD)

python3 = repository_rule(
    doc = """Python in the directory `python`: 3.11 of Debian's packages, or away from Debian of the build that rules_python knows.

Any signed version of Debian's suite will do: the language doesn't change within 3.11. A workspace's own interpreter may be 3.12
or 3.13. `taken.txt` says which it was.""",
    implementation = _python3_impl,
    attrs = {
        "interpreter": attr.label(doc = "The program of an installation to copy instead, with its `lib` in the directory above."),
        "suite": attr.string(doc = "Label of `mirror.txt` of a `debian_suite`, which is fetched when it is needed.", mandatory = True),
    },
    environ = DEBIAN_ENVIRON,
)

# PyTorch's own index of builds for the CPU.
_TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"

_SITE_BUILD = """\
load("@rules_python//python:py_library.bzl", "py_library")

package(default_visibility = ["//visibility:public"])

# One directory, and not its tens of thousands of files: importing torch costs 5 s instead of 15 s in each action. Bazel does not
# look into a directory again that it has seen: packages.txt tells it that there is another one.
py_library(
    name = "site",
    data = ["packages.txt", "site-packages"],
    imports = ["site-packages"],
)
"""

_PYPI_BUILD = """\
load("@rules_python//python:py_library.bzl", "py_library")

package(default_visibility = ["//visibility:public"])
"""

# All of its repositories are named here, so that Bazel fetches them side by side.
_PYPI_TARGET = """
py_library(
    name = "{name}",
    deps = {deps},
)
"""

def write_site_library(rctx, packages):
    """Writes BUILD.bazel with `:site`, the packages in the directory `site-packages`.

    Args:
      rctx: The repository rule's context.
      packages: Text that differs where what is in the directory does: the lock, and what else it was made by.
    """
    rctx.file("packages.txt", packages, executable = False)
    rctx.file("BUILD.bazel", _SITE_BUILD)

_INSTALL = Label("//third_party/python:install.py")

_PUBLIC = """PyTorch for GPUs is taken, which works without one but is about 4 GB larger, from the index that pip uses, because
{}."""

# Exit status of install.py: another lock may do.
_NOT_OFFERED = 3

# The user chooses where pip looks for packages, and the lock what it may install.
PIP_ENVIRON = [
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_NO_INDEX",
    "PIP_PROXY",
    "PIP_TRUSTED_HOST",
]

def _install(rctx, python, lock, arguments):
    """Starts install.py for `site-packages`, with the interpreter in the directory `python`; returns its result."""
    environment = dict(_PYTHON_ENVIRONMENT)
    pip = python.dirname.get_child(_PIP)
    if pip.exists:
        environment["PYTHONPATH"] = str(pip)
        if "PIP_CERT" not in rctx.os.environ and not rctx.path(_HOST_CERTIFICATES).exists:
            environment["PIP_CERT"] = str(python.get_child("share", "ca-certificates.crt"))
    rctx.delete("site-packages")
    return rctx.execute(
        [str(python.get_child("bin", "python3")), rctx.path(_INSTALL), "--lock", lock, "--target", "site-packages"] + arguments,
        environment = environment,
        timeout = 3600,
        quiet = True,
    )

def install_packages(rctx, python, lock, only = []):
    """Installs packages of a lock into the directory `site-packages`, without byte code.

    Args:
      rctx: The repository rule's context; the rule's `environ` has `PIP_ENVIRON`.
      python: Path of a `python3` repository's directory `python`.
      lock: Path of requirements with hashes.
      only: Names of packages in the lock; by default all.
    """
    result = _install(rctx, python, lock, ["--no-compile"] + (["--only"] + only if only else []))
    if result.return_code:
        fail("{} of {} could not be installed: {}".format(", ".join(only) or "the packages", lock.basename, result.stderr))

def _fetch_set(rctx, python, lock, arguments, warning = None):
    """Makes `site-packages` of one lock, from the user's cache or with install.py; False if another lock may do.

    Args:
      rctx: The repository rule's context.
      python: Path of the interpreter's directory.
      lock: Path of the lock.
      arguments: List of install.py's arguments.
      warning: The message to the user before.

    Returns:
      None if it is made, or install.py's message if no index has one of the packages.
    """
    if warning:
        # buildifier: disable=print
        print(warning)
    entry = "{}-{}".format(rctx.attr.content, lock.basename.removesuffix(".txt"))
    if shared_restore(rctx, entry, [rctx.read(_INSTALL), rctx.read(python.dirname.get_child("taken.txt")), rctx.read(lock)] + arguments):
        return None
    rctx.report_progress("installing the packages of " + lock.basename)
    result = _install(rctx, python, lock, arguments)
    if result.return_code == _NOT_OFFERED:
        return result.stderr.strip()
    if result.return_code:
        fail("the Python packages of {} could not be installed: {}".format(lock.basename, result.stderr))
    if result.stdout.strip():
        # buildifier: disable=print
        print(result.stdout.strip())
    shared_store(rctx, entry)
    return None

def _pypi_set_impl(rctx):
    python = rctx.path(rctx.attr.python).dirname.get_child("python")
    arguments = []
    for option, globs in [("--exclude", rctx.attr.exclude), ("--no-byte-code", rctx.attr.no_byte_code)]:
        arguments += [option] + globs if globs else []
    lock = rctx.path(rctx.attr.lock)
    if not rctx.attr.public_lock:
        _fetch_set(rctx, python, lock, arguments)
    else:
        missing = _fetch_set(rctx, python, lock, arguments + ["--local", "cpu", "--local-index", _TORCH_CPU_INDEX])
        if missing:
            lock = rctx.path(rctx.attr.public_lock)
            _fetch_set(rctx, python, lock, arguments, _PUBLIC.format(missing))
    made_by = "# {} by install.py {}\n".format(" ".join(arguments), hash(rctx.read(_INSTALL)))
    write_site_library(rctx, rctx.read(lock) + made_by)

pypi_set = repository_rule(
    doc = "`:site`, the Python packages of a lock as one directory `site-packages`; not those that they import, see `pypi`.",
    implementation = _pypi_set_impl,
    attrs = {
        "content": attr.string(doc = "What is in it, in a word.", mandatory = True),
        "exclude": attr.string_list(doc = "Globs in `site-packages` of files that nothing here needs."),
        "lock": attr.label(doc = "Requirements with hashes.", mandatory = True),
        "no_byte_code": attr.string_list(doc = "Globs in `site-packages` of directories whose modules are rarely imported: they aren't compiled before."),
        "public_lock": attr.label(doc = """The lock to take where no index has a package of `lock`, torch's build +cpu.

In order: what pip's configuration offers as +cpu; PyTorch's index of such builds; the packages of this lock."""),
        "python": attr.label(doc = "BUILD.bazel of a `python3` repository.", mandatory = True),
    },
    environ = PIP_ENVIRON,
)

_CONSTRAINT = """
alias(
    name = "{}",
    actual = "{}",
)
"""

def _pypi_impl(rctx):
    rctx.file("BUILD.bazel", _PYPI_BUILD + "".join([
        _CONSTRAINT.format(name, label)
        for name, label in rctx.attr.constraints.items()
    ] + [
        _PYPI_TARGET.format(name = name, deps = ["@{}//:site".format(repository) for repository in repositories])
        for name, repositories in rctx.attr.sets.items()
    ]))

pypi = repository_rule(
    doc = "A target for each set of Python packages and what they import, which is fetched when a build needs it.",
    implementation = _pypi_impl,
    attrs = {
        "constraints": attr.string_dict(doc = "Labels of constraints that only some releases meet, by the names of their aliases.", mandatory = True),
        "sets": attr.string_list_dict(doc = "From a target's name to all `pypi_set` repositories that it needs.", mandatory = True),
    },
)
