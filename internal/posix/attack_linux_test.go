package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"bourn"
)

// exchanging calls f over and over on a goroutine of its own until the function that it returns is
// called, which says how often.
func exchanging(f func()) (stop func() int) {
	end, done := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-end:
				done <- n
				return
			default:
				f()
			}
		}
	}()
	return func() int { close(end); return <-done }
}

// A member who makes and removes directories as fast as they can keeps nobody from looking
// through the circle: listing one that is removed meanwhile is ENOENT (getdents(2)).
func TestWalkRemoved(t *testing.T) {
	at := t.TempDir()
	for i := range 4 {
		must(t, os.MkdirAll(fmt.Sprintf("%s/%d", at, i), 0o755))
	}
	i := 0
	stop := exchanging(func() {
		i++
		name := fmt.Sprintf("%s/%d", at, i%4)
		_ = os.Remove(name)
		_ = os.Mkdir(name, 0o755)
	})
	for range 20000 {
		if _, err := owners("", at, 0, DefaultRange); err != nil {
			t.Error(err)
			break
		}
	}
	if n := stop(); n < 1000 {
		t.Errorf("only %d removals: nothing was raced", n)
	}
}

// Who exchanges what stands in their own private directory after the plan was made keeps
// nobody else from getting anything.
func TestPlantedStopsNobody(t *testing.T) {
	needRoot(t)
	root, s := machine(t), company(t)
	sync(t, s, root, false)
	home := filepath.Join(root, DefaultWorkspace, "private/people/ann")
	must(t, os.Remove(home+"/tmp"))
	h, err := ReadHost(under(root), s)
	must(t, err)
	changes, _ := Plan(s, h)
	must(t, os.Symlink("/etc", home+"/tmp"))
	changes = append(changes, Change{Do: MakeDirectory, Path: DefaultWorkspace + "/circles/late", Mode: 0o2770})
	result, err := Perform(changes, Options{Root: root})
	if err != nil || len(result.Left) != 1 || result.Left[0].Path != DefaultWorkspace+"/private/people/ann/tmp" {
		t.Errorf("%v, left %v", err, result.Left)
	}
	if len(result.Done) != len(changes)-1 || result.Done[0].Path != DefaultWorkspace+"/circles/late" {
		t.Errorf("done: %v", result.Done)
	}
	if _, err := os.Stat(filepath.Join(root, DefaultWorkspace, "circles/late")); err != nil {
		t.Error(err)
	}
}

// Ended anywhere between two changes, the next plan goes on to the same host, and who was
// taken away is never given back on the way.
func TestEndedBetween(t *testing.T) {
	needRoot(t)
	s := company(t)
	later := func() State {
		s := company(t)
		must(t, s.Leave("sales", "bob"))
		must(t, s.RemovePerson("ann"))
		_, err := s.AddPerson("new", "", nil, nil)
		must(t, err)
		must(t, s.Join("sales", "new"))
		return s
	}()
	opts := func(root string) Options { return Options{Root: root, Stop: func(uint32) error { return nil }} }
	for n := 1; ; n++ {
		root := machine(t)
		sync(t, s, root, false)
		h, err := ReadHost(under(root), later)
		must(t, err)
		changes, problems := Plan(later, h)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if n > len(changes) {
			if n < 10 {
				t.Fatalf("only %d changes", len(changes))
			}
			return
		}
		_, err = Perform(changes[:n], opts(root))
		must(t, err)
		r, err := LoadRegistry(filepath.Join(root, RegistryPath))
		must(t, err)
		if _, err := r.Lookup(s.People[0].User()); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("after %v: %v", changes[n-1], err)
		}
		sync(t, later, root, false)
	}
}

// What the helper revokes while a plan is performed stays revoked, whichever registry is written
// then; and what the plan knew of is done with.
func TestRevokedMeanwhile(t *testing.T) {
	needRoot(t)
	root, s := machine(t), company(t)
	sync(t, s, root, false)
	file := filepath.Join(root, RegistryPath)
	ann, bob, sales := s.People[0].User(), s.People[1].User(), s.Circles[0].Group()
	revoke := func(v Revocation) {
		t.Helper()
		r, err := LoadRegistry(file)
		must(t, err)
		r, err = r.Revoke(v)
		must(t, err)
		data, err := r.Encode()
		must(t, err)
		must(t, os.WriteFile(file, data, 0o644))
	}
	load := func() Registry {
		t.Helper()
		r, err := LoadRegistry(file)
		must(t, err)
		return r
	}
	plan := func() []Change {
		t.Helper()
		h, err := ReadHost(under(root), s)
		must(t, err)
		changes, _ := Plan(s, h)
		return changes
	}
	opts := Options{Root: root, Stop: func(uint32) error { return nil }}
	// A plan that gives one thing and takes another, and a revocation of each kind after it was made.
	must(t, s.Join("ops", "bob"))
	must(t, s.Leave("ops", "ann"))
	changes := plan()
	revoke(Revocation{bob, sales})
	if i := slices.IndexFunc(changes, func(c Change) bool { return c.Do == CreateGroup || c.Do == AddMember }); i < 1 {
		t.Fatalf("%v", changes)
	} else if _, err := Perform(changes[:i], opts); err != nil {
		t.Fatal(err)
	}
	if r := load(); slices.Contains(r.People[1].Groups, s.Circles[0].GID) || len(r.Revoked) != 1 {
		t.Errorf("narrowed: %+v", r)
	}
	changes = plan()
	revoke(Revocation{ann, ""})
	_, err := Perform(changes, opts)
	must(t, err)
	r := load()
	if r.People[0].Active || len(r.People[0].Groups) > 0 || slices.Contains(r.People[1].Groups, s.Circles[0].GID) || !slices.Contains(r.People[1].Groups, s.Circles[1].GID) {
		t.Errorf("%+v", r.People)
	}
	if !slices.Contains(r.Revoked, Revocation{ann, ""}) || !slices.Contains(r.Revoked, Revocation{bob, sales}) {
		t.Errorf("%v", r.Revoked)
	}
	// Once the state does not give it either, it is done with, and can be given again.
	must(t, s.Leave("sales", "bob"))
	_, err = Perform(plan(), opts)
	must(t, err)
	must(t, s.Join("sales", "bob"))
	_, err = Perform(plan(), opts)
	must(t, err)
	if r := load(); !slices.Contains(r.People[1].Groups, s.Circles[0].GID) || slices.Contains(r.Revoked, Revocation{bob, sales}) {
		t.Errorf("%+v", r)
	}
}

// The registry is written under its lock, which nothing else holds up.
func TestRegistryLock(t *testing.T) {
	needRoot(t)
	root, s := machine(t), company(t)
	sync(t, s, root, false)
	dir, err := unix.Open(filepath.Dir(filepath.Join(root, RegistryPath)), openDirectory, 0)
	must(t, err)
	defer unix.Close(dir)
	must(t, s.RemovePerson("ann"))
	h, err := ReadHost(under(root), s)
	must(t, err)
	changes, _ := Plan(s, h)
	stopping := func(uint32) error {
		// In the middle of a performance the helper gets it at once.
		unlock, err := lockAt(dir, RegistryLock, 0)
		if err == nil {
			unlock()
		}
		return err
	}
	_, err = Perform(changes, Options{Root: root, Stop: stopping})
	must(t, err)
	unlock, err := lockAt(dir, RegistryLock, 0)
	must(t, err)
	done := make(chan error, 1)
	must(t, s.RemovePerson("bob"))
	go func() {
		h, err := ReadHost(under(root), s)
		if err == nil {
			changes, _ := Plan(s, h)
			_, err = Perform(changes[:1], Options{Root: root})
		}
		done <- err
	}()
	for open := 0; open < 2; { // it has the lock's file open as well, and waits
		fds, err := filepath.Glob("/proc/self/fd/*")
		must(t, err)
		open = 0
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && to == filepath.Join(root, filepath.Dir(RegistryPath), RegistryLock) {
				open++
			}
		}
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
	}
	unlock()
	must(t, <-done)
}

// A registry that is not valid is said to be written anew. A circle is not looked through where
// only what is taken away counts.
func TestReadHostSaysLess(t *testing.T) {
	needRoot(t)
	root, s := machine(t), company(t)
	sync(t, s, root, false)
	must(t, os.WriteFile(filepath.Join(root, RegistryPath), []byte("{}"), 0o644))
	at := DefaultWorkspace + "/circles/sales"
	must(t, os.WriteFile(filepath.Join(root, at, "f"), nil, 0o600))
	must(t, os.Chown(filepath.Join(root, at, "f"), int(s.People[1].UID), 0))
	paths := under(root)
	for _, paths.Shallow = range []bool{true, false} {
		h, err := ReadHost(paths, s)
		must(t, err)
		if got := len(h.Owners[at]); (got == 0) != paths.Shallow {
			t.Errorf("shallow %t: %d owners", paths.Shallow, got)
		}
		if _, problems := Plan(s, h); len(problems) != 1 || problems[0].Blocks || problems[0].Subject != "registry" {
			t.Errorf("%v", problems)
		}
	}
}

// The state is not written through a link above it, which somebody may have put there after it was looked at.
func TestStateThroughLink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/host/bourn", 0o755))
	must(t, os.Symlink("host", dir+"/etc"))
	err := UpdateState(dir+"/etc/bourn/identities.json", newState(t), func(s *State) error {
		_, err := s.AddPerson("ann", "", nil, nil)
		return err
	})
	if bourn.CodeOf(err) != bourn.CodeDenied {
		t.Error(err)
	}
	if left, err := filepath.Glob(dir + "/host/bourn/*"); err != nil || len(left) > 0 {
		t.Errorf("written: %v, %v", left, err)
	}
}
