package survey

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// line is m as the kernel would print it.
func (m Mount) line() string {
	octal := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			if strings.IndexByte(" \t\n\\#", s[i]) >= 0 {
				fmt.Fprintf(&b, `\%03o`, s[i])
			} else {
				b.WriteByte(s[i])
			}
		}
		return b.String()
	}
	optional := ""
	for _, o := range []struct {
		tag   string
		group int
	}{{"shared", m.Shared}, {"master", m.Master}, {"propagate_from", m.From}} {
		if o.group > 0 {
			optional += fmt.Sprintf(" %s:%d", o.tag, o.group)
		}
	}
	if m.Unbindable {
		optional += " unbindable"
	}
	return fmt.Sprintf("%d %d %d:%d %s %s %s%s - %s %s %s", m.ID, m.Parent, m.Major, m.Minor, octal(m.Root), octal(m.Point), m.Options,
		optional, octal(m.FSType), octal(m.Source), m.SuperOptions)
}

func TestParseMounts(t *testing.T) {
	for line, want := range map[string]Mount{
		"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue": {ID: 36, Parent: 35, Major: 98, Root: "/mnt1",
			Point: "/mnt2", Options: "rw,noatime", Master: 1, FSType: "ext3", Source: "/dev/root", SuperOptions: "rw,errors=continue"},
		`1 0 0:5 / /a\040b\134\012\303\251 ro shared:2 master:3 propagate_from:4 unbindable new:9 - fuse.x a\040b rw`: {ID: 1, Minor: 5, Root: "/",
			Point: "/a b\\\n\xc3\xa9", Options: "ro", Shared: 2, Master: 3, From: 4, Unbindable: true, FSType: "fuse.x", Source: "a b", SuperOptions: "rw"},
		"1 2 0:5 / / rw - tmpfs  rw": {ID: 1, Parent: 2, Minor: 5, Root: "/", Point: "/", Options: "rw", FSType: "tmpfs", SuperOptions: "rw"},
		"9 2 0:4 net:[4026532] /run/n rw - nsfs nsfs rw": {ID: 9, Parent: 2, Minor: 4, Root: "net:[4026532]", Point: "/run/n", Options: "rw",
			FSType: "nsfs", Source: "nsfs", SuperOptions: "rw"},
	} {
		got, err := parseMounts(line + "\n")
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if diff := cmp.Diff([]Mount{want}, got); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	for _, bad := range []string{"x", "1 2 3", "1 2 0:5 / / rw", "1 2 0:5 / / rw shared:x - a b c", "a 2 0:5 / / rw - a b c", "1 2 5 / / rw - a b c",
		"1 2 0:5 / rel rw - a b c", "1 2 0:5 / / rw - a"} {
		if m, err := parseMounts(bad); err == nil {
			t.Errorf("%q gives %+v", bad, m)
		}
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n1 0 0:5 / / ro - tmpfs  rw\n")
	f.Add(`1 0 0:5 / /a\040b\134\012\303\251 ro shared:2 master:3 propagate_from:4 unbindable new:9 - fuse.x a\040b rw`)
	f.Fuzz(func(t *testing.T, text string) {
		mounts, err := parseMounts(text)
		if err != nil {
			return
		}
		var lines []string
		for _, m := range mounts {
			lines = append(lines, m.line())
		}
		again, err := parseMounts(strings.Join(lines, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(mounts, again); diff != "" {
			t.Fatal(diff)
		}
		table := NewTable(mounts)
		for _, m := range mounts {
			table.At(m.Point)
			for _, a := range table.Aliases(m.Point) {
				if a == m.Point {
					t.Fatalf("%q is an alias of itself", a)
				}
			}
			table.Parts(m.Point)
			table.Below(m.Point)
		}
	})
}

func TestTable(t *testing.T) {
	mount := func(id, parent int, minor uint32, root, point string) Mount {
		return Mount{ID: id, Parent: parent, Minor: minor, Root: root, Point: point}
	}
	table := NewTable([]Mount{
		mount(1, 0, 1, "/", "/"),
		mount(2, 1, 2, "/", "/srv"),                  // its own file system
		mount(3, 1, 2, "/proj", "/mnt/p"),            // /srv/proj once more
		mount(4, 1, 2, "/proj/secret", "/mnt/s"),     // a part of it
		mount(5, 1, 2, "/proj", "/hidden/deep"),      // and once more, but
		mount(6, 1, 3, "/", "/hidden"),               // covered above
		mount(7, 1, 2, "/proj", "/stacked"),          // and again, but
		mount(8, 7, 4, "/", "/stacked"),              // covered on the spot
		mount(9, 2, 5, "/", "/srv/proj/cache"),       // another file system within
		mount(10, 1, 5, "/", "/mnt/cache"),           // and its alias
		mount(11, 3, 6, "/", "/mnt/p/.git"),          // covers part of an alias
		mount(12, 1, 1, "/srv", "/under"),            // what /srv covers: not what stands there
		mount(13, 1, 2, "/project", "/mnt/projects"), // no prefix by component
		mount(14, 2, 2, "/proj/secret", "/srv/proj/in"),
	})
	for _, c := range []struct {
		path           string
		at             int
		aliases, parts []string
	}{
		{"/", 1, nil, nil},
		{"/etc", 1, nil, nil},
		{"/srv", 2, nil, []string{"/mnt/p", "/mnt/projects", "/mnt/s"}},
		{"/srv/proj", 2, []string{"/mnt/p"}, []string{"/mnt/s"}},
		{"/srv/proj/.env", 2, []string{"/mnt/p/.env"}, nil},
		{"/srv/proj/.git", 2, nil, nil},
		{"/srv/proj/.git/config", 2, nil, nil},
		{"/srv/proj/secret", 2, []string{"/mnt/p/secret", "/mnt/s", "/srv/proj/in"}, nil},
		{"/srv/proj/secret/k", 2, []string{"/mnt/p/secret/k", "/mnt/s/k", "/srv/proj/in/k"}, nil},
		{"/mnt/s/k", 4, []string{"/mnt/p/secret/k", "/srv/proj/in/k", "/srv/proj/secret/k"}, nil},
		{"/mnt/p/.env", 3, []string{"/srv/proj/.env"}, nil},
		{"/mnt/p/.git/x", 11, nil, nil},
		{"/srv/proj/cache/x", 9, []string{"/mnt/cache/x"}, nil},
		{"/mnt/cache", 10, []string{"/srv/proj/cache"}, nil},
		{"/stacked/x", 8, nil, nil},
		{"/hidden/deep", 6, nil, nil},
		{"/under/x", 12, nil, nil},
		{"/workshop", 1, nil, nil},
	} {
		m, ok := table.At(c.path)
		if !ok || m.ID != c.at {
			t.Errorf("At(%q) = %d, want %d", c.path, m.ID, c.at)
		}
		if diff := cmp.Diff(c.aliases, table.Aliases(c.path)); diff != "" {
			t.Errorf("Aliases(%q): %s", c.path, diff)
		}
		if diff := cmp.Diff(c.parts, table.Parts(c.path)); diff != "" {
			t.Errorf("Parts(%q): %s", c.path, diff)
		}
	}
	for path, want := range map[string][]int{"/srv/proj": {9, 14}, "/hidden": {6}, "/stacked": {8}, "/srv/proj/cache": {9}, "/nowhere": nil} {
		var got []int
		for _, m := range table.Below(path) {
			got = append(got, m.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Below(%q): %s", path, diff)
		}
	}
	if m, ok := (Table{}).At("/"); ok {
		t.Errorf("an empty table has %+v", m)
	}
	loop := NewTable([]Mount{mount(1, 2, 1, "/", "/"), mount(2, 1, 1, "/", "/"), mount(3, 3, 1, "/", "/")})
	if m, ok := loop.At("/x"); !ok || m.ID != 3 {
		t.Errorf("At in a loop: %+v", m)
	}
}
