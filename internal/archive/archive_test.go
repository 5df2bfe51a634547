package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bourn"
)

var contents = map[string]string{Records: "rows", Checkpoint: "{}\n", Identity: "", Control: string(bytes.Repeat([]byte("log "), 400))}

// write writes a backup of contents, in order.
func write(t testing.TB, path string) error {
	t.Helper()
	w, err := Create(path)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, name := range []string{Records, Checkpoint, Identity, Control} {
		if err := w.Add(name, func(to io.Writer) error { _, err := io.WriteString(to, contents[name]); return err }); err != nil {
			return err
		}
	}
	return w.Finish(Manifest{Made: time.Unix(1e9, 0).UTC(), Bourn: "v1", Postgres: "15.18", Migrations: map[string]int64{"control/auth": 1}})
}

// same returns an error if a backup that can be opened holds something else.
func same(path string) error {
	a, err := Open(path)
	if err != nil {
		return nil
	}
	defer a.Close()
	for name, want := range contents {
		got, err := io.ReadAll(a.Part(name))
		if err != nil || string(got) != want {
			return fmt.Errorf("%s holds %q: %w", name, got, err)
		}
	}
	return nil
}

func TestRoundTrip(t *testing.T) {
	at := filepath.Join(t.TempDir(), "backup.tar")
	if err := write(t, at); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(at)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("it has mode %v: %v", info.Mode(), err)
	}
	a, err := Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.Manifest.Postgres != "15.18" || a.Manifest.Migrations["control/auth"] != 1 || len(a.Manifest.Parts) != 4 {
		t.Errorf("manifest: %+v", a.Manifest)
	}
	if err := same(at); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(at), ".*")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

func TestNotOver(t *testing.T) {
	at := filepath.Join(t.TempDir(), "backup.tar")
	if err := os.WriteFile(at, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(t, at); bourn.CodeOf(err) != bourn.CodeConflict {
		t.Errorf("got %v, want a conflict", err)
	}
	// One that comes meanwhile.
	late := filepath.Join(t.TempDir(), "late.tar")
	w, err := Create(late)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := os.WriteFile(late, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(Manifest{}); bourn.CodeOf(err) != bourn.CodeConflict {
		t.Errorf("got %v, want a conflict", err)
	}
	for _, path := range []string{at, late} {
		if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
			t.Errorf("%s holds %q: %v", path, text, err)
		}
	}
}

// A part that cannot be written leaves nothing.
func TestGivenUp(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "backup.tar"))
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	if err := w.Add(Records, func(io.Writer) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v: %v", left, err)
	}
}

// Whatever bit is turned and wherever it is cut, a backup holds what it held or is refused.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	at, bad := filepath.Join(dir, "backup.tar"), filepath.Join(dir, "bad.tar")
	if err := write(t, at); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	try := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := same(bad); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if a, err := Open(bad); err == nil {
			a.Close()
		} else if bourn.CodeOf(err) == bourn.CodeInvalid {
			refused++
		} else {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range whole {
		data := bytes.Clone(whole)
		data[i] ^= 1 << (i % 8)
		try(fmt.Sprintf("bit %d of byte %d", i%8, i), data)
	}
	for n := 0; n < len(whole)-2*block; n += 100 {
		try(fmt.Sprintf("%d bytes", n), whole[:n])
	}
	try("twice", append(bytes.Clone(whole[:len(whole)-2*block]), whole...))
	if refused < 2000 {
		t.Errorf("only %d are refused", refused)
	}
}
