#!/bin/sh
# example.sh [BOURN]: shows what a seal does, on a real git checkout that it makes
# in a temporary directory and removes again. Nothing else is touched: even HOME is
# a directory of its own. Fails when something that must be refused was not.
set -eu

bourn=${1:-$(command -v bourn || true)}
[ -x "$bourn" ] || { echo "example: cannot find bourn; run make build first" >&2; exit 1; }
command -v git >/dev/null || { echo "example: needs git" >&2; exit 1; }
bourn=$(cd "$(dirname "$bourn")" && pwd)/$(basename "$bourn")

# Where the shell finds bourn, or else the place that is missing in PATH.
path=
if ! command -v bourn >/dev/null; then
  for d in "${HOME:-/nonexistent}/bin" "${HOME:-/nonexistent}/.local/bin" /usr/local/bin; do
    if [ -x "$d/bourn" ]; then path=$d; fi # the last is what install.sh takes first
  done
fi

place=$(mktemp -d "${TMPDIR:-/tmp}/bourn-example.XXXXXX")
place=$(cd "$place" && pwd -P)
trap 'rm -rf "$place" /etc/bourn-example' EXIT # the latter is there only if the seal failed
trap 'exit 130' HUP INT TERM

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$(printf '\033[1m') plain=$(printf '\033[0m')
else
  bold='' plain=''
fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
# show COMMAND...: prints a command and runs it. It is shown as one would type it.
show() {
  printf '%s$ %s%s\n' "$bold" "$*" "$plain"
  "$@"
}
bourn() { "$bourn" "$@"; }

export HOME="$place/home"
unset BOURN_HOME XDG_CONFIG_HOME GIT_DIR GIT_WORK_TREE
mkdir -p "$HOME/.ssh" "$HOME/hello"
echo 'a private key, if this were a real one' >"$HOME/.ssh/id_ed25519"

cd "$HOME/hello"
cat >README.md <<'EOF'
# hello

Run `sh hello.sh`.
EOF
cat >hello.sh <<'EOF'
#!/bin/sh
echo "hello from $(basename "$PWD")"
EOF
echo 'API_KEY=not-a-real-secret' >.env
echo '.env' >.gitignore

# The agent: any program will do. This one does some work, and then tries what it
# should not be able to.
cat >agent.sh <<'EOF'
leaks=0 said=$(mktemp)
attempt() { printf '  $ %s\n' "$1"; sh -c "$1" >"$said" 2>&1; }
may() {
  if attempt "$1"; then sed 's/^/      /' "$said"; else sed 's/^/      FAILED: /' "$said"; leaks=1; fi
}
must_not() {
  if attempt "$1"; then echo "      NOT REFUSED"; leaks=1; else sed -n '$s/^/      refused: /p' "$said"; fi
}
echo "its work:"
may 'sh hello.sh'
may 'echo "echo goodbye" >>hello.sh'
may 'git commit -q -a -m "say goodbye" && git log --oneline'
echo "what is none of its business:"
must_not 'cat .env'
must_not 'cat ~/.ssh/id_ed25519'
must_not 'echo "curl example.com" >.git/hooks/post-commit'
must_not 'echo gotcha >/etc/bourn-example'
must_not 'getent hosts example.com || { echo "no such host: there is no network"; false; }'
exit $leaks
EOF

say "A checkout, with a secret in it and a key in the home directory:"
git init -q .
git config user.name 'An Agent'
git config user.email agent@example.com
git add -A
git commit -q -m 'hello'
show ls -A . ../.ssh
show cat .env

say "What would be kept here? A directory to write, a secret denied, a read that is not there:"
show bourn plan --write . --deny .env --read "$HOME/notes" -- sh agent.sh

say "Now run it, sealed:"
status=0
show bourn run --write . --deny .env --read "$HOME/notes" --report "$place/report.json" -- sh agent.sh 2>&1 || status=$?

say "What the report of that run says of every line that was asked for:"
if [ ! -s "$place/report.json" ]; then
  echo "no report was written"
  [ "$status" -ne 0 ] || status=1
else
  # The report is JSON, a field on each line.
  awk -F'"' '
    $2 == "kind" { kind = $4 } $2 == "target" { target = $4 } $2 == "from" { from = $4 }
    $2 == "fate" { fate = $4 } $2 == "reason" { reason = $4 }
    /^ *}/ {
      if (from == "flag" && (kind == "read" || kind == "write" || kind == "deny")) {
        print "  " (fate == "enforced" ? "✓" : "✗") " " kind " " target
        if (reason != "") print "      " fate ": " reason
      }
      kind = target = from = fate = reason = ""
    }' "$place/report.json"
fi

say "And outside: the work is there, the rest never happened."
show git log --oneline
show sh hello.sh
if [ -e /etc/bourn-example ]; then
  echo "/etc/bourn-example was written" >&2
  status=1
fi
if [ "$status" -ne 0 ]; then
  printf '\nexample: it did not go as it must (exit status %s)\n' "$status" >&2
  printf 'hint: bourn doctor says what this machine lacks\n' >&2
  exit 1
fi
printf '\nTry it on something of yours:\n'
[ -z "$path" ] || printf "  export PATH=\"%s:\$PATH\"     # in your shell's start-up file too\n" "$path"
printf '  cd YOUR PROJECT\n  bourn run -- YOUR COMMAND\n'
