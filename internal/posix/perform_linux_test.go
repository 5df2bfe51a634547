package posix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"bourn"
	"bourn/internal/run/runtest"
)

func needRoot(t testing.TB) {
	t.Helper()
	runtest.Need(t, "root", os.Geteuid() == 0)
}

// machine makes the root directory of a machine with account files of its own and returns it.
func machine(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	must(t, os.MkdirAll(filepath.Join(root, "var/lib"), 0o755))
	for name, text := range map[string]string{
		"passwd":     "root:x:0:0:root:/root:/bin/bash\njoe:x:1000:1000:Joe:/home/joe:/bin/bash\n",
		"shadow":     "root:*:1:0:99999:7:::\njoe:$6$secret:1:0:99999:7:::\n",
		"group":      "root:x:0:\njoe:x:1000:\nsudo:x:27:joe\n",
		"gshadow":    "root:*::\njoe:!::\nsudo:*::joe\n",
		"subuid":     "joe:100000:65536\n",
		"subgid":     "joe:100000:65536\n",
		"login.defs": "UID_MIN 1000\nUID_MAX 60000\n",
	} {
		at := filepath.Join(root, "etc", name)
		must(t, os.WriteFile(at, []byte(text), 0o644))
		if strings.Contains(name, "shadow") {
			must(t, os.Chmod(at, 0o640))
		}
	}
	if os.Geteuid() == 0 {
		must(t, os.Chown(filepath.Join(root, "etc/shadow"), 0, 42))
	}
	return root
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// under are the paths of a machine below root, its mounts and processes not looked at.
func under(root string) Paths {
	p := HostPaths()
	p.Root, p.Mounts, p.Proc = root, "", ""
	return p
}

// sync plans and performs for the machine below root, and wants nothing to be left to do.
func sync(t testing.TB, s State, root string, sysusers bool, only ...Do) (Result, []uint32) {
	t.Helper()
	var stopped []uint32
	plan := func() []Change {
		h, err := ReadHost(under(root), s)
		must(t, err)
		changes, problems := Plan(s, h)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return slices.DeleteFunc(changes, func(c Change) bool { return len(only) > 0 && !slices.Contains(only, c.Do) })
	}
	result, err := Perform(plan(), Options{Root: root, Sysusers: sysusers, Stop: func(uid uint32) error { stopped = append(stopped, uid); return nil }})
	must(t, err)
	if rest := plan(); len(rest) > 0 {
		t.Fatalf("still to do: %v", rest)
	}
	return result, stopped
}

// accountsOnly is what an ordinary user can perform below a root of their own.
var accountsOnly = []Do{NarrowRegistry, LockUser, RemoveMember, Stop, CreateGroup, CreateUser, MendUser, AddMember, WriteRegistry}

func read(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return string(data)
}

// modes are owner, group and mode of files, as text.
func modes(t testing.TB, dir string, names ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range names {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(dir, name), &st))
		out[name] = fmt.Sprintf("%d:%d %04o", st.Uid, st.Gid, st.Mode&0o7777)
	}
	return out
}

// The account files are right, keep what they had, and keep their owners and modes; as root and as
// an ordinary user.
func TestPerformAccounts(t *testing.T) {
	root, s := machine(t), company(t)
	etc := filepath.Join(root, "etc")
	files := []string{"passwd", "shadow", "group", "gshadow"}
	had := modes(t, etc, files...)
	sync(t, s, root, false, accountsOnly...)
	if diff := cmp.Diff(had, modes(t, etc, files...)); diff != "" {
		t.Error(diff)
	}
	ann := s.People[0]
	for name, want := range map[string]string{
		"passwd":  fmt.Sprintf("%s:x:%d:%d:Bourn:%s/private/people/ann:/usr/sbin/nologin\n", ann.User(), ann.UID, ann.UID, DefaultWorkspace),
		"shadow":  ann.User() + ":!*:",
		"group":   fmt.Sprintf("%s:x:%d:%s,%s\n", s.Circles[0].Group(), s.Circles[0].GID, ann.User(), s.People[1].User()),
		"gshadow": fmt.Sprintf("%s:!*::%s,%s\n", s.Circles[0].Group(), ann.User(), s.People[1].User()),
	} {
		text := read(t, filepath.Join(etc, name))
		if !strings.HasPrefix(text, "root:") || !strings.Contains(text, "\njoe:") || !strings.Contains(text, want) {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	if text := read(t, filepath.Join(etc, "passwd")); strings.Contains(text, s.People[2].User()) {
		t.Errorf("a user was made for who is removed:\n%s", text)
	}
	must(t, s.RemovePerson("ann"))
	_, stopped := sync(t, s, root, false, accountsOnly...)
	if !slices.Equal(stopped, []uint32{ann.UID}) {
		t.Error(stopped)
	}
	if text := read(t, filepath.Join(etc, "shadow")); !strings.Contains(text, ann.User()+":!*:") || !strings.Contains(text, "::1:\n") {
		t.Errorf("not ended:\n%s", text)
	}
	left, err := filepath.Glob(filepath.Join(etc, ".*-*"))
	if err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// systemd-sysusers and our own writer leave hosts that are the same to a plan and to a lookup.
func TestPerformSysusers(t *testing.T) {
	needRoot(t)
	if sysusersProgram() == "" {
		t.Skip("needs systemd-sysusers")
	}
	s, facts := company(t), []Host{}
	for _, with := range []bool{true, false} {
		root := machine(t)
		sync(t, s, root, with)
		h, err := ReadHost(under(root), s)
		must(t, err)
		for _, g := range h.Groups {
			slices.Sort(g.Members)
		}
		slices.SortFunc(h.Users, func(a, b User) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(h.Groups, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
		facts = append(facts, h)
	}
	if diff := cmp.Diff(facts[0], facts[1]); diff != "" {
		t.Error(diff)
	}
}

// systemd-sysusers gives another number, and says success, where one is taken meanwhile.
func TestSysusersTaken(t *testing.T) {
	needRoot(t)
	if sysusersProgram() == "" {
		t.Skip("needs systemd-sysusers")
	}
	root, s := machine(t), company(t)
	h, err := ReadHost(under(root), s)
	must(t, err)
	changes, _ := Plan(s, h)
	group := filepath.Join(root, "etc/group")
	must(t, os.WriteFile(group, []byte(read(t, group)+"late:x:66016:\n"), 0o644))
	result, err := Perform(changes, Options{Root: root, Sysusers: true})
	if bourn.CodeOf(err) != bourn.CodeConflict || len(result.Done) > 0 {
		t.Errorf("%v, %v", result.Done, err)
	}
	if text := read(t, filepath.Join(root, "etc/passwd")); strings.Contains(text, personPrefix) {
		t.Errorf("people were made with other numbers:\n%s", text)
	}
}

// The owners and modes of the table, on disk.
func TestPerformDirectories(t *testing.T) {
	needRoot(t)
	root, s := machine(t), company(t)
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	sync(t, s, root, false)
	ann, sales := s.People[0].UID, s.Circles[0].GID
	want := map[string]string{
		"..": "0:0 0711", ".": "0:0 0711", "private": "0:0 0711", "private/people": "0:0 0711", "circles": "0:0 0711", "shared": "0:0 0711", "shared/cache": "0:0 0711",
		"private/people/ann": fmt.Sprintf("0:%d 2770", ann), "private/people/ann/tmp": fmt.Sprintf("0:%d 2770", ann), "private/people/ann/artifacts": fmt.Sprintf("0:%d 2770", ann),
		"circles/sales": fmt.Sprintf("0:%d 2770", sales), "shared/public": "66000:66001 2775", "shared/cache/dependencies": "66002:66002 2755",
		"skills": "66000:66000 0755", ".bourn": "66000:66000 0700",
	}
	at := filepath.Join(root, DefaultWorkspace)
	names := make([]string, 0, len(want))
	for name := range want {
		names = append(names, name)
	}
	if diff := cmp.Diff(want, modes(t, at, names...)); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Lstat(filepath.Join(at, "private/people/eve")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory of who is removed: %v", err)
	}
	if got := modes(t, filepath.Join(root, "etc"), "passwd", "shadow", "bourn/people.json"); got["shadow"] != "0:42 0640" || got["passwd"] != "0:0 0644" || got["bourn/people.json"] != "0:0 0644" {
		t.Error(got)
	}
	// Widened and given away is mended; .bourn opened for the database's user is left.
	must(t, os.Chown(filepath.Join(at, "circles/sales"), int(ann), int(ann)))
	must(t, os.Chmod(filepath.Join(at, "private/people/ann/tmp"), 0o777))
	must(t, os.Chown(filepath.Join(at, "private/people/ann/artifacts"), int(ann), int(ann)))
	must(t, os.Chmod(filepath.Join(at, ".bourn"), 0o711))
	want[".bourn"] = "66000:66000 0711"
	sync(t, s, root, false)
	if diff := cmp.Diff(want, modes(t, at, names...)); diff != "" {
		t.Error(diff)
	}
}

// What a person puts where root works gains nothing and is named.
func TestPlanted(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		plant func(t *testing.T, at, victim string)
		says  string
	}{
		"symbolic link":     {func(t *testing.T, at, victim string) { must(t, os.Symlink(victim, at)) }, "symbolic link"},
		"fifo":              {func(t *testing.T, at, _ string) { must(t, unix.Mkfifo(at, 0o600)) }, "a fifo"},
		"file":              {func(t *testing.T, at, _ string) { must(t, os.WriteFile(at, nil, 0o600)) }, "a file"},
		"hard link":         {func(t *testing.T, at, victim string) { must(t, os.Link(filepath.Join(victim, "secret"), at)) }, "a file"},
		"other's directory": {func(t *testing.T, at, _ string) { must(t, os.Mkdir(at, 0o700)); must(t, os.Chown(at, 5, 5)) }, "belongs to 5:5"},
		"root's directory":  {func(t *testing.T, at, _ string) { must(t, os.Mkdir(at, 0o700)); must(t, os.Chown(at, 0, 0)) }, "belongs to 0:0"},
	} {
		t.Run(name, func(t *testing.T) {
			root, s := machine(t), company(t)
			sync(t, s, root, false)
			tmp := filepath.Join(root, DefaultWorkspace, "private/people/ann/tmp")
			victim := filepath.Join(root, "victim")
			must(t, os.Mkdir(victim, 0o700))
			must(t, os.WriteFile(filepath.Join(victim, "secret"), nil, 0o600))
			had := modes(t, victim, ".", "secret")
			must(t, os.Remove(tmp))
			c.plant(t, tmp, victim)
			h, err := ReadHost(under(root), s)
			must(t, err)
			if changes, problems := Plan(s, h); len(changes) > 0 || len(problems) != 1 || !strings.Contains(problems[0].String(), c.says) {
				t.Errorf("%v, %v", changes, problems)
			}
			// Planted after the plan was made.
			for _, do := range []Do{MakeDirectory, MendDirectory} {
				got, err := Perform([]Change{{Do: do, Path: DefaultWorkspace + "/private/people/ann/tmp", GID: s.People[0].UID, Mode: 0o2770, Movable: s.People[0].UID}}, Options{Root: root})
				if err != nil || len(got.Done) > 0 || len(got.Left) != 1 || !strings.Contains(got.Left[0].Why, c.says) || !strings.HasSuffix(got.Left[0].Path, "/tmp") {
					t.Errorf("%s: %+v, %v", do, got, err)
				}
			}
			if diff := cmp.Diff(had, modes(t, victim, ".", "secret")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Nothing is made below a directory that somebody else could exchange, and no link is followed on the way.
func TestUntrustedWay(t *testing.T) {
	needRoot(t)
	for name, plant := range map[string]func(root string) error{
		"writable": func(root string) error { return os.Chmod(filepath.Join(root, "var/lib"), 0o777) },
		"other's":  func(root string) error { return os.Chown(filepath.Join(root, "var/lib"), 5, 5) },
		"link": func(root string) error {
			return errors.Join(os.Rename(filepath.Join(root, "var"), filepath.Join(root, "v")), os.Symlink("v", filepath.Join(root, "var")))
		},
	} {
		root := machine(t)
		must(t, plant(root))
		_, err := Perform([]Change{{Do: MakeDirectory, Path: DefaultWorkspace, Mode: 0o711}}, Options{Root: root})
		if bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(root, DefaultWorkspace)); err == nil {
			t.Errorf("%s: it was made", name)
		}
	}
}

// A file of accounts that is a link is not written, and one that others hold is waited for.
func TestAccountFilesGuarded(t *testing.T) {
	root := machine(t)
	etc := filepath.Join(root, "etc")
	fd, err := unix.Open(etc, openDirectory, 0)
	must(t, err)
	defer unix.Close(fd)
	unlock, err := lockAt(fd, ".pwd.lock", 0)
	must(t, err)
	if _, err := lockAt(fd, ".pwd.lock", 0); bourn.CodeOf(err) != bourn.CodeUnavailable {
		t.Errorf("taken twice: %v", err)
	}
	unlock()
	if again, err := lockAt(fd, ".pwd.lock", 0); err != nil {
		t.Error(err)
	} else {
		again()
	}
	must(t, os.Rename(filepath.Join(etc, "group"), filepath.Join(etc, "real")))
	must(t, os.Symlink("real", filepath.Join(etc, "group")))
	if _, err := Perform([]Change{{Do: CreateGroup, Group: "g", GID: 7}}, Options{Root: root}); err == nil {
		t.Error("written through a link")
	}
	if text := read(t, filepath.Join(etc, "real")); strings.Contains(text, "g:") {
		t.Error(text)
	}
}

func TestPerformRefuses(t *testing.T) {
	root := machine(t)
	if _, err := Perform([]Change{{Do: CreateGroup, Group: "g", GID: 7}, {Do: Stop, User: "u", UID: 7}}, Options{Root: root}); bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Error(err)
	}
	if text := read(t, filepath.Join(root, "etc/group")); strings.Contains(text, "g:x") {
		t.Error("begun all the same")
	}
	if os.Geteuid() != 0 {
		if _, err := Perform([]Change{{Do: Mount, Path: "/x/y"}}, Options{}); bourn.CodeOf(err) != bourn.CodeDenied || bourn.HintOf(err) == "" {
			t.Error(err)
		}
	}
}
