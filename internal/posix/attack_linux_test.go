package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"


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

