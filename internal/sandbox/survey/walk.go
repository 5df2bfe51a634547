package survey

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	maxPath    = 4096 // PATH_MAX, with the terminating zero
	maxAnchor  = 1024 // bytes of path below a descriptor before a nearer one is kept
	maxWorkers = 8
	readSize   = 32 << 10
)

// A visitor is what a walk does in each directory. Each worker has its own.
type visitor interface {
	visit(d *dir) error // an error means that the directory could not be read
	// unreadable is told of a directory that could not be read, and may return one to visit instead.
	unreadable(n *node, err error) *node
}

// A node is a directory that a walk has found. Its path is kept unless it is longer than the kernel takes; then it is put together
// from the names when needed, which bounds the memory that a deep tree can take.
type node struct {
	parent *node
	name   string // for a root its whole path
	path   string // or empty, if longer than maxPath
	size   int    // of the path
	anchor *anchor
	front  *front // Expand: what can still match below
	byName bool   // opened to look single names up, not to be listed
}

// An anchor is an open directory beneath which others are opened, until the last of them is done.
type anchor struct {
	handle handle
	node   *node
	refs   atomic.Int32
}

func (a *anchor) release() {
	if a != nil && a.refs.Add(-1) == 0 {
		a.handle.close()
	}
}

func (n *node) fullPath() string {
	if n.path != "" {
		return n.path
	}
	return n.below(nil)
}

// below returns the path of n relative to top, or the whole path if top is nil.
func (n *node) below(top *node) string {
	if top != nil && n.path != "" {
		return strings.TrimPrefix(n.path[top.size:], "/")
	}
	var names []string
	for ; n != top; n = n.parent {
		if n.path != "" && top == nil {
			names = append(names, strings.TrimSuffix(n.path, "/"))
			break
		}
		names = append(names, n.name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// An entry is a name in a directory. The name is valid until the next one is read.
type entry struct {
	name []byte
	kind Type // Unknown if the file system does not tell
	ino  uint64
}

// A dir is a directory open for a visitor.
type dir struct {
	*node
	handle handle
	worker *worker
	full   string // fullPath, once it was needed
}

// each calls f for every entry but "." and "..".
func (d *dir) each(f func(entry)) error { return d.handle.each(d.node, &d.worker.buf, f) }

// stat examines name in d.
func (d *dir) stat(name string) (Object, error) { return d.handle.stat(name, d.join(name)) }

// join returns the path of name in d.
func (d *dir) join(name string) string {
	if d.full == "" {
		d.full = d.fullPath()
	}
	return join(d.full, name)
}

// push has the directory name below d visited.
func (d *dir) push(name []byte) *node {
	n := &node{parent: d.node, size: d.size + 1 + len(name), anchor: d.anchor}
	if d.path == "/" {
		n.size--
	}
	if n.size < maxPath {
		n.path = join(d.path, string(name))
		n.name = n.path[n.size-len(name):]
	} else {
		n.name = string(name)
	}
	d.worker.stack = append(d.worker.stack, n)
	return n
}

// A worker takes nodes from the end of its own stack, so that few are pending, and hands the older half to whoever has none.
type worker struct {
	walk  *walk
	visit visitor
	stack []*node
	buf   []byte
}

type walk struct {
	mu     sync.Mutex
	wake   sync.Cond
	queue  []*node
	idle   int
	count  int
	hungry atomic.Bool // some worker is idle and the queue is empty
}

// run walks below the roots, with one visitor a worker.
func run[V visitor](roots []*node, newVisitor func() V) []V {
	if len(roots) == 0 {
		return nil
	}
	w := &walk{queue: roots, count: min(runtime.GOMAXPROCS(0), maxWorkers)}
	w.wake.L = &w.mu
	visitors := make([]V, w.count)
	var all sync.WaitGroup
	for i := range visitors {
		visitors[i] = newVisitor()
		work := &worker{walk: w, visit: visitors[i]}
		if i == w.count-1 {
			work.run()
		} else {
			all.Go(work.run)
		}
	}
	all.Wait()
	return visitors
}

func (w *worker) run() {
	for {
		if len(w.stack) == 0 && !w.fetch() {
			return
		}
		n := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		w.process(n)
		if len(w.stack) > 1 && w.walk.hungry.Load() {
			w.share()
		}
	}
}

// fetch waits for a node; false means that the walk is over.
func (w *worker) fetch() bool {
	k := w.walk
	k.mu.Lock()
	defer k.mu.Unlock()
	k.idle++
	for len(k.queue) == 0 {
		if k.idle == k.count {
			k.wake.Broadcast()
			return false
		}
		k.hungry.Store(true)
		k.wake.Wait()
	}
	k.idle--
	n := (len(k.queue) + 1) / 2
	w.stack = append(w.stack, k.queue[len(k.queue)-n:]...)
	k.queue = k.queue[:len(k.queue)-n]
	k.hungry.Store(k.idle > 0 && len(k.queue) == 0)
	return true
}

func (w *worker) share() {
	k := w.walk
	n := len(w.stack) / 2
	k.mu.Lock()
	k.queue = append(k.queue, w.stack[:n]...)
	k.hungry.Store(false)
	k.mu.Unlock()
	k.wake.Broadcast()
	w.stack = slices.Delete(w.stack, 0, n)
}

func (w *worker) process(n *node) {
	from := n.anchor
	defer func() { from.release() }()
	h, err := openDir(n)
	if err != nil {
		if n.parent == nil {
			err = rootError(n.path, err)
		} else if swapped(err) {
			err = nil
		}
		if err != nil {
			w.unreadable(n, from, err)
		}
		return
	}
	// The children open themselves beneath the nearest anchor; this directory becomes it where the last one is far.
	own := &anchor{handle: h, node: n}
	own.refs.Store(1)
	defer own.release()
	if from == nil || n.size-from.node.size > maxAnchor {
		n.anchor = own
	}
	before := len(w.stack)
	err = w.visit.visit(&dir{node: n, handle: h, worker: w})
	if n.anchor != nil {
		n.anchor.refs.Add(int32(len(w.stack) - before))
	}
	if err != nil {
		w.unreadable(n, n.anchor, err)
	}
}

func (w *worker) unreadable(n *node, beneath *anchor, err error) {
	if again := w.visit.unreadable(n, err); again != nil {
		if again.anchor = beneath; beneath != nil {
			beneath.refs.Add(1)
		}
		w.stack = append(w.stack, again)
	}
}

// rootError judges the failure to open a root as a directory: none if nothing or a file stands there.
func rootError(path string, err error) error {
	if !absent(err) {
		return err
	}
	r, resolveErr := resolve(path)
	switch {
	case resolveErr != nil:
		return resolveErr
	case len(r.Links) > 0:
		return syscall.ELOOP
	case r.Object.Type == Dir: // it was none a moment ago
		return err
	}
	return nil
}

// outermost returns the roots, sorted, without those that lie in another.
func outermost(roots []string) []string {
	roots = slices.Clone(roots)
	slices.SortFunc(roots, comparePaths)
	var out []string
	for _, r := range roots {
		if len(out) == 0 || !under(out[len(out)-1], r) {
			out = append(out, r)
		}
	}
	return out
}

// comparePaths orders a directory directly before what lies in it.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			switch {
			case a[i] == '/':
				return -1
			case b[i] == '/':
				return 1
			}
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}

func compareObjects(a, b Object) int { return comparePaths(a.Path, b.Path) }

func compareUnreadable(a, b Unreadable) int { return comparePaths(a.Path, b.Path) }

func sameUnreadable(a, b Unreadable) bool { return a.Path == b.Path }
