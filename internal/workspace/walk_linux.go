package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"bourn"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// Limits of walks.
const (
	maxEntries = 5000    // of a list
	maxDepth   = 64      // and as many descriptors
	maxVisited = 1 << 20 // entries of one walk
)

// errEnough ends a walk that has found as much as is answered with.
var errEnough = errors.New("enough")

// A walk visits what is below a directory, by descriptor and without following a link, names
// in order. What may not be read by the rules or by the kernel is left out and counted; what
// comes and goes meanwhile is seen or not.
type walk struct {
	w       *work
	ctx     context.Context
	depth   int
	bare    bool // nothing of git's own directories
	all     bool // what may not be read, too: visit judges
	leftOut int
	cut     bool // it ended before everything was seen
	visited int
	visit   func(dir *os.File, rel string, d dirent) error
}

// A dirent is a name in a directory with the type that it had when the directory was read.
type dirent struct {
	name string
	kind fs.FileMode
}

// from walks what is below a place. Only the caller's own errors are returned.
func (k *walk) from(p *place) error {
	if k.depth <= 0 || k.depth > maxDepth {
		k.depth = maxDepth
	}
	dir, err := p.directory()
	if err != nil {
		return k.w.pathProblem(p.at, err)
	}
	return k.down(dir, "", p.at, k.depth)
}

// directory opens a place that is a directory for reading.
func (p *place) directory() (*os.File, error) {
	fd, err := unix.Open(procPath(p.File), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), p.at), nil
}

// down walks one directory, which it closes.
func (k *walk) down(dir *os.File, rel, at string, left int) error {
	defer dir.Close()
	if ofKernel(dir) {
		k.leftOut++
		return nil
	}
	entries, whole := readDir(dir, maxVisited-k.visited)
	if !whole {
		k.leftOut++
	}
	slices.SortFunc(entries, func(a, b dirent) int { return cmp.Compare(a.name, b.name) })
	for _, e := range entries {
		if k.ctx.Err() != nil {
			return cancelled
		}
		if k.visited++; k.visited >= maxVisited {
			k.cut = true
			return errEnough
		}
		if err := k.one(dir, e, filepath.Join(rel, e.name), filepath.Join(at, e.name), left); err != nil {
			return err
		}
	}
	return nil
}

func (k *walk) one(dir *os.File, e dirent, name, full string, left int) error {
	if !k.all && k.w.ruled() && k.w.opened(full, full, bourn.Read) != nil {
		k.leftOut++
		return nil
	}
	if err := k.visit(dir, name, e); err != nil {
		return err
	}
	if !e.kind.IsDir() || left <= 1 || k.bare && e.name == ".git" {
		return nil
	}
	fd, err := openat(int(dir.Fd()), e.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		k.leftOut++ // denied, or no longer a directory
		return nil
	}
	return k.down(os.NewFile(uintptr(fd), e.name), name, full, left-1)
}

// readDir returns up to limit entries of a directory, and whether that is all of them. It
// asks the descriptor alone: what os offers looks a name up by its path again.
func readDir(dir *os.File, limit int) (entries []dirent, whole bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(int(dir.Fd()), buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return entries, err == nil
		}
		for rest := buffer[:n]; len(rest) > 0; {
			d := (*unix.Dirent)(unsafe.Pointer(&rest[0]))
			name := rest[unsafe.Offsetof(d.Name):d.Reclen]
			if end := bytes.IndexByte(name, 0); end >= 0 {
				name = name[:end]
			}
			rest = rest[d.Reclen:]
			if d.Ino == 0 || string(name) == "." || string(name) == ".." {
				continue
			}
			entries = append(entries, dirent{string(name), kindIn(dir, string(name), d.Type)})
		}
		if len(entries) > limit {
			return entries[:limit], false
		}
	}
}

// kindIn is the type of an entry; a file system that does not say is asked again.
func kindIn(dir *os.File, name string, kind uint8) fs.FileMode {
	switch kind {
	case unix.DT_REG:
		return 0
	case unix.DT_DIR:
		return fs.ModeDir
	case unix.DT_LNK:
		return fs.ModeSymlink
	case unix.DT_UNKNOWN:
		var st unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return modeOf(st.Mode).Type()
		}
	}
	return fs.ModeIrregular
}

// ofKernel reports whether a directory is of a file system that holds the kernel's state and
// no files: a walk could go on for ever in it.
func ofKernel(dir *os.File) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return false
	}
	switch st.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.BPF_FS_MAGIC, unix.SECURITYFS_MAGIC:
		return true
	}
	return false
}

// root opens the directory that a walk begins in.
func (w *work) root() (*place, error) {
	p, err := w.resolve(w.request.Path, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	if err := w.opened(p.given, p.at, bourn.Read); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Limits of a glob: the alternatives in braces are tried one by one, each of one group with
// each of every other.
const (
	maxGlob         = 4 << 10 // bytes
	maxAlternatives = 256
)

func validGlob(glob string) error {
	switch {
	case glob == "":
		return nil
	case len(glob) > maxGlob || alternatives(glob) > maxAlternatives:
		return &Problem{Code: bourn.CodeInvalid, Reason: "invalid_glob", Text: fmt.Sprintf("the glob has more than %d bytes, or stands for more than %d", maxGlob, maxAlternatives), Hint: "ask for less at once"}
	case !doublestar.ValidatePattern(glob):
		return &Problem{Code: bourn.CodeInvalid, Reason: "invalid_glob", Text: "that is no glob", Hint: "as in **/*.go"}
	}
	return nil
}

// alternatives is for how many globs without braces a glob stands at most: as if its commas
// were spread evenly over its groups. Classes and escapes may hide which bytes are which.
func alternatives(glob string) float64 {
	groups := float64(strings.Count(glob, "{"))
	if groups == 0 {
		return 1
	}
	return math.Pow(1+float64(strings.Count(glob, ","))/groups, groups)
}

// list lists a directory to a depth, or finds the paths that a glob fits. Finding leaves
// git's own directories out, unless it begins in one.
func (w *work) list(ctx context.Context) (any, error) {
	glob := ""
	k := &walk{w: w, ctx: ctx, depth: max(w.request.Depth, 1)}
	if w.request.Verb == Find {
		glob, k.depth, k.bare = w.request.Glob, w.request.Depth, true
		if glob == "" {
			glob = "**"
		}
	}
	if err := validGlob(glob); err != nil {
		return nil, err
	}
	p, err := w.root()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	limit := int(w.request.Limit)
	if limit <= 0 || limit > maxEntries {
		limit = maxEntries
	}
	r := ListResult{Path: p.at, Entries: []Entry{}}
	k.visit = func(dir *os.File, rel string, d dirent) error {
		if glob != "" && !doublestar.MatchUnvalidated(glob, rel) {
			return nil
		}
		if len(r.Entries) >= limit {
			r.Truncated = true
			return errEnough
		}
		var st unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), d.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			k.leftOut++ // it is gone, or not shown
			return nil
		}
		r.Entries = append(r.Entries, entryOf(rel, &st))
		return nil
	}
	if err := k.from(p); err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	r.LeftOut, r.Truncated = k.leftOut, r.Truncated || k.cut
	return r, nil
}
