package workspace

import (
	"errors"

	"bourn"

	"golang.org/x/sys/unix"
)

// maxRead is how many bytes of a file are read, or changed, at once.
const maxRead = 8 << 20

// read reads a file, or a part of it: what is there while it is read, and no more than was
// asked for if it grows.
func (w *work) read() (any, error) {
	offset, limit := w.request.Offset, w.request.Limit
	if offset < 0 || limit < 0 {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_range", Text: "offset and limit are not negative"}
	}
	if limit == 0 || limit > maxRead {
		limit = maxRead
	}
	b, fd, err := w.open(w.request.Path, bourn.Read)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	// One byte more than is given says whether there is more.
	content, err := readSome(fd, offset, limit+1, b.st.Size)
	if err != nil {
		return nil, w.pathProblem(b.at, err)
	}
	r := ReadResult{Path: b.at, Offset: offset, Truncated: int64(len(content)) > limit}
	r.Content = content[:min(int64(len(content)), limit)]
	r.Size = max(b.st.Size, offset+int64(len(r.Content)))
	if len(content) == 0 && offset > 0 {
		r.Size = b.st.Size
	}
	if offset == 0 && !r.Truncated {
		r.Size, r.Digest = int64(len(content)), digest(content)
	}
	return r, nil
}

// readSome reads up to limit bytes; size says how much there probably is.
func readSome(fd int, offset, limit, size int64) ([]byte, error) {
	// The kernel's own files have no size.
	room := min(max(size-offset, 0)+1, limit)
	if size == 0 {
		room = min(limit, 4<<10)
	}
	content := make([]byte, 0, room)
	for {
		n, err := unix.Pread(fd, content[len(content):cap(content)], offset+int64(len(content)))
		content = content[:len(content)+max(n, 0)]
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return content, err
		case n == 0 || size > 0 && offset+int64(len(content)) == size && len(content) < cap(content):
			return content, nil // it ends where it was said to: more was asked for
		case int64(len(content)) >= limit:
			return content, nil
		case len(content) == cap(content):
			grown := make([]byte, len(content), min(2*int64(cap(content))+512, limit))
			copy(grown, content)
			content = grown
		}
	}
}

// inspect says what a path is, a link itself and not what it leads to.
func (w *work) inspect() (any, error) {
	// A root has no directory above it: it is judged as what it is.
	if at, err := w.absolute(w.request.Path); err == nil && at == "/" {
		return w.entry(at, at, unix.AT_FDCWD)
	}
	el, err := w.element(w.request.Path, bourn.Read)
	if err != nil {
		return nil, err
	}
	defer el.Close()
	return w.entry(el.name, el.at, int(el.dir.Fd()))
}

func (w *work) entry(name, at string, dir int) (any, error) {
	if err := w.opened(at, at, bourn.Read); err != nil {
		return nil, err
	}
	fd, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, w.pathProblem(at, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, w.pathProblem(at, err)
	}
	e := entryOf(at, &st)
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		var target [unix.PathMax]byte
		if n, err := unix.Readlinkat(fd, "", target[:]); err == nil {
			e.Target = string(target[:n])
		}
	}
	return e, nil
}
