package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"bourn"

	"golang.org/x/sys/unix"
)

// Limits of what is shared at once.
const (
	maxShared      = 10_000  // files and directories
	maxSharedBytes = 1 << 30 // in all
)

// What is shared is the circle's to read and to change, and nobody else's, whatever the umask.
const (
	circleFile = 0o660
	circleDir  = 0o2770
)

// share copies a file, or a directory with what is below it, into a directory of a circle:
// one that gives its group to what is made in it, and shows nothing to others. No link is
// followed on either side. The copy is made beside its place, where nobody else can look into
// it, and put there whole under a name that is free.
func (w *work) share(ctx context.Context) (any, error) {
	from, err := w.shared()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, group, err := w.intoCircle()
	if err != nil {
		return nil, err
	}
	defer to.Close()
	if to.at == from.at || strings.HasPrefix(to.at, from.at+"/") {
		return nil, invalidPath("%q is in %q, which is to be copied there", w.request.To, w.request.Path)
	}
	if _, err := to.stat(); !errors.Is(err, unix.ENOENT) {
		if err == nil {
			err = unix.EEXIST
		}
		return nil, w.pathProblem(to.at, err)
	}
	s := &sharing{w: w, ctx: ctx, group: group, sum: sha256.New()}
	aside := &element{dir: to.dir, name: asideName(), at: to.at}
	made, err := s.copy(from, aside)
	if err == nil {
		err = s.place(made, aside, to)
	}
	if made != nil {
		made.Close()
	}
	if err != nil {
		s.undo(aside)
		return nil, err
	}
	r := ShareResult{Path: to.at, Files: s.files, Directories: s.directories, Bytes: s.bytes}
	if s.directories == 0 {
		r.After = hex.EncodeToString(s.sum.Sum(nil))
	}
	return r, nil
}

// shared opens what is to be copied, judged.
func (w *work) shared() (*place, error) {
	at, err := w.absolute(w.request.Path)
	if err != nil {
		return nil, err
	}
	dir, err := w.unlinked(filepath.Dir(at))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	p, err := w.copied(dir, filepath.Base(at), at)
	if err == nil && namesDirectory(w.request.Path) && !isDirectory(p) {
		p.Close()
		return nil, invalidPath("%q is a file, and no directory", w.request.Path)
	}
	return p, err
}

// copied opens a name in a directory that is to be copied, judged by what it turned out to be.
func (w *work) copied(dir *place, name, given string) (*place, error) {
	fd, err := openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, w.unreadable(given, err)
	}
	p := &place{File: os.NewFile(uintptr(fd), given), given: given}
	if p.at, err = pathOf(p.File); err == nil {
		err = w.copiable(p)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// copiable refuses what is not to be copied.
func (w *work) copiable(p *place) error {
	if err := w.opened(p.given, p.at, bourn.Read); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(p.Fd()), &st); err != nil {
		return w.unreadable(p.given, err)
	}
	switch mode := modeOf(st.Mode); {
	case ofKernel(p.File):
		return invalidPath("%q is what the kernel shows, and no file", p.given)
	case mode.IsDir():
	case !mode.IsRegular():
		return invalidPath("%q is %s: only files and directories are shared", p.given, kindOf(mode))
	case st.Nlink > 1 && w.ruled():
		return &Problem{Code: bourn.CodeDenied, Reason: "unclear", Text: fmt.Sprintf("%q has another name, which a hard block may be about", p.given), Hint: "copy it, and share the copy"}
	}
	return nil
}

func isDirectory(p *place) bool {
	info, err := p.Stat()
	return err == nil && info.IsDir()
}

// intoCircle opens the directory that is to hold the copy, judged with the name, and returns
// the group that the copy gets.
func (w *work) intoCircle() (to *element, group uint32, err error) {
	at, err := w.absolute(w.request.To)
	if err != nil {
		return nil, 0, err
	}
	if at == "/" || isAside(at) {
		return nil, 0, invalidPath("%q names no file of a circle", w.request.To)
	}
	dir, err := w.unlinked(filepath.Dir(at))
	if err != nil {
		return nil, 0, err
	}
	to = &element{dir: dir, name: filepath.Base(at), given: at, at: filepath.Join(dir.at, filepath.Base(at))}
	var st unix.Stat_t
	if err = w.opened(at, to.at, bourn.Write); err == nil {
		err = unix.Fstat(int(dir.Fd()), &st)
	}
	if err == nil && (st.Mode&unix.S_ISGID == 0 || st.Mode&0o007 != 0) {
		err = &Problem{Code: bourn.CodeInvalid, Reason: "invalid_path", Text: fmt.Sprintf("%q is no directory of a circle", dir.at), Hint: "a circle's has its group, and mode 2770"}
	}
	if err != nil {
		to.Close()
		return nil, 0, w.pathProblem(at, err)
	}
	return to, st.Gid, nil
}

// unlinked opens a directory, with no link on the way.
func (w *work) unlinked(at string) (*place, error) {
	fd, err := openPlain(at)
	if err != nil {
		if link := linkIn(at); link != "" {
			return nil, invalidPath("%q is a symbolic link, and none is followed when something is shared", link)
		}
		return nil, w.unreadable(at, err)
	}
	p := &place{File: os.NewFile(uintptr(fd), at), given: at}
	if p.at, err = pathOf(p.File); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// linkIn is the first symbolic link on the way of a path, "" for none.
func linkIn(at string) string {
	for i := 1; i <= len(at); i++ {
		if i < len(at) && at[i] != '/' {
			continue
		}
		if info, err := os.Lstat(at[:i]); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return at[:i]
		}
	}
	return ""
}

// unreadable is pathProblem of what was to be read.
func (w *work) unreadable(at string, err error) error {
	return (&work{request: Request{Verb: Read}}).pathProblem(at, err)
}

// sharing is a copy that is being made.
type sharing struct {
	w           *work
	ctx         context.Context
	group       uint32
	files       int
	directories int
	bytes       int64
	sum         hash.Hash // of a single file
}

// copy copies a place to a name beside another. What it returns, where it has made something,
// is open.
func (s *sharing) copy(from *place, to *element) (*os.File, error) {
	if err := s.room(from); err != nil {
		return nil, err
	}
	if isDirectory(from) {
		return s.directory(from, to, maxDepth)
	}
	return s.file(from, to)
}

// room bounds what is shared, and ends with the call.
func (s *sharing) room(at *place) error {
	switch {
	case s.ctx.Err() != nil:
		return cancelled
	case s.files+s.directories >= maxShared:
		return tooMuch(at.given, fmt.Sprintf("more than %d files and directories", maxShared))
	}
	return nil
}

func tooMuch(at, what string) error {
	return &Problem{Code: bourn.CodeInvalid, Reason: "too_large", Text: fmt.Sprintf("with %q it is %s, which is what is shared at once; nothing was", at, what), Hint: "share it in parts"}
}

func tooManyBytes(at string) error {
	return tooMuch(at, fmt.Sprintf("more than %d bytes", maxSharedBytes))
}

// file copies a regular file.
func (s *sharing) file(from *place, to *element) (*os.File, error) {
	source, err := s.w.reopen(from, from.given)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	var before, after unix.Stat_t
	if err := unix.Fstat(int(source.Fd()), &before); err != nil {
		return nil, s.w.unreadable(from.given, err)
	}
	if before.Size > maxSharedBytes-s.bytes {
		return nil, tooManyBytes(from.given)
	}
	fd, err := unix.Openat(int(to.dir.Fd()), to.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, s.w.pathProblem(to.at, err)
	}
	made := os.NewFile(uintptr(fd), to.at)
	s.files++
	if err := s.content(from, source, made); err != nil {
		return made, err
	}
	if err := unix.Fstat(int(source.Fd()), &after); err != nil || after.Size != before.Size || after.Mtim != before.Mtim {
		return made, changed(from.given)
	}
	return made, s.give(made, to.at, circleFile)
}

// content copies what a file holds.
func (s *sharing) content(from *place, source, made *os.File) error {
	buffer := make([]byte, 256<<10)
	for {
		if s.ctx.Err() != nil {
			return cancelled
		}
		n, err := source.Read(buffer)
		if s.bytes += int64(n); s.bytes > maxSharedBytes {
			return tooManyBytes(from.given) // it grows
		}
		s.sum.Write(buffer[:n])
		if n > 0 {
			if _, err := made.Write(buffer[:n]); err != nil {
				return s.w.pathProblem(made.Name(), err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return s.w.unreadable(from.given, err)
		}
	}
}

// directory copies a directory. Until all is in it, nobody else may look into it.
func (s *sharing) directory(from *place, to *element, left int) (*os.File, error) {
	if left <= 0 {
		return nil, tooMuch(from.given, fmt.Sprintf("more than %d directories deep", maxDepth))
	}
	source, err := from.directory()
	if err != nil {
		return nil, s.w.unreadable(from.given, err)
	}
	defer source.Close()
	made, err := s.makeDirectory(to)
	if err != nil {
		return nil, s.w.pathProblem(to.at, err)
	}
	entries, whole := readDir(source, maxShared)
	if !whole {
		return made, tooMuch(from.given, fmt.Sprintf("more than %d files and directories", maxShared))
	}
	for _, e := range entries {
		if err := s.entry(from, made, to, e.name, left-1); err != nil {
			return made, err
		}
	}
	return made, s.give(made, to.at, circleDir)
}

// makeDirectory makes a directory for nobody else yet, and opens it.
func (s *sharing) makeDirectory(to *element) (*os.File, error) {
	if err := unix.Mkdirat(int(to.dir.Fd()), to.name, 0o700); err != nil {
		return nil, err
	}
	s.directories++
	fd, err := openat(int(to.dir.Fd()), to.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	p := &place{File: os.NewFile(uintptr(fd), to.at), at: to.at}
	defer p.Close()
	// A umask may have taken the owner's own rights. What another has put there is not this user's.
	if err := unix.Chmod(procPath(p.File), unix.S_ISGID|0o700); err != nil {
		return nil, err
	}
	return p.directory()
}

// entry copies what a directory holds by a name.
func (s *sharing) entry(dir *place, into *os.File, to *element, name string, left int) error {
	from, err := s.w.copied(dir, name, filepath.Join(dir.given, name))
	if err != nil {
		return err
	}
	defer from.Close()
	if err := s.room(from); err != nil {
		return err
	}
	below := &element{dir: &place{File: into, at: to.at}, name: name, given: filepath.Join(to.at, name), at: filepath.Join(to.at, name)}
	if err := s.w.opened(below.given, below.at, bourn.Write); err != nil {
		return err
	}
	var made *os.File
	if isDirectory(from) {
		made, err = s.directory(from, below, left)
	} else {
		made, err = s.file(from, below)
	}
	if made != nil {
		made.Close()
	}
	return err
}

// give makes what was copied the circle's. Its group came with the directory: a seal has no
// other to give.
func (s *sharing) give(made *os.File, at string, mode uint32) error {
	var st unix.Stat_t
	err := unix.Fstat(int(made.Fd()), &st)
	if err == nil && st.Gid != s.group {
		err = unix.Fchown(int(made.Fd()), -1, int(s.group))
	}
	if err == nil {
		err = unix.Fchmod(int(made.Fd()), mode)
	}
	if err == nil {
		err = unix.Fstat(int(made.Fd()), &st)
	}
	switch {
	case err != nil:
		return s.w.pathProblem(at, err)
	case st.Gid != s.group || st.Mode&0o7777 != mode: // who is not in the group cannot give the bit
		return &Problem{Code: bourn.CodeDenied, Reason: "permission_denied", Text: fmt.Sprintf("%q cannot be given to the circle", at), Hint: "only who is in a circle shares into it"}
	}
	return nil
}

// place puts the copy in its place. What was made is what stands there afterwards, or it is
// taken away again: in a circle others may rename.
func (s *sharing) place(made *os.File, aside, to *element) error {
	defer s.w.holdPlaces(false)()
	if !to.dir.inItsPlace() {
		return changed(to.dir.at)
	}
	dir := int(to.dir.Fd())
	if err := unix.Renameat2(dir, aside.name, dir, to.name, unix.RENAME_NOREPLACE); err != nil {
		return s.w.pathProblem(to.at, err)
	}
	var mine unix.Stat_t
	there, err := to.stat()
	if err == nil {
		err = unix.Fstat(int(made.Fd()), &mine)
	}
	if err != nil || there.Ino != mine.Ino || there.Dev != mine.Dev {
		_ = unix.Renameat2(dir, to.name, dir, aside.name, unix.RENAME_NOREPLACE)
		return changed(to.at)
	}
	return nil
}

// undo removes a copy that is not in its place. What cannot be removed, since another has
// taken it, stays by the name that says so; see the package's documentation.
func (s *sharing) undo(aside *element) { removeAll(int(aside.dir.Fd()), aside.name, maxDepth+1) }

// removeAll removes a name and what is below it, following no link.
func removeAll(dir int, name string, left int) {
	err := unix.Unlinkat(dir, name, 0)
	if left == 0 || !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return
	}
	if fd, err := openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW); err == nil {
		f := os.NewFile(uintptr(fd), name)
		defer f.Close()
		entries, _ := readDir(f, maxShared)
		for _, e := range entries {
			removeAll(fd, e.name, left-1)
		}
	}
	_ = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}
