"""Debian packages for repository rules: downloaded, verified and unpacked privately by the host's own apt.

Nothing on the host changes and root is not needed: apt gets a configuration of its own, in which every directory lies in
the repository being fetched. The mirror is the one that the host already uses; the archive's signature is checked against
Debian's keyring. One repository per suite (`debian_suite`) holds the package index, so that it is downloaded once.
"""

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# Everything that apt would read or write on the host, pointed to nowhere or below {lists} and {work}.
# Dir::Etc::parts matters most: without it the host's hooks run.
_APT_CONF = """\
Dir::Etc::main "none";
Dir::Etc::parts "{work}/none";
Dir::Etc::sourcelist "{sources}";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::trusted "/dev/null";
Dir::Etc::trustedparts "/dev/null";
Dir::State "{work}";
Dir::State::lists "{lists}";
Dir::State::status "{work}/status";
Dir::State::extended_states "{work}/extended_states";
Dir::Cache "{work}";
Dir::Cache::archives "{work}/archives";
Dir::Log "{work}";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Check-Valid-Until "false";
Acquire::GzipIndexes "true";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
"""

_STAND_IN = """\
Package: {name}
Status: install ok installed
Priority: optional
Section: misc
Maintainer: none
Architecture: {architecture}
Multi-Arch: foreign
Version: 999:0
Description: stand-in for what the host has or the unpacked programs don't need

"""

def _run(rctx, arguments, what, environment = {}, working_directory = ""):
    """Runs a program of the host; fails with what it said if it fails."""
    result = rctx.execute(arguments, environment = environment, timeout = 1800, working_directory = working_directory)
    if result.return_code:
        fail("{}: {} failed.\n{}{}".format(rctx.name, what, result.stdout, result.stderr))
    return result.stdout

def _find_mirror(rctx):
    """The Debian mirror in the host's apt sources, or None."""
    listing = rctx.execute(["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT) $(ORIGIN)", "Created-By: Packages"])
    candidates = []
    for line in listing.stdout.splitlines():
        fields = line.split(" ")
        if len(fields) < 2 or fields[1] != "main" or "security" in fields[0]:
            continue

        # The origin is known only after the first `apt-get update` on the host; until then the address is the best hint.
        origin = fields[2] if len(fields) > 2 and not fields[2].startswith("$") else ""
        if origin == "Debian" or (not origin and fields[0].rstrip("/").endswith("/debian")):
            return fields[0]
        if not origin:
            candidates.append(fields[0])
    return candidates[0] if candidates else None

def _download_index(rctx, mirror, suite, directory):
    """Fetches and verifies the suite's package index into `directory` (absolute). Returns apt's error, or None."""
    rctx.file(directory + "/sources.list", "deb [signed-by={}] {} {} main\n".format(_KEYRING, mirror, suite))
    rctx.file(directory + "/lists/partial/.keep", "")
    config = _write_config(rctx, directory, directory)
    result = rctx.execute(["apt-get", "-q", "update"], environment = {"APT_CONFIG": config}, timeout = 1800)

    # apt-get update succeeds even if it fetched nothing; the index is what counts.
    index = rctx.execute(["apt-cache", "gencaches"], environment = {"APT_CONFIG": config})
    lists = [entry.basename for entry in rctx.path(directory + "/lists").readdir() if entry.basename.endswith("Packages") or "_Packages" in entry.basename]
    if result.return_code or index.return_code or not lists:
        return result.stdout + result.stderr
    return None

def _write_config(rctx, index, work, stand_ins = []):
    """Writes apt's configuration: package index in `index`, everything else in `work` (absolute). Returns its path."""
    architecture = _run(rctx, ["dpkg", "--print-architecture"], "dpkg").strip()
    rctx.file(work + "/status", "".join([_STAND_IN.format(name = name, architecture = architecture) for name in stand_ins]))
    rctx.file(work + "/archives/partial/.keep", "")
    rctx.file(work + "/none/.keep", "")

    # The host's proxies and certificates.
    host = [
        line
        for line in rctx.execute(["apt-config", "dump", "--no-empty", "--format", "%f \"%v\";%n", "Acquire"]).stdout.splitlines()
        if line.startswith("Acquire::http::") or line.startswith("Acquire::https::")
    ]
    config = work + "/apt.conf"
    rctx.file(config, _APT_CONF.format(
        architecture = architecture,
        lists = index + "/lists",
        sources = index + "/sources.list",
        work = work,
    ) + "\n".join(host) + "\n")
    return config

def _debian_suite_impl(rctx):
    rctx.file("BUILD.bazel", "exports_files([\"mirror.txt\"])\n")
    mirror = None
    if rctx.which("apt-get") and rctx.which("dpkg-deb") and rctx.path(_KEYRING).exists:
        mirror = _find_mirror(rctx)
    if mirror:
        rctx.report_progress("reading the package index of Debian " + rctx.attr.suite)
        error = _download_index(rctx, mirror, rctx.attr.suite, str(rctx.path(".")))
        if error:
            fail("Debian's package index ({}) could not be fetched; is the network reachable?\n{}".format(rctx.attr.suite, error))
    rctx.file("mirror.txt", "{} {}".format(mirror, rctx.attr.suite) if mirror else "")

debian_suite = repository_rule(
    doc = """The package index of one Debian suite.

Away from Debian, or where apt has no Debian mirror, `mirror.txt` is empty and nothing is fetched; see `debian_available`.""",
    implementation = _debian_suite_impl,
    attrs = {
        "suite": attr.string(doc = "Code name, e.g. \"bookworm\".", mandatory = True),
    },
)

def debian_available(rctx, suite):
    """Whether Debian's packages can be had on this machine.

    Args:
      rctx: The repository rule's context.
      suite: Label of `mirror.txt` of a `debian_suite`.
    """
    return bool(rctx.read(rctx.path(suite)))

def debian_multiarch(rctx):
    """Debian's name of the machine's architecture in library paths, e.g. "x86_64-linux-gnu".

    Args:
      rctx: The repository rule's context.
    """
    architecture = _run(rctx, ["dpkg", "--print-architecture"], "dpkg").strip()
    return {"amd64": "x86_64", "arm64": "aarch64", "i386": "i386"}.get(architecture, architecture) + "-linux-gnu"

def debian_unpack(rctx, suite, packages, sha256 = {}, exclude = [], dependencies = False, stand_ins = []):
    """Downloads packages and unpacks them into the repository's directory; /lib becomes usr/lib.

    Args:
      rctx: The repository rule's context.
      suite: Label of `mirror.txt` of a `debian_suite`.
      packages: List of names, or of name=version.
      sha256: Dict from a package's name to the sha256 it must have. Packages left out may be any signed version.
      exclude: List of tar's --exclude patterns, e.g. "./usr/share/doc".
      dependencies: Whether to download also what the packages depend on.
      stand_ins: List of names of packages that dependency resolution takes as given.

    Returns:
      List of the packages' file names, e.g. "zlib1g_1%3a1.2.13.dfsg-1_amd64.deb".
    """
    mirror, codename = rctx.read(rctx.path(suite)).split(" ")
    work = str(rctx.path("_debian"))
    arguments = ["install", "--yes", "--download-only"] if dependencies else ["download"]

    # A shared index may have gone stale: the archive keeps only the newest version of a package. Then take a fresh one.
    error = None
    for index in [str(rctx.path(suite).dirname), work]:
        if error:
            error = _download_index(rctx, mirror, codename, work) or error
        config = _write_config(rctx, index, work, stand_ins)
        rctx.report_progress("downloading {} Debian packages".format(len(packages)))
        result = rctx.execute(
            ["apt-get", "-q"] + arguments + packages,
            environment = {"APT_CONFIG": config},
            timeout = 3600,
            working_directory = work + "/archives",
        )
        error = result.stdout + result.stderr if result.return_code else None
        if not error:
            break
    if error:
        fail("{}: Debian's packages could not be downloaded. Is the network reachable, and is there space on the disk?\n{}".format(rctx.name, error))

    debs = sorted([entry.basename for entry in rctx.path(work + "/archives").readdir() if entry.basename.endswith(".deb")])
    got = {}
    for line in _run(rctx, ["sha256sum"] + debs, "sha256sum", working_directory = work + "/archives").splitlines():
        digest, deb = line.split("  ")
        got[deb.split("_")[0]] = digest
    for name, digest in sha256.items():
        if got.get(name) != digest:
            fail("{}: package {} has sha256 {}, but {} is pinned.".format(rctx.name, name, got.get(name), digest))

    rctx.report_progress("unpacking {} Debian packages".format(len(debs)))
    rctx.file("_debian/exclude", "\n".join(exclude) + "\n")
    rctx.file("_debian/unpack.sh", """\
set -eu
for deb in _debian/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -x --no-same-owner --exclude-from _debian/exclude
done
# Packages from before the merged /usr put libraries into /lib.
if [ -d lib ]; then cp -a lib/. usr/lib/; rm -rf lib; fi
# What points out of the repository would be the host's.
find . -path ./_debian -prune -o -type l -lname '/*' -print | while IFS= read -r link; do
  target=.$(readlink "$link")
  if [ -e "$target" ]; then ln -sfr "$target" "$link"; else rm "$link"; fi
done
""", executable = False)
    _run(rctx, ["sh", "_debian/unpack.sh"], "unpacking Debian's packages")
    rctx.delete("_debian")
    return debs
