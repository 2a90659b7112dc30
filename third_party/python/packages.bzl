"""Python packages of a user's own lock, beside those that Torch Fusion has."""

load("//third_party:shared.bzl", "shared_restore", "shared_store")
load(":repository.bzl", "PIP_ENVIRON", "install_packages", "write_site_library")

def parse_lock(text):
    """The requirements of a lock, each with its options in one line, without comments; and pip's options of the whole."""
    requirements, options = [], []
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        words = [word for word in line.partition(" #")[0].split(" ") if word]
        if not words or words[0].startswith("#"):
            continue
        (options if words[0].startswith("-") else requirements).append(" ".join(words))
    return requirements, options

def requirement_key(requirement):
    """(name, version) of a pinned requirement, the name as indexes compare it; (None, None) if it isn't pinned."""
    name, _, rest = requirement.partition("==")
    if not rest or [c for c in name.strip().elems() if not (c.isalnum() or c in "-_.[],")]:
        return None, None
    plain = name.partition("[")[0].strip().lower().replace("_", "-").replace(".", "-")
    return plain, rest.strip().partition(" ")[0].partition(";")[0]

def left_out(requirements, provided, lock):
    """Checks a lock and leaves out what Torch Fusion has.

    Args:
      requirements: list of the lock's requirements.
      provided: dict from the names of Torch Fusion's packages to their versions.
      lock: the lock, for messages.

    Returns:
      (requirements to install, names of packages left out whose version is another, or an error or None)
    """
    kept, differing = [], []
    for requirement in requirements:
        name, version = requirement_key(requirement)
        if not name or " --hash=" not in requirement:
            return [], [], "%s: '%s' is not pinned as NAME==VERSION with --hash=...; make the lock with `pip-compile --generate-hashes`" % (
                lock,
                requirement,
            )
        if name not in provided:
            kept.append(requirement)
        elif provided[name].partition("+")[0] != version.partition("+")[0]:
            differing.append("%s %s instead of %s" % (name, provided[name], version))
    return kept, differing, None

def _python_packages_impl(rctx):
    python = rctx.path(rctx.attr.python).dirname.get_child("python")
    provided = {}
    for lock in rctx.attr.provided:
        for requirement in parse_lock(rctx.read(lock))[0]:
            name, version = requirement_key(requirement)
            provided[name] = version
    requirements, options = parse_lock(rctx.read(rctx.attr.lock))
    kept, differing, error = left_out(requirements, provided, rctx.attr.lock)
    if error:
        fail(error)
    if differing:
        # buildifier: disable=print
        print("%s: models run with Torch Fusion's %s." % (rctx.attr.lock, ", ".join(differing)))
    text = "\n".join(options + kept) + "\n"
    if not shared_restore(rctx, "python-own", [text, rctx.read(python.dirname.get_child("taken.txt"))]):
        rctx.report_progress("installing the packages of %s" % rctx.attr.lock)
        rctx.file("requirements.txt", text)
        install_packages(rctx, python, rctx.path("requirements.txt"))
        rctx.delete("requirements.txt")

        # Some packages have files that are no Python of this version, so the compiler's status says nothing.
        rctx.execute(
            [python.get_child("bin", "python3"), "-m", "compileall", "-q", "-j", "0", "--invalidation-mode=unchecked-hash", "site-packages"],
            environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
            timeout = 3600,
        )
        shared_store(rctx, "python-own")
    write_site_library(rctx, text)

python_packages = repository_rule(
    doc = "`:site`, the Python packages of a lock of one's own as one directory, for the `deps` of a torch_program.",
    implementation = _python_packages_impl,
    attrs = {
        "lock": attr.label(mandatory = True, doc = "Requirements with hashes."),
        "provided": attr.label_list(mandatory = True, doc = "Locks of packages that are there anyway."),
        "python": attr.label(mandatory = True, doc = "BUILD.bazel of a `python3` repository."),
    },
    environ = PIP_ENVIRON,
)
