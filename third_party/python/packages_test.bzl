"""Tests of how locks of users' own are read, and of what a build knows of the packages that it has."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts", "unittest")
load("//third_party:releases.bzl", "DEFAULT_RELEASE", "find_release", "lock_of", "release_constraints")
load(":packages.bzl", "left_out", "parse_lock", "requirement_key")

_LOCK = """\
# made by pip-compile
--extra-index-url https://download.pytorch.org/whl/cpu
einops==0.8.2 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via -r requirements.in
Typing_Extensions==4.16.0 ; python_version < "3.13" --hash=sha256:cc  # via torch
numpy==2.4.6 --hash=sha256:dd
torch==2.13.0 --hash=sha256:ee
httpx[http2]==1.0 --hash=sha256:ff
"""

def _packages_test_impl(ctx):
    env = unittest.begin(ctx)
    requirements, options = parse_lock(_LOCK)
    asserts.equals(env, ["--extra-index-url https://download.pytorch.org/whl/cpu"], options)
    asserts.equals(env, "einops==0.8.2 --hash=sha256:aa --hash=sha256:bb", requirements[0])
    asserts.equals(env, 5, len(requirements))
    asserts.equals(env, ("typing-extensions", "4.16.0"), requirement_key(requirements[1]))
    asserts.equals(env, ("httpx", "1.0"), requirement_key(requirements[4]))
    provided = {"numpy": "2.1.3", "torch": "2.13.0+cpu", "typing-extensions": "4.16.0"}
    kept, differing, error = left_out(requirements, provided, "lock.txt")
    asserts.equals(env, None, error)
    asserts.equals(env, [requirements[0], requirements[4]], kept)

    # torch's build for the CPU is the same version.
    asserts.equals(env, ["numpy 2.1.3 instead of 2.4.6"], differing)
    for bad in ["einops", "einops>=0.8 --hash=sha256:aa", "einops==0.8.2", "git+https://example.org/x.git#egg=x"]:
        _, _, error = left_out([bad], provided, "lock.txt")
        asserts.true(env, error and "lock.txt: '%s' is not pinned as NAME==VERSION with --hash" % bad in error, bad)
    return unittest.end(env)

packages_test = unittest.make(_packages_test_impl)

def _releases_test_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, (DEFAULT_RELEASE, None), find_release([], None))
    asserts.equals(env, ("1.5", None), find_release(["1.5"], None))
    asserts.equals(env, ("1.4", None), find_release(["1.5"], "1.4"))
    _, error = find_release(["1.3"], "")
    asserts.equals(env, "third_party.release in MODULE.bazel: there is no release \"1.3\" of ExecuTorch here; it can be 1.4, 1.5.", error)
    _, error = find_release([], "1.5.1")
    asserts.true(env, error.startswith("TORCH_FUSION_RELEASE: there is no release \"1.5.1\""), error)
    _, error = find_release(["1.4", "1.5"], None)
    asserts.true(env, "there are 2 of them (1.4, 1.5)" in error, error)
    asserts.equals(env, "//third_party/python:requirements/1.5/export.txt", lock_of("1.5", "export"))
    asserts.equals(env, "//third_party/python:requirements/torch.txt", lock_of("1.5", "torch"))
    asserts.equals(env, {str(Label("@platforms//os:linux")): None}, {label: None for label in release_constraints(DEFAULT_RELEASE).values()})
    asserts.true(env, release_constraints("1.5")["release_with_recorded_hashes"].endswith("//platforms:release_with_recorded_hashes"))
    return unittest.end(env)

releases_test = unittest.make(_releases_test_impl)

def _other_packages_test_impl(ctx):
    env = analysistest.begin(ctx)
    files = analysistest.target_under_test(env)[DefaultInfo].default_runfiles.files.to_list()

    # Without such a file, programs stay as they were exported by other packages until Bazel's server ends.
    for directory, file in {"site-packages": "packages.txt", "python": "taken.txt"}.items():
        repositories = [entry.owner.repo_name for entry in files if entry.basename == directory]
        described = [entry.owner.repo_name for entry in files if entry.basename == file]
        asserts.true(env, repositories, directory)
        asserts.equals(env, sorted(repositories), sorted(described))
    return analysistest.end(env)

other_packages_test = analysistest.make(_other_packages_test_impl)
