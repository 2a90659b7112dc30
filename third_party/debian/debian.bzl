"""Debian packages for repository rules: downloaded, verified and unpacked privately by the host's own apt.

Nothing on the host changes and root is not needed: apt gets a configuration of its own, in which every directory is in
the repository being fetched. The mirrors, of the suite and of its security updates, are those that the host already uses;
the archive's signatures are checked against Debian's keyring. One repository per suite (`debian_suite`) holds the package index, so that it is downloaded once.

A mirror keeps only the newest version of a package. Packages that it has no longer are looked for on a snapshot mirror,
if the user names one in TORCH_FUSION_DEBIAN_SNAPSHOT. TORCH_FUSION_TAKEN names a file made by `//third_party:taken`:
then exactly the versions it lists are taken. Both are variables of the environment or of --repo_env; a rule that calls
this has `DEBIAN_ENVIRON` in its `environ`.
"""

DEBIAN_ENVIRON = ["TORCH_FUSION_DEBIAN_SNAPSHOT", "TORCH_FUSION_TAKEN"]

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
Dir::Cache::srcpkgcache "{lists}/../srcpkgcache.bin";
Dir::Log "{work}";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Sandbox::User "root";
APT::Install-Recommends "false";
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

def _find_mirrors(rctx, suite):
    """The mirrors in the host's apt sources that may be Debian's, the likeliest first, and one of the suite's security updates or ""."""

    # An update would fetch these. `apt-get indextargets` lists only what one has fetched.
    listing = rctx.execute(["apt-get", "--print-uris", "update"])
    likely, others, security = [], [], ""
    for line in listing.stdout.splitlines():
        address = line.split(" ")[0].strip("'")
        mirror, separator, index = address.partition("/dists/")
        if not separator or "/main/binary-" not in index or mirror in likely + others:
            continue
        if "security" in mirror:
            security = mirror if index.startswith(suite + "-security/") else security
        elif mirror.endswith("/debian"):
            likely.append(mirror)
        else:
            others.append(mirror)
    return likely + others, security

def _download_index(rctx, mirror, suite, directory, options = "", security = ""):
    """Fetches and verifies the suite's package index into `directory` (absolute), and that of its security updates. Returns apt's error, or None."""
    line = "deb [signed-by={}{}] {} {} main\n"
    updates = line.format(_KEYRING, options, security, suite + "-security") if security else ""
    rctx.file(directory + "/sources.list", line.format(_KEYRING, options, mirror, suite) + updates)
    rctx.delete(directory + "/lists")
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

def _question(error):
    """Returns what to look at first, given what apt says."""
    if "is not valid yet" in error or "is expired" in error:
        return "Is this machine's clock right?"
    return "Is the network reachable, and is there space on the disk?"

def _debian_suite_impl(rctx):
    rctx.file("BUILD.bazel", "exports_files([\"mirror.txt\"])\n")
    mirrors, security = [], ""
    if rctx.which("apt-get") and rctx.which("dpkg-deb") and rctx.path(_KEYRING).exists:
        mirrors, security = _find_mirrors(rctx, rctx.attr.suite)
    found, errors = "", []
    for mirror in mirrors:
        rctx.report_progress("reading the package index of Debian {} from {}".format(rctx.attr.suite, mirror))
        error = _download_index(rctx, mirror, rctx.attr.suite, str(rctx.path(".")), security = security)
        if error and security:
            # The index of security updates is valid for a week, the suite's own for ever.
            refusal, security = error, ""
            error = _download_index(rctx, mirror, rctx.attr.suite, str(rctx.path(".")))
            if not error:
                # buildifier: disable=print
                print("Debian's security updates are left out. {}\n{}".format(_question(refusal), refusal))
        if not error:
            found = mirror
            break
        errors.append(error)
        if mirror.endswith("/debian"):
            fail("the package index of Debian {} could not be fetched from {}. {}\n{}".format(rctx.attr.suite, mirror, _question(error), error))
    rctx.file("mirror.txt", "{} {} {}".format(found, rctx.attr.suite, security) if found else "")

debian_suite = repository_rule(
    doc = """The package index of one Debian suite.

Away from Debian, or where no mirror of apt's has the suite, as on Ubuntu, `mirror.txt` is empty; see `debian_available`.""",
    implementation = _debian_suite_impl,
    attrs = {
        "suite": attr.string(doc = "Code name, e.g. \"bookworm\".", mandatory = True),
    },
)

def debian_available(rctx, suite):
    """Returns whether Debian's packages can be had on this machine. Fetches the package index.

    Args:
      rctx: The repository rule's context.
      suite: Label of `mirror.txt` of a `debian_suite`.
    """
    return bool(rctx.read(rctx.path(Label(suite))))

def debian_multiarch(rctx):
    """Returns Debian's name of the machine's architecture in library paths, e.g. "x86_64-linux-gnu".

    Args:
      rctx: The repository rule's context.
    """
    architecture = _run(rctx, ["dpkg", "--print-architecture"], "dpkg").strip()
    return {"amd64": "x86_64", "arm64": "aarch64", "i386": "i386"}.get(architecture, architecture) + "-linux-gnu"

def debian_held(rctx):
    """Returns the packages that the user holds this repository to: a list of "NAME=VERSION SHA256", empty for none.

    Args:
      rctx: The repository rule's context.
    """
    name = rctx.os.environ.get("TORCH_FUSION_TAKEN")
    if not name:
        return []
    if not rctx.path(name).exists:
        fail("TORCH_FUSION_TAKEN names {}, which does not exist.".format(name))
    prefix = _short_name(rctx) + " "
    return [line.removeprefix(prefix) for line in rctx.read(name).split("\n") if line.startswith(prefix) and "=" in line]

def _short_name(rctx):
    """The repository's name as other files of the workspace know it."""
    return rctx.name.split("~")[-1].split("+")[-1]

def _explain(rctx, packages, errors, config):
    """The error for packages that could not be downloaded: which ones, what there is instead, and the ways on."""
    missing = []
    for package in packages:
        name, _, version = package.partition("=")
        there = [
            line.split("|")[1].strip()
            for line in rctx.execute(["apt-cache", "madison", name], environment = {"APT_CONFIG": config}).stdout.splitlines()
            if line.count("|") == 2
        ]
        if not there or (version and version not in there):
            missing.append("  {}: {}".format(package, "there is " + ", ".join(there) if there else "not there at all"))
    if not missing:
        return "{}\n{}".format(_question("".join(errors)), "\n".join(errors))
    return """These are not on the mirror any more:
{}
A mirror that keeps old versions, at a time when it had them, has them: --repo_env=TORCH_FUSION_DEBIAN_SNAPSHOT=ADDRESS, such as
http://snapshot.debian.org/archive/debian/20260701T000000Z.""".format("\n".join(missing))

def _download(rctx, suite, packages, dependencies, stand_ins):
    """Downloads packages to `_debian/archives`. Returns what went wrong, or None."""
    mirror, codename, security = rctx.read(rctx.path(Label(suite))).split(" ")
    work = str(rctx.path("_debian"))
    arguments = ["install", "--yes", "--download-only"] if dependencies else ["download"]

    # A shared index may have gone stale: then take a fresh one. A snapshot's index is as old as what is wanted of it: there, and
    # only there, one whose time is over is accepted.
    snapshot = rctx.os.environ.get("TORCH_FUSION_DEBIAN_SNAPSHOT", "")
    errors = []
    explanation = None
    for source, options, updates in [(None, "", ""), (mirror, "", security), (snapshot.rstrip("/"), " check-valid-until=no", "")]:
        index = work
        if source == None:
            index = str(rctx.path(Label(suite)).dirname)
        elif source:
            error = _download_index(rctx, source, codename, work, options, updates)
            if error:
                errors.append(error)
                continue
        else:
            continue
        config = _write_config(rctx, index, work, stand_ins)
        rctx.report_progress("downloading {} Debian packages".format(len(packages)))
        result = rctx.execute(
            ["apt-get", "-q"] + arguments + packages,
            environment = {"APT_CONFIG": config},
            timeout = 3600,
            working_directory = work + "/archives",
        )
        if result.return_code == 0:
            return None
        errors.append(result.stdout + result.stderr)
        explanation = explanation or _explain(rctx, packages, errors, config)
    return explanation

def debian_unpack(rctx, suite, packages, sha256 = {}, exclude = [], dependencies = False, stand_ins = [], allow_fail = False):
    """Downloads packages and unpacks them into the repository's directory; /lib becomes usr/lib.

    Args:
      rctx: The repository rule's context.
      suite: Label of `mirror.txt` of a `debian_suite`.
      packages: List of names, or of name=version.
      sha256: Dict from a package's name to the sha256 it must have. Packages left out may be any signed version.
      exclude: List of tar's --exclude patterns, e.g. "./usr/share/doc".
      dependencies: Whether to download also what the packages depend on.
      stand_ins: List of names of packages that dependency resolution takes as given.
      allow_fail: Whether to return when the packages can't be had, instead of failing.

    Returns:
      A struct: `error`, None or the failure; `taken`, a list of "NAME=VERSION SHA256 LICENCES", the last as the package's file
      of copyright names them, and empty where that file has none of its own names.
    """
    held = debian_held(rctx)
    if held:
        packages = [line.split(" ")[0] for line in held]
        sha256 = {line.split("=")[0]: line.split(" ")[1] for line in held}
        dependencies = False
    work = str(rctx.path("_debian"))
    error = _download(rctx, suite, packages, dependencies, stand_ins)
    if error:
        rctx.delete("_debian")
        message = "{}: Debian's packages could not be had. {}".format(_short_name(rctx), error)
        if allow_fail:
            return struct(error = message, taken = [])
        fail(message)

    debs = sorted([entry.basename for entry in rctx.path(work + "/archives").readdir() if entry.basename.endswith(".deb")])
    taken = []
    for line in _run(rctx, ["sha256sum"] + debs, "sha256sum", working_directory = work + "/archives").splitlines():
        digest, deb = line.split("  ")
        name, version, _ = deb.split("_")
        if name in sha256 and sha256[name] != digest:
            fail("{}: package {} has sha256 {}, but {} is pinned.".format(_short_name(rctx), name, digest, sha256[name]))
        taken.append("{}={} {}".format(name, version.replace("%3a", ":"), digest))
    absent = [name for name in sha256 if name not in [deb.split("_")[0] for deb in debs]]
    if absent:
        fail("{}: apt downloaded no {}, which is pinned.".format(_short_name(rctx), ", ".join(absent)))

    rctx.report_progress("unpacking {} Debian packages".format(len(debs)))
    rctx.file("_debian/exclude", "\n".join(exclude) + "\n")
    rctx.file("_debian/unpack.sh", """\
set -eu
mkfifo _debian/pipe
for deb in _debian/archives/*.deb; do
  # Whatever is excluded, the names of licences are read: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0,
  # or of a file in another form the texts that it refers to, and MIT's by its first words.
  (
    tar -xO --wildcards './usr/share/doc/*/copyright' <_debian/pipe >_debian/copyright 2>/dev/null || true
    { sed -n 's/^License: *//p' _debian/copyright | grep . || sed -n '
      s|.*/common-licenses/\\([A-Za-z0-9.-]*[A-Za-z0-9]\\).*|\\1|p
      s/.*Permission is hereby granted, free of charge.*/MIT/p' _debian/copyright; } |
      sed 's/ *$//' | sort -u | paste -sd '|' | sed "s/^/${deb##*/} /" >>_debian/licences
  ) &
  dpkg-deb --fsys-tarfile "$deb" | tee _debian/pipe | tar -x --no-same-owner --exclude-from _debian/exclude
  wait
done
# Packages from before the merged /usr put libraries into /lib.
if [ -d lib ]; then cp -a lib/. usr/lib/; rm -rf lib; fi
# Links that point out of the repository would lead to the host's files.
find . -path ./_debian -prune -o -type l -lname '/*' -print | while IFS= read -r link; do
  target=.$(readlink "$link")
  if [ -e "$target" ]; then ln -sfr "$target" "$link"; else rm "$link"; fi
done
""", executable = False)
    _run(rctx, ["sh", "_debian/unpack.sh"], "unpacking Debian's packages")
    licences = dict([line.split(" ", 1) for line in rctx.read("_debian/licences").splitlines()])
    taken = ["{} {}".format(line, licences.get(deb, "").replace("|", ", ")).strip() for line, deb in zip(taken, debs)]
    rctx.delete("_debian")
    return struct(error = None, taken = taken)
