package workspace

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"bourn"

	"golang.org/x/sys/unix"
)

// A step makes one target hold other content, or go. Steps are taken together: first each
// is prepared beside its place, then all are put in place, and taken back where one cannot
// be.
type step struct {
	t        *target
	content  []byte // what is to be there; nil for nothing
	keep     bool   // it stays as it is
	onlyRead bool   // and is no part of what is answered

	aside string   // the file beside: what is to come, then what was there
	f     *os.File // the file itself, where it can only be written in place
	ino   uint64   // of the new file
	chmod bool
	undo  func() error
}

func (s *step) result() WriteResult {
	r := WriteResult{Path: s.t.path, Created: !s.t.exists, Bytes: len(s.content)}
	if s.t.exists {
		r.Before = digest(s.t.now)
	}
	if s.content != nil {
		r.After = digest(s.content)
	}
	return r
}

func asideName() string {
	var suffix [6]byte
	rand.Read(suffix[:])
	return asidePrefix + hex.EncodeToString(suffix[:])
}

// take takes steps together: all or none.
func (w *work) take(steps []*step) error {
	var err error
	for _, s := range steps {
		if err == nil {
			if err = s.prepare(); err != nil {
				err = w.pathProblem(s.t.path, err)
			}
		}
	}
	done := 0
	defer w.holdPlaces(false)()
	for _, s := range steps {
		if err != nil {
			break
		}
		if err = s.place(); err != nil {
			err = w.pathProblem(s.t.path, err)
		}
		done++
	}
	if err != nil {
		for i := done - 1; i >= 0; i-- {
			if back := steps[i].back(); back != nil {
				err = &Problem{Code: bourn.CodeInternal, Reason: "not_undone", Text: fmt.Sprintf("%v; and %q could not be put back: %v", err, steps[i].t.path, back)}
			}
		}
	}
	for i := len(steps) - 1; i >= 0; i-- {
		steps[i].clean(err != nil)
	}
	return err
}

// prepare writes what is to come beside its place. Where the directory does not take a new
// file, an existing one is opened to be written in place: it is then not replaced at once,
// and who reads it meanwhile may read a part.
func (s *step) prepare() error {
	t := s.t
	switch {
	case s.keep || s.content == nil:
		return nil
	case t.exists && bytes.Equal(s.content, t.now):
		s.chmod = t.mode != fs.FileMode(t.st.Mode&0o777)
		s.keep = !s.chmod
		if s.keep {
			return s.writable()
		}
		return nil
	}
	if err := t.makeDirs(); err != nil {
		return err
	}
	if t.exists && t.st.Uid != uint32(os.Geteuid()) {
		return s.open() // its owner keeps it
	}
	name := asideName()
	fd, err := unix.Openat(int(t.dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(t.mode.Perm()))
	if err != nil {
		if t.exists && (errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) {
			return s.open()
		}
		return err
	}
	s.aside = name
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		s.ino = st.Ino
		_, err = f.Write(s.content)
	}
	if err == nil && t.exists {
		// Its group stays where that may be; its mode after it, since that may change it.
		if t.st.Gid != uint32(os.Getegid()) {
			_ = f.Chown(-1, int(t.st.Gid))
		}
		err = f.Chmod(t.mode.Perm())
	}
	return errors.Join(err, f.Close())
}

// writable refuses what is as it should be already but may not be written: the answer does not
// depend on the content.
func (s *step) writable() error {
	f, err := os.OpenFile(procPath(s.t.file.File), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func (s *step) open() (err error) {
	s.f, err = os.OpenFile(procPath(s.t.file.File), os.O_WRONLY|unix.O_NONBLOCK, 0)
	return err
}

// place puts a step's content in its place.
func (s *step) place() error {
	t := s.t
	switch {
	case s.keep:
		return nil
	case !t.dir.inItsPlace():
		return changed(t.path)
	case s.chmod:
		return s.mode()
	case s.f != nil:
		return s.inPlace()
	case s.content == nil:
		return s.remove()
	case t.exists:
		return s.exchange()
	}
	if err := unix.Renameat2(int(t.dir.Fd()), s.aside, int(t.dir.Fd()), t.name, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	s.aside = ""
	s.undo = func() error {
		var st unix.Stat_t
		if err := unix.Fstatat(int(t.dir.Fd()), t.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Ino != s.ino {
			return nil // another has replaced it already
		}
		return unix.Unlinkat(int(t.dir.Fd()), t.name, 0)
	}
	return nil
}

// exchange swaps the new file with the old one, in one step: what was there is then aside,
// and is looked at. If it is not what was read, both go back.
func (s *step) exchange() error {
	t := s.t
	dir := int(t.dir.Fd())
	err := unix.Renameat2(dir, s.aside, dir, t.name, unix.RENAME_EXCHANGE)
	switch {
	case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS):
		return s.over() // a file system that cannot
	case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EXDEV):
		// It is mounted on its own, and can only be written.
		if err := s.open(); err != nil {
			return err
		}
		return s.inPlace()
	case errors.Is(err, unix.ENOENT):
		return changed(t.path)
	case err != nil:
		return err
	}
	back := func() error { return unix.Renameat2(dir, s.aside, dir, t.name, unix.RENAME_EXCHANGE) }
	s.undo = back
	if !t.same(s.aside) {
		return errors.Join(changed(t.path), s.back())
	}
	return nil
}

// over renames over what is there, where nothing can be exchanged.
func (s *step) over() error {
	t := s.t
	dir := int(t.dir.Fd())
	if !t.same(t.name) {
		return changed(t.path)
	}
	if err := unix.Renameat(dir, s.aside, dir, t.name); err != nil {
		return err
	}
	s.aside = ""
	s.undo = func() error {
		before := &step{t: &target{dir: t.dir, name: t.name, path: t.path, mode: t.mode}, content: t.now}
		if err := before.prepare(); err != nil {
			return err
		}
		return unix.Renameat(dir, before.aside, dir, t.name)
	}
	return nil
}

// inPlace writes into the file that was judged. What fails in the middle is put back.
func (s *step) inPlace() error {
	t := s.t
	if !t.same(t.name) {
		return changed(t.path)
	}
	back := func() error { return overwrite(s.f, t.now) }
	if err := overwrite(s.f, s.content); err != nil {
		return errors.Join(err, back())
	}
	s.undo = back
	if t.mode != fs.FileMode(t.st.Mode&0o777) {
		return s.f.Chmod(t.mode)
	}
	return nil
}

func overwrite(f *os.File, content []byte) error {
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(content)))
}

// remove takes a file out of its place, and keeps it aside until all steps are taken.
func (s *step) remove() error {
	t := s.t
	dir := int(t.dir.Fd())
	aside := asideName()
	if err := unix.Renameat2(dir, t.name, dir, aside, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	s.aside = aside
	back := func() error {
		err := unix.Renameat2(dir, aside, dir, t.name, unix.RENAME_NOREPLACE)
		if err == nil {
			s.aside = ""
		}
		return err
	}
	s.undo = back
	if !t.same(aside) {
		return errors.Join(changed(t.path), s.back())
	}
	return nil
}

// mode gives an unchanged file the mode that it is to have.
func (s *step) mode() error {
	at := procPath(s.t.file.File)
	if err := os.Chmod(at, s.t.mode.Perm()); err != nil {
		return unwrapped(err)
	}
	s.undo = func() error { return os.Chmod(at, fs.FileMode(s.t.st.Mode&0o777)) }
	return nil
}

func (s *step) back() error {
	if s.undo == nil {
		return nil
	}
	err := s.undo()
	s.undo = nil
	if err != nil {
		s.aside = "" // what is aside is all that is left of what was there
	}
	return err
}

// clean removes what is aside, and after a failure the directories that were made.
func (s *step) clean(failed bool) {
	if s.f != nil {
		s.f.Close()
	}
	if strings.HasPrefix(s.aside, asidePrefix) {
		_ = unix.Unlinkat(int(s.t.dir.Fd()), s.aside, 0)
	}
	if !failed {
		return
	}
	for i := len(s.t.made) - 1; i >= 0; i-- {
		m := s.t.made[i]
		_ = unix.Unlinkat(int(m.in.Fd()), m.name, unix.AT_REMOVEDIR)
	}
}
