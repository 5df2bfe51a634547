package run_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// A denied file, by every operation that takes a path.
func TestDeniedFileByEveryOperation(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		at := u.Write("conf/.env", secret)
		other := u.Write("conf/other", "other")
		ops := []string{"read " + at, "readrdwr " + at, "openw " + at, "write " + at, "append " + at, "trunc " + at,
			"opath " + at, "mmap " + at, "splice " + at, "unlink " + at, "rename " + at + " " + u.Path("moved"),
			"rename " + other + " " + at, "exchange " + other + " " + at, "link " + at + " " + u.Path("linked"),
			"linkfd " + at + " " + u.Path("linked2"), "chmod " + at, "utime " + at, "setxattr " + at, "handle " + at,
			"chown " + at, "create " + at, "mkdir " + at, "symlink x " + at, "umount " + at, "run " + at,
			"read conf/../conf/.env", "rmdir " + filepath.Dir(at), "tmpfs " + at, "mount " + other + " " + at}
		before := tree(t, u.Work)
		got := try(t, u, []string{"--deny", "conf/.env"}, ops...)
		got.refused(t, ops...)
		got.noSecret(t)
		unchanged(t, "the project", before, tree(t, u.Work))
		// The same outside: what the seal refuses works without it.
		outside(t, u, ops[:5]...).are(t, "ok*", ops[:5]...)
	})
}

// What stands in for a denied file tells nothing of it.
func TestDeniedFileTellsNothing(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		at := u.Write(".env", secret+strings.Repeat("x", 1000))
		got := try(t, u, []string{"--deny", ".env"}, "stat "+at, "getxattr "+at, "hunt "+hunted)
		if strings.Contains(got["stat "+at], "size=1014") {
			t.Errorf("stat tells the size: %s", got["stat "+at])
		}
		got.refused(t, "getxattr "+at)
		got.are(t, "ENODATA", "hunt "+hunted)
		hunt := "hunt " + hunted + " " + u.Work
		if found := outside(t, u, hunt); !strings.Contains(found[hunt], at) {
			t.Errorf("the hunt finds nothing where there is something: %v", found)
		}
	})
}

func TestDeniedDirectoryByEveryOperation(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		dir := u.Mkdir("private")
		at := u.Write("private/sub/key", secret)
		other := u.Mkdir("other")
		ops := []string{"list " + dir, "read " + at, "stat " + at, "chdir " + dir, "list " + dir + "/sub", "openw " + at,
			"create " + dir + "/new", "mkdir " + dir + "/newdir", "unlink " + at, "rmdir " + dir, "rename " + dir + " " + u.Path("p2"),
			"rename " + at + " " + u.Path("key"), "rename " + other + " " + dir, "exchange " + other + " " + dir,
			"link " + at + " " + u.Path("key2"), "chmod " + dir, "utime " + dir, "symlink /etc " + dir + "/s", "opath " + at, "umount " + dir,
			"rename " + u.Path("other") + " " + dir + "/other"}
		before := tree(t, u.Work)
		got := try(t, u, []string{"--deny", "private"}, ops...)
		got.refused(t, ops...)
		got.noSecret(t)
		unchanged(t, "the project", before, tree(t, u.Work))
		outside(t, u, ops[:6]...).are(t, "ok*", ops[:6]...)
	})
}

// The detours of /proc lead into the run's own root and to nothing else.
func TestDeniedThroughProc(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		at := u.Write("deep/.env", secret)
		hidden := u.Write(filepath.Join(u.Dir, "elsewhere/key"), secret)
		var ops []string
		for _, via := range []string{"/proc/self/root", "/proc/thread-self/root", "/proc/1/root", "/proc/self/task/1/root", "/proc/2/root"} {
			ops = append(ops, "read "+via+at, "read "+via+hidden, "list "+via+u.Dir+"/elsewhere")
		}
		for _, via := range []string{"/proc/self/cwd", "/proc/1/cwd"} {
			ops = append(ops, "read "+via+"/deep/.env", "read "+via+"/../elsewhere/key", "read "+via+hidden)
		}
		ops = append(ops, "read "+hidden, "hunt "+hunted)
		for i := range 16 {
			n := strconv.Itoa(i)
			ops = append(ops, "list /proc/1/fd/"+n, "read /proc/1/fd/"+n+at, "readlink /proc/1/fd/"+n)
		}
		for _, name := range []string{"environ", "mem", "exe", "ns/mnt", "ns/user", "stack", "syscall", "auxv", "personality"} {
			ops = append(ops, "read /proc/1/"+name)
		}
		ops = append(ops, "openw /proc/1/mem", "setns /proc/1/ns/mnt", "setns /proc/1/ns/user", "ptrace 1", "vmread 1", "killall 1")
		got := try(t, u, []string{"--deny", "deep/.env"}, ops...)
		got.refused(t, ops...)
		got.noSecret(t)
	})
}

func TestDeniedThroughSymlinks(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("real/key", secret)
		u.Write("realdir/key", secret)
		u.Symlink("real/key", "filelink")
		u.Symlink("realdir", "dirlink")
		u.Symlink(u.Path("real"), "parentlink")
		t.Run("the target is denied", func(t *testing.T) {
			ops := []string{"read filelink", "read dirlink/key", "read parentlink/key", "list dirlink", "read real/key", "write filelink"}
			got := try(t, u, []string{"--deny", "real/key", "--deny", "realdir"}, ops...)
			got.refused(t, ops...)
			got.noSecret(t)
		})
		t.Run("the link is denied", func(t *testing.T) {
			ops := []string{"read filelink", "read dirlink/key", "read realdir/key", "list realdir", "read real/key"}
			got := try(t, u, []string{"--deny", "filelink", "--deny", "dirlink"}, ops...)
			got.refused(t, ops...)
			got.noSecret(t)
		})
		t.Run("the name goes through a link", func(t *testing.T) {
			ops := []string{"read parentlink/key", "read real/key", "read filelink"}
			got := try(t, u, []string{"--deny", "parentlink/key"}, ops...)
			got.refused(t, ops...)
		})
		t.Run("the working directory is a link", func(t *testing.T) {
			link := filepath.Join(u.Dir, "wlink")
			u.Symlink(u.Work, link)
			cmd := u.Command(t.Context(), runtest.Binary(t), sealed(t, []string{"--deny", "real/key", "--deny", link + "/realdir"},
				"try", "read real/key", "read "+link+"/real/key", "read "+u.Work+"/real/key", "list realdir", "create made")...)
			cmd.Dir, cmd.Env = link, append(u.Env, "PWD="+link)
			got := parse(t, u.Wait(cmd))
			got.refused(t, "read real/key", "read "+link+"/real/key", "read "+u.Work+"/real/key", "list realdir")
			got.are(t, "ok", "create made")
		})
		t.Run("a dangling link denies nothing and stops nothing", func(t *testing.T) {
			u.Symlink("nowhere", "dangling")
			try(t, u, []string{"--deny", "dangling", "--deny", "real/key"}, "read real/key").refused(t, "read real/key")
		})
	})
}

// Renaming the parent carries the mask along, and the next start finds the object.
func TestDeniedUnderRenamedParent(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		home := filepath.Join(u.Home, ".bourn")
		agent(t, u, home, "mover", "{write: ["+u.Work+"], deny: ["+u.Work+"/deep/creds, "+u.Work+"/deep/keys]}")
		for _, mode := range []struct {
			name  string
			flags []string
		}{
			{"flags", []string{"--deny", "deep/creds", "--deny", "deep/keys"}},
			{"agent", []string{"--agent", "mover"}},
		} {
			t.Run(mode.name, func(t *testing.T) {
				os.RemoveAll(u.Path("deep2"))
				u.Write("deep/creds", secret)
				u.Write("deep/keys/one", secret)
				ops := []string{"read deep2/creds", "read deep/creds", "read deep2/keys/one", "list deep2/keys", "hunt " + hunted}
				got := try(t, u, mode.flags, "rename deep deep2", "read deep2/creds", "read deep2/keys/one", "list deep2/keys")
				got.are(t, "ok", "rename deep deep2")
				got.refused(t, "read deep2/creds", "read deep2/keys/one", "list deep2/keys")
				got.noSecret(t)
				// Any number of starts later.
				for i := range 4 {
					t.Run("start "+strconv.Itoa(i+2), func(t *testing.T) {
						got := try(t, u, mode.flags, ops...)
						got.refused(t, ops...)
						got.noSecret(t)
					})
				}
				t.Run("with a decoy at the old name", func(t *testing.T) {
					u.Write("deep/creds", "decoy")
					u.Write("deep/keys/one", "decoy")
					for range 2 {
						got := try(t, u, mode.flags, ops...)
						got.refused(t, ops...)
						got.noSecret(t)
					}
					os.RemoveAll(u.Path("deep"))
				})
			})
		}
	})
}

// What a denied name resolved to stays denied when the name leads elsewhere later: the
// symlink itself lies in the grant and can be replaced.
func TestDeniedSymlinkRetargeted(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, c := range []struct{ name, link, target, deny, read, retarget string }{
			{"file", "current.env", "secrets/env", "current.env", "read secrets/env", "unlink current.env"},
			{"file replaced by a file", "current.env", "secrets/env", "current.env", "read secrets/env", "rename decoy current.env"},
			{"directory on the way", "current", "secrets", "current/env", "read secrets/env", "unlink current"},
		} {
			t.Run(c.name, func(t *testing.T) {
				u := runtest.NewUser(t, u.UID)
				u.Write("secrets/env", secret)
				u.Write("decoy", "decoy")
				u.Symlink(c.target, c.link)
				got := try(t, u, []string{"--deny", c.deny}, c.read, c.retarget)
				got.refused(t, c.read)
				for range 2 {
					got = try(t, u, []string{"--deny", c.deny}, c.read, "hunt "+hunted)
					got.refused(t, c.read, "hunt "+hunted)
					got.noSecret(t)
				}
			})
		}
	})
}

func TestDeniedHardLink(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		link := func(from, to string) {
			u.Mkdir(filepath.Dir(to))
			if err := os.Link(u.Path(from), u.Path(to)); err != nil {
				t.Fatal(err)
			}
		}
		u.Write(".env", secret)
		link(".env", "copy")
		link(".env", "a/b/c/copy")
		u.Write("private/sub/key", secret)
		link("private/sub/key", "keycopy")
		u.Write("certs/server.pem", secret)
		link("certs/server.pem", "certs/server.txt")
		outsideFile := u.Write(filepath.Join(u.Dir, "elsewhere/token"), secret)
		link(outsideFile, "token")
		ops := []string{"read .env", "read copy", "read a/b/c/copy", "read keycopy", "read private/sub/key", "read certs/server.pem",
			"read certs/server.txt", "read token", "write copy", "write keycopy", "hunt " + hunted}
		flags := []string{"--deny", ".env", "--deny", "private", "--deny", "**/*.pem", "--deny", outsideFile}
		for range 3 { // the second start knows the objects
			got := try(t, u, flags, ops...)
			got.refused(t, ops...)
			got.noSecret(t)
		}
		// A link may not be made inside either.
		got := try(t, u, []string{"--deny", ".env"}, "link .env mine", "linkfd .env mine2")
		got.refused(t, got.all()...)
	})
}

func TestDeniedPattern(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, at := range []string{".env", "a/.env", "a/b/c/.env", "x.pem", "k/y.pem", "k/.hidden/z.pem"} {
			u.Write(at, secret)
		}
		u.Write("a/plain", "plain")
		got := try(t, u, []string{"--deny", "**/.env", "--deny", "**/*.pem"},
			"read .env", "read a/.env", "read a/b/c/.env", "read x.pem", "read k/y.pem", "read k/.hidden/z.pem", "hunt "+hunted, "read a/plain")
		got.are(t, "ok plain", "read a/plain")
		delete(got, "read a/plain")
		got.refused(t, got.all()...)
	})
}

// A descriptor that bourn's own parent left open does not reach the command, neither
// above nor among the standard streams.
func TestDeniedThroughInheritedDescriptor(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(".env", secret)
		script := `exec 9<.env 8<. 7</ 200<.env; exec "$@"`
		args := append([]string{"-c", script, "sh", runtest.Binary(t)}, sealed(t, []string{"--deny", ".env"}, "try",
			"fds", "read /proc/self/fd/9", "list /proc/self/fd/8", "fdread 9 .", "fdread 8 .env", "fdread 7 etc/shadow", "read /proc/self/fd/200")...)
		got := parse(t, u.Do("bash", args...))
		if got["fds"] != "ok" {
			t.Errorf("descriptors reached the command: %s", got["fds"])
		}
		delete(got, "fds")
		got.refused(t, got.all()...)
	})
}

// A directory as a standard stream is a way out of the root.
func TestDirectoryAsStandardStream(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(".env", secret)
		u.Write("plain", "plain")
		key := u.Write(filepath.Join(u.Dir, "elsewhere/key"), secret)
		for _, dir := range []string{u.Work, "/"} {
			rel := func(p string) string { r, _ := filepath.Rel(dir, p); return r }
			ops := []string{"fdread 0 " + rel(u.Path(".env")), "fdread 0 " + rel(key), "fdwrite 0 " + rel(u.Path(".env")),
				"fdread 0 " + rel("/proc/version"), "fdwrite 0 " + rel(key), "fdunlink 0 " + rel(u.Path(".env"))}
			cmd := u.Command(t.Context(), runtest.Binary(t), sealed(t, []string{"--deny", ".env"}, append([]string{"try"}, ops...)...)...)
			f, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			cmd.Stdin = f
			r := u.Wait(cmd)
			if r.Status == 125 {
				continue // refused before anything ran
			}
			got := parse(t, r)
			got.refused(t, ops...)
			got.noSecret(t)
			if _, err := os.Stat(u.Path(".env")); err != nil {
				t.Errorf("with standard input on %s the denied file was removed", dir)
				u.Write(".env", secret)
			}
		}
	})
}

// A second mount of the same tree, made before the start, in a mount namespace that
// this test made.
func TestDeniedThroughSecondMount(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("deep/.env", secret)
		u.Write("private/key", secret)
		for _, dir := range []string{"alias", "part", "w2", "privalias"} {
			u.Mkdir(dir)
		}
		u.Write("filealias", "")
		second := u.Mkdir(filepath.Join(u.Dir, "second"))
		host, err := os.Readlink("/proc/self/ns/mnt")
		if err != nil {
			t.Fatal(err)
		}
		script := `set -e
test "$(readlink /proc/self/ns/mnt)" != "` + host + `"
mount --bind deep alias
mount --bind . ` + second + `
mount --bind deep/.env filealias
mount --bind private privalias
mount --bind ` + second + `/deep part
exec "$@"`
		ops := []string{"read deep/.env", "read alias/.env", "read " + second + "/deep/.env", "read filealias", "read privalias/key",
			"list privalias", "read part/.env", "read " + second + "/private/key", "hunt " + hunted, "umount alias"}
		args := []string{"-m", "sh", "-c", script, "sh", runtest.Binary(t)}
		if u.UID != 0 {
			args[0] = "-Urm"
		}
		args = append(args, sealed(t, []string{"--write", ".", "--read", second, "--deny", "deep/.env", "--deny", "private"},
			append([]string{"try"}, ops...)...)...)
		got := parse(t, u.Do("unshare", args...))
		got.refused(t, ops...)
		got.noSecret(t)
	})
}

// Namespaces made inside do not lift a mask, and cannot be made.
func TestDeniedInNestedNamespaces(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		at := u.Write(".env", secret)
		ops := []string{"nested -Ur " + at, "nested -Urm " + at, "nested -Urmpf " + at, "unshare user", "unshare user mnt", "unshare mnt", "clone user",
			"clone user mnt", "clone user pid net", "clone pid", "clone3", "unshare net", "unshare pid", "unshare ipc", "unshare uts", "unshare cgroup", "unshare time",
			"setns /proc/self/ns/user", "setns /proc/self/ns/mnt"}
		got := try(t, u, []string{"--deny", ".env"}, ops...)
		got.refused(t, ops...)
		got.noSecret(t)
		if _, err := exec.LookPath("unshare"); err == nil {
			outside(t, u, "nested -Ur "+at).are(t, "ok "+secret, "nested -Ur "+at)
		}
	})
}

// The host replaces a denied file by rename, as editors save: it is closed again.
func TestDeniedFileReplacedOnHost(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		save := func(at string) {
			u.Write(at+".tmp", secret)
			if err := os.Rename(u.Path(at+".tmp"), u.Path(at)); err != nil {
				t.Fatal(err)
			}
		}
		u.Write("conf/.env", secret)
		l := serve(t, u, "--deny", "conf/.env")
		if got := l.ask("read conf/.env"); got != "EACCES" {
			t.Fatalf("at the start: %q", got)
		}
		for range 5 {
			save("conf/.env")
			l.becomes("read conf/.env", "EACCES")
		}
		said := l.finish()
		if !strings.Contains(said, "conf/.env was replaced on the host during the run and closed again") {
			t.Errorf("the replacement was not reported: %q", said)
		}
	})
}

// The same under a directory that the run has renamed meanwhile.
func TestDeniedFileReplacedUnderRenamedParent(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("conf/.env", secret)
		l := serve(t, u, "--deny", "conf/.env")
		if got := l.ask("rename conf conf2"); got != "ok" {
			t.Skipf("the parent cannot be renamed: %s", got)
		}
		u.Write("conf2/.env.tmp", secret)
		if err := os.Rename(u.Path("conf2/.env.tmp"), u.Path("conf2/.env")); err != nil {
			t.Fatal(err)
		}
		l.becomes("read conf2/.env", "EACCES")
		l.finish()
	})
}

// The host removes the denied directory and makes another one of that name.
func TestDeniedDirectoryReplacedOnHost(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("private/key", secret)
		l := serve(t, u, "--deny", "private")
		for i := range 3 {
			if err := os.Rename(u.Path("private"), filepath.Join(u.Dir, "old"+strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
			u.Write("private/key", secret)
			l.becomes("read private/key", "EACCES")
		}
		l.finish()
	})
}

// What a pattern matches is closed in the first moments of a run as it is later, and so is
// what matches in a directory that is made then.
func TestPatternClosesAtOnce(t *testing.T) {
	const wait = `i=0; while cat "$1" > /dev/null 2>&1; do i=$((i+1)); [ $i -lt 70 ] || exit 9; sleep 0.01; done`
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("have/before", "")
		for _, c := range []struct{ deny, at string }{{"*.pem", "x.pem"}, {"**/*.pem", "have/x.pem"}, {"**/*.pem", "new/dir/x.pem"}} {
			r := u.Bourn("run", "--deny", c.deny, "--", "sh", "-c", `mkdir -p new/dir; echo > "$1"; `+wait, "sh", c.at)
			if r.Status != 0 || !strings.Contains(r.Err, c.at+" appeared during the run and was closed then") {
				t.Errorf("%s of %s: status %d, %q", c.at, c.deny, r.Status, r.Err)
			}
			u.Do("rm", "-rf", "new", c.at)
		}
	})
}

// A denied path that does not exist: it is closed as soon as the host makes it, and
// that is reported.
func TestDeniedMissingFileAppears(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Mkdir("have")
		for _, c := range []struct{ name, deny, at string }{
			{"file", "later.env", "later.env"},
			{"file in a directory", "have/later.env", "have/later.env"},
			{"file in directories that are missing", "n1/n2/n3/later.env", "n1/n2/n3/later.env"},
			{"pattern", "**/*.pem", "pat/sub/x.pem"},
			{"pattern at the top", "*.key", "y.key"},
		} {
			t.Run(c.name, func(t *testing.T) {
				l := serve(t, u, "--deny", c.deny)
				u.Write(c.at, secret)
				l.becomes("read "+c.at, "EACCES")
				if said := l.finish(); !strings.Contains(said, c.at+" appeared during the run and was closed then") {
					t.Errorf("it was not reported: %q", said)
				}
			})
		}
		t.Run("made inside", func(t *testing.T) {
			l := serve(t, u, "--deny", "self.env")
			l.ask("create self.env")
			l.becomes("read self.env", "EACCES")
			if said := l.finish(); !strings.Contains(said, "self.env appeared") {
				t.Errorf("it was not reported: %q", said)
			}
		})
	})
}

// A directory on the way to a missing denied file goes and comes again.
func TestDeniedMissingFileInRemadeDirectory(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, c := range []struct{ name, existing string }{{"it existed", "conf"}, {"it was missing", ""}} {
			t.Run(c.name, func(t *testing.T) {
				u := runtest.NewUser(t, u.UID)
				if c.existing != "" {
					u.Mkdir(c.existing)
				}
				l := serve(t, u, "--deny", "conf/.env")
				for i := range 3 {
					u.Mkdir("conf")
					u.Write("conf/.env", secret)
					l.becomes("read conf/.env", "EACCES")
					if i == 2 {
						break
					}
					if err := os.RemoveAll(u.Path("conf")); err != nil {
						t.Fatal(err)
					}
				}
				l.finish()
			})
		}
	})
}
