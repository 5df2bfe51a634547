package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bourn"

	"golang.org/x/sys/unix"
)

// absolute makes a path that was given absolute, lexically: what follows .. is what stands
// before it in the text, on both sides of a call.
func (w *work) absolute(given string) (string, error) {
	if given == "" {
		given = "."
	}
	if strings.IndexByte(given, 0) >= 0 {
		return "", invalidPath("the path holds a NUL")
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
	return strings.CutPrefix(given, "~/")
}

func invalidPath(format string, args ...any) *Problem {
	return &Problem{Code: bourn.CodeInvalid, Reason: "invalid_path", Text: fmt.Sprintf(format, args...)}
}

// A place is a path that was opened with O_PATH: what it is cannot change any more. Links
// that are swapped afterwards lead elsewhere, and not here.
type place struct {
	*os.File
	given string // absolute, as it was asked for
	at    string // as the kernel knows it
}

// resolve opens a path as a place, following symbolic links but none of the kernel's own
// (/proc/*/fd). What the kernel shows of a process is refused: that of the actor itself is
// its memory, and that of others is for commands to read.
func (w *work) resolve(given string, flags int) (*place, error) {
	b, err := w.find(given, flags)
	if err != nil {
		return nil, err
	}
	return &place{File: os.NewFile(uintptr(b.fd), b.given), given: b.given, at: b.at}, nil
}

// A bare is a place as resolve opens it, by its descriptor alone, which whoever has it closes:
// Go's own files ask the kernel for more than a small read does.
type bare struct {
	fd    int
	given string
	at    string
	st    unix.Stat_t // when it was opened
}

func (b *bare) close() { unix.Close(b.fd) }

// find is resolve for who needs no more than a descriptor.
func (w *work) find(given string, flags int) (*bare, error) {
	at, err := w.absolute(given)
	if err != nil {
		return nil, err
	}
	fd, found, err := follow(at, flags)
	if err != nil {
		return nil, w.pathProblem(at, err)
	}
	b := &bare{fd: fd, given: at}
	if found == "" {
		found, err = linkAt(fd)
	}
	if err == nil {
		b.at, err = found, pathIs(fd, found, &b.st)
	}
	if err == nil && ofProcess(b) {
		err = &Problem{Code: bourn.CodeInvalid, Reason: "invalid_path", Text: fmt.Sprintf("%q is what the kernel shows of a process, and no file", given), Hint: "use shell_exec"}
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// ofProcess reports whether a place is in a process's directory of /proc.
func ofProcess(b *bare) bool {
	for part := range strings.SplitSeq(b.at, "/") {
		if _, err := strconv.ParseUint(part, 10, 31); err == nil {
			var st unix.Statfs_t
			return unix.Fstatfs(b.fd, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
		}
	}
	return false
}

// openat opens a path without making it a terminal's or waiting for a pipe's other end. It
// is not openat2: a seal refuses that (ENOSYS), since its mode stands behind a pointer, where
// no filter sees it. A single name with O_NOFOLLOW follows nothing all the same.
func openat(dir int, path string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, flags|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// maxLinks is how many symbolic links a path may lead through, as for the kernel
// (path_resolution(7)).
const maxLinks = 40

// follow opens an absolute path as a place. It goes name by name where a link is on the
// way: those of /proc lead where no name does, and are not followed. Where no link is on the
// way, found is the path as the kernel knows it.
func follow(at string, flags int) (fd int, found string, err error) {
	if fd, err = openat(unix.AT_FDCWD, at, unix.O_PATH|flags); err != nil {
		return fd, "", err
	}
	if found, err := readProcLink(fd); err == nil && found == at {
		return fd, at, nil
	}
	unix.Close(fd)
	fd, err = followLinks(at, flags)
	return fd, "", err
}

// followLinks opens an absolute path as a place, name by name.
func followLinks(at string, flags int) (fd int, err error) {
	if fd, err = openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return fd, err
	}
	rest := strings.Split(at, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next, err := openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		to, link, err := linkOf(next)
		if err == nil && link {
			if links++; links > maxLinks {
				err = unix.ELOOP
			}
		}
		if err != nil {
			unix.Close(next)
			unix.Close(fd)
			return -1, err
		}
		if !link {
			unix.Close(fd)
			fd = next
			continue
		}
		unix.Close(next)
		if strings.HasPrefix(to, "/") {
			unix.Close(fd)
			if fd, err = openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY); err != nil {
				return -1, err
			}
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || flags&unix.O_DIRECTORY != 0 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		unix.Close(fd)
		return -1, cmp.Or(err, error(unix.ENOTDIR))
	}
	return fd, nil
}

// linkOf tells whether a place is a symbolic link, and where it leads; one of /proc is
// ELOOP.
func linkOf(fd int) (to string, link bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", false, nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return "", true, err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return "", true, unix.ELOOP
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", buf[:])
	return string(buf[:max(n, 0)]), true, err
}

// openPlain opens an absolute path as a place, name by name, following no link at all.
func openPlain(at string) (int, error) {
	fd, err := openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(at, "/") {
		if name == "" {
			continue
		}
		next, err := openat(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// pathOf is the path of an open file, as the kernel knows it.
func pathOf(f *os.File) (string, error) {
	fd := int(f.Fd())
	at, err := linkAt(fd)
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	return at, pathIs(fd, at, &st)
}

// linkAt is what the kernel says of where a descriptor leads.
func linkAt(fd int) (string, error) {
	at, err := readProcLink(fd)
	if err != nil {
		return "", &Problem{Code: bourn.CodeUnavailable, Reason: "actor_runtime_unavailable", Text: "cannot tell what was opened: /proc is not there"}
	}
	return at, nil
}

func readProcLink(fd int) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlink(procFd(fd), buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// pathIs refuses a descriptor that has no path any more, and says what it is.
func pathIs(fd int, at string, st *unix.Stat_t) error {
	if !filepath.IsAbs(at) || unix.Fstat(fd, st) == nil && st.Nlink == 0 {
		return &Problem{Code: bourn.CodeNotFound, Reason: "not_found", Text: "what was opened has no path any more"}
	}
	return nil
}

func procPath(f *os.File) string { return procFd(int(f.Fd())) }

func procFd(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// open opens an existing file for reading, judged by what it turned out to be. What is no
// regular file is refused: a pipe would wait for ever. A file with several names is judged
// by the one that it was opened by. The descriptor is for the caller to close.
func (w *work) open(given string, operations ...bourn.Operation) (b *bare, fd int, err error) {
	if b, err = w.find(given, 0); err != nil {
		return nil, -1, err
	}
	defer b.close()
	if err := w.opened(b.given, b.at, operations...); err != nil {
		return nil, -1, err
	}
	fd, err = w.readable(b, given)
	return b, fd, err
}

// reopen opens a place that is a regular file for reading.
func (w *work) reopen(p *place, given string) (*os.File, error) {
	b := &bare{fd: int(p.Fd()), at: p.at}
	if err := unix.Fstat(b.fd, &b.st); err != nil {
		return nil, w.pathProblem(p.at, err)
	}
	fd, err := w.readable(b, given)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), p.at), nil
}

// readable opens what is a regular file for reading.
func (w *work) readable(b *bare, given string) (int, error) {
	if mode := modeOf(b.st.Mode); !mode.IsRegular() {
		return -1, invalidPath("%q is %s, and no regular file", given, kindOf(mode))
	}
	if namesDirectory(given) {
		return -1, invalidPath("%q is a file, and no directory", given)
	}
	fd, err := openat(unix.AT_FDCWD, procFd(b.fd), unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return -1, w.pathProblem(b.at, err)
	}
	return fd, nil
}

// namesDirectory reports whether a path ends as only a directory's can.
func namesDirectory(given string) bool {
	return strings.HasSuffix(given, "/") || strings.HasSuffix(given, "/.") || strings.HasSuffix(given, "/..")
}

// An element is a directory that was opened, and a name in it. What is done to it is done by
// descriptor and name, following no link.
type element struct {
	dir   *place
	name  string
	given string // absolute, as it was asked for
	at    string // the directory's path as the kernel knows it, and the name
}

func (e *element) Close() { e.dir.Close() }

func (e *element) stat() (st unix.Stat_t, err error) {
	err = unix.Fstatat(int(e.dir.Fd()), e.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// element opens the directory that holds a path, judged with the path's name.
func (w *work) element(given string, operations ...bourn.Operation) (*element, error) {
	at, err := w.absolute(given)
	if err != nil {
		return nil, err
	}
	if at == "/" {
		return nil, invalidPath("%q names no file", given)
	}
	dir, err := w.resolve(filepath.Dir(at), unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	e := &element{dir: dir, name: filepath.Base(at), given: at}
	e.at = filepath.Join(dir.at, e.name)
	if err := w.opened(at, e.at, operations...); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
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
func (w *work) pathProblem(at string, err error) error {
	var already *Problem
	if errors.As(err, &already) {
		return err
	}
	verb := "write"
	if v := verbs[w.request.Verb]; v.tier == bourn.TierRead {
		verb = "read"
	}
	p := &Problem{Code: bourn.CodeInternal, Reason: "operation_failed", Text: fmt.Sprintf("cannot %s %q: %v", verb, at, unwrapped(err))}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		p.Code, p.Reason = bourn.CodeNotFound, "not_found"
		p.Hint = fmt.Sprintf("the nearest directory that is there is %s; what was not granted is not there either", nearest(at))
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS):
		p.Code, p.Reason = bourn.CodeDenied, "permission_denied"
		p.Hint = fmt.Sprintf("bourn explain %s %s says which line decides; the nearest directory that is there is %s", verb, at, nearest(at))
	case errors.Is(err, fs.ErrExist):
		p.Code, p.Reason, p.Hint = bourn.CodeConflict, "already_exists", "give it a name that is free"
	case errors.Is(err, unix.EXDEV):
		p.Code, p.Reason = bourn.CodeInvalid, "invalid_path"
		p.Hint = "the two are on different file systems, or granted apart: write the new one and delete the old"
	case errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EISDIR):
		p.Code, p.Reason = bourn.CodeInvalid, "invalid_path"
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG):
		p.Code = bourn.CodeUnavailable
		p.Hint = "nothing was changed; there is no room"
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM):
		p.Code = bourn.CodeUnavailable
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

var kinds = map[fs.FileMode]string{0: "file", fs.ModeDir: "directory", fs.ModeSymlink: "link", fs.ModeNamedPipe: "pipe", fs.ModeSocket: "socket", fs.ModeDevice: "device", fs.ModeDevice | fs.ModeCharDevice: "device"}

func entryOf(path string, st *unix.Stat_t) Entry {
	mode := modeOf(st.Mode)
	e := Entry{Path: path, Kind: kinds[mode.Type()], Mode: mode.String(), Modified: time.Unix(st.Mtim.Unix()).UTC()}
	if mode.IsRegular() {
		e.Size = st.Size
	}
	return e
}

// modeOf is the kernel's mode as Go writes it.
func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	default:
		mode |= fs.ModeIrregular
	}
	for bit, is := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if m&bit != 0 {
			mode |= is
		}
	}
	return mode
}
