package sandbox

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// entry is one of an index of version 2 with object names of hash bytes.
func entry(mode uint32, name string, hash int) []byte {
	e := make([]byte, 40+hash+2)
	binary.BigEndian.PutUint32(e[24:], mode)
	e[len(e)-1] = byte(len(name))
	e = append(e, name...)
	return append(e, make([]byte, 8-len(e)%8)...)
}

func index(version, count uint32, entries ...[]byte) []byte {
	out := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
	out = binary.BigEndian.AppendUint32(out, count)
	return append(append(out, slices.Concat(entries...)...), make([]byte, 32)...)
}

func TestGitlinks(t *testing.T) {
	const file, link = 0o100644, gitlinkMode
	sha1 := index(2, 3, entry(file, "a", 20), entry(link, "lib/dep", 20), entry(file, "z", 20))
	for _, row := range []struct {
		name   string
		index  []byte
		shared []byte
		want   []string
		broken bool
	}{
		{"SHA-1", sha1, nil, []string{"lib/dep"}, false},
		{"SHA-256", index(2, 2, entry(file, "a", 32), entry(link, "lib/dep", 32)), nil, []string{"lib/dep"}, false},
		{"names of every length", index(2, 4, entry(file, "1234567", 20), entry(file, "12345678", 20), entry(file, "123456789", 20), entry(link, "x", 20)), nil, []string{"x"}, false},
		{"no submodule, not looked through", append(index(9, 1), 1, 2, 3), nil, nil, false},
		{"a version that is not known", index(9, 1, entry(link, "x", 20)), nil, nil, true},
		{"another format", append([]byte("XXXX"), sha1[4:]...), nil, nil, true},
		{"fewer entries than it says", index(2, 9, entry(link, "x", 20)), nil, nil, true},
		{"a mode that is none", index(2, 2, entry(0o777777, "a", 20), entry(link, "x", 20)), nil, nil, true},
		{"split", append(index(2, 0), "link"...), sha1, []string{"lib/dep"}, false},
		{"split, an entry replaced", append(index(2, 1, entry(link, "", 20)), "link"...), index(2, 2, entry(file, "a", 20), entry(file, "b", 20)), []string{"a", "b"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			git := t.TempDir()
			for name, data := range map[string][]byte{"index": row.index, "sharedindex.0": row.shared} {
				if err := os.WriteFile(filepath.Join(git, name), data, 0o600); data != nil && err != nil {
					t.Fatal(err)
				}
			}
			if row.shared == nil {
				os.Remove(filepath.Join(git, "sharedindex.0"))
			}
			got, err := gitlinks(git)
			if !slices.Equal(got, row.want) || errors.Is(err, errIndex) != row.broken || !row.broken && err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	if got, err := gitlinks(t.TempDir()); got != nil || err != nil {
		t.Errorf("without an index: %q, %v", got, err)
	}
}

// Whatever a run makes of an index, reading it ends.
func FuzzIndex(f *testing.F) {
	for version := range uint32(5) {
		f.Add(index(version, 2, entry(0o100644, "a", 20), entry(gitlinkMode, "lib/dep", 20)))
		f.Add(index(version, 1<<31, entry(gitlinkMode, "x", 32)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for cut := range data {
			var x indexed
			if err := x.read(data[:cut]); err == nil && len(x.links)+len(x.others) > len(data) {
				t.Errorf("more names than bytes: %+v", x)
			}
		}
	})
}
