#!/bin/sh
# control-plane.sh BOURN [FLAG...]: starts the control plane in the background, with the
# flags of bourn serve, unless it runs; one that runs a program that was replaced since is
# started anew. BOURN that is installed, too, is started from there.
set -eu

bourn=$1
shift
[ -x "$bourn" ] || { echo "control-plane: cannot find $bourn; run make build first" >&2; exit 1; }

# The installed one stays when the build is cleaned away.
for dir in ${PREFIX:+"$PREFIX/bin"} /usr/local/bin "${HOME:-/nonexistent}/.local/bin" "${HOME:-/nonexistent}/bin"; do
  if cmp -s "$bourn" "$dir/bourn" && cmp -s "${bourn}d" "$dir/bournd"; then
    bourn=$dir/bourn
    break
  fi
done

said=$("$bourn" serve --background "$@" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
case $said in
*'program that was replaced since'*)
  "$bourn" serve --stop
  said=$("$bourn" serve --background "$@" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
  ;;
esac
printf '%s\n' "$said"
