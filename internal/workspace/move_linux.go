package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bourn"

	"golang.org/x/sys/unix"
)

// maxMoved is how many paths a directory may hold that is moved where there are rules.
const maxMoved = 20_000

// move moves a path to another that is not there yet; a link itself, and not what it leads
// to. With a directory goes what is below it: every path of that is judged, where it is and
// where it comes to.
func (w *work) move(ctx context.Context) (any, error) {
	from, err := w.element(w.request.Path, bourn.Read, bourn.Delete)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := w.element(w.request.To, bourn.Write)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	before, err := from.stat()
	if err != nil {
		return nil, w.pathProblem(from.at, err)
	}
	directory := before.Mode&unix.S_IFMT == unix.S_IFDIR
	defer w.holdPlaces(directory)()
	for _, dir := range []*place{from.dir, to.dir} {
		if !dir.inItsPlace() {
			return nil, changed(dir.at)
		}
	}
	if directory {
		if err := w.moves(ctx, from, to, before); err != nil {
			return nil, err
		}
	} else if namesDirectory(w.request.Path) || namesDirectory(w.request.To) {
		return nil, invalidPath("%q is no directory", w.request.Path)
	}
	if err := unix.Renameat2(int(from.dir.Fd()), from.name, int(to.dir.Fd()), to.name, unix.RENAME_NOREPLACE); err != nil {
		at := from.at
		if errors.Is(err, unix.EEXIST) {
			at = to.at
		}
		return nil, w.pathProblem(at, err)
	}
	// What was judged is what was moved, or goes back.
	if after, err := to.stat(); err != nil || after.Ino != before.Ino || after.Dev != before.Dev {
		_ = unix.Renameat2(int(to.dir.Fd()), to.name, int(from.dir.Fd()), from.name, unix.RENAME_NOREPLACE)
		return nil, changed(from.at)
	}
	return WriteResult{Path: to.at}, nil
}

// holdPlaces keeps directories from being moved by other calls, and where one is to be moved
// also files from being put into it, until what it returns is called.
func (w *work) holdPlaces(directory bool) (release func()) {
	if directory {
		w.actor.moving.Lock()
		return w.actor.moving.Unlock
	}
	w.actor.moving.RLock()
	return w.actor.moving.RUnlock
}

// moves judges what goes with a directory.
func (w *work) moves(ctx context.Context, from, to *element, before unix.Stat_t) error {
	if !w.ruled() {
		return nil
	}
	fd, err := openat(int(from.dir.Fd()), from.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return w.pathProblem(from.at, err)
	}
	dir := os.NewFile(uintptr(fd), from.at)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Ino != before.Ino || st.Dev != before.Dev {
		dir.Close()
		return changed(from.at)
	}
	var denied error
	// Not a reading walk: what may not be read still goes along.
	k := &walk{w: w, ctx: ctx, depth: maxDepth + 1, all: true}
	k.visit = func(_ *os.File, rel string, _ dirent) error {
		if k.visited > maxMoved {
			return errEnough
		}
		was, is := filepath.Join(from.at, rel), filepath.Join(to.at, rel)
		if denied = w.opened(filepath.Join(from.given, rel), was, bourn.Read, bourn.Delete); denied == nil {
			denied = w.opened(filepath.Join(to.given, rel), is, bourn.Write)
		}
		return denied
	}
	err = k.down(dir, "", from.at, maxDepth)
	switch {
	case denied != nil || err != nil && !errors.Is(err, errEnough):
		return err
	case err != nil || k.leftOut > 0 || k.cut:
		return &Problem{Code: bourn.CodeDenied, Reason: "unclear", Text: fmt.Sprintf("it cannot be told whether a hard block is about something in %q: it holds too much, or what cannot be read", from.at), Hint: "move it in parts"}
	}
	return nil
}
