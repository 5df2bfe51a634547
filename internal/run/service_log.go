package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"bourn"
)

// maxLog is the size in bytes from which on a log is rotated, at the next end of a line. A
// line that does not end is broken at twice the size.
const maxLog = 10 << 20

// goesOn is the first line of a log that was rotated while its runs went on.
const goesOn = "bourn: the log goes on from logs/previous\n"

func (h *Home) logDir(name bourn.AgentName) string { return filepath.Join(h.agent(name), "logs") }

// LogPath is where the log of an agent's background stands.
func (h *Home) LogPath(name bourn.AgentName) string { return filepath.Join(h.logDir(name), "current") }

// rotateLog makes what stands in the log the previous one, and opens an empty one.
func rotateLog(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	current := filepath.Join(dir, "current")
	if info, err := os.Lstat(current); err == nil && info.Size() > 0 {
		if err := os.Rename(current, filepath.Join(dir, "previous")); err != nil {
			return nil, err
		}
	}
	return openLog(dir)
}

func openLog(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "current"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// A keptLog is the log as its keeper writes it. A log that cannot be written loses text
// and holds nothing up.
type keptLog struct {
	mu    sync.Mutex
	dir   string
	limit int64
	file  *os.File
	size  int64
	whole bool // the text so far ends with a line's end
}

func newKeptLog(dir string, limit int64) (*keptLog, error) {
	f, err := openLog(dir)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &keptLog{dir: dir, limit: limit, file: f, size: info.Size(), whole: true}, nil
}

// Write adds to the log. It never fails: a run must not be held up by a full disk.
func (l *keptLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	if l.size+int64(n) > l.limit {
		cut := bytes.LastIndexByte(p, '\n') + 1
		if cut > 0 || l.whole || l.size >= 2*l.limit {
			l.put(p[:cut])
			p = p[cut:]
			l.rotate()
		}
	}
	l.put(p)
	return n, nil
}

func (l *keptLog) put(p []byte) {
	if len(p) == 0 {
		return
	}
	n, _ := l.file.Write(p)
	l.size += int64(n)
	l.whole = p[len(p)-1] == '\n'
}

func (l *keptLog) rotate() {
	f, err := rotateLog(l.dir)
	if err != nil {
		return
	}
	l.file.Close()
	l.file, l.size = f, 0
	l.put([]byte(goesOn))
}

// say adds a line of the keeper's own.
func (l *keptLog) say(format string, args ...any) {
	l.mu.Lock()
	whole := l.whole
	l.mu.Unlock()
	line := "bourn: " + bourn.Printable(fmt.Sprintf(format, args...)) + "\n"
	if !whole {
		line = "\n" + line
	}
	_, _ = l.Write([]byte(line))
}

// length is how long the text is that was not rotated away.
func (l *keptLog) length() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

func (l *keptLog) close() { l.file.Close() }

// A head passes text on and hands over its first line.
type head struct {
	to   io.Writer
	line chan string // gets one line
	text []byte
	done bool
}

// maxHead bounds a first line.
const maxHead = 4096

func (h *head) Write(p []byte) (int, error) {
	if !h.done {
		h.text = append(h.text, p[:min(len(p), maxHead)]...)
		if i := bytes.IndexByte(h.text, '\n'); i >= 0 || len(h.text) >= maxHead {
			if i < 0 {
				i = maxHead
			}
			h.line <- string(h.text[:i])
			h.text, h.done = nil, true
		}
	}
	return h.to.Write(p)
}

// A Log is the log of an agent's background, to be read.
type Log struct {
	dir  string
	file *os.File
}

// OpenLog opens the log of an agent's background. An agent that never had one is
// ErrNotFound.
func (h *Home) OpenLog(name bourn.AgentName) (*Log, error) {
	dir := h.logDir(name)
	f, err := os.Open(filepath.Join(dir, "current"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(h.ProfilePath(name)); err != nil {
			return nil, h.noProfile(name, err)
		}
		return nil, bourn.WithHint(fmt.Errorf("%w: agent %q has no log: it was not started in the background", bourn.ErrNotFound, name),
			"bourn agent start "+string(name))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the log of agent %q: %w", name, err)
	}
	return &Log{dir: dir, file: f}, nil
}

// Close closes the log.
func (l *Log) Close() error { return l.file.Close() }

// Tail writes the last n lines. Follow goes on where it ends.
func (l *Log) Tail(w io.Writer, n int) error {
	text, err := io.ReadAll(l.file)
	if err != nil {
		return err
	}
	last, lines := lastLines(text, n)
	if lines < n && bytes.HasPrefix(text, []byte(goesOn)) {
		before, err := os.ReadFile(filepath.Join(l.dir, "previous"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		more, _ := lastLines(before, n-lines)
		if _, err := w.Write(more); err != nil {
			return err
		}
	}
	_, err = w.Write(last)
	return err
}

// lastLines returns the last n lines of a text, and how many there are.
func lastLines(text []byte, n int) (last []byte, lines int) {
	at := len(text)
	for lines < n && at > 0 {
		at = bytes.LastIndexByte(text[:at-1], '\n') + 1
		lines++
	}
	return text[at:], lines
}

// followTick is how often a log that is followed is looked at.
const followTick = 100 * time.Millisecond

// Follow writes what is added to the log, over rotations, until alive says no and all is
// written, or the context ends.
func (l *Log) Follow(ctx context.Context, w io.Writer, alive func() bool) error {
	tick := time.NewTicker(followTick)
	defer tick.Stop()
	for {
		goesOn := alive() // before reading: what was written until then is there
		if _, err := io.Copy(w, l.file); err != nil {
			return err
		}
		switched, err := l.next(w)
		switch {
		case err != nil:
			return err
		case switched:
			continue
		case !goesOn:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// next goes over to a new file, if the log was rotated.
func (l *Log) next(w io.Writer) (bool, error) {
	f, err := os.Open(filepath.Join(l.dir, "current"))
	if err != nil {
		return false, nil // between the two steps of a rotation, or deleted
	}
	old, oldErr := l.file.Stat()
	now, nowErr := f.Stat()
	if oldErr != nil || nowErr != nil || os.SameFile(old, now) {
		f.Close()
		return false, errors.Join(oldErr, nowErr)
	}
	_, err = io.Copy(w, l.file)
	l.file.Close()
	l.file = f
	return true, err
}
