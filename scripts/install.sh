#!/bin/sh
# install.sh BINARY [PREFIX]: copies BINARY, and BINARYd where it stands beside it, into
# PREFIX/bin; without a PREFIX into the first of /usr/local/bin, ~/.local/bin and ~/bin
# that this user may write. The manual pages and the completions, which BINARY itself
# prints, go beside that into share; where that cannot be written they are left out.
# What is there already and the same is not touched.
#
# Root also gets PREFIX/libexec/NAME/NAME-posix-helper, where it stands beside BINARY: setuid
# root and executable by the group NAME alone, or by root alone where there is no such group,
# or where somebody else could exchange the file.
#
# install.sh --remove NAME [PREFIX]: removes all of that again, from where it would go.
set -eu

remove=
if [ "$1" = --remove ]; then
  remove=yes
  shift
fi
binary=$1 prefix=${2:-}
name=$(basename "$binary")

# usable DIR: DIR is there, or can be made, and files can be created in it.
usable() { mkdir -p "$1" 2>/dev/null && [ -w "$1" ]; }

case $prefix in
"~"*) echo "bourn: PREFIX is $prefix, and nothing expands the ~: write \$HOME" >&2; exit 1 ;;
esac
if [ -n "$prefix" ]; then
  dir=${prefix%/}/bin
  case $dir in
  /*) ;;
  *) dir=$PWD/$dir ;;
  esac
  usable "$dir" || { echo "bourn: cannot write $dir" >&2; exit 1; }
else
  dir=
  for d in /usr/local/bin ${HOME:+"$HOME/.local/bin"} ${HOME:+"$HOME/bin"}; do
    if usable "$d"; then
      dir=$d
      break
    fi
  done
  [ -n "$dir" ] || { echo "bourn: cannot find a directory to install into; say make install PREFIX=DIR" >&2; exit 1; }
fi

case $dir in
"${HOME:+$HOME/bin}") share=$HOME/.local/share ;;
*) share=${dir%/bin}/share ;;
esac

libexec=${dir%/bin}/libexec/$name

if [ -n "$remove" ]; then
  rm -f "$libexec/$name-posix-helper"
  rmdir "$libexec" 2>/dev/null || true
  rm -f "$dir/$name" "$dir/${name}d" "$share/man/man1/$name.1" "$share/man/man1/$name"-*.1 "$share/man/man5/$name"-*.5 \
    "$share/bash-completion/completions/$name" "$share/zsh/site-functions/_$name" "$share/fish/vendor_completions.d/$name.fish"
  echo "removed $dir/$name and ${name}d, their manual pages and completions; what they keep is in ~/.$name still"
  exit
fi

# By rename, so that a program that runs meanwhile keeps its own file.
tmp=
trap 'rm -f "$tmp"' EXIT
for from in "$binary" "${binary}d"; do
  to=$dir/$(basename "$from")
  if [ "$from" != "$binary" ] && [ ! -e "$from" ]; then continue; fi
  if cmp -s "$from" "$to" && [ -x "$to" ]; then
    echo "$to is up to date"
    continue
  fi
  tmp=$(mktemp "$dir/.$name.XXXXXX")
  cp "$from" "$tmp"
  chmod 0755 "$tmp"
  mv -f "$tmp" "$to"
  echo "installed $to"
done

# replaceable DIR: somebody besides root could put another file there. Links are followed first,
# so that every directory above is looked at.
replaceable() {
  at=$(cd "$1" && pwd -P)
  while :; do
    [ -n "$(find "$at" -prune -user 0 ! -perm -020 ! -perm -002)" ] || return 0
    [ "$at" != / ] || return 1
    at=$(dirname "$at")
  done
}

# lay_helper FROM: lays down the setuid helper. It has its group and mode before its name, so
# that nobody else can execute it meanwhile; the mode comes last, as chown(2) takes setuid away.
lay_helper() {
  to=$libexec/$name-posix-helper group=0 mode=0700
  mkdir -p "$libexec"
  if replaceable "$libexec"; then
    echo "note: $to is root's alone: others than root can write above it, so it does not become setuid; people's users need a PREFIX that is root's, such as /usr/local"
  elif [ -n "$(getent group "$name" || true)" ]; then
    group=$name mode=4750
  else
    echo "note: $to is root's alone, as there is no group $name: \`$name people sync\` makes that group; install again then, and it is opened to it"
  fi
  if cmp -s "$1" "$to" && [ -n "$(find "$to" -prune -user 0 -group "$group" -perm "$mode")" ]; then
    echo "$to is up to date"
    return
  fi
  tmp=$(mktemp "$libexec/.$name.XXXXXX")
  cp "$1" "$tmp"
  chown "0:$group" "$tmp"
  chmod "$mode" "$tmp"
  mv -f "$tmp" "$to"
  echo "installed $to"
}
helper=$(dirname "$binary")/$name-posix-helper
if [ "$(id -u)" -eq 0 ] && [ -e "$helper" ]; then lay_helper "$helper"; fi

# lay FILE COMMAND...: makes FILE of what bourn prints.
lay() {
  at=$1 new=$1.$$
  shift
  mkdir -p "$(dirname "$at")" || return 1
  if "$dir/$name" "$@" >"$new"; then
    mv -f "$new" "$at"
  else
    rm -f "$new"
    return 1
  fi
}
if { "$dir/$name" man "$share/man" >/dev/null &&
  lay "$share/bash-completion/completions/$name" completion bash &&
  lay "$share/zsh/site-functions/_$name" completion zsh &&
  lay "$share/fish/vendor_completions.d/$name.fish" completion fish; } 2>/dev/null; then
  echo "installed its manual pages (man bourn) and completions in $share"
else
  echo "note: manual pages and completions are not installed: $share cannot be written"
fi

case :${PATH:-}: in
*:"$dir":*)
  found=$(command -v "$name" || true)
  if [ "$found" != "$dir/$name" ]; then
    echo "note: \`$name\` runs $found, which comes before $dir in PATH"
  fi
  ;;
*)
  echo "note: $dir is not in PATH; add this line to your shell's start-up file:"
  echo "  export PATH=\"$dir:\$PATH\""
  ;;
esac
