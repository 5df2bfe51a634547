package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"bourn/internal/policy"
	"bourn/internal/sandbox/namespace"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// A watcher renews masks: the kernel detaches a mask when the host replaces the file
// below it, and a denied path that did not exist may appear. It is a repair, not a
// prevention; between the change and the repair lie a few milliseconds.
//
// For the first second it looks by itself, then it asks inotify: an inotify instance
// costs its process some 15 ms when it ends (the kernel waits for a grace period,
// fsnotify_wait_marks_destroyed), which a short command should not pay.
type watcher struct {
	fd      int
	tree    *namespace.Tree
	notice  func(Notice)
	watches []policy.Watch
	dirs    map[int32]*watchedDir
	byPath  map[string]*watchedDir
	said    map[Notice]bool // errors that were told already
}

const (
	lookFor   = time.Second
	lookEvery = 5 * time.Millisecond // at least; a look may take a twentieth of the time
)

// A watchedDir is one directory and what is expected in it.
type watchedDir struct {
	path     string
	names    map[string]policy.Watch
	ways     map[string][]policy.Watch // a missing directory on the way to a watch
	patterns []policy.Watch
}

const watchEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR

// maxWatchedDirs bounds what a pattern may add while the run goes on.
const maxWatchedDirs = 8192

func newWatcher(c *child) *watcher {
	return &watcher{tree: c.tree, notice: c.notice, watches: c.order.Plan.Watches,
		dirs: map[int32]*watchedDir{}, byPath: map[string]*watchedDir{}, said: map[Notice]bool{}}
}

// look renews what has to be renewed, by name.
func (w *watcher) look() {
	for _, wa := range w.watches {
		if wa.Pattern == "" {
			w.renew(path.Join(wa.Dir, wa.Name), wa)
		}
	}
}

// armAll watches for every name and pattern, and finds what appeared before.
func (w *watcher) armAll() error {
	var err error
	if w.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
		return err
	}
	for _, wa := range w.watches {
		if wa.Pattern == "" {
			if err := w.arm(wa); err != nil {
				w.notice(Notice{Path: path.Join(wa.Dir, wa.Name), Item: wa.Item, Error: fmt.Sprintf("cannot watch: %v", err)})
			}
			continue
		}
		if d, err := w.add(wa.Dir); err == nil {
			d.patterns = append(d.patterns, wa)
		}
	}
	w.look()
	for _, d := range w.byPath {
		if len(d.patterns) > 0 {
			w.list(d.path, d.patterns)
		}
	}
	return nil
}

// arm watches for one name, or for the first missing directory on the way to it.
func (w *watcher) arm(wa policy.Watch) error {
	dir := wa.Dir
	for {
		d, err := w.add(dir)
		if err == nil {
			if dir == wa.Dir {
				d.names[wa.Name] = wa
			} else {
				next := strings.SplitN(strings.TrimPrefix(strings.TrimPrefix(wa.Dir, dir), "/"), "/", 2)[0]
				d.ways[next] = append(d.ways[next], wa)
			}
			return nil
		}
		if !errors.Is(err, unix.ENOENT) || dir == "/" {
			return err
		}
		dir = path.Dir(dir)
	}
}

// add starts watching a directory, through no symlink.
func (w *watcher) add(dir string) (*watchedDir, error) {
	if d := w.byPath[dir]; d != nil {
		return d, nil
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	wd, err := unix.InotifyAddWatch(w.fd, "/proc/self/fd/"+strconv.Itoa(fd), watchEvents)
	if err != nil {
		return nil, err
	}
	d := w.dirs[int32(wd)]
	if d == nil {
		d = &watchedDir{path: dir, names: map[string]policy.Watch{}, ways: map[string][]policy.Watch{}}
		w.dirs[int32(wd)] = d
	}
	w.byPath[dir] = d
	return d, nil
}

// run looks, then handles events, until pid 1 ends.
func (w *watcher) run() {
	for began := time.Now(); time.Since(began) < lookFor; {
		at := time.Now()
		w.look()
		time.Sleep(max(lookEvery, 20*time.Since(at)))
	}
	if err := w.armAll(); err != nil {
		w.notice(Notice{Item: -1, Error: fmt.Sprintf("cannot watch denied paths: %v", err)})
		return
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(w.fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			w.notice(Notice{Item: -1, Error: fmt.Sprintf("cannot watch denied paths any longer: %v", err)})
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			w.event(int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]),
				strings.TrimRight(string(b[unix.SizeofInotifyEvent:size]), "\x00"))
			b = b[size:]
		}
	}
}

func (w *watcher) event(wd int32, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, d := range w.dirs {
			for _, wa := range d.names {
				w.renew(path.Join(wa.Dir, wa.Name), wa)
			}
		}
		return
	}
	d := w.dirs[wd]
	if d == nil {
		return
	}
	if wa, ok := d.names[name]; ok {
		w.renew(path.Join(wa.Dir, wa.Name), wa)
	}
	if ways, ok := d.ways[name]; ok {
		delete(d.ways, name)
		for _, wa := range ways {
			if w.arm(wa) == nil {
				w.renew(path.Join(wa.Dir, wa.Name), wa)
			}
		}
	}
	if len(d.patterns) > 0 {
		w.appeared(path.Join(d.path, name), d.patterns, mask&unix.IN_ISDIR != 0)
	}
}

// appeared masks a new object that a pattern matches, and looks into a new directory.
func (w *watcher) appeared(at string, patterns []policy.Watch, dir bool) {
	for _, wa := range patterns {
		if ok, _ := doublestar.Match(wa.Pattern, at); ok {
			w.renew(at, wa)
			return
		}
	}
	if !dir || len(w.dirs) >= maxWatchedDirs {
		return
	}
	d, err := w.add(at)
	if err != nil {
		return
	}
	d.patterns = patterns
	w.list(at, patterns)
}

// list handles what stands in a directory already.
func (w *watcher) list(dir string, patterns []policy.Watch) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		if e.IsDir() && w.byPath[at] != nil {
			continue // it is handled by itself
		}
		w.appeared(at, patterns, e.IsDir())
	}
}

// renew closes what stands at a path now, unless its mask is still in place.
func (w *watcher) renew(at string, wa policy.Watch) {
	var err error
	if wa.Guard {
		err = w.tree.Reguard(at)
	} else {
		err = w.tree.Remask(at, wa.Empty)
	}
	switch {
	case err == nil:
		w.notice(Notice{Path: at, Item: wa.Item})
	case errors.Is(err, namespace.ErrInPlace), errors.Is(err, unix.ENOENT):
	default:
		n := Notice{Path: at, Item: wa.Item, Error: err.Error()}
		if !w.said[n] && len(w.said) < maxWatchedDirs {
			w.said[n] = true
			w.notice(n)
		}
	}
}
