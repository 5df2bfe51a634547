package survey

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// ErrNotPlain is of a file that is none, or that a symbolic link leads to.
var ErrNotPlain = errors.New("not a plain file")

// Text returns the text of a regular file of at most limit bytes without its last newline,
// or "" for what is none. Whoever may write there may put anything there: a fifo would be
// waited for.
func Text(at string, limit int64) string {
	o, err := Stat(at)
	if err != nil || o.Type != File || o.Size > limit {
		return ""
	}
	data, err := os.ReadFile(at)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(data), "\r\n")
}

// ReadPlain reads the file below the directory root, a real path, by the names of the
// directories on the way and its own. No symbolic link is followed, nothing but a regular
// file is opened for reading, and what is examined is what is read, once. Top is the
// directory root itself. The error wraps fs.ErrNotExist where nothing stands there,
// ErrNotPlain for a link, for what is no regular file, and for a file of more than limit
// bytes.
func ReadPlain(root string, limit int64, names ...string) (data []byte, top Object, err error) {
	f, top, err := openPlain(root, names)
	if absent(err) {
		return nil, top, fs.ErrNotExist
	}
	if err != nil {
		return nil, top, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%w: it is longer than %d bytes", ErrNotPlain, limit)
	}
	return data, top, err
}

// notPlain returns what is wrong with an object on the way to a plain file, or at its end.
func notPlain(o Object, last bool) error {
	switch {
	case o.Type == Symlink:
		return fmt.Errorf("%w: %s is a symlink", ErrNotPlain, o.Path)
	case last && o.Type != File:
		return fmt.Errorf("%w: %s is a %s", ErrNotPlain, o.Path, o.Type)
	case !last && o.Type != Dir:
		return os.ErrNotExist
	}
	return nil
}
