package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// repository makes a repository with one commit, as it would lie in a project.
const repository = `git init -q -b main; echo one > a; mkdir -p sub; echo two > sub/b; git add .; git commit -qm first; `

func TestCompatGit(t *testing.T) {
	chores(t, []chore{
		{name: "init in an empty directory", needs: "git", script: `git init -q -b main; echo x > f; git add f; git commit -qm one; git log --format='%an <%ae> %s'; git status --short; git branch`},
		{name: "init says where", needs: "git", script: `git init -b main`},
		{name: "default branch of the home", needs: "git", script: `git init -q; git symbolic-ref HEAD`},
		{name: "init in a new directory", needs: "git", script: `mkdir p; cd p; git init -q; echo x > f; git add .; git commit -qm one; git log --format=%H`},
		{name: "init and configure", needs: "git", script: `git init -q; git config user.name Other; git config core.autocrlf false; echo x > f; git add f; git commit -qm one; git remote add up /nowhere; git log --format=%an; git remote -v`},
		{name: "init and set up long after", needs: "git", script: `git init -q; sleep 0.3; git config user.name Other; echo x > f; git add f; git commit -qm one; git log --format=%an`},
		{name: "init bare", needs: "git", script: `git init -q --bare b.git; git init -q; echo x > f; git add f; git commit -qm one; git push -q ./b.git HEAD:main; git -C b.git log --format=%H main`, loose: true},
		{name: "identity from the home", needs: "git", before: repository, script: `echo 2 >> a; git commit -qam second; git log -1 --format='%an <%ae> %cn'`},
		{name: "clone a local one", needs: "git", before: `git init -q src; cd src; ` + repository, script: `git clone -q src dst; cd dst; git log --format=%H; cat sub/b; git status --short`, loose: true},
		{name: "clone with hard links", needs: "git", before: `git init -q src; cd src; ` + repository, script: `git clone -q --local src dst`, instead: "Invalid cross-device link"},
		{name: "clone without hard links", needs: "git", before: `git init -q src; cd src; ` + repository, script: `git clone -q --no-local src dst; git clone -q --bare src b.git; git clone -q --shared src s; git -C s log --format=%H`, loose: true},
		{name: "clone the project into itself", needs: "git", before: repository, script: `git clone -q . copy; cat copy/sub/b; git -C copy pull -q; git -C copy log --format=%s`},
		{name: "add", needs: "git", before: repository, script: `echo n > n; echo m >> a; git add .; git status --porcelain; git diff --cached --stat; git commit -qm more; git show --stat --format=%s`},
		{name: "commit runs no hook that is not there", needs: "git", before: repository, script: `ls .git/hooks | wc -l; git commit -q --allow-empty -m empty; git log --oneline`},
		{name: "commit runs the hooks that are", needs: "git", before: repository + `printf '#!/bin/sh\necho hook ran\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit`, script: `git commit --allow-empty -qm x`},
		{name: "branch, checkout, merge", needs: "git", before: repository, script: `git checkout -qb feat; echo f > f; git add f; git commit -qm feat; git checkout -q main; echo g > g; git add g; git commit -qm g
git merge -q -m merge feat; git log --graph --format=%s; git branch -d feat 2> /dev/null; git branch --list; git tag v1; git describe --tags; git switch -qc other; git branch`},
		{name: "merge with a conflict", needs: "git", before: repository, script: `git checkout -qb x; echo x > a; git commit -qam x; git checkout -q main; echo y > a; git commit -qam y; git merge x || cat a; echo z > a; git add a; git commit -qm solved; git log --format=%s`},
		{name: "rebase", needs: "git", before: repository, script: `git checkout -qb x; echo x > x; git add x; git commit -qm x; git checkout -q main; echo y > y; git add y; git commit -qm y; git checkout -q x; git rebase -q main; git log --format=%s; GIT_SEQUENCE_EDITOR='sed -i 2s/pick/fixup/' git rebase -qi HEAD~2; git log --format=%s; ls`},
		{name: "stash", needs: "git", before: repository, script: `echo x >> a; echo u > u; git stash -qu; ls; cat a; git stash list; git stash pop -q; cat a u; git stash -q; git stash drop -q; git status --short`},
		{name: "mv and rm", needs: "git", before: repository, script: `git mv sub/b moved; git rm -q a; git status --short; git commit -qm moved; git reset -q --hard HEAD~1; ls -R; git clean -fdxq; git restore --source HEAD a`},
		{name: "mv of a directory", needs: "git", before: repository, script: `git mv sub other; git commit -qm mv; ls other; mv other third; ls third`},
		{name: "worktree", needs: "git", before: repository, script: `git worktree add -q wt -b side; cd wt; echo w > w; git add w; git commit -qm w; git log --format=%s; git status --short; cd ..; git worktree list | awk '{print $2, $3}'; git log side --format=%s; git worktree remove wt; git worktree prune; ls`},
		{name: "worktree beside others", needs: "git", before: repository + `git worktree add -q old -b old`, script: `git worktree add -q new; cd old; echo w > w; git add w; git commit -qm w; git log --format=%s; cd ..; git worktree remove new; git branch`},
		{name: "gc", needs: "git", before: repository, script: `for i in 1 2 3; do echo $i > a; git commit -qam $i; done; git gc -q; git fsck --strict; git count-objects -v | grep -E 'in-pack|packs'; git repack -adq; git prune; git log --format=%s`},
		{name: "submodule in a new repository", needs: "git", before: `git init -q lib; (cd lib; ` + repository + `)`, script: `git init -q; git -c protocol.file.allow=always submodule --quiet add ./lib dep; git commit -qm dep; cat dep/a; git submodule status; cd dep; echo 3 > c; git add c; git commit -qm c; cd ..; git add dep; git commit -qm bump; git log --format=%s`, loose: true},
		{name: "work in a submodule", needs: "git", before: `git init -q lib; (cd lib; ` + repository + `); git init -q; git -c protocol.file.allow=always submodule --quiet add ./lib dep; git commit -qm dep`,
			script: `cd dep; echo 3 > c; git add c; git commit -qm c; git checkout -qb x; cd ..; git commit -qam bump; git status --short; git -C dep log --format=%s; git submodule status; git diff HEAD~1 --submodule=log`},
		{name: "log, diff, blame, grep, archive", needs: "git tar", before: repository, script: `echo x >> a; git diff; git diff --stat; git blame sub/b; git grep two; git archive HEAD | tar t; git ls-files -s; git rev-parse HEAD; git show HEAD:a; git shortlog -sn HEAD; git cat-file -p HEAD; git reflog; git format-patch -1 --stdout > p; git apply --stat p; rm p`},
		{name: "cherry-pick, revert, am", needs: "git", before: repository, script: `git checkout -qb x; echo x > x; git add x; git commit -qm x; git format-patch -1 -o out -q; git checkout -q main; git cherry-pick x > p; git revert --no-edit HEAD >> p; git am -q out/*.patch; git log --format=%s; git commit --amend -qm amended; git notes add -m note; git log -1 --format='%s %N'`},
		{name: "sparse and partial work", needs: "git", before: repository, script: `git -c core.preloadindex=true status --short; git update-index --refresh; git rev-list --objects HEAD | wc -l; git bundle create -q b main; git clone -q b frombundle; git -C frombundle log --format=%s origin/main || git -C frombundle branch -a`, loose: true},
		{name: "fetch and push between two", needs: "git", before: `git init -q --bare up.git; git clone -q up.git w 2>/dev/null; cd w; ` + repository + `git push -q origin HEAD:main`, script: `cd w; echo x > a; git commit -qam x; git push -q; git fetch -q; git pull -q --rebase; git log origin/main --format=%s; git -C ../up.git log --format=%s main`},
		{name: "repository behind a symlink", needs: "git", before: repository + `mv .git real; ln -s real .git`, script: `echo x > a; git commit -qam x; git log --format=%s; git status --short`, loose: true},
		{name: "separate git dir", needs: "git", before: `git init -q --separate-git-dir meta w; cd w; ` + repository, script: `cd w; echo x > a; git commit -qam x; git log --format=%s; git status --short`, loose: true},
		{name: "remove a nested repository", needs: "git", before: `git init -q n; (cd n; ` + repository + `)`, script: `mv n m`, instead: "Device or resource busy"},
		{name: "replace a vendored repository", needs: "git", before: `mkdir -p deps/n; git init -q deps/n; (cd deps/n; ` + repository + `)`, script: `mv deps/n deps/old`, instead: "Device or resource busy"},
		{name: "editor and pager", needs: "git", before: repository, script: `echo x > a; GIT_EDITOR='echo edited >' git commit -qa; git --paginate log --format=%s | cat; PAGER=cat git -p log --format=%s`},
		// What runs code on the host later does not change, and git says so.
		{name: "config of an existing repository", needs: "git", before: repository, script: `git config user.name Evil`, instead: "could not write config file"},
		{name: "renaming a branch of an existing repository", needs: "git", before: repository, script: `git branch -m renamed`, instead: "update of config-file failed"},
		{name: "remote of an existing repository", needs: "git", before: repository, script: `git remote add up /nowhere`, instead: "could not write config file"},
	})
}

// A linked worktree whose repository lies elsewhere needs that repository.
func TestCompatGitLinkedWorktree(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		has(t, u, "git")
		u.Write(filepath.Join(u.Home, ".gitconfig"), gitconfig)
		if r := u.Do("bash", "-c", "set -eu\n"+preamble+`git init -q main; cd main; `+repository+`git worktree add -q ../tree -b side`); r.Status != 0 {
			t.Fatalf("cannot prepare: %+v", r)
		}
		tree, repo := u.Path("tree"), u.Path("main/.git")
		script := "set -eu\n" + preamble + `echo w > w; git add w; git commit -qm w; git status --short; git log --format='%an %s'; git stash list; git checkout -q -b third`

		t.Run("without the repository", func(t *testing.T) {
			r := in(u, tree, runtest.Binary(t), "run", "--preset", "none", "--", "git", "status")
			if r.Status == 0 || !strings.Contains(r.Out+r.Err, repo) {
				t.Errorf("status %d, out %q, err %q; want it to name what is missing, %s", r.Status, r.Out, r.Err, repo)
			}
			if !strings.Contains(r.Err, "--preset git") {
				t.Errorf("err %q: it does not say how to make it work", r.Err)
			}
		})
		t.Run("with the repository", func(t *testing.T) {
			r := in(u, tree, runtest.Binary(t), "run", "-q", "--write", ".", "--write", repo, "--", "bash", "-c", script)
			if want := "Test Person w\nTest Person first\n"; r.Status != 0 || r.Out != want {
				t.Errorf("status %d, out %q, err %q; want %q", r.Status, r.Out, r.Err, want)
			}
			r = in(u, tree, runtest.Binary(t), "run", "-q", "--write", ".", "--write", repo, "--", "bash", "-c",
				`echo '#!/bin/sh' > "$1/hooks/post-checkout" || echo refused`, "bash", repo)
			if !strings.Contains(r.Out, "refused") {
				t.Errorf("a hook of the repository could be written: %+v", r)
			}
		})
		t.Run("read only", func(t *testing.T) {
			r := in(u, tree, runtest.Binary(t), "run", "-q", "--write", ".", "--read", repo, "--", "bash", "-c", `git log -1 --format=%an; git status --short`)
			if r.Status != 0 || !strings.Contains(r.Out, "Test Person") {
				t.Errorf("status %d, out %q, err %q", r.Status, r.Out, r.Err)
			}
		})
	})
}

// However a repository lies in what is granted, its hooks and config are not the run's
// to change: they run on the host later.
func TestGitHooksInEveryLayout(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		has(t, u, "git")
		const lib = "git init -q lib; cd lib; " + repository + "cd ..; "
		for _, row := range []struct {
			name, before, cwd string
			flags             []string
			git               string // relative to cwd
		}{
			{"plain", repository, ".", nil, ".git"},
			{"nested", lib, ".", nil, "lib/.git"},
			{"behind a symlink", repository + "mv .git real; ln -s real .git", ".", nil, "real"},
			{"separate git directory", "git init -q --separate-git-dir meta w; cd w; " + repository, ".", nil, "meta"},
			{"separate git directory, granted", "git init -q --separate-git-dir meta w; cd w; " + repository, "w", []string{"--write", ".", "--write", "../meta"}, "../meta"},
			{"bare", "git init -q --bare up.git", ".", nil, "up.git"},
			{"submodule", lib + "git init -q; git submodule --quiet add ./lib dep", ".", nil, ".git/modules/dep"},
			{"submodule in a directory", lib + "git init -q; git submodule --quiet add ./lib deps/dep", ".", nil, ".git/modules/deps/dep"},
			{"submodule of a submodule", lib + `git init -q mid; (cd mid; git submodule --quiet add "$PWD/../lib" in; git commit -qm x); git init -q; git submodule --quiet add ./mid dep; git submodule --quiet update --init --recursive`, ".", nil, ".git/modules/dep/modules/in"},
			{"the directory itself granted", repository, ".", []string{"--write", ".git"}, ".git"},
			{"of a linked worktree", lib + "git -C lib worktree add -q ../tree", "tree", []string{"--write", ".", "--write", "../lib/.git"}, "../lib/.git"},
		} {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				u := runtest.NewUser(t, u.UID)
				u.Write(filepath.Join(u.Home, ".gitconfig"), gitconfig+"[protocol \"file\"]\n\tallow = always\n")
				if r := u.Do("bash", "-c", "set -eu\n"+preamble+row.before); r.Status != 0 {
					t.Fatalf("cannot prepare: %+v", r)
				}
				r := in(u, u.Path(row.cwd), runtest.Binary(t), append(append([]string{"run", "-q"}, row.flags...), "--", "sh", "-c",
					`test -e "$1/config" || echo absent; { echo x > "$1/hooks/post-checkout"; } 2> /dev/null && echo hook; { echo '#' >> "$1/config"; } 2> /dev/null && echo config; mv "$1/hooks" "$1/h2" 2> /dev/null && echo moved; exit 0`, "sh", row.git)...)
				if r.Out != "" {
					t.Errorf("what could be changed: %q", r.Out)
				}
			})
		}
	})
}
