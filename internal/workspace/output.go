package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Limits of what a command prints.
const (
	maxOutput = 256 << 10 // bytes of each stream that are answered with
	maxSpill  = 32 << 20  // bytes of each stream that are kept in a file
	maxSpills = 64 << 20  // bytes of all files that are kept; the oldest go
)

// spillPrefix begins the names of files with output.
const spillPrefix = "output-"

// An output keeps the beginning and the end of what a command prints, and all of it in a
// file where that is longer than what is answered with.
type output struct {
	dir       string // of the file; empty for none
	emit      func([]byte)
	live      bool // it is handed out, and nothing is kept
	head, end []byte
	total     int64
	file      *os.File
	inFile    int64
	failed    bool // the file could not be made, or not be written
}

// Write takes everything. Where a live reader is slow it waits for it, and so does the
// program.
func (t *output) Write(p []byte) (int, error) {
	if t.emit != nil {
		t.emit(slices.Clone(p))
	}
	if t.live {
		return len(p), nil
	}
	if t.total += int64(len(p)); t.total > maxOutput {
		t.spill(p)
	}
	rest := p
	if room := maxOutput/2 - len(t.head); room > 0 {
		n := min(room, len(rest))
		t.head = append(t.head, rest[:n]...)
		rest = rest[n:]
	}
	t.end = append(t.end, rest...)
	if over := len(t.end) - maxOutput/2; over > maxOutput/2 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	return len(p), nil
}

// spill writes what comes to the file, and before it all that came until then.
func (t *output) spill(p []byte) {
	if t.dir == "" || t.failed {
		return
	}
	if t.file == nil {
		if t.file = newSpill(t.dir); t.file == nil {
			t.failed = true
			return
		}
		t.toFile(t.head)
		t.toFile(t.end)
	}
	t.toFile(p)
}

func (t *output) toFile(p []byte) {
	p = p[:min(int64(len(p)), maxSpill-t.inFile)]
	n, err := t.file.Write(p)
	t.inFile += int64(n)
	t.failed = t.failed || err != nil
}

// newSpill makes a file for output. What stands in the way of the name is left alone.
func newSpill(dir string) *os.File {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	var id [6]byte
	rand.Read(id[:])
	f, err := root.OpenFile(spillPrefix+hex.EncodeToString(id[:]), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil
	}
	return f
}

// finish closes the file and returns its path; "" where there is none.
func (t *output) finish() string {
	if t.file == nil {
		return ""
	}
	name := t.file.Name()
	t.file.Close()
	t.file = nil
	pruneSpills(t.dir)
	return name
}

// pruneSpills removes the oldest files with output where there are too many.
func pruneSpills(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	var files []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), spillPrefix) && info.Mode().IsRegular() {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var total int64
	for _, f := range files {
		if total += f.Size(); total > maxSpills {
			_ = root.Remove(f.Name())
		}
	}
}

func (t *output) trimmed() []byte {
	if over := len(t.end) - maxOutput/2; over > 0 {
		return t.end[over:]
	}
	return t.end
}

// bytes is what is answered with: where something was left out, a line says so.
func (t *output) bytes() []byte {
	if t.left() == 0 {
		return slices.Concat(t.head, t.trimmed())
	}
	mark := fmt.Sprintf("\n… %d bytes left out …\n", t.left())
	return slices.Concat(t.head, []byte(mark), t.trimmed())
}

func (t *output) left() int64 { return t.total - int64(len(t.head)) - int64(len(t.trimmed())) }
