package workspace

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"bourn"

	"golang.org/x/sys/unix"
)

// WriteResult is what writing, editing, deleting and moving give.
type WriteResult struct {
	Path    string `json:"path"`
	Created bool   `json:"created,omitempty"`
	Before  string `json:"before,omitempty"` // SHA-256 of what was there
	After   string `json:"after,omitempty"`  // and of what is there now
	Bytes   int    `json:"bytes"`
}

// target is a file that is to be written: its directory, its name there, and what it is
// now. A symbolic link is followed once, here, and judged by where it leads.
type target struct {
	dir    *os.File
	name   string
	path   string
	exists bool
	mode   fs.FileMode
	now    []byte
}

func (t *target) close() { t.dir.Close() }

// target opens what is to be written. An existing file that is no regular one is refused.
func (w *work) target(given string, o bourn.Operation) (*target, error) {
	place, resolved, err := w.resolve(given, 0)
	switch {
	case err == nil:
		defer place.Close()
		return w.existing(place, resolved, given, o)
	case bourn.CodeOf(err) != bourn.CodeNotFound:
		return nil, err
	}
	dir, name, err := w.parent(given, o)
	if err != nil {
		return nil, err
	}
	at, err := pathOf(dir)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return &target{dir: dir, name: name, path: filepath.Join(at, name), mode: 0o666}, nil
}

func (w *work) existing(place *os.File, resolved, given string, o bourn.Operation) (*target, error) {
	if err := w.opened(o, given, resolved); err != nil {
		return nil, err
	}
	info, err := place.Stat()
	if err != nil {
		return nil, w.pathProblem(given, resolved, err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_path", Text: fmt.Sprintf("%q is %s, and no regular file", given, kindOf(info.Mode()))}
	}
	if info.Size() > maxRead {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "too_large", Text: fmt.Sprintf("%q has %d bytes; up to %d are changed by a tool", given, info.Size(), maxRead), Hint: "use shell_exec"}
	}
	f, err := os.Open(procPath(place))
	if err != nil {
		return nil, w.pathProblem(given, resolved, err)
	}
	defer f.Close()
	now, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err != nil {
		return nil, w.pathProblem(given, resolved, err)
	}
	fd, err := openat2(unix.AT_FDCWD, filepath.Dir(resolved), &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, w.pathProblem(given, resolved, err)
	}
	return &target{dir: os.NewFile(uintptr(fd), filepath.Dir(resolved)), name: filepath.Base(resolved), path: resolved, exists: true, mode: info.Mode().Perm(), now: now}, nil
}

// put makes a file hold content: written beside its place and moved there, so that nobody
// reads half of it. Where the directory does not take a new file, an existing one is
// written in place.
func (t *target) put(content []byte) error {
	var suffix [6]byte
	rand.Read(suffix[:])
	beside := "." + t.name + "." + hex.EncodeToString(suffix[:])
	fd, err := unix.Openat(int(t.dir.Fd()), beside, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(t.mode.Perm()))
	if err != nil {
		if t.exists && (errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENAMETOOLONG)) {
			return t.inPlace(content)
		}
		return err
	}
	f := os.NewFile(uintptr(fd), beside)
	_, err = f.Write(content)
	if err == nil && t.exists {
		err = f.Chmod(t.mode)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat(int(t.dir.Fd()), beside, int(t.dir.Fd()), t.name)
	}
	if err != nil {
		_ = unix.Unlinkat(int(t.dir.Fd()), beside, 0)
		// A file that is bound on its own cannot be replaced (EBUSY), only written.
		if t.exists && (errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EXDEV)) {
			return t.inPlace(content)
		}
	}
	return err
}

func (t *target) inPlace(content []byte) error {
	fd, err := unix.Openat(int(t.dir.Fd()), t.name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), t.name)
	defer f.Close()
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.Write(content)
	return err
}

func (w *work) write() (any, error) {
	t, err := w.target(w.request.Path, bourn.Write)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return w.put(t, w.request.Content)
}

// put writes a target and says what changed.
func (w *work) put(t *target, content []byte) (any, error) {
	if err := t.put(content); err != nil {
		return nil, w.pathProblem(w.request.Path, t.path, err)
	}
	r := WriteResult{Path: t.path, Created: !t.exists, After: digest(content), Bytes: len(content)}
	if t.exists {
		r.Before = digest(t.now)
	}
	return r, nil
}

// edit replaces the one place where a text occurs.
func (w *work) edit() (any, error) {
	t, err := w.target(w.request.Path, bourn.Write)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if !t.exists {
		return nil, w.pathProblem(w.request.Path, t.path, fs.ErrNotExist)
	}
	old := []byte(w.request.Old)
	n := bytes.Count(t.now, old)
	switch {
	case len(old) == 0:
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "edit_empty", Text: "the text to replace is empty", Hint: "files_write writes a whole file"}
	case n == 0:
		return nil, &Problem{Code: bourn.CodeConflict, Reason: "edit_not_found", Text: fmt.Sprintf("the text does not occur in %q", w.request.Path), Hint: "read the file again: it has to be exact, blanks and tabs too"}
	case n > 1:
		return nil, &Problem{Code: bourn.CodeConflict, Reason: "edit_ambiguous", Text: fmt.Sprintf("the text occurs %d times in %q", n, w.request.Path), Hint: "give more of what is round the place that is meant"}
	}
	return w.put(t, bytes.Replace(t.now, old, []byte(w.request.New), 1))
}

// delete removes a file, a link or an empty directory.
func (w *work) delete() (any, error) {
	dir, name, err := w.parent(w.request.Path, bourn.Delete)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	err = unix.Unlinkat(int(dir.Fd()), name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
	}
	at := filepath.Join(dir.Name(), name)
	if errors.Is(err, unix.ENOTEMPTY) {
		return nil, &Problem{Code: bourn.CodeConflict, Reason: "not_empty", Text: fmt.Sprintf("the directory %q is not empty", w.request.Path), Hint: "delete what is in it first"}
	}
	if err != nil {
		return nil, w.pathProblem(w.request.Path, at, err)
	}
	return WriteResult{Path: at}, nil
}

// move moves a path to another that is not there yet.
func (w *work) move() (any, error) {
	from, name, err := w.parent(w.request.Path, bourn.Delete)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, newName, err := w.parent(w.request.To, bourn.Write)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	err = unix.Renameat2(int(from.Fd()), name, int(to.Fd()), newName, unix.RENAME_NOREPLACE)
	if err != nil {
		return nil, w.pathProblem(w.request.To, filepath.Join(to.Name(), newName), err)
	}
	return WriteResult{Path: filepath.Join(to.Name(), newName)}, nil
}
