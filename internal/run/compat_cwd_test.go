package run_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// atWork is ordinary work in the current directory.
const atWork = `set -eu; echo x > made; mkdir d; mv made d/; cat "$PWD/d/made"; test "$(pwd)" = "$PWD"; test "$(pwd -P)" -ef .; ls -A; cat sub/../d/made; echo '#!/bin/sh' > run; echo 'echo ran' >> run; chmod +x run; ./run; "$PWD/run"; git init -q .; git add d; git commit -qm x; git log --format=%an; rm -r .git d run; pwd`

const atWorkSays = "x\nsub\nd\nx\nran\nran\nTest Person\n"

// Work in directories of every name and place.
func TestCompatDirectories(t *testing.T) {
	long := strings.Repeat("long", 60)
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		has(t, u, "git")
		places := map[string]string{
			"spaces":                  "with space/ and more ",
			"newline":                 "new\nline",
			"tab and escape":          "tab\tescape\x1b[31m",
			"unicode":                 "größe/日本語/e\u0301",
			"not UTF-8":               "latin\xe9",
			"glob":                    "a*b/[c]?{d,e}/**",
			"quotes":                  "it's/\"quoted\"/$HOME/`x`",
			"backslash":               `back\slash\`,
			"dashes":                  "--deny/-x",
			"hash and colon":          "#a:b,c;d=e&f|g",
			"dots":                    "..a/.../.hidden",
			"deep":                    strings.Repeat("d/", 60) + "end",
			"long":                    strings.Join([]string{long, long, long, long, long, long}, "/"),
			"like a system directory": "usr/bin",
			"git":                     "x.git/work",
		}
		for name, rel := range places {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				u := runtest.NewUser(t, u.UID)
				u.Write(filepath.Join(u.Home, ".gitconfig"), gitconfig)
				dir := u.Mkdir(rel)
				u.Mkdir(rel + "/sub")
				r := in(u, dir, runtest.Binary(t), "run", "-q", "--", "bash", "-c", preamble+strings.Replace(atWork, "ls -A", "ls -A | sort -r", 1))
				if want := atWorkSays + dir + "\n"; r.Status != 0 || r.Out != want {
					t.Errorf("status %d, out %q, err %q; want %q", r.Status, r.Out, r.Err, want)
				}
				if r := in(u, dir, runtest.Binary(t), "run", "--deny", "sub", "--", "sh", "-c", "ls sub || echo denied"); !strings.HasSuffix(r.Out, "denied\n") || strings.ContainsAny(r.Err, "\x1b\t") {
					t.Errorf("with a deny: %+v", r)
				}
			})
		}
	})
}

// A directory that is reached through a symlink keeps the name that the person gave it.
func TestCompatSymlinkedDirectory(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		real := u.Mkdir("real/project/sub")
		link := u.Symlink("real/project", "link")
		abs := u.Symlink(u.Path("link"), "abs")
		elsewhere := u.Symlink(u.Work, filepath.Join(u.Dir, "work-link"))
		for _, dir := range []string{link, abs, link + "/sub", elsewhere + "/link", elsewhere + "/real/project", elsewhere + "/abs/sub"} {
			t.Run(strings.ReplaceAll(strings.TrimPrefix(dir, u.Dir+"/"), "/", " "), func(t *testing.T) {
				script := `pwd; echo "$PWD"; echo x > f && cat "$PWD/f" "$(pwd -P)/f" && rm f; cd . && cd "$PWD" && pwd; cd ..; pwd`
				want := in(u, dir, "bash", "-c", script)
				got := in(u, dir, runtest.Binary(t), "run", "-q", "--", "bash", "-c", script)
				if got != want {
					t.Errorf("outside %+v\ninside %+v", want, got)
				}
			})
		}
		// A $PWD that lies is not believed.
		cmd := u.Command(context.Background(), runtest.Binary(t), "run", "-q", "--", "sh", "-c", "pwd; echo $PWD; echo x > f")
		cmd.Dir, cmd.Env = real, append(cmd.Env, "PWD="+u.Home)
		if r := u.Wait(cmd); r.Status != 0 || r.Out != real+"\n"+real+"\n" {
			t.Errorf("with a $PWD that lies: %+v", r)
		}
		// What lies behind symlinks inside the project works as far as it is granted.
		u.Symlink("project/sub", "real/inner")
		u.Write("real/project/sub/f", "inner\n")
		out := u.Write("out/f", "outer\n")
		u.Symlink(out, "real/outer")
		r := in(u, u.Path("real"), runtest.Binary(t), "run", "-q", "--", "sh", "-c", "cat inner/f; cat outer || echo absent; ls | wc -l")
		if r.Out != "inner\nabsent\n3\n" {
			t.Errorf("symlinks inside the project: %+v", r)
		}
	})
}

// Where bourn cannot work it says what to do.
func TestCompatRefusedDirectories(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		const hint = "hint: cd into a project, or name --write"
		for _, dir := range []string{u.Home, "/", "/usr", "/etc", "/tmp", "/var/tmp", "/dev", "/proc", "/var"} {
			r := in(u, dir, runtest.Binary(t), "run", "--", "true")
			if r.Status != 125 || !strings.Contains(r.Err, hint) || !strings.HasPrefix(r.Err, "bourn: ") {
				t.Errorf("in %s: status %d, err %q; want 125 and %q", dir, r.Status, r.Err, hint)
			}
			// With a grant named it is a place like any other.
			r = in(u, dir, runtest.Binary(t), "run", "-q", "--write", u.Work, "--", "sh", "-c", "echo x > "+u.Work+"/f && echo worked")
			if r.Status != 0 || r.Out != "worked\n" {
				t.Errorf("in %s with --write: %+v", dir, r)
			}
		}
		r := u.Do("bash", "-c", `mkdir gone; cd gone; rmdir ../gone; exec "$1" run -- true`, "bash", runtest.Binary(t))
		if r.Status != 125 || !strings.Contains(r.Err, "working directory") || !strings.Contains(r.Err, "hint: cd into a directory that exists") {
			t.Errorf("in a directory that is gone: %+v", r)
		}
		r = u.Do("bash", "-c", `mkdir gone; cd gone; rmdir ../gone; mkdir ../gone; exec "$1" run -q -- pwd`, "bash", runtest.Binary(t))
		if r.Status == 0 && r.Out != u.Path("gone")+"\n" || r.Status != 0 && !strings.Contains(r.Err, "hint:") {
			t.Errorf("in a directory that was made again: %+v", r)
		}
		r = u.Do("bash", "-c", `mkdir shut; cd shut; chmod 0 .; "$1" run -- true; s=$?; chmod 700 .; exit $s`, "bash", runtest.Binary(t))
		if r.Status != 0 && r.Status != 125 && r.Status != 126 || r.Err == "" || strings.Contains(r.Err, "goroutine") {
			t.Errorf("in a directory without permissions: %+v", r)
		}
	})
}

// A directory that the user may only read can be worked in as far as outside.
func TestCompatReadOnlyDirectory(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		dir := u.Mkdir("shared")
		u.Write("shared/f", "text\n")
		if u.UID != 0 && os.Getuid() == 0 {
			must(t, os.Chown(dir, 0, 0))
		}
		must(t, os.Chmod(dir, 0o555))
		// Root's way around permissions is a capability, and a run has none.
		r := in(u, dir, runtest.Binary(t), "run", "-q", "--", "sh", "-c", "cat f; ls; echo x > new || echo refused")
		if r.Out != "text\nf\nrefused\n" {
			t.Errorf("%+v", r)
		}
	})
}

// Directories that cannot be made on the host: the test has a root of its own for them.
func TestCompatOtherFileSystems(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		runtest.Need(t, "root", os.Getuid() == 0)
		has(t, u, "unshare setpriv pivot_root git")
		u.Write(filepath.Join(u.Home, ".gitconfig"), gitconfig)
		// /tmp, which may hold the binary, is covered in one of the places.
		program, err := os.ReadFile(runtest.Binary(t))
		must(t, err)
		bourn := filepath.Join(u.Dir, "bourn")
		must(t, os.WriteFile(bourn, program, 0o755))
		script := preamble + strings.Replace(atWork, "ls -A", "ls -A | sort -r", 1)
		for _, dir := range []string{"/workspace", "/app/src", "/data/tmpfs", "/tmp/project", "/mnt/disk/project", "/home/someone/project", "/home/tester"} {
			t.Run(strings.ReplaceAll(dir[1:], "/", " "), func(t *testing.T) {
				t.Parallel()
				r := elsewhere(t, u, dir, bourn, "run", "-q", "--", "bash", "-c", script)
				if want := atWorkSays + dir + "\n"; r.Status != 0 || r.Out != want {
					t.Errorf("status %d, out %q, err %q; want %q", r.Status, r.Out, r.Err, want)
				}
			})
		}
	})
}

// elsewhere runs a command in a directory which exists, with everything above it, only
// in a mount namespace made for it. Its file system is one of its own, in memory.
func elsewhere(t *testing.T, u *runtest.User, dir, name string, args ...string) runtest.Result {
	t.Helper()
	ours, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	root := filepath.Join(runtest.NewUser(t, 0).Dir, "root")
	must(t, os.Mkdir(root, 0o755))
	id := strconv.Itoa(u.UID)
	// $1: this process's mount namespace, $2 the root to build, $3 the directory, $4 the uid.
	const script = `set -eu
test "$(readlink /proc/self/ns/mnt)" != "$1"
new=$2 dir=$3 uid=$4; shift 4
mount -t tmpfs -o mode=755 none "$new"
for at in /* ; do
	test "$at" != "/${dir#/}" || continue
	if test -L "$at"; then cp -P "$at" "$new$at"
	elif test -d "$at"; then mkdir "$new$at"; mount --rbind "$at" "$new$at"
	fi
done
case $dir in /tmp/* | /mnt/* | /home/*) top=/${dir#/}; top=/$(echo "$top" | cut -d/ -f2); mkdir -p "$new$top"; umount -R "$new$top" 2> /dev/null || true; mount -t tmpfs -o mode=755 none "$new$top" ;; esac
mkdir -p "$new$dir"
mount -t tmpfs -o mode=755 none "$new$dir"
mkdir "$new$dir/sub" "$new/.old"
chown -R "$uid:$uid" "$new$dir"
cd "$new"
pivot_root . .old
umount -l /.old
rmdir /.old
cd "$dir"
export PWD="$dir"
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"`
	cmd := runtest.NewUser(t, 0).Command(context.Background(), "unshare",
		append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh", ours, root, dir, id, name}, args...)...)
	cmd.Env = u.Env
	return u.Wait(cmd)
}

// The home directory in every state.
func TestCompatHome(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(filepath.Join(u.Home, ".secret"), secret)
		u.Symlink(u.Home, filepath.Join(u.Dir, "home-link"))
		file := u.Write("file", "")
		// Nothing outside the test's own directories may come to be by this: root can write everywhere.
		for name, home := range map[string]string{
			"as it is": "HOME=" + u.Home, "unset": "", "empty": "HOME=", "missing": "HOME=" + u.Dir + "/none/deep", "missing in the project": "HOME=" + u.Work + "/none",
			"a symlink": "HOME=" + u.Dir + "/home-link", "with a slash": "HOME=" + u.Home + "/", "unclean": "HOME=" + u.Work + "/../home",
			"relative": "HOME=home", "a file": "HOME=" + file, "the project": "HOME=" + u.Work, "/nonexistent": "HOME=/nonexistent", "the root": "HOME=/",
		} {
			if u.UID == 0 && (name == "/nonexistent" || name == "the root") {
				continue
			}
			t.Run(name, func(t *testing.T) {
				cmd := u.Command(context.Background(), runtest.Binary(t), "run", "-q", "--", "sh", "-c", `echo done > out; cat ~/.secret "$1" 2> /dev/null; cat out; if test "${HOME:-/}" != / && cd; then echo x > hf && cat hf && echo home; fi`, "sh", filepath.Join(u.Home, ".secret"))
				cmd.Env = []string{"PATH=/usr/bin:/bin", home}
				if home == "" {
					cmd.Env = cmd.Env[:1]
				}
				r := u.Wait(cmd)
				noSecret(t, "the home", r.Out, r.Err)
				switch {
				case r.Status == 125 && strings.Contains(r.Err, "hint:"):
					t.Logf("refused: %s", r.Err)
					if name == "as it is" || name == "a symlink" || name == "with a slash" {
						t.Error("there is no need to refuse this")
					}
				case r.Status == 125:
					t.Errorf("refused without a hint: %q", r.Err)
				case r.Status != 0 || !strings.HasPrefix(r.Out, "done\n"):
					t.Errorf("status %d, out %q, err %q", r.Status, r.Out, r.Err)
				case (name == "as it is" || name == "a symlink" || name == "with a slash") && r.Out != "done\nx\nhome\n":
					t.Errorf("the home is not writable: out %q, err %q", r.Out, r.Err)
				}
				if _, err := os.Lstat(filepath.Join(u.Home, "hf")); err == nil {
					t.Error("the run wrote to the home outside")
				}
			})
		}
	})
}
