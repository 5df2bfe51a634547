package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"bourn"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// Limits of what is answered with at once.
const (
	maxRead    = 8 << 20 // bytes of a file
	maxEntries = 5000    // of a list
	maxMatches = 1000    // of a search
	maxLine    = 4 << 10 // bytes of a line that is shown
	maxSearch  = 4 << 20 // bytes of a file that is searched
	maxDepth   = 64
)

// ReadResult is what reading a file gives.
type ReadResult struct {
	Path      string `json:"path"` // what was opened
	Content   []byte `json:"content"`
	Size      int64  `json:"size"`   // of the file, bytes
	Offset    int64  `json:"offset"` // where Content begins
	Truncated bool   `json:"truncated,omitempty"`
	Digest    string `json:"digest,omitempty"` // SHA-256 of the whole file, where it was read whole
}

func (w *work) read() (any, error) {
	f, resolved, err := w.open(w.request.Path, bourn.Read, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, w.pathProblem(w.request.Path, resolved, err)
	}
	limit := w.request.Limit
	if limit <= 0 || limit > maxRead {
		limit = maxRead
	}
	content, err := io.ReadAll(io.NewSectionReader(f, max(w.request.Offset, 0), limit))
	if err != nil {
		return nil, w.pathProblem(w.request.Path, resolved, err)
	}
	r := ReadResult{Path: resolved, Content: content, Size: info.Size(), Offset: max(w.request.Offset, 0)}
	r.Truncated = r.Offset+int64(len(content)) < r.Size
	if r.Offset == 0 && !r.Truncated {
		r.Digest = digest(content)
	}
	return r, nil
}

// An Entry is what a path is.
type Entry struct {
	Path     string    `json:"path"`
	Kind     string    `json:"kind"` // file, directory, link, pipe, socket, device
	Size     int64     `json:"size,omitempty"`
	Mode     string    `json:"mode,omitempty"`
	Modified time.Time `json:"modified,omitzero"`
	Target   string    `json:"target,omitempty"` // of a link
	Digest   string    `json:"digest,omitempty"`
}

// ListResult is what listing or finding gives: what is denied is left out and counted.
type ListResult struct {
	Path      string  `json:"path"`
	Entries   []Entry `json:"entries"`
	LeftOut   int     `json:"left_out"`
	Truncated bool    `json:"truncated,omitempty"`
}

var kinds = map[fs.FileMode]string{0: "file", fs.ModeDir: "directory", fs.ModeSymlink: "link", fs.ModeNamedPipe: "pipe", fs.ModeSocket: "socket", fs.ModeDevice: "device", fs.ModeDevice | fs.ModeCharDevice: "device"}

func entryOf(path string, info fs.FileInfo) Entry {
	e := Entry{Path: path, Kind: kinds[info.Mode().Type()], Mode: info.Mode().String(), Modified: info.ModTime().UTC()}
	if info.Mode().IsRegular() {
		e.Size = info.Size()
	}
	return e
}

// root opens the directory that a walk begins in, and what is below it by descriptor.
func (w *work) root() (*os.Root, string, error) {
	place, resolved, err := w.resolve(w.request.Path, unix.O_DIRECTORY)
	if err != nil {
		return nil, "", err
	}
	defer place.Close()
	if err := w.opened(bourn.Read, w.request.Path, resolved); err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(procPath(place))
	if err != nil {
		return nil, "", w.pathProblem(w.request.Path, resolved, err)
	}
	return root, resolved, nil
}

// errEnough ends a walk that has found as much as is answered with.
var errEnough = errors.New("enough")

// walk visits what is below a directory, no link followed, names in order. What may not be
// read, and what cannot be, is left out and counted.
func (w *work) walk(ctx context.Context, root *os.Root, at string, depth int, leftOut *int, visit func(rel string, d fs.DirEntry) error) error {
	if depth <= 0 || depth > maxDepth {
		depth = maxDepth
	}
	var down func(rel string, left int) error
	down = func(rel string, left int) error {
		dir, err := root.Open(rel)
		if err != nil {
			*leftOut++
			return nil
		}
		entries, err := dir.ReadDir(-1)
		dir.Close()
		if err != nil && len(entries) == 0 {
			*leftOut++
			return nil
		}
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return cancelled
			}
			name := filepath.Join(rel, e.Name())
			full := filepath.Join(at, name)
			if w.opened(bourn.Read, full, full) != nil {
				*leftOut++
				continue
			}
			if err := visit(name, e); err != nil {
				return err
			}
			if e.IsDir() && left > 1 {
				if err := down(name, left-1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return down(".", depth)
}

// list lists a directory to a depth, or finds the paths that a glob fits.
func (w *work) list(ctx context.Context) (any, error) {
	root, at, err := w.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	depth := w.request.Depth
	if w.request.Verb == List && depth == 0 {
		depth = 1
	}
	if w.request.Verb == Find && !doublestar.ValidatePattern(w.request.Glob) {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_glob", Text: fmt.Sprintf("%q is no glob", w.request.Glob), Hint: "as in **/*.go"}
	}
	limit := int(w.request.Limit)
	if limit <= 0 || limit > maxEntries {
		limit = maxEntries
	}
	r := ListResult{Path: at, Entries: []Entry{}}
	err = w.walk(ctx, root, at, depth, &r.LeftOut, func(rel string, d fs.DirEntry) error {
		if w.request.Verb == Find && !doublestar.MatchUnvalidated(w.request.Glob, rel) {
			return nil
		}
		if len(r.Entries) >= limit {
			r.Truncated = true
			return errEnough
		}
		info, err := d.Info()
		if err != nil {
			r.LeftOut++ // it is gone
			return nil
		}
		r.Entries = append(r.Entries, entryOf(rel, info))
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return r, nil
}

// inspect says what a path is, a link itself and not what it leads to.
func (w *work) inspect() (any, error) {
	dir, name, err := w.parent(w.request.Path, bourn.Read)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	root, err := os.OpenRoot(procPath(dir))
	if err != nil {
		return nil, w.pathProblem(w.request.Path, dir.Name(), err)
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil {
		return nil, w.pathProblem(w.request.Path, filepath.Join(dir.Name(), name), err)
	}
	e := entryOf(filepath.Join(dir.Name(), name), info)
	if info.Mode()&fs.ModeSymlink != 0 {
		e.Target, _ = root.Readlink(name)
	}
	return e, nil
}

// A Hit is a line that a search found.
type Hit struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// SearchResult is what a search found. LeftOut counts what was denied, Skipped what is no
// text or too large.
type SearchResult struct {
	Path      string `json:"path"`
	Hits      []Hit  `json:"hits"`
	Files     int    `json:"files"` // that were searched
	LeftOut   int    `json:"left_out"`
	Skipped   int    `json:"skipped"`
	Truncated bool   `json:"truncated,omitempty"`
}

func (w *work) search(ctx context.Context) (any, error) {
	pattern := w.request.Query
	if !w.request.Regex {
		pattern = regexp.QuoteMeta(pattern)
	}
	re, err := regexp.Compile(pattern)
	if err != nil || w.request.Query == "" {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_query", Text: "the query is no regular expression, or empty", Hint: "RE2 syntax; without regex it is a text"}
	}
	if w.request.Glob != "" && !doublestar.ValidatePattern(w.request.Glob) {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_glob", Text: fmt.Sprintf("%q is no glob", w.request.Glob), Hint: "as in **/*.go"}
	}
	root, at, err := w.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	r := SearchResult{Path: at, Hits: []Hit{}}
	limit := int(w.request.Limit)
	if limit <= 0 || limit > maxMatches {
		limit = maxMatches
	}
	err = w.walk(ctx, root, at, w.request.Depth, &r.LeftOut, func(rel string, d fs.DirEntry) error {
		if !d.Type().IsRegular() || w.request.Glob != "" && !doublestar.MatchUnvalidated(w.request.Glob, rel) {
			return nil
		}
		return r.file(root, rel, re, limit)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return r, nil
}

// file searches one file.
func (r *SearchResult) file(root *os.Root, rel string, re *regexp.Regexp, limit int) error {
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		r.LeftOut++
		return nil
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSearch+1))
	if err != nil || len(content) > maxSearch || bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 {
		r.Skipped++
		return nil
	}
	r.Files++
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(make([]byte, 0, 64<<10), maxSearch+1)
	for n := 1; lines.Scan(); n++ {
		if !re.Match(lines.Bytes()) {
			continue
		}
		if len(r.Hits) >= limit {
			r.Truncated = true
			return errEnough
		}
		text := lines.Bytes()
		if len(text) > maxLine {
			text = text[:maxLine]
		}
		r.Hits = append(r.Hits, Hit{rel, n, string(bytes.ToValidUTF8(text, []byte(string(utf8.RuneError))))})
	}
	return nil
}
