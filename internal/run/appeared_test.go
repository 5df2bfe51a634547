package run_test

import (
	"os"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// evilRepository makes a repository whose configuration runs a program at the next look at
// the one round it.
const evilRepository = `evil() { git init -q "$1" && git -C "$1" -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m one && printf '[core]\n\tfsmonitor = "touch %s; false"\n' "$RAN" >> "$1/.git/config"; }
`

// A repository that a run plants where the host's git looks by itself is named when the run
// ends: below the index of a checkout at any depth, elsewhere as deep as a start looks.
func TestPlantedRepositoryIsReported(t *testing.T) {
	const before = `git init -q -b main; echo x > f; mkdir -p a/b/c; echo x > a/b/c/f; git add .; git commit -qm one; `
	for _, row := range []struct {
		name, before, inside string
		want                 string // where something appeared, "" for nothing
		runs                 bool   // git status runs it
	}{
		{"in the index", before, `evil sub; git add sub 2> /dev/null`, "sub/.git", true},
		{"deep in the index", before, `evil a/b/c/d/e; git add a/b/c/d/e 2> /dev/null`, "a/b/c/d/e/.git", true},
		{"deep, packed index", before, `evil a/b/c/d/e; git add a/b/c/d/e 2> /dev/null; git update-index --index-version 4`, "a/b/c/d/e/.git", true},
		{"deep, split index", before, `git add a; git update-index --split-index; evil a/b/c/d/e; git add a/b/c/d/e 2> /dev/null`, "a/b/c/d/e/.git", true},
		{"deep, split index anew", before, `evil a/b/c/d/e; git add a/b/c/d/e 2> /dev/null; git update-index --split-index`, "a/b/c/d/e/.git", true},
		{"a submodule that was not there", before + `git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),a/b/c/d/e; git commit -qm sub`, `evil a/b/c/d/e`, "a/b/c/d/e/.git", true},
		{"a file that leads to it", before, `evil x; mv x/.git a/b/c/g; mkdir -p a/b/c/d/e; echo gitdir: ../../g > a/b/c/d/e/.git; git add a/b/c/d/e 2> /dev/null`, "a/b/c/d/e/.git", true},
		{"a file that leads into a known directory", before, `evil x; mv x/.git .git/objects/g; mkdir y; echo gitdir: ../.git/objects/g > y/.git; git add y 2> /dev/null`, "y/.git", true},
		{"an index that cannot be read", before, `evil a/b/c/d/e; git add a/b/c/d/e 2> /dev/null; mv .git/index i; ln -s ../i .git/index`, ".git/index", true},
		{"not in the index", before, `evil sub`, "sub/.git", false},
		{"another worktree of it", before, `git worktree add -q wt`, "", false},
		{"a worktree with a config", before + `git config extensions.worktreeConfig true`, `git worktree add -q wt; echo > .git/worktrees/wt/config.worktree`, ".git/worktrees/wt", false},
		{"a worktree of another repository", before, `evil x; mv x/.git a/b/c/g; git worktree add -q wt; echo ../../../a/b/c/g > .git/worktrees/wt/commondir`, ".git/worktrees/wt", false},
		{"behind more directories than are looked through", before, `for i in $(seq 250); do mkdir -p 0/$i; done; evil 0/zzz`, "", false},
		{"in the index, where directories are not looked through", before + `for i in $(seq 1100); do mkdir 0$i; done; `, `evil a/b/c/d/e; git add a/b/c/d/e 2> /dev/null`, "a/b/c/d/e/.git", true},
		{"a rebase to go on with", before, `mkdir .git/rebase-merge; echo exec touch $RAN > .git/rebase-merge/git-rebase-todo`, ".git/rebase-merge", false},
		{"patches to go on with", before, `mkdir .git/rebase-apply`, ".git/rebase-apply", false},
		{"picks to go on with", before, `mkdir .git/sequencer`, ".git/sequencer", false},
		{"a rebase in a submodule's repository", before + `mkdir -p .git/modules/m; git init -q --bare .git/modules/m; `, `mkdir .git/modules/m/rebase-merge`, ".git/modules/m/rebase-merge", false},
		{"an empty repository of a submodule", before, `mkdir -p .git/modules/a/b`, ".git/modules/a/b", false},
		{"what was empty is filled", before + `mkdir -p .git/modules/a/b; `, `echo > .git/modules/a/b/config`, ".git/modules/a/b", false},
		{"what was empty stays so", before + `mkdir -p .git/modules/a/b; `, `true`, "", false},
		{"a rebase that ends", before + `git checkout -q -b side; echo s > s; git add s; git commit -qm s; git checkout -q main; echo m > m; git add m; git commit -qm m; git checkout -q side; `, `git rebase -q main && git rebase -q -x true main~1`, "", false},
		{"a rebase that was there", before + `mkdir .git/rebase-merge; `, `echo x > .git/rebase-merge/done; rm -r .git/rebase-merge; mkdir .git/rebase-merge`, "", false},
		{"work", before, `echo y >> f; git add f; git commit -qm two; git branch b; mkdir -p n/m; echo z > n/m/z; git add n`, "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			runtest.Users(t, func(t *testing.T, u *runtest.User) {
				has(t, u, "git")
				for _, kv := range [][2]string{{"user.name", "A"}, {"user.email", "a@b.c"}} {
					u.Do("git", "config", "--global", kv[0], kv[1])
				}
				ended(t, u.Do("sh", "-c", row.before))
				ran := u.Path("a/ran")
				r := u.Bourn("run", "--write", u.Work, "--", "sh", "-c", "RAN="+ran+"\n"+evilRepository+row.inside)
				if r.Status != 0 {
					t.Fatalf("status %d, err %q", r.Status, r.Err)
				}
				if row.want == "" && strings.Contains(row.inside, "evil") && !strings.Contains(r.Err, u.Path("0")+" holds more directories by now than are looked through") {
					t.Errorf("what is not known is not said: %q", r.Err)
				}
				said := strings.Count(r.Err, " was created during the run: ")
				switch {
				case row.want == "" && said > 0:
					t.Errorf("said of nothing: %q", r.Err)
				case row.want != "" && (said > 2 || !strings.Contains(r.Err, u.Path(row.want)+" was created during the run: ")):
					t.Errorf("%s is not reported: %q", row.want, r.Err)
				}
				u.Do("git", "status")
				if _, err := os.Stat(ran); (err == nil) != row.runs {
					t.Errorf("git status ran it: %v", err == nil)
				}
			})
		})
	}
}

// A submodule's .git file is guarded however deep it lies.
func TestDeepSubmoduleIsGuarded(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		has(t, u, "git")
		ended(t, u.Do("sh", "-c", `git config --global user.name A; git config --global user.email a@b.c; mkdir -p a/b/c/d; cd a/b/c/d; `+repository+`cd ../../../..; git init -q; git add a 2> /dev/null`))
		got := try(t, u, nil, "openw a/b/c/d/.git/config", "create a/b/c/d/.git/hooks/post-commit", "rename a/b/c a/b/x", "rename a/b/c/d/.git a/b/c/d/g")
		got.refused(t, got.all()...)
	})
}

// Directories that a run makes take no guard from what was guarded before them.
func TestGuardsOutlastManyDirectories(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, at := range []string{"lib/.git/hooks", "src/lib/.git/hooks"} {
			u.Mkdir(at)
		}
		ended(t, u.Sh(`i=0; while [ $i -lt 250 ]; do mkdir -p 0/$i 00$i; i=$((i+1)); done`))
		got := try(t, u, nil, "create lib/.git/hooks/pre-commit", "create src/lib/.git/hooks/pre-commit")
		got.refused(t, got.all()...)
		if r := u.Bourn("plan"); !strings.Contains(r.Out, u.Path("0")+"/*\n      dropped — more directories than are looked through") {
			t.Errorf("what is not looked through is not said: %q", r.Out)
		}
	})
}

// A repository that a seal guarded is guarded by the next, whatever a run made meanwhile
// that is looked at before it.
func TestGuardsOutlastOneChildParents(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Mkdir("zz/lib/.git/hooks")
		u.Mkdir("zz/other")
		ended(t, u.Sh(`i=0; while [ $i -lt 250 ]; do mkdir -p $i/x; i=$((i+1)); done`))
		got := try(t, u, nil, "create zz/lib/.git/hooks/pre-commit", "rename zz/lib zz/x")
		got.refused(t, got.all()...)
		r := u.Bourn("run", "--write", u.Work, "--", "sh", "-c", "echo > zz/lib/.envrc")
		if !strings.Contains(r.Err, u.Path("zz/lib/.envrc")+" was created during the run: ") {
			t.Errorf("what appeared in it is not said: %q", r.Err)
		}
	})
}
