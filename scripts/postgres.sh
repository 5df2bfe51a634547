#!/bin/sh
# postgres.sh: sees that a PostgreSQL server is installed, for Bourn's private one, and
# installs it on Debian and Ubuntu, as root or where sudo asks for no password. No server
# is started, and none that listens on TCP is made. What is there already stays as it is.
set -eu

# found: the programs of a server are in one of the usual places.
found() {
  for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql*; do
    if [ -x "$dir/postgres" ] && [ -x "$dir/initdb" ]; then return 0; fi
  done
  command -v postgres >/dev/null 2>&1 && command -v initdb >/dev/null 2>&1
}

say() { printf 'bourn: %s\n' "$*" >&2; }
hint() { printf 'hint: %s\n' "$*" >&2; }

if found; then exit 0; fi

if ! command -v apt-get >/dev/null 2>&1; then
  say 'the control plane needs a PostgreSQL server, and none is installed'
  if command -v dnf >/dev/null 2>&1; then
    hint 'dnf install postgresql-server'
  elif command -v apk >/dev/null 2>&1; then
    hint 'apk add postgresql'
  elif command -v pacman >/dev/null 2>&1; then
    hint 'pacman -S postgresql'
  else
    hint 'install PostgreSQL 15.18 or newer, or give bourn serve a server with --database-url'
  fi
  exit 1
fi

# as_root COMMAND...: runs it as root, who must not be asked for.
if [ "$(id -u)" -eq 0 ]; then
  as_root() { "$@"; }
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root() { sudo -n "$@"; }
else
  say 'the control plane needs a PostgreSQL server, and only root can install one'
  hint 'sudo apt-get install postgresql'
  exit 1
fi

say 'installing PostgreSQL (apt-get install postgresql)'
# Without this the package makes a server that starts with the host and listens on TCP.
conf=/etc/postgresql-common/createcluster.d
if [ ! -e "$conf/bourn.conf" ]; then
  as_root mkdir -p "$conf"
  printf '%s\n' '# Written by Bourn: its private server is the only one that it needs.' 'create_main_cluster = false' |
    as_root tee "$conf/bourn.conf" >/dev/null
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >"$log" 2>&1; }
if ! { get update && get install -y --no-install-recommends postgresql; }; then
  tail -n 5 "$log" >&2
  say 'PostgreSQL cannot be installed'
  hint 'apt-get install postgresql, and then this again'
  exit 1
fi
if ! found; then
  say 'PostgreSQL was installed, and its server is not there'
  exit 1
fi
