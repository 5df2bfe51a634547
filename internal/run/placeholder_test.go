package run_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bourn/internal/run/runtest"
)

// holder makes an agent whose profile denies paths of the project with placeholders.
func holder(t *testing.T, u *runtest.User, name string, paths ...string) {
	t.Helper()
	var denies []string
	for _, p := range paths {
		denies = append(denies, "{path: "+u.Path(p)+", placeholder: true}")
	}
	agent(t, u, bournHome(u), name, "{write: ["+u.Work+"], deny: ["+strings.Join(denies, ", ")+"]}")
}

func bournHome(u *runtest.User) string { return filepath.Join(u.Home, ".bourn") }

func ledgerOf(u *runtest.User) string { return filepath.Join(bournHome(u), "placeholders") }

// standing reports whether an empty file without permissions stands at a path of the host.
func standing(u *runtest.User, path string) bool {
	info, err := os.Lstat(u.Path(path))
	return err == nil && info.Mode() == 0 && info.Size() == 0
}

// noLedger reports a ledger that is left.
func noLedger(t *testing.T, u *runtest.User) {
	t.Helper()
	if data, err := os.ReadFile(ledgerOf(u)); err == nil {
		t.Errorf("the ledger is left: %s", data)
	}
}

// killed starts a run of an agent, waits until it runs, and kills all of its processes.
func killed(t *testing.T, u *runtest.User, name string) {
	t.Helper()
	killAll(t, serve(t, u, "--agent", name))
}

func killAll(t *testing.T, l *live) {
	t.Helper()
	all := descendants(l.cmd.Process.Pid)
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	l.end()
	for _, pid := range all {
		eventually(t, "the processes are gone", func() bool { return !alive(pid) })
	}
}

func TestPlaceholderPrevents(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("conf/other", "other")
		holder(t, u, "mur", ".env", "conf/.npmrc", "new/deep/key")
		before := tree(t, u.Work)
		l := serve(t, u, "--agent", "mur")
		for _, at := range []string{".env", "conf/.npmrc", "new/deep/key"} {
			if !standing(u, at) {
				t.Errorf("no placeholder stands at %s", at)
			}
			at = u.Path(at)
			for _, op := range []string{"create " + at, "openw " + at, "read " + at, "mkdir " + at, "unlink " + at, "chmod " + at,
				"symlink x " + at, "rename " + u.Path("conf/other") + " " + at, "link " + u.Path("conf/other") + " " + at} {
				if said := l.ask(op); strings.HasPrefix(said, "ok") {
					t.Errorf("%s: %s", op, said)
				}
			}
		}
		// No directory on the way can be moved and made anew.
		for _, dir := range []string{"conf", "new", "new/deep"} {
			if said := l.ask("rename " + u.Path(dir) + " " + u.Path(dir) + "-moved"); said != "EBUSY" {
				t.Errorf("rename %s: %s", dir, said)
			}
		}
		if said := l.ask("create " + u.Path("conf/made")); said != "ok" {
			t.Errorf("beside a placeholder: %s", said)
		}
		if r := u.Bourn("agent", "perm", "list-paths", "mur"); !strings.Contains(r.Out, "✓ "+u.Path(".env")+"\n      an empty file stands there on the host while it runs") {
			t.Errorf("list-paths: %s", r.Out)
		}
		l.finish()
		_ = os.Remove(u.Path("conf/made"))
		unchanged(t, "the project", before, tree(t, u.Work))
		noLedger(t, u)
		// Nothing of it is remembered as a denied object: the next start would look for it.
		if data, err := os.ReadFile(filepath.Join(bournHome(u), "agents/mur/denied")); err == nil && strings.Contains(string(data), ".env") {
			t.Errorf("remembered: %s", data)
		}
	})
}

// A directory that is made for a placeholder stays once it holds something else.
func TestPlaceholderDirectoryInUse(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		holder(t, u, "mur", "new/key")
		l := serve(t, u, "--agent", "mur")
		if said := l.ask("create " + u.Path("new/mine")); said != "ok" {
			t.Fatalf("create: %s", said)
		}
		if said := l.finish(); !strings.Contains(said, "bourn: "+u.Path("new")+", a directory that bourn made, holds other things now and stays\n") {
			t.Errorf("said %q", said)
		}
		if _, err := os.Lstat(u.Path("new/mine")); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(u.Path("new/key")); !os.IsNotExist(err) {
			t.Errorf("the placeholder is left: %v", err)
		}
		noLedger(t, u)
	})
}

func TestPlaceholderAfterKill(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, next := range [][]string{{"plan", "--agent", "mur"}, {"run", "-q", "--agent", "mur", "--", "true"}, {"doctor"}} {
			t.Run(next[0], func(t *testing.T) {
				u := runtest.NewUser(t, u.UID)
				u.Mkdir("conf")
				before := tree(t, u.Work)
				holder(t, u, "mur", ".env", "conf/a/b/key")
				killed(t, u, "mur")
				if !standing(u, ".env") || !standing(u, "conf/a/b/key") {
					t.Error("the placeholders went with the run that was killed: nothing is shown")
				}
				r := u.Bourn(next...)
				if next[0] == "doctor" && !strings.Contains(r.Out, "4 placeholders of killed runs removed") {
					t.Errorf("doctor: %s", r.Out)
				} else if r.Status != 0 {
					t.Errorf("%v: %d %s", next, r.Status, r.Err)
				}
				unchanged(t, "the project", before, tree(t, u.Work))
				noLedger(t, u)
			})
		}
	})
}

// What a person has put in the place of a placeholder, or made of it, is theirs.
func TestPlaceholderThatIsNot(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(u *runtest.User, at string) error
	}{
		{"replaced", func(u *runtest.User, at string) error {
			u.Write("draft", "mine")
			return os.Rename(u.Path("draft"), at)
		}},
		{"replaced by its like", func(_ *runtest.User, at string) error {
			if err := os.Rename(at, at+".old"); err != nil {
				return err
			}
			return os.WriteFile(at, nil, 0)
		}},
		{"written", func(_ *runtest.User, at string) error {
			if err := os.Chmod(at, 0o600); err != nil {
				return err
			}
			return os.WriteFile(at, []byte("mine"), 0o600)
		}},
		{"given permissions", func(_ *runtest.User, at string) error { return os.Chmod(at, 0o600) }},
		{"touched", func(_ *runtest.User, at string) error { return os.Chmod(at, 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			runtest.Users(t, func(t *testing.T, u *runtest.User) {
				holder(t, u, "mur", ".env")
				said := u.Path(".env") + " is not the placeholder any more that bourn made, and stays\n"
				check := func(what, got string, before map[string]string) {
					t.Helper()
					if !strings.Contains(got, "bourn: "+said) {
						t.Errorf("%s: said %q", what, got)
					}
					unchanged(t, what+": the project", before, tree(t, u.Work))
					noLedger(t, u)
					_ = os.Remove(u.Path(".env"))
				}
				l := serve(t, u, "--agent", "mur")
				if err := c.do(u, u.Path(".env")); err != nil {
					t.Fatal(err)
				}
				before := tree(t, u.Work)
				l.becomes("read "+u.Path(".env"), "EACCES")
				check("at the end of the run", l.finish(), before)

				killed(t, u, "mur")
				if err := c.do(u, u.Path(".env")); err != nil {
					t.Fatal(err)
				}
				before = tree(t, u.Work)
				check("at the next start", u.Bourn("plan").Err, before)
			})
		})
	}
}

// Two runs share a placeholder, and whichever leaves last removes it: also one that denies
// the path without asking for a placeholder, and one that has another in the same directory.
func TestPlaceholderIsShared(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		before := tree(t, u.Work)
		holder(t, u, "one", "new/.env")
		holder(t, u, "two", "new/.env", "new/key")
		agent(t, u, bournHome(u), "three", "{write: ["+u.Work+"], deny: ["+u.Path("new/.env")+"]}")
		all := map[string]*live{}
		for _, name := range []string{"one", "two", "three"} {
			all[name] = serve(t, u, "--agent", name)
		}
		all["one"].finish()
		for _, name := range []string{"two", "three"} {
			if !standing(u, "new/.env") {
				t.Fatalf("the placeholder went before %s ended", name)
			}
			if said := all[name].ask("openw " + u.Path("new/.env")); strings.HasPrefix(said, "ok") {
				t.Errorf("%s can write: %s", name, said)
			}
			all[name].finish()
			if data, err := os.ReadFile(filepath.Join(bournHome(u), "agents", name, "denied")); err == nil && strings.Contains(string(data), ".env") {
				t.Errorf("%s remembers it as a denied object, which its next start would look for: %s", name, data)
			}
		}
		unchanged(t, "the project", before, tree(t, u.Work))
		noLedger(t, u)
	})
}

// One that was killed does not keep a placeholder from going with the last that lives, nor
// does it take it away from that.
func TestPlaceholderSharedWithKilled(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		holder(t, u, "one", ".env")
		holder(t, u, "two", ".env")
		l := serve(t, u, "--agent", "two")
		killed(t, u, "one")
		if r := u.Bourn("plan"); r.Status != 0 || !standing(u, ".env") {
			t.Errorf("it went while a run needs it: %d %q", r.Status, r.Err)
		}
		l.finish()
		if _, err := os.Lstat(u.Path(".env")); !os.IsNotExist(err) {
			t.Errorf("it stays: %v", err)
		}
		noLedger(t, u)
	})
}

// It stays as long as the sealed run lives, also when the process that saw to that is gone.
func TestPlaceholderOfOrphan(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	holder(t, u, "mur", ".env")
	killed(t, u, "mur")
	records, err := filepath.Glob(filepath.Join(bournHome(u), "agents/mur/runs/*.json"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records: %v, %v", records, err)
	}
	var r map[string]any
	if err := json.Unmarshal([]byte(u.Read(records[0])), &r); err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	pid := r["pid"]
	write := func() {
		t.Helper()
		// In the order of a record: what says whether it lives stands before what it could write.
		u.Write(records[0], fmt.Sprintf(`{"version":1,"pid":%v,"start_time":%v,"boot_id":%q,"writes":[],"items":[]}`,
			pid, strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[19], r["boot_id"]))
	}
	pid = os.Getpid() // a process that lives
	write()
	if r := u.Bourn("plan"); r.Status != 0 || !standing(u, ".env") {
		t.Errorf("it went while the run lives: %d %q", r.Status, r.Err)
	}
	pid = -1
	write()
	if r := u.Bourn("plan"); r.Status != 0 || standing(u, ".env") {
		t.Errorf("it stays: %d %q", r.Status, r.Err)
	}
}

// A directory that was moved takes its placeholder along: bourn says so, and touches nothing
// in the one that stands there now.
func TestPlaceholderInMovedDirectory(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Mkdir("conf")
		holder(t, u, "mur", "conf/key")
		killed(t, u, "mur")
		if err := os.Rename(u.Path("conf"), u.Path("moved")); err != nil {
			t.Fatal(err)
		}
		u.Write("conf/key", "")
		if err := os.Chmod(u.Path("conf/key"), 0); err != nil {
			t.Fatal(err)
		}
		before := tree(t, u.Work)
		if r := u.Bourn("plan"); !strings.Contains(r.Err, "bourn: "+u.Path("conf/key")+": its directory is not where it was, and an empty file that bourn made may be left in it\n") {
			t.Errorf("said %q", r.Err)
		}
		unchanged(t, "the project", before, tree(t, u.Work))
		noLedger(t, u)
	})
}

// Another run sees the random name and can take it: what it puts there stays, and keeps no
// placeholder from being removed.
func TestPlaceholderWithStranger(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		holder(t, u, "mur", ".env")
		l := serve(t, u, "--agent", "mur")
		var ledger struct {
			Placeholders []struct{ Temp string }
		}
		if err := json.Unmarshal([]byte(u.Read(ledgerOf(u))), &ledger); err != nil || len(ledger.Placeholders) != 1 {
			t.Fatalf("the ledger: %+v, %v", ledger, err)
		}
		taken := u.Write(ledger.Placeholders[0].Temp, "taken")
		l.finish()
		if standing(u, ".env") {
			t.Error("the placeholder is left")
		}
		if got := u.Read(taken); got != "taken" {
			t.Errorf("what took its name: %q", got)
		}
		noLedger(t, u)
	})
}

// A placeholder that cannot be made keeps the run from starting, and nothing is left.
func TestPlaceholderThatCannotBeMade(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("file", "a file")
		holder(t, u, "mur", "first", "file/below")
		before := tree(t, u.Work)
		refused := func(why string) {
			t.Helper()
			r := u.Bourn("run", "--agent", "mur", "--", "touch", "ran")
			if r.Status != 125 || !strings.Contains(r.Err, "cannot make the placeholder "+u.Work) || !strings.Contains(r.Err, why) ||
				!strings.Contains(r.Err, "hint: make "+u.Work) {
				t.Errorf("status %d, said %q", r.Status, r.Err)
			}
			unchanged(t, "the project", before, tree(t, u.Work))
			noLedger(t, u)
		}
		refused("not a directory")
		if u.UID == 0 {
			return // it may write everywhere
		}
		u.Mkdir("closed")
		if err := os.Chmod(u.Path("closed"), 0o555); err != nil {
			t.Fatal(err)
		}
		holder(t, u, "mur", "first", "closed/key")
		before = tree(t, u.Work)
		refused("permission denied")
	})
}

// A path that exists is denied as it is, and one that only can be read needs nothing.
func TestPlaceholderNotNeeded(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		at := u.Write(".env", secret)
		lib := u.Mkdir(filepath.Join(u.Dir, "lib"))
		agent(t, u, bournHome(u), "mur", "{write: ["+u.Work+"], read: ["+lib+"], deny: [{path: "+at+", placeholder: true}, {path: "+lib+"/key, placeholder: true}]}")
		before := tree(t, u.Work, lib)
		l := serve(t, u, "--agent", "mur")
		if said := l.ask("read " + at); said != "EACCES" {
			t.Errorf("read: %s", said)
		}
		unchanged(t, "while it runs", before, tree(t, u.Work, lib))
		noLedger(t, u)
		l.finish()
		unchanged(t, "after it", before, tree(t, u.Work, lib))
	})
}

// An artefact of the ledger, as a test writes it down.
type line map[string]any

// crashTemp is the random name in what a crash leaves.
const crashTemp = ".bourn-ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// A crash is what one leaves of a placeholder .env, and what is left after the next command.
type crash struct {
	name                string
	identity, otherBoot bool   // the ledger has it; it is of an earlier boot
	standsAt            string // where the object was made
	users               string // a file of the person's at the placeholder's own name
	left                string
}

// leave leaves it in u's project and ledger.
func (c crash) leave(t *testing.T, u *runtest.User) {
	t.Helper()
	u.Mkdir(bournHome(u))
	if c.users != "" {
		u.Write(".env", strings.TrimPrefix(c.users, "empty"))
		if c.users == "empty" {
			_ = os.Chmod(u.Path(".env"), 0)
		}
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	a := line{"path": u.Path(".env"), "temp": crashTemp, "parent": identity(t, u.Work), "object": line{"dev": 0, "ino": 0},
		"boot_id": strings.TrimSpace(string(boot)), "users": []line{{"agent": "", "run": "gone", "pid": 1, "start_time": 1, "boot_id": "x"}}}
	if c.users == "moved" {
		_ = os.Rename(u.Path(".env"), u.Path(crashTemp))
	} else if c.standsAt != "" {
		u.Write(c.standsAt, "")
		_ = os.Chmod(u.Path(c.standsAt), 0)
		if c.identity {
			a["object"] = identity(t, u.Path(c.standsAt))
		}
	}
	if c.otherBoot {
		a["boot_id"] = "another"
	}
	data, err := json.Marshal(line{"version": 1, "placeholders": []line{a}})
	if err != nil {
		t.Fatal(err)
	}
	u.Write(ledgerOf(u), string(data))
	_ = os.Chmod(bournHome(u), 0o700)
}

// The states in which a crash can leave the ledger and the directory.
func TestPlaceholderAfterCrash(t *testing.T) {
	for _, c := range []crash{
		{name: "before anything was made"},
		{name: "made, and its identity not written down", standsAt: crashTemp},
		{name: "made, and its identity written down", identity: true, standsAt: crashTemp},
		{name: "placed, and that not written down", identity: true, standsAt: ".env"},
		{name: "placed before the power went", identity: true, otherBoot: true, standsAt: ".env"},
		{name: "the person's own file, nothing made", users: "mine", left: ".env"},
		{name: "the person's own file, and one made", users: "mine", standsAt: crashTemp, left: ".env"},
		{name: "the person's own file, moved aside by a removal that came too late", users: "moved", left: ".env"},
		{name: "the person's own file of the same kind", users: "empty", identity: true, standsAt: crashTemp, left: ".env"},
	} {
		t.Run(c.name, func(t *testing.T) {
			runtest.Users(t, func(t *testing.T, u *runtest.User) {
				c.leave(t, u)
				if r := u.Bourn("plan"); r.Status != 0 {
					t.Errorf("plan: %d %q", r.Status, r.Err)
				}
				if c.users == "moved" && u.Read(".env") != "moved" {
					t.Error("what the person has written is lost")
				}
				var left []string
				for at := range tree(t, u.Work) {
					if at != u.Work {
						left = append(left, filepath.Base(at))
					}
				}
				if strings.Join(left, " ") != c.left {
					t.Errorf("left is %v, want %q", left, c.left)
				}
				noLedger(t, u)
			})
		})
	}
}

// identity is what the ledger keeps of an object.
func identity(t *testing.T, at string) line {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(at, &st); err != nil {
		t.Fatal(err)
	}
	return line{"dev": st.Dev, "ino": st.Ino}
}

// A ledger that cannot be read stops everything that would need it.
func TestPlaceholderLedgerDamaged(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	holder(t, u, "mur", ".env")
	u.Write(ledgerOf(u), "{")
	_ = os.Chmod(bournHome(u), 0o700)
	if r := u.Bourn("run", "--agent", "mur", "--", "true"); r.Status != 125 || !strings.Contains(r.Err, "cannot read which placeholders stand on this host") {
		t.Errorf("status %d, said %q", r.Status, r.Err)
	}
}
