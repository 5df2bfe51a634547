package run

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNextPause(t *testing.T) {
	var got []time.Duration
	var last time.Duration
	for _, lived := range []time.Duration{0, 0, time.Second, 59 * time.Second, 0, 0, 0, 0, settled - 1, settled, 0, time.Hour} {
		last = nextPause(last, lived)
		got = append(got, last)
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60, 1, 2, 1}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
}

// newLog makes a log that is rotated at a size.
func newLog(t *testing.T, limit int64) (*keptLog, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "logs")
	f, err := rotateLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	l, err := newKeptLog(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l, dir
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// broad makes 16 letters of each, since a log has a first line of its own.
func broad(s string) string {
	var b strings.Builder
	for _, r := range s {
		n := 16
		if r == '\n' {
			n = 1
		}
		b.WriteString(strings.Repeat(string(r), n))
	}
	return b.String()
}

func TestLogRotation(t *testing.T) {
	for _, test := range []struct {
		name              string
		writes            []string
		previous, current string // without goesOn
	}{
		{"at a line's end", []string{"aaaa\n", "bb\ncc", "cc\n"}, "aaaa\nbb\n", "cccc\n"},
		{"before a line", []string{"aaaaaa\n", "bbbb"}, "aaaaaa\n", "bbbb"},
		{"a long line is whole", []string{"aaaaaa", "bbbbbb\nc"}, "aaaaaabbbbbb\n", "c"},
		{"an endless line is broken", []string{"aaaaaaaa", "bbbbbbbb", "cccc"}, "aaaaaaaabbbbbbbb", "cccc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, dir := newLog(t, 128)
			for _, w := range test.writes {
				w = broad(w)
				if n, err := l.Write([]byte(w)); n != len(w) || err != nil {
					t.Errorf("Write(%q) = %d, %v", w, n, err)
				}
			}
			if got := content(t, filepath.Join(dir, "previous")); got != broad(test.previous) {
				t.Errorf("previous %q, want %q", got, test.previous)
			}
			if got := content(t, filepath.Join(dir, "current")); got != goesOn+broad(test.current) {
				t.Errorf("current %q, want %q", got, goesOn+test.current)
			}
			if left, _ := os.ReadDir(dir); len(left) != 2 {
				t.Errorf("%d files", len(left))
			}
		})
	}
}

func TestLogSaysOnLinesOfItsOwn(t *testing.T) {
	l, dir := newLog(t, maxLog)
	l.say("one")
	_, _ = l.Write([]byte("half"))
	l.say("two\x1b[2J")
	if got, want := content(t, filepath.Join(dir, "current")), "bourn: one\nhalf\nbourn: two\\x1b[2J\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
}

// A log whose directory has gone holds nothing up.
func TestLogWithoutDirectory(t *testing.T) {
	l, dir := newLog(t, 8)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if n, err := l.Write([]byte("aaaaaaaa\n")); n != 9 || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is there again: %v", err)
	}
}

func TestLogTail(t *testing.T) {
	for _, test := range []struct {
		previous, current string
		n                 int
		want              string
	}{
		{"", "a\nb\nc\n", 2, "b\nc\n"},
		{"", "a\nb\nc", 2, "b\nc"},
		{"", "a\nb\n", 9, "a\nb\n"},
		{"", "a\n", 0, ""},
		{"", "", 3, ""},
		{"", "\n\n", 1, "\n"},
		{"x\ny\n", "a\n", 9, "a\n"}, // of the start before
		{"x\ny\n", goesOn + "a\n", 3, "y\n" + goesOn + "a\n"},
		{"x\ny\n", goesOn + "a\n", 1, "a\n"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"previous": test.previous, "current": test.current} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, err := os.Open(filepath.Join(dir, "current"))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := (&Log{dir, f}).Tail(&out, test.n); err != nil || out.String() != test.want {
			t.Errorf("Tail of %q and %q, %d = %q, %v; want %q", test.previous, test.current, test.n, out.String(), err, test.want)
		}
		f.Close()
	}
}

// Whatever is written while a log is followed is read once and in order, over rotations
// and up to the end.
func TestLogFollow(t *testing.T) {
	l, dir := newLog(t, 1<<20)
	f, err := os.Open(filepath.Join(dir, "current"))
	if err != nil {
		t.Fatal(err)
	}
	log := &Log{dir, f}
	defer log.Close()
	var out bytes.Buffer
	step, lines := 0, []string{}
	err = log.Follow(context.Background(), &out, func() bool {
		step++
		line := strings.Repeat(string(rune('a'+step%26)), 200000) + "\n"
		lines = append(lines, line)
		_, _ = l.Write([]byte(line)) // rotates at every fifth
		return step < 12
	})
	if got := strings.ReplaceAll(out.String(), goesOn, ""); err != nil || got != strings.Join(lines, "") {
		t.Errorf("Follow: %d bytes, %v; want %d", len(got), err, len(strings.Join(lines, "")))
	}
	if strings.Count(out.String(), goesOn) < 2 {
		t.Error("the log was not rotated")
	}
}

func TestHead(t *testing.T) {
	for _, test := range []struct {
		writes []string
		want   string
	}{
		{[]string{"one\ntwo\n"}, "one"},
		{[]string{"on", "e", "\n", "two\n"}, "one"},
		{[]string{strings.Repeat("x", maxHead+5)}, strings.Repeat("x", maxHead)},
		{[]string{"\n"}, ""},
	} {
		var to bytes.Buffer
		h := head{to: &to, line: make(chan string, 1)}
		for _, w := range test.writes {
			_, _ = h.Write([]byte(w))
		}
		if got := <-h.line; got != test.want || to.String() != strings.Join(test.writes, "") {
			t.Errorf("head of %q = %q", test.writes, got)
		}
	}
}

func TestRunTime(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 30, 1, 234e6, time.UTC)
	h := &Home{Now: func() time.Time { return at }}
	id, err := h.newRunID()
	if err != nil {
		t.Fatal(err)
	}
	if got := runTime(id); got == nil || !got.Equal(at) {
		t.Errorf("runTime(%q) = %v, want %v", id, got, at)
	}
	for _, bad := range []string{"", "x", strings.Repeat("x", 30)} {
		if got := runTime(bad); got != nil {
			t.Errorf("runTime(%q) = %v", bad, got)
		}
	}
}
