package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bourn"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"golang.org/x/sys/unix"
)

// PatchResult says what a patch changed.
type PatchResult struct {
	Files []WriteResult `json:"files"`
}

// change is one step of a patch that is ready to be done, and how it is undone.
type change struct {
	target  *target
	content []byte // what is to be there; nil for nothing
}

// patch applies a whole patch or nothing of it: everything is read, applied in memory and
// judged before the first file is written, and what was written is put back if a later one
// cannot be.
func (w *work) patch() (any, error) {
	files, err := parsePatch(w.request.Content)
	if err != nil {
		return nil, err
	}
	var changes []*change
	defer func() {
		for _, c := range changes {
			c.target.close()
		}
	}()
	for _, f := range files {
		more, err := w.changesOf(f)
		changes = append(changes, more...)
		if err != nil {
			return nil, err
		}
	}
	r := PatchResult{Files: []WriteResult{}}
	for i, c := range changes {
		if err := c.do(); err != nil {
			return nil, errors.Join(w.pathProblem(c.target.path, c.target.path, err), undo(changes[:i+1]))
		}
		done := WriteResult{Path: c.target.path, Created: !c.target.exists, Bytes: len(c.content)}
		if c.target.exists {
			done.Before = digest(c.target.now)
		}
		if c.content != nil {
			done.After = digest(c.content)
		}
		r.Files = append(r.Files, done)
	}
	return r, nil
}

// changesOf applies one file's part in memory.
func (w *work) changesOf(f patchFile) (changes []*change, err error) {
	var source []byte
	var from *target
	if f.from != "" {
		operation := bourn.Write
		switch {
		case f.goes() != "":
			operation = bourn.Delete
		case f.from != f.to:
			operation = bourn.Read
		}
		if from, err = w.target(joined(w.request.Path, f.from), operation); err != nil {
			return nil, err
		}
		changes = append(changes, &change{target: from, content: from.now})
		if !from.exists {
			return changes, w.pathProblem(f.from, from.path, fs.ErrNotExist)
		}
		source = from.now
	}
	var out bytes.Buffer
	if err := gitdiff.Apply(&out, bytes.NewReader(source), f.diff); err != nil {
		return changes, &Problem{Code: bourn.CodeConflict, Reason: "patch_conflict", Text: fmt.Sprintf("the patch does not fit %q: %v; nothing was changed", cmpOr(f.from, f.to), err), Hint: "read the file again and make the patch anew"}
	}
	content := out.Bytes()
	if content == nil {
		content = []byte{}
	}
	switch {
	case f.to == "":
		if len(content) > 0 {
			return changes, &Problem{Code: bourn.CodeConflict, Reason: "patch_conflict", Text: fmt.Sprintf("the patch deletes %q, which holds more than the patch says; nothing was changed", f.from)}
		}
		changes[0].content = nil
	case f.to == f.from:
		changes[0].content = content
		changes[0].target.mode = modeOf(f.diff.NewMode, changes[0].target.mode)
	default:
		to, err := w.target(joined(w.request.Path, f.to), bourn.Write)
		if err != nil {
			return changes, err
		}
		changes = append(changes, &change{target: to, content: content})
		if to.exists {
			return changes, &Problem{Code: bourn.CodeConflict, Reason: "already_exists", Text: fmt.Sprintf("the patch makes %q, which is there already; nothing was changed", f.to)}
		}
		if from != nil {
			to.mode = from.mode
		}
		to.mode = modeOf(f.diff.NewMode, to.mode)
		if from != nil && f.goes() != "" {
			changes[0].content = nil
		}
	}
	return changes, nil
}

// modeOf is the mode that a patch gives a file: git knows whether it can be executed.
func modeOf(patched, now fs.FileMode) fs.FileMode {
	switch patched.Perm() {
	case 0o755:
		return now | 0o111
	case 0o644:
		return now &^ 0o111
	}
	return now
}

// do makes one change. A file that is only read is written as it is: it is left alone.
func (c *change) do() error {
	switch {
	case c.content == nil:
		return unix.Unlinkat(int(c.target.dir.Fd()), c.target.name, 0)
	case c.target.exists && bytes.Equal(c.content, c.target.now):
		return c.mode()
	}
	return c.target.put(c.content)
}

// mode gives an unchanged file the mode that a patch asks for.
func (c *change) mode() error {
	fd, err := unix.Openat(int(c.target.dir.Fd()), c.target.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), c.target.name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() == c.target.mode.Perm() {
		return err
	}
	return os.Chmod(procPath(f), c.target.mode.Perm())
}

// undo puts back what was changed, the last first.
func undo(changes []*change) error {
	var failed error
	for i := len(changes) - 1; i >= 0; i-- {
		t := changes[i].target
		var err error
		if t.exists {
			err = t.put(t.now)
		} else if err = unix.Unlinkat(int(t.dir.Fd()), t.name, 0); errors.Is(err, unix.ENOENT) {
			err = nil
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%w: %q could not be put back: %w", bourn.ErrInternal, filepath.Base(t.path), err))
		}
	}
	return failed
}
