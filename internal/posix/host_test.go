package posix

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bourn"
)

const passwdText = `root:x:0:0:root:/root:/bin/bash
# a comment

daemon:*:1:1::/:/usr/sbin/nologin
joe:x:1000:1000:Joe,,,:/home/joe:/bin/bash
open::1001:1001::/:/bin/sh
old:$1$x:1002:1002::/:/bin/sh
+nis::::::
`

func TestParsePasswd(t *testing.T) {
	users, err := ParsePasswd([]byte(passwdText))
	if err != nil {
		t.Fatal(err)
	}
	shadow := "root:$6$x:1:0:99999:7:::\njoe:!*:1:::::20000:\nold:!*:1::::::\nopen:$6$x:1:::::1:\n"
	if err := applyShadow(users, []byte(shadow)); err != nil {
		t.Fatal(err)
	}
	want := []User{
		{"root", 0, 0, "/root", "/bin/bash", true, false, false},
		{"daemon", 1, 1, "/", "/usr/sbin/nologin", false, true, false},
		{"joe", 1000, 1000, "/home/joe", "/bin/bash", true, true, false},
		{"open", 1001, 1001, "/", "/bin/sh", false, false, true},
		{"old", 1002, 1002, "/", "/bin/sh", false, false, false}, // passwd has a password of its own
	}
	if diff := cmp.Diff(want, users); diff != "" {
		t.Error(diff)
	}
}

func TestReadersRefuse(t *testing.T) {
	for _, text := range []string{
		"a:x:1:1:::", "a:x:1:1::/:/bin/sh\nb:x:-1:1::/:/bin/sh", "a:x:1:1::/", "a:x::1::/:", ":x:1:1::/:", "a:x:4294967296:1::/:", "a:x:1:0x1::/:", "a:x:+1:1::/:", "a:x: 1:1::/:",
	} {
		_, err := ParsePasswd([]byte(text))
		if ok := text == "a:x:1:1:::"; ok != (err == nil) || err != nil && (bourn.CodeOf(err) != bourn.CodeInvalid || !strings.Contains(err.Error(), "line ")) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, parse := range map[string]func([]byte) error{
		"a:x:b:":          func(b []byte) error { return second(ParseGroup(b)) },
		"a:x:1":           func(b []byte) error { return second(ParseGroup(b)) },
		"a:1":             func(b []byte) error { return second(ParseSubIDs(b)) },
		"a:1:4294967295x": func(b []byte) error { return second(ParseSubIDs(b)) },
		"a:2:4294967295":  func(b []byte) error { return second(ParseSubIDs(b)) },
		"UID_MIN x":       func(b []byte) error { return second(ParseLoginDefs(b)) },
		"UID_MIN 70000":   func(b []byte) error { return second(ParseLoginDefs(b)) },
	} {
		if err := parse([]byte(text)); bourn.CodeOf(err) != bourn.CodeInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReadersRead(t *testing.T) {
	groups, err := ParseGroup([]byte("root:x:0:\nadm:x:4:joe,,ann\n"))
	if diff := cmp.Diff([]Group{{"root", 0, nil}, {"adm", 4, []string{"joe", "ann"}}}, groups); diff != "" || err != nil {
		t.Error(err, diff)
	}
	subs, err := ParseSubIDs([]byte("joe:100000:65536\n1000:1:1\nnone:5:0\n"))
	if diff := cmp.Diff([]SubID{{"joe", 100000, 65536}, {"1000", 1, 1}}, subs); diff != "" || err != nil {
		t.Error(err, diff)
	}
	defs, err := ParseLoginDefs([]byte("# UID_MIN 5\nUID_MIN\t\t 0x3e8 \nUID_MAX 70000\nX y\n"))
	if err != nil || defs[1] != (Def{"UID", Range{1000, 70000}}) || defs[2].First != 100000 || len(defs) != 6 {
		t.Error(defs, err)
	}
	points, err := parseMounts([]byte("22 1 8:1 / / rw - ext4 /dev/x rw\n23 22 8:1 /a /w\\040x/\\134y rw shared:1 - ext4 /dev/x rw\n"))
	if diff := cmp.Diff(map[string]bool{"/": true, "/w x/\\y": true}, points); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// What a reader took, written out, reads the same.
func FuzzReaders(f *testing.F) {
	f.Add([]byte(passwdText))
	f.Add([]byte("root:x:0:\nadm:x:4:joe,,ann\n"))
	f.Add([]byte("joe:100000:65536\n"))
	f.Add([]byte("22 1 8:1 / /\\0401 rw - ext4 /dev/x rw\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if users, err := ParsePasswd(data); err == nil {
			var b strings.Builder
			for _, u := range users {
				password := map[bool]string{true: "*"}[u.Locked]
				if u.Shadowed {
					password = "x"
				}
				fmt.Fprintf(&b, "%s:%s:%d:%d::%s:%s\n", u.Name, password, u.UID, u.GID, u.Home, u.Shell)
			}
			again(t, ParsePasswd, b.String(), users)
		}
		if groups, err := ParseGroup(data); err == nil {
			var b strings.Builder
			for _, g := range groups {
				fmt.Fprintf(&b, "%s:x:%d:%s\n", g.Name, g.GID, strings.Join(g.Members, ","))
			}
			again(t, ParseGroup, b.String(), groups)
		}
		if ids, err := ParseSubIDs(data); err == nil {
			var b strings.Builder
			for _, s := range ids {
				if s.numbers().First > s.numbers().Last {
					t.Fatalf("%v wraps around", s)
				}
				fmt.Fprintf(&b, "%s:%d:%d\n", s.Owner, s.Start, s.Count)
			}
			again(t, ParseSubIDs, b.String(), ids)
		}
		_, _ = ParseLoginDefs(data)
		_, _ = parseMounts(data)
		credentials(data)
	})
}

func again[T any](t *testing.T, parse func([]byte) ([]T, error), text string, want []T) {
	t.Helper()
	got, err := parse([]byte(text))
	if err != nil || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%q: %v, %v, want %v", text, got, err, want)
	}
}

// A state or registry that is read is written as what reads the same.
func FuzzFiles(f *testing.F) {
	s := company(f)
	state, err := s.Encode()
	if err != nil {
		f.Fatal(err)
	}
	registry, err := helpers(f, s).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state)
	f.Add([]byte(`{"version":1,"range":{"first":66000,"last":99999}}`))
	f.Add(registry)
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ParseState(data); err == nil {
			first, err := s.Encode()
			if err != nil {
				t.Fatal(err)
			}
			back, err := ParseState(first)
			if second, _ := back.Encode(); err != nil || string(first) != string(second) {
				t.Fatalf("%v\n%s\n%s", err, first, second)
			}
		}
		if r, err := ParseRegistry(data); err == nil {
			first, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			back, err := ParseRegistry(first)
			if second, _ := back.Encode(); err != nil || string(first) != string(second) {
				t.Fatalf("%v\n%s\n%s", err, first, second)
			}
		}
	})
}

func TestCredentials(t *testing.T) {
	uid, gids := credentials([]byte("Name:\tx\nUid:\t66016\t1\t1\t1\nGid:\t66016\t66016\t5\t66016\nGroups:\t66019 66001 \nNoNewPrivs:\t1\n"))
	if uid != 66016 || !reflect.DeepEqual(gids, []uint32{66016, 66016, 5, 66016, 66019, 66001}) {
		t.Error(uid, gids)
	}
}
