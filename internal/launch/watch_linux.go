package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
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
// It works with descriptors of the directories, so that a directory which is renamed
// inside stays watched under its new name.
//
// For the first second it looks by itself, then it asks inotify: an inotify instance
// costs its process some 15 ms when it ends (the kernel waits for a grace period,
// fsnotify_wait_marks_destroyed), which a short command should not pay. A directory in which
// something may match a pattern is then opened and listed when it has changed: there may be
// thousands of them.
type watcher struct {
	inotify int
	raise   bool // put descriptors at highFD and above
	tree    *namespace.Tree
	notice  func(Notice)
	wanted  map[string]map[string]policy.Watch // by directory and name, as the plan has them
	pattern map[string]*patternDir             // by directory
	began   time.Time

	dirs   []*watchedDir
	byPath map[string]*watchedDir // the newest directory at a path
	byWD   map[int32]*watchedDir
	said   map[Notice]bool // errors that were told already
}

// A watchedDir is one directory and what is expected in it.
type watchedDir struct {
	fd       int
	dev, ino uint64
	path     string                  // as it was when it was opened
	names    map[string]policy.Watch // what is closed in it
	ways     map[string]bool         // directories on the way to one that is wanted
	patterns []policy.Watch
	listed   unix.Timespec // the time of its last change when it was last listed
}

// A patternDir is a directory in which something may match a pattern, as the plan has it.
type patternDir struct {
	patterns []policy.Watch
	dev, ino uint64 // what stood there when it was last looked at
}

const (
	lookFor   = time.Second
	lookEvery = 5 * time.Millisecond // at least; a look may take a twentieth of the time

	watchEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR
	// maxWatchedDirs bounds what a pattern may add while the run goes on.
	maxWatchedDirs = 8192
	// highFD is where descriptors of watched directories are put when open files are
	// limited, so that the child has numbers to work with.
	highFD = 512
	// planned is how long before its watcher a run was planned, at most: directories that
	// have not changed since hold nothing new.
	planned = 2 * time.Second
	// tick is more than the resolution of the times that file systems keep.
	tick = 20 * time.Millisecond
)

// newWatcher opens what is watched. It is called before limits are set, and before the
// command runs: a directory that the command renames first would be missed.
func newWatcher(c *child) *watcher {
	w := &watcher{inotify: -1, raise: c.order.Plan.Limits.OpenFiles > 0, tree: c.tree, notice: c.notice, wanted: map[string]map[string]policy.Watch{},
		pattern: map[string]*patternDir{}, began: time.Now(),
		byPath: map[string]*watchedDir{}, byWD: map[int32]*watchedDir{}, said: map[Notice]bool{}}
	for _, wa := range c.order.Plan.Watches {
		if wa.Pattern != "" {
			if w.pattern[wa.Dir] == nil {
				w.pattern[wa.Dir] = &patternDir{}
			}
			w.pattern[wa.Dir].patterns = append(w.pattern[wa.Dir].patterns, wa)
			continue
		}
		if w.wanted[wa.Dir] == nil {
			w.wanted[wa.Dir] = map[string]policy.Watch{}
		}
		// What is denied stays closed, whatever else is said of it.
		if old, ok := w.wanted[wa.Dir][wa.Name]; !ok || old.Guard {
			w.wanted[wa.Dir][wa.Name] = wa
		}
	}
	for dir := range w.wanted {
		w.arm(dir)
	}
	return w
}

// makeRoom lets the table of open files grow once, to what the watches of a plan need. A
// table that grows in a process with threads waits for an RCU grace period, some 10 ms;
// called early, it does so while the root is built.
func makeRoom(watches []policy.Watch) {
	const usual = 40 // of the 64 that every process starts with
	dirs := map[string]bool{}
	for _, wa := range watches {
		if wa.Pattern == "" {
			dirs[wa.Dir] = true
		}
	}
	if len(dirs) <= usual {
		return
	}
	if fd, err := unix.FcntlInt(controlFD, unix.F_DUPFD_CLOEXEC, 2*len(dirs)+highFD); err == nil {
		unix.Close(fd)
	}
}

// arm opens a wanted directory if it is there, and those on the way to it: each of them
// may be made, or renamed away and made anew, while the run goes on.
func (w *watcher) arm(dir string) {
	d, err := w.add(dir)
	switch {
	case err == nil:
		d.names = w.wanted[dir]
	case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
		w.tell(Notice{Path: dir, Item: -1, Error: fmt.Sprintf("cannot watch: %v", err)})
	}
	for at := dir; at != "/"; {
		name := path.Base(at)
		at = path.Dir(at)
		if up, err := w.add(at); err == nil {
			up.ways[name] = true
		}
	}
}

// add opens the directory that stands at a path now, through no symlink.
func (w *watcher) add(dir string) (*watchedDir, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if d := w.byPath[dir]; d != nil && d.dev == st.Dev && d.ino == st.Ino {
		unix.Close(fd)
		return d, nil
	}
	if len(w.dirs) >= maxWatchedDirs {
		unix.Close(fd)
		w.tell(Notice{Path: "/", Item: -1, Error: "more directories than can be watched: what is denied may appear unseen"})
		return nil, unix.ENOSPC
	}
	if w.raise {
		if high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, highFD); err == nil {
			unix.Close(fd)
			fd = high
		}
	}
	d := &watchedDir{fd: fd, dev: st.Dev, ino: st.Ino, path: dir, ways: map[string]bool{}}
	w.dirs = append(w.dirs, d)
	w.byPath[dir] = d
	if w.inotify >= 0 {
		return d, w.subscribe(d)
	}
	return d, nil
}

func (w *watcher) subscribe(d *watchedDir) error {
	wd, err := unix.InotifyAddWatch(w.inotify, "/proc/self/fd/"+strconv.Itoa(d.fd), watchEvents)
	if err != nil {
		return err
	}
	w.byWD[int32(wd)] = d
	return nil
}

// run looks, then handles events, until pid 1 ends.
func (w *watcher) run() {
	for began := time.Now(); time.Since(began) < lookFor; {
		at := time.Now()
		w.look()
		time.Sleep(max(lookEvery, 20*time.Since(at)))
	}
	if err := w.subscribeAll(); err != nil {
		// The run may have used up what its person has of inotify: it gains nothing by it.
		w.tell(Notice{Path: "/", Item: -1, Error: fmt.Sprintf("denied paths are looked at and not watched: %v", err)})
		w.inotify = -1
		for {
			at := time.Now()
			w.look()
			time.Sleep(max(4*lookEvery, 20*time.Since(at)))
		}
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(w.inotify, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			w.tell(Notice{Item: -1, Error: fmt.Sprintf("cannot watch denied paths any longer: %v", err)})
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

// look renews what has to be renewed, in the directories that are watched and in those
// that stand at their paths now.
func (w *watcher) look() {
	for dir := range w.wanted {
		if d, err := w.add(dir); err == nil && d.names == nil {
			w.arm(dir)
		}
	}
	for _, d := range w.dirs {
		for name, wa := range d.names {
			w.renew(d, name, wa)
		}
	}
	if time.Since(w.began) > 2*lookEvery { // a shorter command has nothing of it
		w.lookThrough()
	}
}

// lookThrough lists the directories that have changed and in which something may match a
// pattern.
func (w *watcher) lookThrough() {
	for dir, p := range w.pattern {
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil {
			continue
		}
		other := p.ino != 0 && (p.dev != st.Dev || p.ino != st.Ino)
		if p.dev, p.ino = st.Dev, st.Ino; !other && time.Unix(st.Mtim.Unix()).Before(w.began.Add(-planned)) {
			continue
		}
		if d, err := w.add(dir); err == nil {
			d.expect(p.patterns)
		}
	}
	for i := 0; i < len(w.dirs); i++ { // handling one may add others
		if d := w.dirs[i]; len(d.patterns) > 0 && d.changed() {
			w.list(d)
		}
	}
}

// expect adds patterns to what may match in the directory.
func (d *watchedDir) expect(patterns []policy.Watch) {
	for _, wa := range patterns {
		if !slices.Contains(d.patterns, wa) {
			d.patterns = append(d.patterns, wa)
		}
	}
}

// changed reports whether the directory may hold something that was not there when this was
// last asked.
func (d *watchedDir) changed() bool {
	var st unix.Stat_t
	if unix.Fstat(d.fd, &st) != nil {
		return true
	}
	before := d.listed
	d.listed = st.Mtim
	return st.Mtim != before || time.Since(time.Unix(st.Mtim.Unix())).Abs() < tick
}

// subscribeAll asks for events and then finds what appeared before them.
func (w *watcher) subscribeAll() error {
	var err error
	if w.inotify, err = unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
		return err
	}
	for _, d := range w.dirs {
		if err := w.subscribe(d); err != nil {
			return err
		}
	}
	for dir, p := range w.pattern {
		if d, err := w.add(dir); err == nil {
			d.expect(p.patterns)
		}
	}
	w.look()
	for i := 0; i < len(w.dirs); i++ { // handling one may add others
		if d := w.dirs[i]; len(d.patterns) > 0 {
			w.list(d)
		}
	}
	return nil
}

func (w *watcher) event(wd int32, mask uint32, name string) {
	d := w.byWD[wd]
	if mask&unix.IN_Q_OVERFLOW != 0 || d != nil && d.ways[name] {
		w.look()
	}
	if d == nil {
		return
	}
	if wa, ok := d.names[name]; ok {
		w.renew(d, name, wa)
	}
	if len(d.patterns) > 0 {
		w.appeared(d, name, mask&unix.IN_ISDIR != 0)
	}
}

// appeared masks a new object that a pattern matches, and looks into a new directory.
func (w *watcher) appeared(d *watchedDir, name string, dir bool) {
	at := path.Join(d.path, name)
	for _, wa := range d.patterns {
		if ok, _ := doublestar.Match(wa.Pattern, at); ok {
			w.renew(d, name, wa)
			return
		}
	}
	if !dir || w.inotify < 0 && w.pattern[at] != nil { // that is looked at by itself
		return
	}
	if sub, err := w.add(at); err == nil && len(sub.patterns) == 0 {
		sub.patterns = slices.Clip(d.patterns)
		w.list(sub)
	}
}

// list handles what stands in a directory already.
func (w *watcher) list(d *watchedDir) {
	entries, err := os.ReadDir("/proc/self/fd/" + strconv.Itoa(d.fd))
	if err != nil {
		return
	}
	for _, e := range entries {
		w.appeared(d, e.Name(), e.IsDir())
	}
}

// renew closes what stands at a name now, unless its mask is still in place.
func (w *watcher) renew(d *watchedDir, name string, wa policy.Watch) {
	var err error
	if wa.Guard {
		err = w.tree.Reguard(d.fd, name)
	} else {
		err = w.tree.Remask(d.fd, name, wa.Empty)
	}
	n := Notice{Path: path.Join(d.path, name), Item: wa.Item}
	switch {
	case err == nil:
		w.notice(n)
	case errors.Is(err, namespace.ErrInPlace), errors.Is(err, unix.ENOENT):
	case errors.Is(err, unix.ELOOP):
		n.Error = "is a symlink now, and a symlink cannot be closed"
		w.tell(n)
	default:
		n.Error = err.Error()
		w.tell(n)
	}
}

// tell sends a notice of an error once.
func (w *watcher) tell(n Notice) {
	if !w.said[n] && len(w.said) < maxWatchedDirs {
		w.said[n] = true
		w.notice(n)
	}
}
