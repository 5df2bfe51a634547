#!/bin/sh
# deb.sh [BIN [OUT]]: packs the programs in BIN (default bin) as a Debian package, OUT/bourn_VERSION_ARCH.deb
# (default BIN). What is in it and how it is laid down stands in packaging/. VERSION, where
# it is set, is the program's, as `git describe` writes it.
set -eu
cd "$(dirname "$0")/.."

nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.48.0
bin=${1:-bin}
out=${2:-$bin}
go=${GO:-scripts/go}

say() { printf 'deb: %s\n' "$*" >&2; }
hint() { printf 'hint: %s\n' "$*" >&2; }

# setting PROGRAM NAME prints a setting that PROGRAM was built with.
setting() { "$go" version -m "$1" | sed -n "s/^[[:space:]]*build[[:space:]]*$2=//p"; }

# unavailable is the status where modules cannot be had (EX_UNAVAILABLE, sysexits.h).
unavailable=69

arch=
for program in bourn bournd bourn-posix-helper; do
  if [ ! -x "$bin/$program" ]; then
    say "cannot find $bin/$program"
    hint 'make build builds the programs; a package without one of them would not work'
    exit 1
  fi
  # With cgo a process cannot seal all of its threads.
  if [ "$(setting "$bin/$program" CGO_ENABLED)" != 0 ] || [ "$(setting "$bin/$program" GOOS)" != linux ]; then
    say "$bin/$program was not built for Linux with CGO_ENABLED=0"
    hint 'make build does that'
    exit 1
  fi
  is=$(setting "$bin/$program" GOARCH)
  if [ "${arch:=$is}" != "$is" ]; then
    say "$bin/$program is for $is, and the one before it for $arch"
    exit 1
  fi
done

# version_of DESCRIBED prints a version that dpkg orders as the releases are: v1.2.0-rc.1 comes
# before v1.2.0, and v1.2.0-3-gabcdef0 after it. What no release is the ancestor of comes
# before all of them, by the time of its commit.
version_of() {
  if printf '%s\n' "$1" | grep -Eq '^v?[0-9]+\.[0-9]+'; then
    printf '%s\n' "$1" | sed -E 's/^v//; s/-dirty$/+dirty/; s/-([0-9]+)-g([0-9a-f]+)/+\1.\2/; s/-/~/; s/-/./g'
  else
    printf '0.0~%s.%s\n' "$(git log -1 --format=%cd --date=format:%Y%m%d%H%M%S 2>/dev/null || echo 0)" "$(printf %s "$1" | tr -c 'A-Za-z0-9.' .)"
  fi
}
DEB_VERSION=$(version_of "${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}")
DEB_ARCH=$arch
DEB_MAINTAINER=${DEB_MAINTAINER:-Bourn authors <bourn@localhost>}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
STAGE=$(mktemp -d)
trap 'rm -rf "$STAGE"' EXIT
export DEB_VERSION DEB_ARCH DEB_MAINTAINER SOURCE_DATE_EPOCH STAGE

mkdir "$STAGE/bin" "$STAGE/completion" "$STAGE/doc"
cp "$bin/bourn" "$bin/bournd" "$bin/bourn-posix-helper" "$STAGE/bin/"

# The pages and completions are what this machine's bourn prints.
bourn=$STAGE/bin/bourn
if [ "$arch" != "$("$go" env GOHOSTARCH)" ] || [ "$("$go" env GOHOSTOS)" != linux ]; then
  bourn=$STAGE/bourn-here
  GOOS='' GOARCH='' CGO_ENABLED=0 "$go" build -o "$bourn" ./cmd/bourn
fi
"$bourn" man "$STAGE/man" >/dev/null
"$bourn" completion bash >"$STAGE/completion/bourn"
"$bourn" completion zsh >"$STAGE/completion/_bourn"
"$bourn" completion fish >"$STAGE/completion/bourn.fish"
find "$STAGE/man" -type f -exec gzip -9n {} +

# The licences of what is linked in ask for their text to come along.
"$go" version -m "$STAGE/bin/bourn" "$STAGE/bin/bournd" "$STAGE/bin/bourn-posix-helper" |
  sed -n 's/^[[:space:]]*dep[[:space:]]*\([^[:space:]]*\)[[:space:]]*\([^[:space:]]*\).*/\1 \2/p' | LC_ALL=C sort -u >"$STAGE/modules"

# fetched COMMAND...: runs the go command, which may have to fetch something.
fetched() {
  "$@" >"$STAGE/said" 2>&1 || {
    cat "$STAGE/said" >&2
    say 'cannot get what the package is made with'
    hint 'set GOPROXY to a Go module proxy'
    exit "$unavailable"
  }
}
# shellcheck disable=SC2046 # one word per module
fetched "$go" mod download $(tr ' ' '@' <"$STAGE/modules")
fetched "$go" run "$nfpm" --version
"$go" list -m -f '{{.Path}} {{.Version}} {{.Dir}}' all >"$STAGE/dirs"
{
  printf 'The Go standard library\n\n'
  cat "$("$go" env GOROOT)/LICENSE"
  while read -r module version; do
    dir=$(awk -v m="$module" -v v="$version" '$1 == m && $2 == v { print $3 }' "$STAGE/dirs")
    printf '\n\n%s %s\n\n' "$module" "$version"
    licence=$(find "$dir" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | LC_ALL=C sort)
    if [ -z "$licence" ]; then
      say "cannot find the licence of $module in $dir"
      exit 1
    fi
    printf '%s\n' "$licence" | while read -r file; do cat "$file"; done
  done <"$STAGE/modules"
} >"$STAGE/doc/licences"
printf 'bourn (%s) unstable; urgency=medium\n\n  * See the history of the source.\n\n -- %s  %s\n' \
  "$DEB_VERSION" "$DEB_MAINTAINER" "$(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')" >"$STAGE/doc/changelog"
gzip -9n "$STAGE/doc/licences" "$STAGE/doc/changelog"

mkdir -p "$out"
deb=$out/bourn_${DEB_VERSION}_$arch.deb
"$go" run "$nfpm" package --config packaging/nfpm.yaml --packager deb --target "$deb" >"$STAGE/said" 2>&1 || {
  cat "$STAGE/said" >&2
  say 'nfpm cannot build the package'
  exit 1
}
echo "$deb"
