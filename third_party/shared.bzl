"""Repositories shared by all checkouts and workspaces of a user: made once, then copied from the user's cache.

An entry is a tar archive with its BLAKE2 digest, in a directory named after the repository and after all that decides its
content, below `repositories` in the cache of `./bazelw` (BAZELW_CACHE, or torch_fusion in XDG_CACHE_HOME or ~/.cache). It is
written beside and renamed, so two builds at once don't disturb each other, and copied, never linked to: an entry may be
deleted at any time, or the whole directory. Entries that no build has used for 30 days are deleted.
"""

_SCRIPT = Label("//third_party:shared.sh")

# File of all that decides an entry's content, while the repository is made.
_KEY = "shared_key.txt"

def _directory(rctx):
    """The directory of entries, or None where there is no home."""
    environment = rctx.os.environ
    cache = environment.get("BAZELW_CACHE")
    if not cache:
        base = environment.get("XDG_CACHE_HOME") or (environment["HOME"] + "/.cache" if environment.get("HOME") else None)
        cache = base + "/torch_fusion" if base else None
    return cache + "/repositories" if cache and cache.startswith("/") else None

def _run(rctx, command, name, directory, paths = []):
    return rctx.execute(["sh", rctx.path(_SCRIPT), command, directory, name, _KEY] + paths, timeout = 1800)

def shared_restore(rctx, name, decisive):
    """Copies an entry into the repository's directory.

    Args:
      rctx: The repository rule's context.
      name: The entry's description, for those who look into the cache.
      decisive: List of strings, all that decides the content: versions, hashes, texts of scripts.

    Returns:
      Whether there was one; if not, make the content and call `shared_store`.
    """
    directory = _directory(rctx)
    if not directory:
        return False
    rctx.file(_KEY, "\n".join([rctx.os.name, rctx.os.arch] + decisive), executable = False)
    result = _run(rctx, "restore", name, directory)
    if result.return_code == 0:
        rctx.delete(_KEY)
    return result.return_code == 0

def shared_store(rctx, name):
    """Keeps all that the repository's directory holds, made after `shared_restore` of the same name found nothing.

    No failure of this fails a build. Files that don't follow from `decisive`, such as BUILD.bazel, come later.

    Args:
      rctx: The repository rule's context.
      name: As for `shared_restore`.
    """
    directory = _directory(rctx)
    if directory:
        _run(rctx, "store", name, directory, [entry.basename for entry in rctx.path(".").readdir() if entry.basename != _KEY])
    rctx.delete(_KEY)
