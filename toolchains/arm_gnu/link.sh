#!/bin/sh
# Links an image as arm-none-eabi-gcc does, and knows --start-lib and --end-lib, which GNU ld does not: the objects between them
# are an archive while this link lasts. So Bazel runs no actions that make archives, and an edit of a source file runs none again.
#
# link.sh @FILE, as Bazel calls it: FILE has one argument in a line. TORCH_FUSION_TOOLS is the folder of gcc and ar.
set -eu
case $1 in
@*) given=${1#@} ;;
# Another rule's own call, which has no libraries of Bazel's.
*) exec "$TORCH_FUSION_TOOLS/gcc" "$@" ;;
esac

output=
while IFS= read -r argument; do
  if [ "$argument" = -o ]; then
    IFS= read -r output
    break
  fi
done <"$given"

# Beside the image, as the linker writes names of archives to its map: they have to be the same each time.
libraries=$output.libraries
mkdir "$libraries"

finish() {
  status=$?
  # Not all of GCC's programs say why they could not write. What is tried is as much as a small image takes.
  if [ "$status" != 0 ] && ! (printf '%65536s' '' >"$libraries/room") 2>/dev/null; then
    echo "$output: the disk is full; free some space, then build again" >&2
  fi
  rm -rf "$libraries"
  exit "$status"
}
trap finish EXIT

number=0
objects=
archive=
while IFS= read -r argument; do
  case $argument in
  -Wl,--start-lib)
    number=$((number + 1))
    objects=$libraries/$number.objects
    archive=
    ;;
  -Wl,--end-lib)
    "$TORCH_FUSION_TOOLS/ar" qcsD "$archive" "@$objects"
    echo "$archive"
    objects=
    ;;
  *)
    if [ -z "$objects" ]; then
      echo "$argument"
      continue
    fi
    # .../bin/PACKAGE/_objs/NAME/FILE.o is one of lib/PACKAGE/libNAME.a: who reads the map or an error knows it by that.
    if [ -z "$archive" ]; then
      package=${argument#*/bin/}
      name=${package#*/_objs/}
      folder=$libraries/$number/${package%%/_objs/*}
      mkdir -p "$folder"
      archive=$folder/lib${name%%/*}.a
    fi
    echo "$argument" >>"$objects"
    ;;
  esac
done <"$given" >"$libraries/arguments"

"$TORCH_FUSION_TOOLS/gcc" "@$libraries/arguments"
