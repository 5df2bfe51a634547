package survey

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links the kernel follows in one path (MAXSYMLINKS, path_resolution(7)).
const maxLinks = 40

// A Link is a symbolic link that was followed.
type Link struct {
	At     string // its own path; the directories on the way are real
	Target string // as stored in it
}

// A Resolution says where a path leads.
type Resolution struct {
	// Real is the path without symbolic links. Where the end does not exist it is Existing and the rest as it was written.
	Real     string
	Exists   bool
	Existing string // the longest part of Real that exists: Real itself if Exists. It can be a file, then nothing lies below.
	Links    []Link // every link followed, in order
	Object   Object // what stands at Real; of type Missing if it does not exist
}

// Resolve follows an absolute path as the kernel does: component by component, ".." meaning the real parent, at most 40 links.
// A dangling link leads to the missing path it names. An error means that it could not be told where the path leads: EACCES on the
// way, ELOOP (also for links into other processes, as /proc/self/fd/3, whose text is not where they lead), ".." after a missing
// component.
func Resolve(path string) (Resolution, error) {
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "\x00") {
		return Resolution{}, fmt.Errorf("cannot resolve %q: not an absolute path", path)
	}
	if absolute(path) {
		if r, ok := direct(path); ok {
			return r, nil
		}
	}
	r, err := resolve(path)
	if err != nil {
		return Resolution{}, fmt.Errorf("cannot resolve %q: %w", path, err)
	}
	return r, nil
}

// direct resolves a path without a symbolic link, at once: one that exists, or that is missing below a directory.
func direct(path string) (Resolution, bool) {
	o, err := plain(path)
	if err == nil {
		return Resolution{Real: path, Exists: true, Existing: path, Object: o}, true
	}
	for dir := path; errors.Is(err, fs.ErrNotExist) && dir != "/"; {
		dir = filepath.Dir(dir)
		if o, err = plain(dir); err == nil && o.Type == Dir {
			return Resolution{Real: path, Existing: dir, Object: Object{Path: path, Type: Missing}}, true
		}
	}
	return Resolution{}, false
}

func resolve(path string) (Resolution, error) {
	var r Resolution
	here, err := topPlace()
	if err != nil {
		return r, err
	}
	defer func() { here.close() }()
	rest := components(nil, path)
	for len(rest) > 0 {
		name := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		if here.object.Type != Dir && (name == "" || name == "." || name == "..") {
			return r, syscall.ENOTDIR
		}
		if name == "" {
			continue
		}
		next, target, err := here.step(name)
		if absent(err) {
			return missing(r, here, name, rest)
		}
		if err != nil {
			return r, err
		}
		if next.object.Type != Symlink {
			here.close()
			here = next
			continue
		}
		next.close()
		if len(r.Links) == maxLinks {
			return r, syscall.ELOOP
		}
		r.Links = append(r.Links, Link{At: next.object.Path, Target: target})
		if strings.HasPrefix(target, "/") {
			top, err := topPlace()
			if err != nil {
				return r, err
			}
			here.close()
			here = top
		}
		rest = components(rest, target)
	}
	r.Object = here.object
	r.Real, r.Existing, r.Exists = r.Object.Path, r.Object.Path, true
	return r, nil
}

var errParentOfMissing = errors.New(`".." after a component that does not exist`)

// missing ends a resolution at the component name, which is not in here.
func missing(r Resolution, here place, name string, rest []string) (Resolution, error) {
	r.Existing = here.object.Path
	r.Real = join(r.Existing, name)
	for i := len(rest) - 1; i >= 0; i-- {
		switch rest[i] {
		case "", ".":
		case "..":
			return Resolution{}, errParentOfMissing
		default:
			r.Real = join(r.Real, rest[i])
		}
	}
	r.Object = Object{Path: r.Real, Type: Missing}
	return r, nil
}

// components pushes those of path on stack, the first on top. A slash at the end becomes an empty one: it demands a directory, but
// not to be allowed into it as "." does.
func components(stack []string, path string) []string {
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i] != "" || i == len(parts)-1 {
			stack = append(stack, parts[i])
		}
	}
	return stack
}

// stepPath is where the component name leads from dir, if it is no link.
func stepPath(dir, name string) string {
	switch name {
	case ".":
		return dir
	case "..":
		return filepath.Dir(dir)
	}
	return join(dir, name)
}
