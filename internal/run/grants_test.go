package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// What was granted as a directory and is a symlink at the next start gains nothing.
func TestGrantTurnedIntoSymlink(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		key := u.Write(filepath.Join(u.Home, ".ssh/id"), secret)
		home := filepath.Join(u.Home, ".bourn")
		for _, kind := range []string{"read", "write"} {
			t.Run("profile "+kind, func(t *testing.T) {
				u.Mkdir("proj/target")
				agent(t, u, home, "linker-"+kind, "{write: ["+u.Path("proj")+"], "+map[string]string{"read": "read: [", "write": "deny: [], read: [/usr/share, "}[kind]+u.Path("proj/target")+"]}")
				swap := []string{"rmdir " + u.Path("proj/target"), "symlink " + filepath.Dir(key) + " " + u.Path("proj/target")}
				try(t, u, []string{"--agent", "linker-" + kind}, swap...).are(t, "ok", swap[1])
				if to, _ := os.Readlink(u.Path("proj/target")); to != filepath.Dir(key) {
					// The grant is a mount of its own and cannot be replaced inside: the host does it.
					os.Remove(u.Path("proj/target"))
					u.Symlink(filepath.Dir(key), "proj/target")
				}
				got := try(t, u, []string{"--agent", "linker-" + kind}, "read "+key, "read "+u.Path("proj/target/id"), "hunt "+hunted)
				got.refused(t, got.all()...)
				got.noSecret(t)
				os.Remove(u.Path("proj/target"))
			})
		}
		t.Run("flag below the working directory", func(t *testing.T) {
			u.Symlink(filepath.Dir(key), "sub")
			for _, flags := range [][]string{{"--write", ".", "--read", "sub"}, {"--write", ".", "--write", "sub"}, {"--write", ".", "--read", "sub/id"}} {
				r := u.Bourn(sealed(t, flags, "try", "read "+key, "read sub/id", "hunt "+hunted)...)
				if r.Status == 0 {
					got := parse(t, r)
					got.refused(t, got.all()...)
				}
				noSecret(t, strings.Join(flags, " "), r.Out, r.Err)
			}
		})
	})
}

// A directory of PATH that lies in a write grant is what the last run made of it.
func TestToolchainTurnedIntoSymlink(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		key := u.Write(filepath.Join(u.Home, ".ssh/id"), secret)
		hidden := u.Write(filepath.Join(u.Dir, "elsewhere/key"), secret)
		for _, target := range []string{filepath.Dir(key), filepath.Dir(hidden), u.Dir, "/"} {
			for _, c := range []struct {
				name, dir string
				swap      []string
			}{
				{"the directory", "bin", []string{"rename bin old", "symlink " + target + " bin"}},
				{"its parent", "tools/bin", []string{"rename tools old", "mkdir tools", "symlink " + target + " tools/bin"}},
				{"it was missing", "", []string{"symlink " + target + " bin"}},
			} {
				t.Run(c.name+" to "+filepath.Base(target), func(t *testing.T) {
					for _, at := range []string{"bin", "tools", "old"} {
						os.RemoveAll(u.Path(at))
					}
					dir := c.dir
					if dir == "" {
						dir = "bin"
					} else {
						u.Write(dir+"/tool", "#!/bin/sh\n")
					}
					in := *u
					in.Env = append([]string{"PATH=" + u.Path(dir) + ":" + os.Getenv("PATH")}, u.Env[:1]...)
					try(t, &in, nil, c.swap...)
					if to, _ := os.Readlink(u.Path(dir)); to != target {
						return // it could not be replaced
					}
					r := in.Bourn(sealed(t, nil, "try", "read "+key, "read "+hidden, "hunt "+hunted+" "+u.Dir, "read /etc/shadow", "list /sys/kernel")...)
					if r.Status == 0 {
						got := parse(t, r)
						got.refused(t, got.all()...)
					}
					noSecret(t, "PATH", r.Out, r.Err)
				})
			}
		}
	})
}

// What can never be granted, as a flag and in a profile.
func TestProtectedPlacesAreNotGranted(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		home := filepath.Join(u.Home, ".bourn")
		dir := filepath.Join(home, "agents/own")
		other := filepath.Join(home, "agents/other")
		agent(t, u, home, "other", "{write: ["+u.Work+"]}")
		agent(t, u, home, "own", "{write: ["+u.Work+", "+dir+"], read: ["+home+", "+dir+"/profile.yaml, "+dir+"/identity.key, "+other+", /proc, /etc/ssh, /run]}")
		u.Symlink(dir, "to-own")
		ops := []string{"read " + dir + "/profile.yaml", "read " + dir + "/identity.key", "openw " + dir + "/profile.yaml", "list " + home, "list " + dir,
			"read " + other + "/identity.key", "hunt " + hunted, "read to-own/identity.key", "create " + dir + "/runs/x.json", "list /etc/ssh"}
		got := try(t, u, []string{"--agent", "own"}, ops...)
		got.refused(t, ops...)
		got.noSecret(t)
		for _, at := range []string{home, dir, dir + "/profile.yaml", dir + "/identity.key", "/proc", "/proc/1", "/sys", "/dev", "/dev/pts", "/run", "/etc/shadow", "/etc/ssh", "/", u.Home, u.Dir, filepath.Dir(u.Dir), "to-own", "to-own/identity.key"} {
			if _, err := os.Stat(u.Path(at)); err != nil {
				continue
			}
			for _, flag := range []string{"--read", "--write"} {
				r := u.Bourn("run", "-q", flag, at, "--", "true")
				if r.Status != 125 || !strings.Contains(r.Err, "cannot grant") {
					t.Errorf("%s %s: status %d, err %q", flag, at, r.Status, r.Err)
				}
			}
		}
	})
}

// $BOURN_HOME in a write grant: closed, before it exists as well.
func TestBournHomeInsideGrant(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, c := range []struct {
			name  string
			exist bool
			flags []string
		}{{"exists", true, nil}, {"missing", false, nil}, {"missing, with a deny", false, []string{"--deny", "x"}}} {
			t.Run(c.name, func(t *testing.T) {
				u := runtest.NewUser(t, u.UID)
				home := u.Path(".bourn")
				u.Env = append(u.Env, "BOURN_HOME="+home)
				if c.exist {
					agent(t, u, home, "some", "{write: ["+u.Work+"]}")
				}
				ops := []string{"list " + home, "read " + home + "/agents/some/profile.yaml", "create " + home + "/agents/x", "rename " + home + " " + u.Path("b2"), "rmdir " + home, "hunt " + hunted}
				got := try(t, u, c.flags, ops...)
				got.refused(t, ops...)
				got.noSecret(t)
				try(t, u, c.flags, ops...).refused(t, ops...)
			})
		}
	})
}

// What runs code on the host later is read-only and cannot be renamed away.
func TestGuardedPlaces(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, at := range []string{".git/hooks/pre-commit", ".git/config", ".git/info/attributes", ".git/modules/sub/hooks/post-checkout", ".git/modules/sub/config",
			".vscode/tasks.json", ".claude/settings.json", ".mcp.json", ".envrc", "nested/.git/config", "nested/.git/hooks/pre-push", ".git/worktrees/w/commondir"} {
			u.Write(at, "mine")
		}
		u.Write(".git/HEAD", "ref: refs/heads/main\n")
		var ops []string
		for _, at := range []string{".git/hooks/pre-commit", ".git/config", ".git/info/attributes", ".git/modules/sub/config", ".git/modules/sub/hooks/post-checkout", ".vscode/tasks.json", ".claude/settings.json",
			".mcp.json", ".envrc", "nested/.git/config", "nested/.git/hooks/pre-push", ".git/worktrees/w/commondir"} {
			u.Write("evil", "evil")
			ops = append(ops, "openw "+at, "append "+at, "trunc "+at, "unlink "+at, "rename evil "+at, "rename "+at+" gone", "chmod "+at)
		}
		ops = append(ops, "create .git/hooks/post-commit", "rename .git/hooks .git/h2", "symlink evil .git/hooks/x")
		pins := []string{"rename .git x", "rename .vscode x", "rename nested/.git x", "rename .claude x", "rename .git/modules/sub x"}
		before := tree(t, u.Work)
		got := try(t, u, nil, append(append(ops, pins...), "create .git/index.lock", "read .git/config", "create ok")...)
		got.refused(t, ops...)
		for _, p := range pins {
			got.are(t, "EBUSY|EXDEV", p)
		}
		got.are(t, "ok*", "create .git/index.lock", "read .git/config", "create ok")
		for at, was := range before {
			if now := tree(t, u.Work)[at]; now != was && !strings.HasSuffix(at, "/work") && !strings.HasSuffix(at, "/.git") {
				t.Errorf("%s was %q and is %q", at, was, now)
			}
		}
	})
}

// A directory on the way to what is guarded is replaced by another one: refused, or at
// least told.
func TestGuardedUnderReplacedParent(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, c := range []struct{ parent, rest, file string }{
			{".git/modules", "sub/hooks", "post-checkout"},
			{".git/info", "", "attributes"},
			{"nested", ".git/hooks", "pre-commit"},
		} {
			t.Run(c.parent, func(t *testing.T) {
				u := runtest.NewUser(t, u.UID)
				u.Write(".git/config", "")
				at := filepath.Join(c.parent, c.rest, c.file)
				u.Write(at, "mine")
				r := u.Bourn("run", "--", "sh", "-c", "mv "+c.parent+" away && mkdir -p "+filepath.Dir(at)+" && echo evil > "+at)
				if u.Read(at) == "mine" || strings.Contains(r.Err, filepath.Base(at)) || strings.Contains(r.Err, "hooks") {
					return
				}
				t.Errorf("%s was replaced and nothing says so: status %d, err %q", at, r.Status, r.Err)
			})
		}
	})
}

// Submodules are named after their path, which has slashes in it.
func TestGuardedNestedSubmodule(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(".git/config", "")
		u.Write(".git/modules/libs/foo/config", "mine")
		u.Write(".git/modules/libs/foo/hooks/post-checkout", "mine")
		u.Write(".git/modules/libs/foo/HEAD", "")
		got := try(t, u, nil, "openw .git/modules/libs/foo/config", "openw .git/modules/libs/foo/hooks/post-checkout")
		got.refused(t, got.all()...)
	})
}

// A grant that begins inside or above what is guarded.
func TestGuardedWhateverTheGrant(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, at := range []string{"app/.git/hooks/pre-commit", "app/.git/config", "app/.envrc", "app/.mcp.json", "app/.vscode/tasks.json", "app/.claude/settings.json"} {
			u.Write(at, "mine")
		}
		t.Run("above", func(t *testing.T) {
			got := try(t, u, nil, "openw app/.git/hooks/pre-commit", "openw app/.git/config", "openw app/.envrc", "openw app/.mcp.json", "openw app/.vscode/tasks.json", "openw app/.claude/settings.json")
			got.refused(t, got.all()...)
		})
		for _, grant := range []string{"app/.git", "app/.git/hooks", "app/.vscode", "app/.envrc"} {
			t.Run(grant, func(t *testing.T) {
				r := u.Bourn(sealed(t, []string{"--write", grant}, "try", "openw app/.git/hooks/pre-commit", "openw app/.git/config", "openw app/.vscode/tasks.json", "openw app/.envrc")...)
				if r.Status == 125 {
					return // refused as a whole
				}
				got := parse(t, r)
				got.refused(t, got.all()...)
			})
		}
	})
}

// Autostart places below a grant that is not one itself.
func TestAutostartInsideGrant(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, at := range []string{".config/autostart/x.desktop", ".config/systemd/user/x.service", ".config/fish/config.fish", ".ssh/authorized_keys", ".config/app/conf"} {
			u.Write(filepath.Join(u.Home, at), "mine")
		}
		in := func(at string) string { return "openw " + filepath.Join(u.Home, at) }
		r := u.Bourn(sealed(t, []string{"--write", ".", "--write", filepath.Join(u.Home, ".config"), "--write", filepath.Join(u.Home, ".ssh")}, "try",
			in(".config/autostart/x.desktop"), in(".config/systemd/user/x.service"), in(".config/fish/config.fish"), in(".ssh/authorized_keys"))...)
		if r.Status == 125 {
			return
		}
		got := parse(t, r)
		got.refused(t, got.all()...)
	})
}

// What is guarded and did not exist is named at the end when the run has made it.
func TestGuardedCreationIsReported(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Mkdir(".git")
		r := u.Bourn("run", "--", "sh", "-c", "mkdir -p .git/hooks .vscode; touch .git/hooks/pre-commit .vscode/tasks.json .mcp.json .envrc")
		for _, at := range []string{".git/hooks", ".vscode/tasks.json", ".mcp.json", ".envrc"} {
			if !strings.Contains(r.Err, u.Path(at)+" was created during the run") {
				t.Errorf("%s is not reported: %q", at, r.Err)
			}
		}
	})
}

// The same with the symlink further up: PATH names a directory below it.
func TestToolchainBelowSymlink(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		key := u.Write(filepath.Join(u.Dir, "elsewhere/bin/key"), secret)
		u.Write("env/bin/tool", "#!/bin/sh\n")
		in := *u
		in.Env = append([]string{"PATH=" + u.Path("env/bin") + ":" + os.Getenv("PATH")}, u.Env[:1]...)
		swap := []string{"rename env old", "symlink " + filepath.Join(u.Dir, "elsewhere") + " env"}
		try(t, &in, nil, swap...).are(t, "ok", swap...)
		got := try(t, &in, nil, "read "+key, "read env/bin/key", "hunt "+hunted)
		got.refused(t, got.all()...)
		got.noSecret(t)
	})
}
