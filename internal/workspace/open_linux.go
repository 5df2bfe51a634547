package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"bourn"

	"golang.org/x/sys/unix"
)

// absolute makes a path that was given absolute, lexically.
func (w *work) absolute(given string) (string, error) {
	if given == "" {
		given = "."
	}
	for _, r := range []byte(given) {
		if r == 0 {
			return "", &Problem{Code: bourn.CodeInvalid, Reason: "invalid_path", Text: "the path holds a NUL"}
		}
	}
	if rest, ok := cutHome(given); ok && w.actor.Home != "" {
		given = filepath.Join(w.actor.Home, rest)
	}
	if !filepath.IsAbs(given) {
		given = filepath.Join(w.actor.Cwd, given)
	}
	return filepath.Clean(given), nil
}

func cutHome(given string) (string, bool) {
	if given == "~" {
		return "", true
	}
	if len(given) > 1 && given[:2] == "~/" {
		return given[2:], true
	}
	return "", false
}

// resolve opens a path as a place (O_PATH), following symbolic links but none of the
// kernel's own (/proc/*/fd), and returns it with the path that it turned out to be. What
// it is afterwards cannot change: links that are swapped lead elsewhere, and not here.
func (w *work) resolve(given string, flags int) (*os.File, string, error) {
	at, err := w.absolute(given)
	if err != nil {
		return nil, "", err
	}
	fd, err := openat2(unix.AT_FDCWD, at, &unix.OpenHow{Flags: uint64(unix.O_PATH | unix.O_CLOEXEC | flags), Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, "", w.pathProblem(given, at, err)
	}
	f := os.NewFile(uintptr(fd), at)
	resolved, err := pathOf(f)
	if err != nil {
		f.Close()
		return nil, "", err
	}
	return f, resolved, nil
}

func openat2(dir int, path string, how *unix.OpenHow) (int, error) {
	for {
		fd, err := unix.Openat2(dir, path, how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

// pathOf is the path of an open file, as the kernel knows it.
func pathOf(f *os.File) (string, error) {
	at, err := os.Readlink(procPath(f))
	if err != nil {
		return "", fmt.Errorf("%w: cannot tell what was opened: %w", bourn.ErrInternal, err)
	}
	if !filepath.IsAbs(at) {
		return "", &Problem{Code: bourn.CodeNotFound, Reason: "not_found", Text: "what was opened has no path"}
	}
	return at, nil
}

func procPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// open opens an existing file for reading, judged by what it turned out to be. What is no
// regular file is refused: a pipe would wait for ever.
func (w *work) open(given string, o bourn.Operation, flags int) (*os.File, string, error) {
	place, resolved, err := w.resolve(given, 0)
	if err != nil {
		return nil, "", err
	}
	defer place.Close()
	if err := w.opened(o, given, resolved); err != nil {
		return nil, "", err
	}
	info, err := place.Stat()
	if err != nil {
		return nil, "", w.pathProblem(given, resolved, err)
	}
	if !info.Mode().IsRegular() {
		return nil, "", &Problem{Code: bourn.CodeInvalid, Reason: "invalid_path", Text: fmt.Sprintf("%q is %s, and no regular file", given, kindOf(info.Mode()))}
	}
	f, err := os.OpenFile(procPath(place), flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", w.pathProblem(given, resolved, err)
	}
	return f, resolved, nil
}

// parent opens the directory that holds a path, judged with the path's name, and returns
// both: what is done there is done by descriptor and name, following no link.
func (w *work) parent(given string, o bourn.Operation) (dir *os.File, name string, err error) {
	at, err := w.absolute(given)
	if err != nil {
		return nil, "", err
	}
	name = filepath.Base(at)
	if name == "/" || name == "." || name == ".." {
		return nil, "", &Problem{Code: bourn.CodeInvalid, Reason: "invalid_path", Text: fmt.Sprintf("%q names no file", given)}
	}
	dir, resolved, err := w.resolve(filepath.Dir(at), unix.O_DIRECTORY)
	if err != nil {
		return nil, "", err
	}
	if err := w.opened(o, given, filepath.Join(resolved, name)); err != nil {
		dir.Close()
		return nil, "", err
	}
	return dir, name, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a file"
}

// pathProblem makes an error about a path into what a tool says of it, with the nearest
// directory above it that is there: what a grant could name.
func (w *work) pathProblem(given, at string, err error) error {
	p := &Problem{Code: bourn.CodeInternal, Reason: "operation_failed", Text: fmt.Sprintf("cannot open %q: %v", given, unwrapped(err))}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		p.Code, p.Reason = bourn.CodeNotFound, "not_found"
		p.Hint = fmt.Sprintf("the nearest directory that is there is %s; what was not granted is not there either", nearest(at))
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS):
		p.Code, p.Reason = bourn.CodeDenied, "permission_denied"
		p.Hint = fmt.Sprintf("bourn explain write %s says which line decides", at)
	case errors.Is(err, fs.ErrExist):
		p.Code, p.Reason = bourn.CodeConflict, "already_exists"
	case errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EXDEV):
		p.Code, p.Reason = bourn.CodeInvalid, "invalid_path"
	}
	return p
}

// unwrapped drops the path that Go's errors repeat.
func unwrapped(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// nearest is the nearest directory above a path that is there.
func nearest(at string) string {
	for at != "/" {
		at = filepath.Dir(at)
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			break
		}
	}
	return at
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not_found"
	case errors.Is(err, fs.ErrPermission):
		return "permission_denied"
	case errors.Is(err, fs.ErrExist):
		return "already_exists"
	}
	return "operation_failed"
}
