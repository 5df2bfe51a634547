package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"bourn/internal/sandbox/survey"
)

// Git looks into the repositories that an index names as submodules whenever it looks at the
// checkout, `git status` does, and obeys the configuration of each. An entry of the index is
// enough for that, whoever made it: neither .gitmodules nor the repository's own
// configuration is asked.

// gitlinkMode is the mode of a submodule's entry in an index (gitformat-index(5)).
const gitlinkMode = 0o160000

// How many bytes the names of objects have.
const (
	sha1Size   = 20
	sha256Size = 32
)

// maxIndex is the size, in bytes, above which an index is not read.
const maxIndex = 256 << 20

var errIndex = errors.New("it is no index that bourn can read")

// gitlinkBytes are in every index that has such an entry.
var gitlinkBytes = []byte{0, 0, gitlinkMode >> 8, 0}

// gitlinks returns the paths, relative to the checkout, at which the index of a git directory
// names a submodule. Without an index there are none. Of a split index it may return other
// paths as well.
func gitlinks(git string) ([]string, error) {
	data, err := readIndex(path.Join(git, "index"))
	if err != nil || data == nil {
		return nil, err
	}
	all, err := sharedIndexes(git, data)
	if err != nil {
		return nil, err
	}
	if all = append(all, data); !slices.ContainsFunc(all, func(data []byte) bool { return bytes.Contains(data, gitlinkBytes) }) {
		return nil, nil // nearly always
	}
	var names indexed
	for _, data := range all {
		if err := names.read(data); err != nil {
			return nil, err
		}
	}
	if names.unnamed { // its name is that of an entry of the shared index
		return append(names.links, names.others...), nil
	}
	return names.links, nil
}

// readIndex returns an index, or nil where none stands.
func readIndex(at string) ([]byte, error) {
	o, err := survey.Stat(at)
	switch {
	case err != nil:
		return nil, err
	case o.Type == survey.Missing:
		return nil, nil
	case o.Type != survey.File, o.Size > maxIndex:
		return nil, errIndex
	}
	data, err := os.ReadFile(at)
	if err != nil {
		return nil, err
	}
	return data, nil
}

// sharedIndexes returns those in a git directory to which an index may add, if it says that
// it adds to one.
func sharedIndexes(git string, index []byte) ([][]byte, error) {
	if !bytes.Contains(index, []byte("link")) {
		return nil, nil
	}
	entries, err := os.ReadDir(git)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "sharedindex.") {
			continue
		}
		data, err := readIndex(path.Join(git, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// An indexed is what indexes name.
type indexed struct {
	links, others []string
	unnamed       bool // there is a submodule whose name stands in another index
}

// read adds what an index names. How long the name of an object is does not stand in it: that
// of SHA-1 is tried first.
func (x *indexed) read(data []byte) error {
	if len(data) < 12 || string(data[:4]) != "DIRC" {
		return errIndex
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	for _, hash := range []int{sha1Size, sha256Size} {
		if add, ok := readEntries(data[12:], version, count, hash); ok {
			x.links, x.others = append(x.links, add.links...), append(x.others, add.others...)
			x.unnamed = x.unnamed || add.unnamed
			return nil
		}
	}
	return errIndex
}

// readEntries reads the entries of an index whose object names have hash bytes.
func readEntries(data []byte, version, count uint32, hash int) (out indexed, ok bool) {
	const stat, modeAt = 40, 24
	if version < 2 || version > 4 {
		return out, false
	}
	name := ""
	for ; count > 0; count-- {
		head := stat + hash + 2
		if len(data) < head+2 {
			return out, false
		}
		mode := binary.BigEndian.Uint32(data[modeAt:])
		if extended := data[stat+hash]&0x40 != 0; extended && version > 2 {
			head += 2
		}
		used := 0
		if name, used, ok = entryName(data[head:], version, head, name); !ok || !indexMode(mode) {
			return out, false
		}
		switch data = data[head+used:]; {
		case mode != gitlinkMode:
			out.others = append(out.others, name)
		case name == "":
			out.unnamed = true
		default:
			out.links = append(out.links, name)
		}
	}
	return out, len(data) >= hash // its checksum
}

// entryName reads the name of an entry whose fields before it have head bytes, and returns
// how many bytes it takes. Before is the name of the entry before.
func entryName(data []byte, version uint32, head int, before string) (name string, used int, ok bool) {
	keep := 0
	if version == 4 {
		cut, n := indexVarint(data)
		if n == 0 || cut > len(before) {
			return "", 0, false
		}
		keep, used = len(before)-cut, n
	}
	end := bytes.IndexByte(data[used:], 0)
	if end < 0 {
		return "", 0, false
	}
	name = before[:keep] + string(data[used:used+end])
	used += end + 1
	if version < 4 { // one to eight NUL, up to a multiple of eight
		used = (head+end+8)/8*8 - head
	}
	return name, used, used <= len(data)
}

// indexVarint reads a number as git's packs have their offsets, and returns its length, 0 for
// none.
func indexVarint(data []byte) (value, n int) {
	for n < len(data) && n < 4 {
		c := data[n]
		if n++; n > 1 {
			value++
		}
		value = value<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return value, n
		}
	}
	return 0, 0
}

// indexMode reports whether entries have a mode.
func indexMode(mode uint32) bool {
	switch mode & 0o170000 {
	case 0o100000, 0o120000, gitlinkMode, 0o040000:
		return mode>>16 == 0
	}
	return false
}
