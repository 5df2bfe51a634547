package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bourn"

	"golang.org/x/sys/unix"
)

// A target is a file that is to be changed: its directory, its name there, and what it is
// now. A symbolic link is followed once, and judged by where it leads.
type target struct {
	dir     *place
	missing []string // directories to make in dir before the file, each in the one before
	made    []madeDir
	name    string
	path    string
	exists  bool
	file    *place // where it exists
	st      unix.Stat_t
	now     []byte
	mode    fs.FileMode // that it is to have
}

type madeDir struct {
	in   *place
	name string
}

func (t *target) close() {
	if t.file != nil {
		t.file.Close()
	}
	t.dir.Close()
	for _, m := range t.made {
		m.in.Close()
	}
}

// target opens what is to be changed. An existing file that is no regular one is refused, and
// so is a link that leads nowhere.
func (w *work) target(given string, operations ...bourn.Operation) (*target, error) {
	if namesDirectory(given) {
		return nil, invalidPath("%q names a directory, and no file", given)
	}
	p, err := w.resolve(given, 0)
	switch {
	case err == nil:
		t, err := w.existing(p, given, operations)
		if err != nil {
			p.Close()
		}
		return t, err
	case bourn.CodeOf(err) != bourn.CodeNotFound:
		return nil, err
	}
	return w.missing(given, operations)
}

func (w *work) existing(p *place, given string, operations []bourn.Operation) (*target, error) {
	if err := w.opened(p.given, p.at, operations...); err != nil {
		return nil, err
	}
	f, err := w.reopen(p, given)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &target{name: filepath.Base(p.at), path: p.at, exists: true, file: p}
	if err := unix.Fstat(int(f.Fd()), &t.st); err != nil {
		return nil, w.pathProblem(p.at, err)
	}
	t.mode = fs.FileMode(t.st.Mode & 0o777)
	if t.now, err = readSome(int(f.Fd()), 0, maxRead+1, t.st.Size); err != nil {
		return nil, w.pathProblem(p.at, err)
	}
	if len(t.now) > maxRead {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "too_large", Text: fmt.Sprintf("%q has more than %d bytes, which is what a tool changes", given, maxRead), Hint: "use shell_exec"}
	}
	fd, err := openPlain(filepath.Dir(p.at))
	if err != nil {
		return nil, w.pathProblem(p.at, err)
	}
	t.dir = &place{File: os.NewFile(uintptr(fd), filepath.Dir(p.at)), at: filepath.Dir(p.at)}
	if !t.same(t.name) {
		t.dir.Close()
		return nil, changed(p.at)
	}
	return t, nil
}

// same reports whether a name in the target's directory is the file that was read, and still
// holds what was read.
func (t *target) same(name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(int(t.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Dev == t.st.Dev && st.Ino == t.st.Ino && st.Size == t.st.Size && st.Mtim == t.st.Mtim
}

// missing opens the nearest directory above a file that is not there.
func (w *work) missing(given string, operations []bourn.Operation) (*target, error) {
	at, err := w.absolute(given)
	if err != nil {
		return nil, err
	}
	t := &target{name: filepath.Base(at), mode: 0o666}
	rest := ""
	for dir := filepath.Dir(at); ; dir = filepath.Dir(dir) {
		t.dir, err = w.resolve(dir, unix.O_DIRECTORY)
		if err == nil {
			break
		}
		if bourn.CodeOf(err) != bourn.CodeNotFound || dir == "/" || errors.Is(lstat(dir), fs.ErrExist) {
			return nil, err
		}
		t.missing = append([]string{filepath.Base(dir)}, t.missing...)
		rest = filepath.Join(filepath.Base(dir), rest)
	}
	t.path = filepath.Join(t.dir.at, rest, t.name)
	err = w.opened(at, t.path, operations...)
	for i := 0; i < len(t.missing) && err == nil; i++ {
		below := filepath.Join(t.missing[:i+1]...)
		err = w.opened(filepath.Join(t.dir.given, below), filepath.Join(t.dir.at, below), bourn.Write)
	}
	if err == nil && len(t.missing) == 0 {
		err = w.nothingAt(t)
	}
	if err != nil {
		t.dir.Close()
		return nil, err
	}
	return t, nil
}

// lstat returns ErrExist where there is something that is no directory: a file, or a link
// that leads nowhere.
func lstat(at string) error {
	if _, err := os.Lstat(at); err == nil {
		return fs.ErrExist
	}
	return nil
}

// nothingAt refuses a link that leads nowhere: what it is replaced by would stand elsewhere
// than the link says.
func (w *work) nothingAt(t *target) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(t.dir.Fd()), t.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return w.pathProblem(t.path, err)
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return &Problem{Code: bourn.CodeInvalid, Reason: "invalid_path", Text: fmt.Sprintf("%q is a symbolic link that leads nowhere", t.path), Hint: "delete it first, or name what it leads to"}
	}
	return changed(t.path)
}

// makeDirs makes the directories that are missing above a file.
func (t *target) makeDirs() error {
	for len(t.missing) > 0 {
		name := t.missing[0]
		err := unix.Mkdirat(int(t.dir.Fd()), name, 0o777)
		mine := err == nil
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		fd, err := openat(int(t.dir.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			return err
		}
		t.missing = t.missing[1:]
		in := t.dir
		t.dir = &place{File: os.NewFile(uintptr(fd), name), at: filepath.Join(in.at, name)}
		if mine {
			t.made = append(t.made, madeDir{in, name})
		} else {
			in.Close()
		}
	}
	return nil
}

// inItsPlace reports whether a place is still where it was judged.
func (p *place) inItsPlace() bool {
	at, err := pathOf(p.File)
	return err == nil && at == p.at
}
