package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Mount is a line of /proc/self/mountinfo, proc_pid_mountinfo(5). Paths are unescaped.
type Mount struct {
	ID, Parent   int
	Major, Minor uint32
	Root         string // the path within the file system that stands at Point
	Point        string
	Options      string
	Shared       int // peer groups, 0 for none
	Master       int
	From         int // propagate_from
	Unbindable   bool
	FSType       string
	Source       string
	SuperOptions string
}

// Mounts reads the mounts that this process can reach.
func Mounts() (Table, error) {
	text, err := readMounts()
	if err != nil {
		return Table{}, fmt.Errorf("cannot read mounts: %w", err)
	}
	mounts, err := parseMounts(text)
	if err != nil {
		return Table{}, fmt.Errorf("cannot read mounts: %w", err)
	}
	return NewTable(mounts), nil
}

func parseMounts(text string) ([]Mount, error) {
	var mounts []Mount
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if line == "" {
			continue
		}
		m, err := parseMount(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// parseMount reads
//
//	36 35 98:0 /root /point rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue
//
// where any number of optional fields, also unknown ones, precede the dash, and the source may be empty.
func parseMount(line string) (m Mount, err error) {
	f := strings.Split(line, " ")
	if len(f) < 6 {
		return m, fmt.Errorf("%d fields in %q", len(f), line)
	}
	number := func(s string, bits int) (n uint64) {
		if err == nil {
			n, err = strconv.ParseUint(s, 10, bits)
		}
		return n
	}
	m.ID, m.Parent = int(number(f[0], 31)), int(number(f[1], 31))
	major, minor, _ := strings.Cut(f[2], ":")
	m.Major, m.Minor = uint32(number(major, 32)), uint32(number(minor, 32))
	m.Root, m.Point, m.Options = unescapeOctal(f[3]), unescapeOctal(f[4]), f[5]
	f = f[6:]
	for len(f) > 0 && f[0] != "-" {
		switch tag, group, _ := strings.Cut(f[0], ":"); tag {
		case "shared":
			m.Shared = int(number(group, 31))
		case "master":
			m.Master = int(number(group, 31))
		case "propagate_from":
			m.From = int(number(group, 31))
		case "unbindable":
			m.Unbindable = true
		}
		f = f[1:]
	}
	if err != nil {
		return Mount{}, fmt.Errorf("%w in %q", err, line)
	}
	if len(f) < 4 || !strings.HasPrefix(m.Point, "/") {
		return Mount{}, fmt.Errorf("unknown form %q", line)
	}
	m.FSType, m.Source, m.SuperOptions = unescapeOctal(f[1]), unescapeOctal(f[2]), strings.Join(f[3:], " ")
	return m, nil
}

// unescapeOctal undoes \040 and the like.
func unescapeOctal(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// A Table answers questions about mounts, by path alone: paths are absolute, clean and real. The zero Table has none.
type Table struct {
	mounts  []Mount
	at      map[spot]int // the mount attached to another at a point
	devices map[device][]int
}

type spot struct {
	parent int // or unreached
	point  string
}

// unreached stands for a parent that is in no line, as that of the root is.
const unreached = -1

type device struct{ major, minor uint32 }

// NewTable makes a Table of mounts in the order of mountinfo.
func NewTable(mounts []Mount) Table {
	t := Table{mounts: mounts, at: make(map[spot]int, len(mounts)), devices: map[device][]int{}}
	ids := make(map[int]bool, len(mounts))
	for _, m := range mounts {
		ids[m.ID] = true
	}
	for i, m := range mounts {
		parent := m.Parent
		if !ids[parent] || parent == m.ID {
			parent = unreached
		}
		t.at[spot{parent, m.Point}] = i
		d := device{m.Major, m.Minor}
		t.devices[d] = append(t.devices[d], i)
	}
	return t
}

// Mounts returns all of them, in order.
func (t Table) Mounts() []Mount { return t.mounts }

// At returns the mount that holds path, as the kernel finds it walking down from the root; false if the table has no root.
func (t Table) At(path string) (Mount, bool) {
	i := t.lookup(path)
	if i < 0 {
		return Mount{}, false
	}
	return t.mounts[i], true
}

func (t Table) lookup(path string) int {
	here, id := -1, unreached
	for end := min(1, len(path)); ; {
		for range t.mounts { // mounts stacked on one point: the last is met
			i, ok := t.at[spot{id, path[:end]}]
			if !ok {
				break
			}
			here, id = i, t.mounts[i].ID
		}
		if end == len(path) {
			return here
		}
		if path[end] == '/' {
			end++
		}
		for end < len(path) && path[end] != '/' {
			end++
		}
	}
}

// Aliases returns the other paths at which the object at path can be reached, through other mounts of its file system: with
// /srv/proj also mounted at /mnt/p, /srv/proj/.env is /mnt/p/.env. What lies in mounts below path has aliases of its own: ask for each
// mount of Below. A mount that a later one hides does not count.
func (t Table) Aliases(path string) []string {
	var aliases []string
	inside, mounts := t.inside(path)
	for _, i := range mounts {
		m := &t.mounts[i]
		if under(m.Root, inside) {
			if alias := graft(m.Point, m.Root, inside); alias != path && t.lookup(alias) == i {
				aliases = append(aliases, alias)
			}
		}
	}
	return ordered(aliases)
}

// Parts returns the mount points at which something that lies below path in its file system can be reached otherwise: of /srv/proj
// with /srv/proj/secret mounted at /mnt/s, that is /mnt/s. Points that are themselves below path are not named.
func (t Table) Parts(path string) []string {
	var parts []string
	inside, mounts := t.inside(path)
	for _, i := range mounts {
		m := &t.mounts[i]
		if m.Root != inside && under(inside, m.Root) && !under(path, m.Point) && t.lookup(m.Point) == i {
			parts = append(parts, m.Point)
		}
	}
	return ordered(parts)
}

// inside returns the path within its file system of what stands at path, and the mounts of that file system.
func (t Table) inside(path string) (string, []int) {
	m, ok := t.At(path)
	if !ok {
		return "", nil
	}
	return graft(m.Root, m.Point, path), t.devices[device{m.Major, m.Minor}]
}

// Below returns the mounts at or under path that can be reached, by their points.
func (t Table) Below(path string) []Mount {
	var below []Mount
	for i, m := range t.mounts {
		if under(path, m.Point) && t.lookup(m.Point) == i {
			below = append(below, m)
		}
	}
	slices.SortFunc(below, func(a, b Mount) int { return cmp.Or(comparePaths(a.Point, b.Point), a.ID-b.ID) })
	return below
}

// graft moves path, which is at or under from, to lie under to.
func graft(to, from, path string) string {
	if path == from {
		return to
	}
	if from != "/" {
		path = path[len(from):]
	}
	return join(to, path[1:])
}

func ordered(paths []string) []string {
	slices.SortFunc(paths, comparePaths)
	return slices.Compact(paths)
}
