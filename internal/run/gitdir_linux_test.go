package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// everyday is work in a checkout, each command of which must do what it does outside.
const everyday = `git status --short; echo x >> a; git add a; git commit -qm second; echo y >> a; git stash -q; git stash pop -q; git checkout -q a
git branch topic; git switch -q topic; echo t > t; git add t; git commit -qm topic; git switch -q -; git merge -q topic; git branch -d topic 2> /dev/null; git tag v1; git tag -d v1
git pack-refs --all; git fetch -q . HEAD; git reflog > /dev/null; git rebase -q HEAD~1; git gc -q; git fsck --strict --no-dangling 2> /dev/null; git worktree list > /dev/null; git notes add -m n; git log --format=%s
`

// everydayOut is what it prints besides what git says on standard error.
const everydayOut = "Deleted branch topic*\nDeleted tag 'v1'*\ntopic\nsecond\nfirst\n"

// shaped reports whether text is like shape, in which a * at the end of a line stands for
// anything.
func shaped(text, shape string) bool {
	lines, want := strings.Split(text, "\n"), strings.Split(shape, "\n")
	for i, w := range want {
		prefix, star := strings.CutSuffix(w, "*")
		if i >= len(lines) || lines[i] != w && (!star || !strings.HasPrefix(lines[i], prefix)) {
			return false
		}
	}
	return len(lines) == len(want)
}

// closed tries to change what is not the run's in a git directory, and prints what it could.
const closed = `
try() { "$@" > /dev/null 2>&1 && echo "done: $*"; return 0; }
for at in "$@"; do { echo x >> "$at"; } 2> /dev/null && echo "wrote $at"; { echo x >> "$at/new"; } 2> /dev/null && echo "wrote into $at"; mv "$at" "$at.moved" 2> /dev/null && echo "moved $at"; done
try git config a.b c; try git config --worktree a.b c; try git remote add r /nowhere
`

func TestGitPreset(t *testing.T) {
	const project = `git init -q -b main main; cd main; ` + repository + `git branch packed; git pack-refs --all; mkdir -p .git/info; echo > .git/info/attributes; cd ..; `
	const lib = `git init -q lib; (cd lib; ` + repository + `); `
	for _, row := range []struct {
		name, before, cwd string
		note              string   // what the run says of the repository, "" for nothing
		closed            []string // relative to the work directory
		same              []string // what must not change by everyday either
	}{
		{"main checkout", project + `git -C main worktree add -q ../other -b other`, "main", "",
			[]string{"main/.git/hooks", "main/.git/config", "main/.git/info/attributes", "main/.git/worktrees/other", "main/.git/worktrees/other/HEAD"},
			[]string{"main/.git/worktrees", "other"}},
		{"linked worktree", project + lib + `cd main; git submodule --quiet add ../lib dep; git commit -qm dep; git worktree add -q ../tree -b tree HEAD~1; git worktree add -q ../other -b other`, "tree", "is a linked worktree: its repository ",
			[]string{"main/.git/hooks", "main/.git/config", "main/.git/info", "main/.git/info/attributes", "main/.git/HEAD", "main/.git/index", "main/.git/modules", "main/.git/modules/dep", "main/.git/modules/dep/hooks", "main/.git/modules/dep/config",
				"main/.git/worktrees/other", "main/.git/worktrees/other/HEAD", "main/.git/worktrees/tree/gitdir", "main/.git/worktrees/tree/commondir", "tree/.git"},
			[]string{"main/.git/worktrees/other", "other", "main/a", "main/dep", "main/.git/HEAD", "main/.git/index", "main/.git/modules", "main/.git/info"}},
		{"linked worktree in the checkout", project + `cd main; git worktree add -q .trees/tree -b tree; git worktree add -q .trees/other -b other`, "main/.trees/tree", "is a linked worktree: its repository ",
			[]string{"main/.git/hooks", "main/.git/config", "main/.git/HEAD", "main/.git/worktrees/other"},
			[]string{"main/.git/worktrees/other", "main/.trees/other", "main/a", "main/.git/HEAD"}},
		{"bare, worktrees beside", project + `git clone -q --bare main repo.git; git -C repo.git worktree add -q ../tree; git -C repo.git worktree add -q ../other`, "tree", "is a linked worktree: its repository ",
			[]string{"repo.git/hooks", "repo.git/config", "repo.git/HEAD", "repo.git/worktrees/other"},
			[]string{"repo.git/worktrees/other", "other", "repo.git/HEAD", "repo.git/config"}},
		{"bare and hidden", project + `mkdir p; git clone -q --bare main p/.bare; cd p; echo 'gitdir: ./.bare' > .git; git worktree add -q tree; git worktree add -q other`, "p/tree", "is a linked worktree: its repository ",
			[]string{"p/.bare/hooks", "p/.bare/config", "p/.bare/HEAD", "p/.bare/worktrees/other"},
			[]string{"p/.bare/worktrees/other", "p/other", "p/.bare/HEAD", "p/.git"}},
		{"bare, worktrees inside", project + `git clone -q --bare main p; cd p; git worktree add -q tree; git worktree add -q other`, "p/tree", "is a linked worktree: its repository ",
			[]string{"p/hooks", "p/config", "p/HEAD", "p/worktrees/other", "p/other", "p/other/a", "p/tree/.git"},
			[]string{"p/worktrees/other", "p/other", "p/HEAD"}},
		{"submodule", lib + project + `cd main; git submodule --quiet add ../lib dep; git commit -qm dep`, "main/dep", "is a submodule: its repository ",
			[]string{"main/.git/modules/dep/hooks", "main/.git/modules/dep/config", "main/dep/.git"},
			[]string{"main/.git/HEAD", "main/.git/hooks", "main/.git/config", "main/.git/index", "main/a", "main/.git/refs", "main/.git/modules/dep/config"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			runtest.Users(t, func(t *testing.T, u *runtest.User) {
				has(t, u, "git")
				u.Write(filepath.Join(u.Home, ".gitconfig"), gitconfig+"[protocol \"file\"]\n\tallow = always\n")
				if r := u.Do("bash", "-c", "set -eu\n"+preamble+row.before); r.Status != 0 {
					t.Fatalf("cannot prepare: %+v", r)
				}
				var closedAt, sameAt []string
				for _, at := range row.closed {
					closedAt = append(closedAt, u.Path(at))
				}
				for _, at := range row.same {
					sameAt = append(sameAt, u.Path(at))
				}
				before := tree(t, sameAt...)
				run := func(script string, args ...string) runtest.Result {
					return in(u, u.Path(row.cwd), runtest.Binary(t), append([]string{"run", "--preset", "git", "--", "bash", "-c", script, "bash"}, args...)...)
				}
				if r := run("set -eu\n" + preamble + everyday); r.Status != 0 || !shaped(r.Out, everydayOut) {
					t.Errorf("everyday work: status %d, out %q, err\n%s", r.Status, r.Out, r.Err)
				}
				r := run(closed, closedAt...)
				if r.Status != 0 || r.Out != "" {
					t.Errorf("what could be changed: status %d\n%s", r.Status, r.Out)
				}
				if !strings.Contains(r.Err, row.note) || row.note == "" && strings.Contains(r.Err, "its repository") {
					t.Errorf("it says\n%s\nwant %q", r.Err, row.note)
				}
				unchanged(t, "what is not the run's", before, tree(t, sameAt...))
				if r := u.Do("bash", "-c", `cd "$1"; git fsck --strict --no-dangling 2>&1; git status --short; git log -1 --format=%s`, "bash", u.Path(row.cwd)); r.Status != 0 || !strings.HasSuffix(r.Out, "topic\n") {
					t.Errorf("outside, git says %+v", r)
				}
			})
		})
	}
}

// A .git file may have been written by a run: what it points to is granted only where that
// names the checkout in turn.
func TestGitForgedPointer(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		has(t, u, "git")
		u.Write(filepath.Join(u.Home, ".gitconfig"), gitconfig)
		victim := filepath.Join(u.Dir, "victim")
		u.Mkdir(victim)
		if r := u.Do("bash", "-c", "set -eu\n"+preamble+`cd "$1"; git init -q repo; cd repo; `+repository+`git worktree add -q ../tree -b tree; git init -q --separate-git-dir ../apart ../w`, "bash", victim); r.Status != 0 {
			t.Fatalf("cannot prepare: %+v", r)
		}
		git := filepath.Join(victim, "repo/.git")
		before := tree(t, victim)
		for _, row := range []struct{ name, forge string }{
			{"the git directory", `echo "gitdir: $1" > .git`},
			{"a worktree's entry", `echo "gitdir: $1/worktrees/tree" > .git`},
			{"relative", `echo "gitdir: ../../../../../../../..$1/worktrees/tree" > .git`},
			{"the .git file of a worktree", `ln -s "$1/../../tree/.git" .git`},
			{"a link to the git directory", `ln -s "$1" .git`},
			{"an own entry of a foreign repository", `mkdir -p f/worktrees/x; echo "gitdir: $PWD/f/worktrees/x" > .git; echo "$PWD/.git" > f/worktrees/x/gitdir; echo "$1" > f/worktrees/x/commondir`},
			{"an own repository of foreign parts", `mkdir -p f/worktrees/x; echo "gitdir: $PWD/f/worktrees/x" > .git; echo "$PWD/.git" > f/worktrees/x/gitdir; echo ../.. > f/worktrees/x/commondir; for e in HEAD objects refs; do ln -s "$1/$e" f/$e; done`},
			{"a repository behind a link", `ln -s "$1" f; echo "gitdir: $PWD/f/worktrees/tree" > .git`},
			{"an own config", `mkdir f; printf '[core]\n\tworktree = %s\n' "$PWD" > f/config; for e in HEAD objects refs; do ln -s "$1/$e" f/$e; done; echo "gitdir: $PWD/f" > .git`},
			{"a git directory that names nobody", `echo "gitdir: $1/../../apart" > .git`},
		} {
			for by, forge := range map[string][]string{"a run": {runtest.Binary(t), "run", "-q", "--"}, "what was unpacked": {"env"}} {
				t.Run(row.name+" by "+by, func(t *testing.T) {
					u := runtest.NewUser(t, u.UID)
					if r := u.Do(forge[0], append(forge[1:], "bash", "-c", row.forge, "bash", git)...); r.Status != 0 {
						t.Fatalf("cannot forge: %+v", r)
					}
					r := u.Bourn("run", "--preset", "git", "--", "bash", "-c", `for at in "$1" "$1/HEAD" "$1/objects" "$1/../../apart" f/HEAD; do test -e "$at" && echo "shown: $at"; { echo > "$at/new"; } 2> /dev/null && echo "wrote into $at"; done; exit 0`, "bash", git)
					if r.Out != "" {
						t.Errorf("out of reach it is not: %s\n%s", r.Out, r.Err)
					}
				})
			}
		}
		unchanged(t, "the repository", before, tree(t, victim))
	})
}

// Who could write both ends of a link once has forged nothing that holds later; an honest
// link does.
func TestGitForgedBothEnds(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		has(t, u, "git")
		u.Write(filepath.Join(u.Home, ".gitconfig"), gitconfig)
		if r := u.Do("bash", "-c", "set -eu\n"+preamble+`git init -q repo; mkdir proj; cd repo; `+repository+`git worktree add -q ../honest -b honest`); r.Status != 0 {
			t.Fatalf("cannot prepare: %+v", r)
		}
		preset := func(dir string) runtest.Result {
			return in(u, u.Path(dir), runtest.Binary(t), "run", "--preset", "git", "--", "git", "log", "--format=%s")
		}
		works := func(dir string) {
			t.Helper()
			if r := preset(dir); r.Status != 0 || r.Out != "first\n" {
				t.Errorf("git in %s: status %d, out %q, err\n%s", dir, r.Status, r.Out, r.Err)
			}
		}
		works("honest")
		works("honest")
		r := in(u, u.Path("repo"), runtest.Binary(t), "run", "-q", "--write", ".", "--write", "../proj", "--", "bash", "-c", `set -e
			cd .git/worktrees; mkdir evil; echo ../.. > evil/commondir; cp honest/HEAD evil/HEAD; echo "$1/.git" > evil/gitdir; echo "gitdir: $PWD/evil" > "$1/.git"; cd "$1"; git log --format=%s
			cd ../repo; git worktree add -q .trees/new`, "bash", u.Path("proj"))
		if r.Status != 0 || r.Out != "first\n" {
			t.Fatalf("cannot forge: %+v", r)
		}
		r = preset("proj")
		if r.Status == 0 || r.Out != "" || !strings.Contains(r.Err, "earlier runs could write both ends") || !strings.Contains(r.Err, "--write "+u.Path("repo/.git")) {
			t.Errorf("a forged link is believed: status %d, out %q, err\n%s", r.Status, r.Out, r.Err)
		}
		works("honest")
		works("repo/.trees/new")
	})
}

// The main checkout goes on while a linked worktree is worked in: nobody is told, and what
// it replaces is read-only again.
func TestGitPresetBesideMain(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		has(t, u, "git")
		u.Write(filepath.Join(u.Home, ".gitconfig"), gitconfig)
		main := u.Mkdir(filepath.Join(u.Dir, "main"))
		if r := u.Do("bash", "-c", "set -eu\n"+preamble+`cd "$1"; git init -q; `+repository+`git worktree add -q "$2" -b tree`, "bash", main, u.Work); r.Status != 0 {
			t.Fatalf("cannot prepare: %+v", r)
		}
		l := serve(t, u, "--preset", "git")
		if r := in(u, main, "bash", "-c", "set -eu\n"+preamble+`git switch -qc next; echo n > n; git add n; git commit -qm n; git config user.name Other`); r.Status != 0 {
			t.Fatalf("outside: %+v", r)
		}
		for _, name := range []string{"HEAD", "index", "config"} {
			l.becomes("openw "+filepath.Join(main, ".git", name), "EROFS")
		}
		said := l.finish()
		if strings.Contains(said, ".git/HEAD") || strings.Contains(said, ".git/index") || !strings.Contains(said, ".git/config") {
			t.Errorf("it says\n%s", said)
		}
	})
}

// A remote's host is not granted, and its refusal names the port that it needs.
func TestGitPresetRemote(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	has(t, u, "git ssh")
	if r := u.Do("bash", "-c", `git init -q . && git remote add origin git@git.example.com:team/app.git`); r.Status != 0 {
		t.Fatalf("cannot prepare: %+v", r)
	}
	r := u.Bourn("run", "--host", "api.example.com", "--preset", "git", "--", "git", "fetch")
	if r.Status == 0 || !strings.Contains(r.Err, "refused: connect git.example.com") || !strings.Contains(r.Err, "--host git.example.com:22 ") {
		t.Errorf("status %d, err\n%s", r.Status, r.Err)
	}
}

// An agent's checkout that it may only read has its repository to read.
func TestGitPresetOfAgent(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		has(t, u, "git")
		u.Write(filepath.Join(u.Home, ".gitconfig"), gitconfig)
		if r := u.Do("bash", "-c", "set -eu\n"+preamble+`git init -q repo; cd repo; `+repository+`git worktree add -q ../tree -b tree`); r.Status != 0 {
			t.Fatalf("cannot prepare: %+v", r)
		}
		for kind, want := range map[string]string{"read": "first\n", "write": "first\nwrote\n"} {
			if r := u.Bourn("agent", "create", kind, "--"+kind, u.Path("tree")); r.Status != 0 {
				t.Fatal(r.Err)
			}
			profile := filepath.Join(u.Home, ".bourn/agents", kind, "profile.yaml")
			u.Write(profile, u.Read(profile)+"presets: [git]\n")
			for range 2 {
				r := in(u, u.Path("tree"), runtest.Binary(t), "run", "--agent", kind, "--", "bash", "-c", `git log --format=%s; { git tag -f t && echo wrote; } 2> /dev/null | grep wrote; exit 0`)
				if r.Out != want {
					t.Errorf("%s: printed %q, want %q; said\n%s", kind, r.Out, want, r.Err)
				}
			}
		}
	})
}

func TestPresetDockerClient(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	at := unixEcho(t, u, filepath.Join(u.Dir, "engine.sock"))
	u.Env = append(u.Env, "DOCKER_HOST=unix://"+at)
	for _, r := range []runtest.Result{u.Bourn("plan", "--preset", "docker-client", "--", "true"), u.Bourn("run", "--preset", "docker-client", "--", "true")} {
		if !strings.Contains(r.Out+r.Err, "as good as root on this host") {
			t.Errorf("it does not say what the socket gives:\n%s%s", r.Out, r.Err)
		}
	}
	if r := u.Bourn("plan", "--json", "--preset", "docker-client", "--", "true"); !strings.Contains(r.Out, at) || !strings.Contains(r.Out, "as good as root") {
		t.Errorf("the plan's item does not say it:\n%s", r.Out)
	}
}
