package posix

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"bourn"
)

// list is an access list that names a user: what it gives to the owning group, its mask, and
// what it gives to that user.
func list(group, mask uint16, uid uint32) []byte {
	out := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 7, 1<<32 - 1}, {0x02, 7, uid}, {0x04, group, 1<<32 - 1}, {0x10, mask, 1<<32 - 1}, {0x20, 0, 1<<32 - 1}} {
		out = binary.LittleEndian.AppendUint16(out, e.tag)
		out = binary.LittleEndian.AppendUint16(out, e.perm)
		out = binary.LittleEndian.AppendUint32(out, e.id)
	}
	return out
}

// Everything that a leaver owns in a circle is taken and narrowed; nothing else is touched,
// whatever they planted.
func TestReown(t *testing.T) {
	needRoot(t)
	root, s := machine(t), company(t)
	sync(t, s, root, false)
	workspace := filepath.Join(root, DefaultWorkspace)
	at := filepath.Join(workspace, "circles/sales")
	ann, bob, sales := int(s.People[0].UID), int(s.People[1].UID), int(s.Circles[0].GID)
	file := func(name string, uid, gid int, mode uint32) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(name), 0o600))
		must(t, os.Chown(name, uid, gid))
		must(t, unix.Chmod(name, mode))
	}
	dir := func(name string, uid, gid int, mode uint32) {
		t.Helper()
		must(t, os.Mkdir(name, 0o700))
		must(t, os.Chown(name, uid, gid))
		must(t, unix.Chmod(name, mode))
	}
	victim := filepath.Join(root, "victim")
	file(victim+"/of-bob", bob, bob, 0o644)
	dir(at+"/dir", bob, sales, 0o2777)
	file(at+"/dir/plain", bob, sales, 0o660)
	file(at+"/closed", bob, sales, 0o600)
	file(at+"/suid", bob, sales, 0o6755)
	file(at+"/own-group", bob, bob, 0o664)
	file(at+"/list", bob, sales, 0o660)
	file(at+"/of-ann", ann, sales, 0o664)
	file(at+"/two", bob, sales, 0o666)
	must(t, os.Link(at+"/two", at+"/two-too"))
	private := workspace + "/private/people/bob/"
	file(private+"diary", bob, bob, 0o640)
	must(t, os.Link(private+"diary", at+"/diary"))
	must(t, os.Symlink(victim, at+"/link"))
	must(t, os.Lchown(at+"/link", bob, sales))
	must(t, unix.Mkfifo(at+"/fifo", 0o660))
	must(t, os.Chown(at+"/fifo", bob, sales))
	must(t, os.Chmod(at+"/fifo", 0o660))
	must(t, unix.Setxattr(at+"/list", "system.posix_acl_access", list(4, 7, uint32(bob)), 0))
	must(t, unix.Setxattr(at+"/dir", "system.posix_acl_default", list(7, 7, uint32(bob)), 0))
	must(t, s.Leave("sales", "bob"))
	result, stopped := sync(t, s, root, false)
	if !slices.Equal(stopped, []uint32{uint32(bob)}) {
		t.Errorf("stopped: %v", stopped)
	}
	names := []string{"dir", "dir/plain", "closed", "suid", "own-group", "list", "of-ann", "two", "two-too", "diary", "link", "fifo"}
	g := fmt.Sprintf("0:%d ", sales)
	want := map[string]string{
		"dir": g + "2770", "dir/plain": g + "0660", "closed": g + "0600", "suid": g + "0750", "own-group": g + "0660", "list": g + "0740",
		"of-ann": fmt.Sprintf("%d:%d 0664", ann, sales), "two": g + "0660", "two-too": g + "0660",
		"diary": fmt.Sprintf("%d:%d 0640", bob, bob), "link": g + "0777", "fifo": g + "0660",
	}
	if diff := cmp.Diff(want, modes(t, at, names...)); diff != "" {
		t.Error(diff)
	}
	if got := modes(t, victim, "of-bob")["of-bob"]; got != fmt.Sprintf("%d:%d 0644", bob, bob) {
		t.Errorf("behind the link: %s", got)
	}
	for name, attr := range map[string]string{"list": "access", "dir": "default"} {
		if n, err := unix.Getxattr(at+"/"+name, "system.posix_acl_"+attr, nil); err == nil {
			t.Errorf("%s keeps a list of %d bytes", name, n)
		}
	}
	if len(result.Left) != 1 || result.Left[0].Path != DefaultWorkspace+"/circles/sales/diary" {
		t.Errorf("left: %v", result.Left)
	}
	if text := read(t, at+"/dir/plain"); text != at+"/dir/plain" {
		t.Error(text)
	}
}

// A tree that is deeper than a walk goes is named, and does not use up descriptors.
func TestReownDeep(t *testing.T) {
	needRoot(t)
	root, s := machine(t), company(t)
	sync(t, s, root, false)
	at := filepath.Join(root, DefaultWorkspace, "circles/sales")
	dir, err := unix.Open(at, openDirectory, 0)
	must(t, err)
	for range maxDepth + 50 {
		must(t, unix.Mkdirat(dir, "d", 0o755))
		next, err := unix.Openat(dir, "d", openDirectory, 0)
		must(t, err)
		must(t, unix.Fchown(next, int(s.People[1].UID), int(s.Circles[0].GID)))
		unix.Close(dir)
		dir = next
	}
	unix.Close(dir)
	must(t, s.Leave("sales", "bob"))
	result, _ := sync(t, s, root, false)
	if len(result.Left) != 1 || result.Left[0].Why != "is too deep" {
		t.Errorf("%v", result.Left)
	}
}

// While somebody exchanges a directory and a link as fast as they can, only the circle is changed.
func TestReownRace(t *testing.T) {
	needRoot(t)
	root, s := machine(t), company(t)
	sync(t, s, root, false)
	at := filepath.Join(root, DefaultWorkspace, "circles/sales")
	bob := s.People[1].UID
	victim := filepath.Join(root, "victim")
	must(t, os.Mkdir(victim, 0o755))
	must(t, os.WriteFile(victim+"/f", nil, 0o4755))
	must(t, os.Chown(victim+"/f", int(bob), int(bob)))
	must(t, os.Mkdir(at+"/a", 0o755))
	must(t, os.WriteFile(at+"/a/f", nil, 0o644))
	must(t, os.Symlink(victim, at+"/b"))
	must(t, os.WriteFile(at+"/c", nil, 0o644))
	must(t, os.Symlink(victim+"/f", at+"/d"))
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			_ = unix.Renameat2(unix.AT_FDCWD, at+"/a", unix.AT_FDCWD, at+"/b", unix.RENAME_EXCHANGE)
			_ = unix.Renameat2(unix.AT_FDCWD, at+"/c", unix.AT_FDCWD, at+"/d", unix.RENAME_EXCHANGE)
			n++
		}
	}()
	c := Change{Do: Reown, UID: bob, GID: s.Circles[0].GID, Path: DefaultWorkspace + "/circles/sales"}
	for range 300 {
		for _, name := range []string{"a", "b", "c", "d"} {
			_ = os.Lchown(at+"/"+name, int(bob), int(bob))
		}
		if _, err := Perform([]Change{c}, Options{Root: root}); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	if n := <-done; n < 300 {
		t.Errorf("only %d exchanges: nothing was raced", n)
	}
	if got := modes(t, victim, "f")["f"]; !strings.HasPrefix(got, fmt.Sprintf("%d:%d ", bob, bob)) {
		t.Errorf("behind the link: %s", got)
	}
}

// The files of state and registry: whose they must be, and that two writers do not lose each
// other's work.
func TestStateFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "bourn", "identities.json")
	if _, err := LoadState(name); bourn.CodeOf(err) != bourn.CodeNotFound {
		t.Error(err)
	}
	fresh := newState(t)
	const writers = 8
	errs := make(chan error, writers)
	for i := range writers {
		go func() {
			errs <- UpdateState(name, fresh, func(s *State) error {
				_, err := s.AddPerson(fmt.Sprintf("p%d", i), "", nil, nil)
				return err
			})
		}()
	}
	for range writers {
		must(t, <-errs)
	}
	s, err := LoadState(name)
	if err != nil || len(s.People) != writers {
		t.Fatalf("%d people, %v", len(s.People), err)
	}
	if got := modes(t, filepath.Dir(name), "identities.json")["identities.json"]; !strings.HasSuffix(got, " 0600") {
		t.Error(got)
	}
	had := read(t, name)
	if err := UpdateState(name, fresh, func(s *State) error { s.People[0].UID = 0; return nil }); bourn.CodeOf(err) != bourn.CodeInvalid || read(t, name) != had {
		t.Errorf("an invalid state was written: %v", err)
	}
	if err := UpdateState(name, fresh, func(s *State) error { s.People = nil; return bourn.ErrDenied }); bourn.CodeOf(err) != bourn.CodeDenied || read(t, name) != had {
		t.Errorf("written in spite of %v", err)
	}
	link := name + ".link"
	must(t, os.Symlink(name, link))
	fifo := name + ".fifo"
	must(t, unix.Mkfifo(fifo, 0o600))
	for _, planted := range []string{link, fifo} {
		if _, err := LoadState(planted); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("%s: %v", planted, err)
		}
	}
	must(t, os.Chmod(name, 0o620))
	if _, err := LoadState(name); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Error(err)
	}
	if _, err := LoadRegistry(name); bourn.CodeOf(err) != bourn.CodeUnavailable {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		must(t, os.Chmod(name, 0o600))
		must(t, os.Chown(name, 5, 5))
		if _, err := LoadState(name); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Error(err)
		}
	}
}

// What cannot be looked at is named, and what stands beside it is seen all the same.
func TestWalkGoesOn(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs an ordinary user: root can look at everything here")
	}
	at := t.TempDir()
	for _, name := range []string{"a", "m", "z"} {
		must(t, os.Mkdir(filepath.Join(at, name), 0o755))
		must(t, os.WriteFile(filepath.Join(at, name, "f"), nil, 0o600))
	}
	must(t, os.Chmod(filepath.Join(at, "m"), 0))
	defer os.Chmod(filepath.Join(at, "m"), 0o755)
	dir, err := unix.Open(at, openDirectory, 0)
	must(t, err)
	defer unix.Close(dir)
	var seen []string
	w := walk{visit: func(_ int, _, path string, _ unix.Statx_t, _ int) error { seen = append(seen, path); return nil }}
	must(t, w.top(dir, ""))
	slices.Sort(seen)
	if !slices.Equal(seen, []string{"a", "a/f", "z", "z/f"}) || len(w.left) != 1 || w.left[0].Path != "m" {
		t.Errorf("%v, left %v", seen, w.left)
	}
	if dir, exists, err := lookAt(filepath.Join(at, "m", "f")); err != nil || !exists || dir.Kind == "directory" {
		t.Errorf("%v, %v, %v", dir, exists, err)
	}
}
