# Completes ./bazelw in bash, with what this workspace has: `source tools/completion.bash`.

_bazelw() {
  local line=${COMP_LINE:0:COMP_POINT} word found
  word=${line##* }
  if [ "$COMP_CWORD" -le 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "aquery build clean cquery help info query run shutdown test " -- "$word")
  elif [[ $word == //*:* ]]; then
    COMPREPLY=()
    # Another build may have the lock: then there is nothing to choose from.
    while IFS= read -r found; do
      # The shell takes what stands behind a colon for a word.
      [[ $found != "$word"* ]] || COMPREPLY+=("${found#*:}")
    done < <("$1" --noblock_for_lock query --noshow_progress "${word%%:*}:all" 2>/dev/null)
  elif [[ $word == //* ]]; then
    COMPREPLY=()
    while IFS= read -r found; do
      [ ! -e "$found/BUILD.bazel" ] || COMPREPLY+=("//$found:")
      [ -z "$(find -L "$found" -mindepth 2 -name BUILD.bazel -print -quit 2>/dev/null)" ] || COMPREPLY+=("//$found/")
    done < <(compgen -d -- "${word#//}" | grep -v '^bazel-')
  fi
}

complete -o nospace -F _bazelw bazelw
