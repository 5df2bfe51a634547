package run

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/policy"

	"github.com/google/go-cmp/cmp"
)

func TestParseAccount(t *testing.T) {
	for _, c := range []struct {
		text, line string
		want       account
		said       string
	}{
		{"a", "a:x:1001:1002:A B,,,:/home/a/:/bin/sh\n", account{policy.User{Name: "a", UID: 1001, GID: 1002}, "/home/a", "/bin/sh"}, ""},
		{"1001", "a:x:1001:1002::/home/a:", account{policy.User{Name: "a", UID: 1001, GID: 1002}, "/home/a", ""}, ""},
		{"a", "b:x:1001:1002::/home/a:", account{}, "the host answered with the account of b"},
		{"a", "a:x:1001:1002::/home/a:\na:x:1003:1002::/home/a:\n", account{}, "more than once"},
		{"a", "a:x:1001:1002::/home/a", account{}, "cannot be read"},
		{"a", "a b:x:1001:1002::/home/a:", account{}, "cannot be read"},
		{"a", "a:x:-1:1002::/home/a:", account{}, "no usable ids"},
		{"a", "a:x:4294967295:1002::/home/a:", account{}, "no usable ids"},
		{"a", "a:x:1001:4294967295::/home/a:", account{}, "no usable ids"},
		{"a", "a:x:1001:1002::home:", account{}, "no home directory of its own"},
		{"a", "a:x:1001:1002:::", account{}, "no home directory of its own"},
		{"a", "a:x:1001:1002::/x/..:", account{}, "no home directory of its own"},
	} {
		got, err := parseAccount(c.text, c.line)
		if c.said != "" {
			if err == nil || !strings.Contains(err.Error(), c.said) || bourn.HintOf(err) == "" {
				t.Errorf("%q: %v, want %q", c.line, err, c.said)
			}
			continue
		}
		if err != nil || !cmp.Equal(*got, c.want) {
			t.Errorf("%q: %+v, %v", c.line, got, err)
		}
	}
}

func TestParseGroups(t *testing.T) {
	if got, err := parseGroups("20 5 20\n"); err != nil || !slices.Equal(got, []int{5, 20}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "\n", "5 x", "4294967295", "-1"} {
		if got, err := parseGroups(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestAmbiguous(t *testing.T) {
	const passwd = "root:x:0:0::/root:/bin/sh\na:x:5:5::/a:\nb:x:5:5::/b:\n7:x:8:8::/c:\nd:x:7:7::/d:\ne:x:9:9::/e:\ne:x:9:9::/e:\nbroken\n"
	for _, c := range []struct {
		text string
		a    account
		want bool
	}{
		{"a", account{User: policy.User{Name: "a", UID: 5}}, false},
		{"5", account{User: policy.User{Name: "a", UID: 5}}, true},
		{"7", account{User: policy.User{Name: "d", UID: 7}}, true},
		{"d", account{User: policy.User{Name: "d", UID: 7}}, false},
		{"8", account{User: policy.User{Name: "7", UID: 8}}, false},
		{"e", account{User: policy.User{Name: "e", UID: 9}}, true},
		{"elsewhere", account{User: policy.User{Name: "elsewhere", UID: 50}}, false},
	} {
		if why := ambiguous(c.text, &c.a, passwd); (why != "") != c.want {
			t.Errorf("%s: %q", c.text, why)
		}
	}
}

func TestMayBecome(t *testing.T) {
	for _, c := range []struct {
		target, uid, euid int
		want              error
	}{
		{1001, 0, 0, nil}, {1001, 1001, 1001, nil}, {1002, 1001, 1001, bourn.ErrDenied},
		{0, 0, 0, bourn.ErrInvalid}, {0, 1001, 1001, bourn.ErrInvalid}, {1002, 1001, 0, bourn.ErrDenied}, {1001, 1001, 0, bourn.ErrDenied},
	} {
		err := mayBecome(&account{User: policy.User{Name: "x", UID: c.target}}, c.uid, c.euid)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestValidUser(t *testing.T) {
	for text, want := range map[string]bool{"a": true, "a-b_c.d": true, "host$": true, "a@example.org": true, "1001": true,
		"": false, "-a": false, "a b": false, "a:b": false, "a/b": false, "a\n": false, "é": false, "a\x00": false, strings.Repeat("a", 257): false} {
		if validUser(text) != want {
			t.Errorf("%q", text)
		}
	}
}

// The starter's own places are not the user's; the rest of the environment stays.
func TestBecoming(t *testing.T) {
	h := &Home{Dir: "/root/.bourn", Person: "/root", Environ: []string{"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/zsh", "LANG=C",
		"CARGO_HOME=/root/.cargo", "JAVA_HOME=/opt/jdk", "XDG_CONFIG_HOME=/root/.config", "EDITOR=/root/bin/ed", "PATH=/root/bin:/usr/bin"}}
	got := h.becoming(&account{User: policy.User{Name: "a", UID: 5}, Home: "/home/a", Shell: "/bin/sh"})
	want := []string{"LANG=C", "JAVA_HOME=/opt/jdk", "EDITOR=/root/bin/ed", "PATH=/root/bin:/usr/bin", "HOME=/home/a", "USER=a", "LOGNAME=a", "SHELL=/bin/sh"}
	if diff := cmp.Diff(want, got.Environ); diff != "" {
		t.Error(diff)
	}
	if got.Person != "/home/a" || got.Starter != "/root" || got.Dir != h.Dir || h.Person != "/root" || h.user != nil {
		t.Errorf("%+v", got)
	}
}
