#!/bin/bash
# Installs Debian's Bazel for one user: install_debian_bazel.sh DIRECTORY
#
# apt downloads and verifies the packages with a private configuration, they are unpacked below DIRECTORY, and their
# programs are made to load the libraries unpacked beside them. Root is not needed and nothing else on the machine changes.
# Needs what every Debian-family system has: apt, dpkg-deb, perl-base and the essential tools.
set -euo pipefail

suite=forky            # the first with Bazel 7
wanted=7.7.1           # .bazelversion
needed_mib=900         # packages, their content, and the package index, all at once
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf 'bazelw: %s\n' "$@" >&2; }
fail() {
  say "$@"
  exit 2
}

other_ways="Install bazelisk instead (github.com/bazelbuild/bazelisk: one program to put on the PATH as \"bazelisk\")."

[ $# = 1 ] || fail "usage: install_debian_bazel.sh DIRECTORY"
for tool in apt-get apt-cache dpkg dpkg-deb flock perl; do
  command -v "$tool" >/dev/null || fail "no Bazel is on the PATH, and this is not a Debian-family machine ($tool is missing)." "$other_ways"
done
# What the host's apt would read, the likeliest to be Debian's first. (apt-get indextargets lists only what an update has fetched.)
mirror=$(apt-get --print-uris update 2>/dev/null |
  awk -F"'" '{ where = index($2, "/dists/"); if (!where || $2 !~ /\/main\/binary-/ || $2 ~ /security/) next
       address = substr($2, 1, where - 1) }
       address ~ /\/debian$/ { print address; found = 1; exit }
       { other = other ? other : address }
       END { if (!found) print other }')
mirror=${mirror:-${TORCH_FUSION_DEBIAN_SNAPSHOT:-}}
[ -n "$mirror" ] || fail "no Bazel is on the PATH, and apt has no package source on this machine to take Debian's from." "$other_ways"
case $mirror in
  */ubuntu | */ubuntu-ports) fail "no Bazel is on the PATH, and apt's source $mirror has none that will do." "$other_ways" ;;
esac
[ -r "$keyring" ] || fail "no Bazel is on the PATH, and Debian's archive keys are missing ($keyring)." \
  "Install the package debian-archive-keyring." "$other_ways"

mkdir -p "$1" || fail "$1 cannot be made; set BAZELW_CACHE to a directory that can."
install=$(cd "$1" && pwd -P)
case $install in
  *[:\"\'\\\$]* | *$'\n'*) fail "the path $install has one of : \" ' \\ \$ in it; set BAZELW_CACHE to another directory." ;;
esac

# One at a time; who waited finds the work done.
exec 9>"$install/lock"
if ! flock --nonblock 9; then
  say "waiting for another bazelw that is installing Bazel ..."
  flock 9
fi
[ ! -e "$install/complete" ] || exit 0

free_mib=$(($(df --output=avail --block-size=1M "$install" | tail -n 1)))
[ "$free_mib" -ge "$needed_mib" ] || fail "there are $free_mib MB free for $install, and Bazel needs $needed_mib." \
  "Free some space, or set BAZELW_CACHE to a directory on another disk."

# Whatever an interrupted installation left is worthless.
work=$install/incomplete
rm -rf "$work" "$install/root"
mkdir "$work"
trap 'status=$?; rm -rf "$work"; exit $status' EXIT
trap 'exit 130' INT TERM HUP
say "installing Debian's Bazel for this user in $install (once; about 200 MB to download)"

# ---- apt, with a configuration that points to nothing of the host's ----

apt=$work/apt
mkdir -p "$apt"/{parts,lists/partial,archives/partial}
architecture=$(dpkg --print-architecture)

# Dir::Etc::parts matters most: without it the host's hooks run. Proxies and certificates stay the host's.
cat >"$apt/apt.conf" <<CONF
Dir::Etc::main "none";
Dir::Etc::parts "$apt/parts";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::trusted "/dev/null";
Dir::Etc::trustedparts "/dev/null";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::State::extended_states "$apt/extended_states";
Dir::Cache "$apt";
Dir::Cache::archives "$apt/archives";
Dir::Log "$apt";
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
$(apt-config dump --no-empty --format '%f "%v";%n' Acquire | grep -E '^Acquire::https?::' || true)
CONF
export APT_CONFIG=$apt/apt.conf

# Dependencies of the package that the private copy has no use for: taken as installed, in a version that suits all.
for package in build-essential default-jdk-headless ca-certificates-java java-common util-linux python3 unzip zlib1g-dev \
  libjs-jquery node-core-js node-html5shiv protobuf-compiler-grpc-java-plugin; do
  printf '%s\n' "Package: $package" 'Status: install ok installed' 'Priority: optional' 'Section: misc' 'Maintainer: none' \
    "Architecture: $architecture" 'Multi-Arch: foreign' 'Version: 999:0' 'Description: stand-in' ''
done >"$apt/status"

# Runs apt-get with its arguments; shows how far it is in one line of a terminal. On failure says what apt said.
fetch() {
  local what=$1
  shift
  say "$what"
  if ! apt-get -q -y -o APT::Status-Fd=3 "$@" 3> >(show_progress) >"$apt/log" 2>&1; then
    explain_failure
  fi
}

show_progress() {
  local kind percent rest
  while IFS=: read -r kind _ percent rest; do
    if [ "$kind" = dlstatus ] && [ -t 2 ]; then printf '\rbazelw: %3.0f %%' "${percent%%.*}" >&2; fi
  done
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
}

explain_failure() {
  grep -E '^(E|W|Err):?' "$apt/log" | head -n 5 >&2 || tail -n 5 "$apt/log" >&2
  free_mib=$(($(df --output=avail --block-size=1M "$install" | tail -n 1)))
  [ "$free_mib" -ge 50 ] || fail "the disk of $install is full. Free some space, or set BAZELW_CACHE to another directory."
  if grep -q 'is not valid yet' "$apt/log"; then
    fail "this machine's clock says $(printf '%(%F)T' -1), before the package index of Debian $suite was made. Set the clock, then start again."
  fi
  fail "Debian's Bazel could not be downloaded from $mirror." \
    "Check the network (and the proxy in apt's configuration), then start again." "$other_ways"
}

# Reads the index at an address; the second argument is apt's options of that source.
read_index() {
  printf 'deb [signed-by=%s%s] %s %s main\n' "$keyring" "$2" "$1" "$suite" >"$apt/sources.list"
  rm -rf "$apt/lists"
  mkdir -p "$apt/lists/partial"
  # apt-get update succeeds even if it fetched nothing.
  apt-get -q update >"$apt/log" 2>&1 && compgen -G "$apt/lists/*_Packages*" >/dev/null
}

# The testing suite's index is signed for a week. A mirror that isn't updated any more still has a consistent set of signed packages, and
# there may be no other; whoever replays an old index could do no more than withhold updates. It is said, and only then accepted.
say "1/3 reading the package index of Debian $suite"
if ! read_index "$mirror" ""; then
  expired=$(grep -oE 'is expired \(.*\)' "$apt/log" | head -n 1) || true
  if grep -q 'does not have a Release file' "$apt/log"; then
    fail "apt's source $mirror has no suite $suite: it is no mirror of Debian (Ubuntu's aren't)." "$other_ways"
  fi
  [ -n "$expired" ] || explain_failure
  say "the index of Debian $suite on $mirror $expired; taking it, since the mirror has no newer one"
  read_index "$mirror" " check-valid-until=no" || explain_failure
fi

# The wanted version, or when that is gone from the suite the newest that will do.
version=$(apt-cache madison bazel-bootstrap | awk -v wanted="$wanted" '
  { v = $3; split(v, part, "."); if (!(part[1] == 8 || (part[1] == 7 && part[2] + 0 >= 7))) next }
  index(v, wanted) == 1 { print v; found = 1; exit }
  !newest { newest = v }
  END { if (!found && newest) print newest }')
# What the user holds this installation to: NAME=VERSION SHA256.
held=()
if [ -n "${TORCH_FUSION_TAKEN:-}" ]; then
  [ -r "$TORCH_FUSION_TAKEN" ] || fail "TORCH_FUSION_TAKEN names $TORCH_FUSION_TAKEN, which can't be read."
  mapfile -t held < <(sed -n 's/^bazel \([^ ]*=.*\)$/\1/p' "$TORCH_FUSION_TAKEN")
fi

if [ "${#held[@]}" != 0 ]; then
  # A mirror keeps only the newest version; a snapshot, whose index is over by nature, has the others.
  if ! apt-cache show "${held[@]%% *}" >/dev/null 2>"$apt/log"; then
    [ -n "${TORCH_FUSION_DEBIAN_SNAPSHOT:-}" ] || fail "$mirror has no more what TORCH_FUSION_TAKEN holds Bazel to:" \
      "$(grep -E '^E:' "$apt/log" | head -n 5)" "Set TORCH_FUSION_DEBIAN_SNAPSHOT to a mirror that keeps old versions, at a time when it had them."
    mirror=${TORCH_FUSION_DEBIAN_SNAPSHOT%/}
    read_index "$mirror" " check-valid-until=no" || explain_failure
  fi
  cd "$apt/archives"
  fetch "2/3 downloading the ${#held[@]} packages that TORCH_FUSION_TAKEN lists" download "${held[@]%% *}"
else
  [ -n "$version" ] || fail "Debian $suite has no Bazel 7.7 or newer, or 8, for $architecture at present." "$other_ways"
  case $version in
    "$wanted"*) ;;
    *) say "Debian $suite has Bazel $wanted no more; taking $version" ;;
  esac

  # libblake3-0 and the jars of the class path below are needed, but are no dependencies of the package.
  fetch "2/3 downloading Bazel ${version%%-*}, a Java runtime and what they need" --download-only install \
    "bazel-bootstrap=$version" default-jre-headless patchelf libblake3-0
fi

# What was taken, for `bazelw run //third_party:taken`.
(
  cd "$apt/archives"
  for deb in *.deb; do
    digest=$(sha256sum "$deb")
    field=${deb%_*}
    field=${field//%3a/:}
    printf '%s=%s %s\n' "${field%%_*}" "${field#*_}" "${digest%% *}"
  done
) >"$work/packages.txt"
for package in "${held[@]}"; do
  grep -qxF "$package" "$work/packages.txt" || fail "${package%% *} is not the one that TORCH_FUSION_TAKEN lists: its sha256 differs."
done

# ---- unpack and relocate ----

say "3/3 unpacking"
new=$work/root
mkdir "$new"
# The largest first, as many at once as there are processors.
if ! find "$apt/archives" -maxdepth 1 -name '*.deb' -printf '%s %p\0' | sort -z -rn | cut -z -d ' ' -f 2- |
  xargs -0 -n 1 -P "$(nproc)" sh -c 'dpkg-deb -x "$2" "$1" || { echo "$2"; exit 255; }' unpack "$new" >"$work/unpacked" 2>"$work/error"; then
  cat "$work/error" >&2
  deb=$(head -n 1 "$work/unpacked")
  fail "${deb##*/} could not be unpacked into $install; is the disk full?"
fi

final=$install/root # where the tree will be for good
libc=$(find "$new/usr/lib" -maxdepth 2 -name libc.so.6 | head -n 1)
[ -n "$libc" ] || fail "the packages of Debian $suite have no C library where it is expected." "$other_ways"
libraries=${libc%/*}
libraries=${libraries#"$new/"} # usr/lib/<architecture's name>
loader=$(find "$new/$libraries" -maxdepth 1 -name 'ld*.so.[0-9]*' -printf '%f\n' | head -n 1)

# Absolute links would lead to the host's files.
find "$new" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
  target=$new$(readlink "$link")
  if [ -e "$target" ] || [ -L "$target" ]; then ln -sfr "$target" "$link"; else rm -f "$link"; fi
done

# Programs get the private loader, and a search path that leads to the private libraries.
patchelf() { "$new/$libraries/$loader" --library-path "$new/$libraries" "$new/usr/bin/patchelf" "$@"; }
for program in "$new"/usr/bin/bazel "$new"/usr/libexec/*/bazel/* "$new"/usr/lib/jvm/java-*/bin/{java,keytool} \
  "$new"/usr/lib/jvm/java-*/lib/jspawnhelper; do
  [ -f "$program" ] && [ ! -L "$program" ] || continue
  own=$(patchelf --print-rpath "$program")
  patchelf --set-interpreter "$final/$libraries/$loader" --force-rpath --set-rpath "${own:+$own:}$final/$libraries" "$program"
done

# The server's class path, without what isn't there, and with the jars that others' manifests name by the host's paths. Without
# perfmark the client hangs for two minutes.
class_path=$new/usr/share/bazel/bazel_classpath_debian_depends.txt
{
  cat "$class_path"
  printf '/usr/share/java/%s.jar\n' perfmark-api animal-sniffer-annotations error-prone-annotations protobuf
} | while read -r jar; do
  if [ -e "$new$jar" ]; then printf '%s\n' "$final$jar"; fi
done >"$work/class_path"
# Debian's server doesn't know its version; rules ask for it and would take it for an old one.
mkdir "$new/version"
printf 'build.label=%s\n' "$(cat "$new/usr/share/bazel/build-label.txt")" >"$new/version/build-data.properties"
printf '%s\n' "$final/version" >>"$work/class_path"
mv "$work/class_path" "$class_path"

# The compact execution log and compressed transfers to a remote cache need libzstd-jni. The server looks beside its own jar.
ln -s "../../../$libraries/libzstd-jni.so" "$new/usr/share/bazel/libzstd-jni.so"

# TLS roots for Bazel's own downloads: the host's, in Java's format JKS (ca-certificates-java would make it). The digest at the
# end is checked only with a password, which Java doesn't use for its roots.
roots=/etc/ssl/certs/ca-certificates.crt
if [ -r "$roots" ]; then
  perl -0777 -ne '
    my @certificates = map {
      tr{A-Za-z0-9+/}{}cd;
      my $padding = "=" x (-length($_) % 4);
      tr{A-Za-z0-9+/}{ -_};
      join "", map { unpack "u", chr(32 + int(length($_) * 3 / 4)) . $_ } /.{1,60}/g;
    } /-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----/gs;
    binmode STDOUT;
    print pack "NNN", 0xFEEDFEED, 2, scalar @certificates;
    my $number = 0;
    print pack "N n/a* NN n/a* N/a*", 2, "root" . $number++, 0, 0, "X.509", $_ for @certificates;
    print "\0" x 20;
  ' "$roots" >"$new/usr/lib/jvm/default-java/lib/security/cacerts"
fi

# Bazel's modules come from the packages, and those that Bazel's own tools name but nothing here uses are empty. So a
# build needs no registry.
modules=$final/usr/share/bazel
stubs=(protobuf zlib apple_support buildozer)
for module in "${stubs[@]}"; do
  mkdir -p "$new/stubs/$module"
  printf 'module(name = "%s")\n' "$module" >"$new/stubs/$module/MODULE.bazel"
  : >"$new/stubs/$module/BUILD.bazel"
done
cat >"$new/stubs/buildozer/buildozer_binary.bzl" <<'BZL'
def _repository_impl(rctx):
    rctx.file("BUILD.bazel")

_repository = repository_rule(implementation = _repository_impl)

def _extension_impl(_mctx):
    _repository(name = "buildozer_binary")

buildozer_binary = module_extension(implementation = _extension_impl)
BZL
mkdir "$new/registry"
{
  # Without noenable_workspace Bazel looks for more modules; with a lock file Debian's crashes.
  printf 'common %s\n' --noenable_workspace --lockfile_mode=off "\"--registry=file://${final// /%20}/registry\""
  for module in cc java license proto python; do
    printf 'common "--override_module=rules_%s=%s"\n' "$module" "$modules/rules/$module"
  done
  for module in platforms:platforms bazel_skylib:skylib bazel_features:features; do
    printf 'common "--override_module=%s=%s"\n' "${module%:*}" "$modules/tools/${module#*:}"
  done
  for module in "${stubs[@]}"; do
    printf 'common "--override_module=%s=%s"\n' "$module" "$final/stubs/$module"
  done
} >"$work/debian.bazelrc"

rm -rf "$new"/usr/share/{doc,man,lintian,locale,bash-completion,icons,zsh} "$new"/usr/lib/*/gconv
mv "$new" "$final"
mv "$work/packages.txt" "$work/debian.bazelrc" "$install/"
"$final/usr/lib/jvm/default-java/bin/java" -version 2>"$work/error" || fail "the installed Java does not start:" "$(cat "$work/error")"
touch "$install/complete"
say "Bazel $(cat "$final/usr/share/bazel/build-label.txt") is installed"
