package workspace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"sync"

	"bourn"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// Limits of a search.
const (
	maxMatches = 1000    // lines
	maxSearch  = 4 << 20 // bytes of a file that is searched
	maxShown   = 1 << 20 // bytes of the lines of one file
	maxWorkers = 4
)

// found is what one file came to.
type found struct {
	rel     string
	dir     *sharedDir
	name    string
	hits    []Hit
	denied  bool
	skipped bool
	cut     bool
	done    chan struct{} // closed when the file was searched
}

// A sharedDir is a directory that stays open until every file in it was searched.
type sharedDir struct {
	*os.File
	users sync.WaitGroup
}

// search finds the lines that a text or pattern fits, in order. Git's own directories are
// left out, unless it begins in one. Some workers read files ahead of what is collected.
func (w *work) search(ctx context.Context) (any, error) {
	if w.request.Query == "" {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_query", Text: "the query is empty"}
	}
	m, err := newLineMatcher(w.request.Query, w.request.Regex)
	if err != nil {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_query", Text: "the query cannot be looked for: " + err.Error(), Hint: "RE2 syntax; without regex it is a text"}
	}
	if err := validGlob(w.request.Glob); err != nil {
		return nil, err
	}
	p, err := w.root()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	limit := int(w.request.Limit)
	if limit <= 0 || limit > maxMatches {
		limit = maxMatches
	}
	asked := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := SearchResult{Path: p.at, Hits: []Hit{}}
	err = w.searchIn(ctx, stop, p, m, limit, &r)
	if err == nil && asked.Err() != nil {
		err = cancelled // files were passed over
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// searchIn walks, searches and collects, each beside the others.
func (w *work) searchIn(ctx context.Context, stop func(), p *place, m *lineMatcher, limit int, r *SearchResult) error {
	const ahead = 64
	todo, order := make(chan *found, ahead), make(chan *found, ahead)
	var workers sync.WaitGroup
	for range min(maxWorkers, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			var buffer []byte
			for f := range todo {
				if ctx.Err() == nil {
					buffer = f.search(ctx, m, limit, buffer)
				}
				f.dir.users.Done()
				close(f.done)
			}
		})
	}
	k := &walk{w: w, ctx: ctx, depth: w.request.Depth, bare: true}
	walked := make(chan error, 1)
	go func() {
		err := w.spread(k, p, todo, order)
		close(todo)
		close(order)
		workers.Wait()
		walked <- err
	}()
	enough := false
	for f := range order {
		<-f.done
		if !enough && r.add(f, limit) {
			enough = true
			stop()
		}
	}
	err := <-walked
	r.LeftOut += k.leftOut
	r.Truncated = r.Truncated || k.cut
	if enough || errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// spread walks and gives every file to the workers, and to who collects, in order.
func (w *work) spread(k *walk, p *place, todo, order chan<- *found) error {
	var dirs []*sharedDir
	defer func() {
		for _, d := range dirs {
			d.users.Wait()
			d.Close()
		}
	}()
	var last *sharedDir
	var of *os.File
	k.visit = func(dir *os.File, rel string, d dirent) error {
		if d.kind != 0 || w.request.Glob != "" && !doublestar.MatchUnvalidated(w.request.Glob, rel) {
			return nil
		}
		if of != dir {
			fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return w.pathProblem(p.at, err)
			}
			last, of = &sharedDir{File: os.NewFile(uintptr(fd), dir.Name())}, dir
			dirs = append(dirs, last)
			// Those that nobody uses any more are closed; few are.
			for len(dirs) > maxDepth {
				dirs[0].users.Wait()
				dirs[0].Close()
				dirs = dirs[1:]
			}
		}
		f := &found{rel: rel, dir: last, name: d.name, done: make(chan struct{})}
		last.users.Add(1)
		todo <- f
		order <- f
		return nil
	}
	return k.from(p)
}

// add takes over what a file came to, and reports whether that is enough.
func (r *SearchResult) add(f *found, limit int) bool {
	switch {
	case f.denied:
		r.LeftOut++
		return false
	case f.skipped:
		r.Skipped++
		return false
	}
	r.Files++
	r.Truncated = r.Truncated || f.cut
	for _, h := range f.hits {
		if len(r.Hits) >= limit {
			r.Truncated = true
			return true
		}
		r.Hits = append(r.Hits, h)
	}
	return false
}

// search searches one file, with a buffer that it returns for the next.
func (f *found) search(ctx context.Context, m *lineMatcher, limit int, buffer []byte) []byte {
	fd, err := openat(int(f.dir.Fd()), f.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if err != nil {
		f.denied = !errors.Is(err, fs.ErrNotExist)
		f.skipped = !f.denied
		return buffer
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxSearch {
		f.skipped = true
		return buffer
	}
	buffer, ok := slurp(fd, st.Size, buffer)
	if !ok || bytes.IndexByte(buffer[:min(len(buffer), 8000)], 0) >= 0 {
		f.skipped = true
		return buffer
	}
	room := maxShown
	m.lines(ctx, buffer, func(number int, line []byte) bool {
		f.hits = append(f.hits, Hit{f.rel, number, shown(line)})
		room -= min(len(line), maxLine)
		f.cut = room <= 0
		return len(f.hits) <= limit && !f.cut
	})
	return buffer
}

// slurp reads a file whole into a buffer; not ok where it is too large meanwhile.
func slurp(fd int, size int64, buffer []byte) ([]byte, bool) {
	if need := int(size) + 1; cap(buffer) < need {
		buffer = make([]byte, 0, max(need, 64<<10))
	}
	buffer = buffer[:0]
	for {
		n, err := unix.Read(fd, buffer[len(buffer):cap(buffer)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return buffer, false
		case n == 0:
			return buffer, true
		}
		buffer = buffer[:len(buffer)+n]
		if len(buffer) > maxSearch {
			return buffer, false
		}
		if len(buffer) == cap(buffer) {
			grown := make([]byte, len(buffer), 2*cap(buffer))
			copy(grown, buffer)
			buffer = grown
		}
	}
}
