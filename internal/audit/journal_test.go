package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bourn"
	"bourn/internal/audit"
)

func noted(t *testing.T, path, what string) {
	t.Helper()
	if err := audit.Note(path, audit.Entry{Kind: audit.KindRun, Who: "host", What: what}); err != nil {
		t.Fatal(err)
	}
}

// taken hands over everything and returns it.
func taken(t *testing.T, path string) (all []string) {
	t.Helper()
	err := audit.TakeIn(path, func(entries []audit.Entry) error {
		for _, e := range entries {
			all = append(all, e.What)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What was taken and not removed is handed over again, with the same ids.
func TestTakeInTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	for i := range 1200 { // more than are handed over at once
		noted(t, path, fmt.Sprint(i))
	}
	ids := map[string]bool{}
	crash, calls := errors.New("crash"), 0
	take := func(fail int) func([]audit.Entry) error {
		calls = 0
		return func(entries []audit.Entry) error {
			if calls++; calls == fail {
				return crash
			}
			for _, e := range entries {
				ids[e.ID] = true
			}
			return nil
		}
	}
	if err := audit.TakeIn(path, take(2)); !errors.Is(err, crash) {
		t.Fatal(err)
	}
	if err := audit.TakeIn(path, take(0)); err != nil {
		t.Fatal(err)
	}
	if len(ids) != 1200 {
		t.Errorf("%d ids", len(ids))
	}
	if left := taken(t, path); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
}

// What cannot be read is left out and takes nothing with it: a line that was torn by a
// kill, also where another was written after it, one of no entry, and one that is too long.
func TestTakeInTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	noted(t, path, "first")
	spoil := func(text string) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	spoil(`{"id":"torn","what":"x`)
	noted(t, path, "second")
	spoil("null\n[]\n\n\x00\xff\n" + strings.Repeat("x", 1<<20) + "\n" + strings.Repeat("y", 1<<20))
	noted(t, path, "third")
	spoil(`{"id":"torn at the end`)
	if got := taken(t, path); fmt.Sprint(got) != "[first second third]" {
		t.Errorf("%v", got)
	}
}

// A journal that is a link or no file is neither written to nor read.
func TestJournalElsewhere(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func(at string) error{
		"link":     func(at string) error { return os.Symlink(filepath.Join(dir, "target"), at) },
		"dangling": func(at string) error { return os.Symlink(filepath.Join(dir, "none"), at) },
		"dir":      func(at string) error { return os.Mkdir(at, 0o700) },
	} {
		if err := os.WriteFile(filepath.Join(dir, "target"), []byte("kept\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, name)
		if err := make(at); err != nil {
			t.Fatal(err)
		}
		if err := audit.Note(at, audit.Entry{Kind: audit.KindRun, Who: "host", What: "x"}); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("%s: noted: %v", name, err)
		}
		if err := audit.TakeIn(at, func([]audit.Entry) error { return nil }); err == nil && name != "dangling" {
			t.Errorf("%s: taken in", name)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "target")); err != nil || string(text) != "kept\n" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "none")); err == nil {
			t.Errorf("%s: made what it leads to", name)
		}
	}
}

// Those who write and the one who takes do not lose or double anything.
func TestNoteAndTakeInAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	var writers, taker sync.WaitGroup
	done := make(chan struct{})
	seen := map[string]int{}
	taker.Go(func() {
		for last := false; ; {
			if err := audit.TakeIn(path, func(entries []audit.Entry) error {
				for _, e := range entries {
					seen[e.What]++
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			if last {
				return
			}
			select {
			case <-done:
				last = true
			default:
			}
		}
	})
	for w := range 4 {
		writers.Go(func() {
			for i := range 200 {
				noted(t, path, fmt.Sprint(w, i))
			}
		})
	}
	writers.Wait()
	close(done)
	taker.Wait()
	if len(seen) != 800 {
		t.Errorf("%d of 800", len(seen))
	}
	for what, n := range seen {
		if n != 1 {
			t.Errorf("%s: %d times", what, n)
		}
	}
}

// A journal that nobody takes in stays small, and says what it lost.
func TestJournalShortened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	noted(t, path, "first")
	line, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Repeat(line, 9<<20/len(line)), 0o600); err != nil {
		t.Fatal(err)
	}
	noted(t, path, "last")
	if info, err := os.Stat(path); err != nil || info.Size() > 5<<20 {
		t.Errorf("%v, %v", info.Size(), err)
	}
	got := taken(t, path)
	if got[0] != "journal shortened" || got[len(got)-1] != "last" {
		t.Errorf("begins with %s and ends with %s", got[0], got[len(got)-1])
	}
}

// An entry that no database could hold is made into one that it can, or refused.
func TestEncodeStorable(t *testing.T) {
	for detail, want := range map[string]string{
		`{"a":"\u0000"}`: "left_out", `{"a":"\ud800"}`: `{"a":"` + "\ufffd" + `"}`, "{\"a\":\"\xff\"}": `{"a":"` + "\ufffd" + `"}`,
		`{"a":1e400}`: `{"a":1e400}`, `{`: "left_out", `{} {}`: "left_out", `{"a": [1 , 2]}`: `{"a":[1,2]}`,
	} {
		e := audit.Entry{Kind: audit.KindAction, Who: "x", What: "y", Detail: []byte(detail)}
		if body, err := e.Encode(at); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%q: %s, %v", detail, body, err)
		}
	}
	for name, e := range map[string]audit.Entry{
		"a kind":       {Kind: "other", Who: "x", What: "y"},
		"an outcome":   {Kind: audit.KindAction, Outcome: "other", Who: "x", What: "y"},
		"an id":        {Kind: audit.KindAction, ID: "1", Who: "x", What: "y"},
		"an id's case": {Kind: audit.KindAction, ID: strings.ToUpper(audit.NewID()), Who: "x", What: "y"},
		"a time":       {Kind: audit.KindAction, At: at.AddDate(9000, 0, 0), Who: "x", What: "y"},
	} {
		if _, err := e.Encode(at); err == nil {
			t.Errorf("%s that there is not was taken", name)
		}
	}
}

// What an older key signed verifies by it, and by nothing else.
func TestOlderKeys(t *testing.T) {
	l := made(t, 25)
	verify := func(r audit.Result, err error) audit.Result {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	kept := audit.Kept{ID: "L", Rows: l.all(), Checkpoints: l.checkpoints}
	if r := verify(audit.Verify(kept, public(key(2)), nil, public(key(1)))); !r.OK() || r.Covered != 25 ||
		r.Older[audit.KeyName(public(key(1)))] != int64(len(l.checkpoints)) || len(r.Older) != 1 {
		t.Errorf("%+v", r)
	}
	if r := verify(audit.Verify(kept, public(key(1)), nil, public(key(2)))); !r.OK() || len(r.Older) != 0 {
		t.Errorf("an older key that signed nothing: %+v", r)
	}
	if r := verify(audit.Verify(kept, public(key(2)), nil)); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, audit.KeyName(public(key(1)))) {
		t.Errorf("%+v", r)
	}
}

// What stands beside an entry and says something else than it does is found.
func TestColumns(t *testing.T) {
	l := made(t, 5)
	l.rows[2].ID = audit.NewID()
	if r := l.verify(t); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, "columns") {
		t.Errorf("%+v", r)
	}
	l = made(t, 5)
	l.rows[2].At = at.AddDate(-1, 0, 0)
	if r := l.verify(t); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, "columns") {
		t.Errorf("%+v", r)
	}
}
