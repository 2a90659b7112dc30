#!/bin/sh
# The shared repositories of shared.bzl; started in a repository's directory:
#   shared.sh restore DIRECTORY NAME KEY_FILE
#   shared.sh store DIRECTORY NAME KEY_FILE PATH...
# Without an entry, or with a damaged one, restoring ends with status 1 and leaves nothing behind.
set -eu

command=$1 directory=$2 name=$3 key=$4
shift 4
digest=$(sha256sum <"$key")
entry=$directory/$name-${digest%% *}

# What a killed store has left. None takes longer: shared.bzl ends it after half an hour.
find "$directory" -mindepth 1 -maxdepth 1 -name 'incomplete-*' -mmin +60 -exec rm -rf {} + 2>/dev/null || :

case $command in
  restore)
    if [ ! -f "$entry/content.tar" ] || [ ! -f "$entry/b2" ]; then
      rm -rf "$entry"
      exit 1
    fi
    work=shared_restore.incomplete
    rm -rf "$work"
    mkdir "$work"
    mkfifo "$work/pipe"
    mkdir "$work/content"
    # Read once: the digest is of what was unpacked. BLAKE2, as SHA-256 takes three times as long.
    b2sum <"$work/pipe" >"$work/b2" &
    if tee "$work/pipe" <"$entry/content.tar" | tar -x -p -C "$work/content" --no-same-owner && wait &&
      cmp -s "$work/b2" "$entry/b2"; then
      # A PATH that is there already is what a previous attempt left.
      for path in "$work"/content/*; do
        rm -rf "./${path##*/}"
        mv "$path" .
      done
      rm -rf "$work"
      touch "$entry" 2>/dev/null || :
      exit 0
    fi
    wait || :
    rm -rf "$work" "$entry"
    exit 1
    ;;
  store)
    mkdir -p "$directory"
    find "$directory" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +
    needed=$(du -sk "$@" | awk '{ sum += $1 } END { print sum + 1048576 }')
    free=$(df -Pk "$directory" | awk 'NR == 2 { print $4 }')
    [ "$free" -gt "$needed" ] || exit 1
    work=$(mktemp -d "$directory/incomplete-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' INT TERM HUP
    mkfifo "$work/pipe"
    b2sum <"$work/pipe" >"$work/b2" &
    { tar -c --sort=name --owner=0 --group=0 --numeric-owner "$@" || touch "$work/failed"; } |
      tee "$work/pipe" >"$work/content.tar"
    wait
    [ ! -e "$work/failed" ] || exit 1
    rm "$work/pipe"
    # Another build may have been first; its entry is the same.
    mv -T "$work" "$entry" 2>/dev/null || :
    ;;
esac
