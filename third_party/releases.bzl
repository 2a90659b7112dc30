"""The releases of ExecuTorch that a workspace can choose from, each a set of packages that belong together."""

DEFAULT_RELEASE = "1.4"

# Maps a release to the sets of Python packages that have a lock of its own, in python/requirements/RELEASE; the
# default's lock has the others.
_OWN_LOCKS = {
    "1.4": [],
    "1.5": ["export"],
}

# Maps what targets may ask of the release to the releases that have it.
_ABILITIES = {
    # The wheel for Linux on x86-64 has the runtime's VGF backend, without which VGF programs are exported and not run.
    "release_with_vgf_runtime": ["1.4"],
    # This repository's recorded hashes are those of its programs.
    "release_with_recorded_hashes": [DEFAULT_RELEASE],
}

# The variable of the user's environment or --repo_env to try a release without editing MODULE.bazel.
_VARIABLE = "TORCH_FUSION_RELEASE"

def find_release(tags, variable):
    """Returns the release that a build takes.

    Args:
      tags: List of the releases that the root module names.
      variable: Value of the environment's variable, or None.

    Returns:
      (release, an error or None)
    """
    if variable:
        release, where = variable, _VARIABLE
    else:
        where = "third_party.release in MODULE.bazel"
        if len(tags) > 1:
            return None, "{}: there are {} of them ({}); a workspace has one release, so leave one.".format(where, len(tags), ", ".join(tags))
        release = tags[0] if tags else DEFAULT_RELEASE
    if release not in _OWN_LOCKS:
        return None, "{}: there is no release \"{}\" of ExecuTorch here; it can be {}.".format(where, release, ", ".join(_OWN_LOCKS))
    return release, None

def chosen_release(mctx):
    """Returns the release of the root module's tag, of the environment's variable, or the default.

    Args:
      mctx: The module extension's context.

    Returns:
      The release.
    """
    tags = [tag.version for module in mctx.modules if module.is_root for tag in module.tags.release]
    release, error = find_release(tags, mctx.getenv(_VARIABLE))
    if error:
        fail(error)
    return release

def release_constraints(release):
    """Returns the labels of constraints that this machine has only if the release has what they are named after.

    Args:
      release: The release.

    Returns:
      The labels as text, by name. A target that is skipped for one is skipped with its name as the reason.
    """
    return {
        name: str(Label("@platforms//os:linux" if release in releases else "//platforms:" + name))
        for name, releases in _ABILITIES.items()
    }

def lock_of(release, name):
    """Returns the lock of a set of Python packages.

    Args:
      release: The release.
      name: The set.

    Returns:
      The label of its lock, as text.
    """
    folder = release + "/" if name in _OWN_LOCKS[release] else ""
    return "//third_party/python:requirements/{}{}.txt".format(folder, name)
