package profile

import (
	"errors"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
)

func TestPlaceholder(t *testing.T) {
	p, err := Parse("p", []byte(head+"filesystem:\n  deny: [{path: /a, placeholder: true}, {placeholder: true, path: /b, style: empty}, {path: /c, placeholder: false}, /d, {path: \"/e/*\", placeholder: false}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, d := range p.Filesystem.Deny {
		got = append(got, d.Placeholder)
	}
	if diff := cmp.Diff([]bool{true, true, false, false, false}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPlaceholderErrors(t *testing.T) {
	for _, c := range []struct{ deny, want string }{
		{`[{path: "/a/*.pem", placeholder: true}]`, `p:4:42: a placeholder takes a path, and "/a/*.pem" is a pattern`},
		{`[{placeholder: true, path: "/a/{b,c}"}]`, `p:4:24: a placeholder takes a path, and "/a/{b,c}" is a pattern`},
		{`[{path: /a, placeholder: yes}]`, `p:4:34: filesystem.deny.placeholder must be true or false, not "yes"`},
		{`[{path: /a, placeholder: 1}]`, `p:4:34: filesystem.deny.placeholder must be true or false, not a number without quotes`},
		{`[{placeholder: true}]`, `p:4:10: filesystem.deny.path is missing`},
	} {
		_, err := Parse("p", []byte(head+"filesystem:\n  deny: "+c.deny+"\n"))
		if err == nil || !errors.Is(err, bourn.ErrInvalid) || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.deny, err, c.want)
		}
	}
}

// A placeholder is written in the form of what is around it, is removed like every entry, and
// leaves the same bytes.
func TestAddPlaceholder(t *testing.T) {
	const flow, quoted = "{path: /x, placeholder: true}", `{"path": "/x", "placeholder": true}`
	for _, c := range []struct{ src, want string }{
		{"", "filesystem:\n  deny:\n    - " + flow + "\n"},
		{"filesystem: # mine\n", "filesystem: { deny: [ " + flow + " ] } # mine\n"},
		{"filesystem: {}\n", "filesystem: {deny: [ " + flow + " ]}\n"},
		{"filesystem:\n  deny: # d\n", "filesystem:\n  deny: [ " + flow + " ] # d\n"},
		{"filesystem:\n  deny: []\n", "filesystem:\n  deny: [" + flow + "]\n"},
		{"filesystem:\n  deny:\n  - /a # a\n  - path: /b\n    style: empty\n", "filesystem:\n  deny:\n  - /a # a\n  - path: /b\n    style: empty\n  - " + flow + "\n"},
		{"filesystem: {deny: [/a]}\n", "filesystem: {deny: [/a, " + flow + "]}\n"},
		{"filesystem: {\"deny\": [\"/a\"]}\n", "filesystem: {\"deny\": [\"/a\", " + quoted + "]}\n"},
		{"filesystem: {\"deny\": [{\"path\": \"/a\"}]}\n", "filesystem: {\"deny\": [{\"path\": \"/a\"}, " + quoted + "]}\n"},
		{"filesystem: {\"read\": [\"/a\"]}\n", "filesystem: {\"read\": [\"/a\"], \"deny\": [ " + quoted + " ]}\n"},
	} {
		got, changed, err := AddPlaceholder("p", []byte(head+c.src), "/x")
		if err != nil || !changed {
			t.Errorf("%q: %v, %v", c.src, changed, err)
			continue
		}
		if diff := cmp.Diff(head+c.want, string(got)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.src, diff)
		}
		p, err := Parse("p", got)
		if err != nil || !p.Filesystem.Deny[len(p.Filesystem.Deny)-1].Placeholder {
			t.Errorf("%q: no placeholder: %v", c.src, err)
		}
		if again, changed, err := AddPlaceholder("p", got, "/x/"); err != nil || changed || string(again) != string(got) {
			t.Errorf("%q: added twice: %v, %v", c.src, changed, err)
		}
		back, err := Remove("p", got, DenyList, "/x")
		if err != nil {
			t.Errorf("%q: %v", c.src, err)
		} else if diff := cmp.Diff(head+c.src, string(back)); diff != "" {
			t.Errorf("%q: removed again (-want +got):\n%s", c.src, diff)
		}
	}
}

// What YAML or a terminal could take for something else is quoted.
func TestAddPlaceholderQuotes(t *testing.T) {
	const path = "~/a, b: {c}\u202e"
	got, _, err := AddPlaceholder("p", []byte(head), EscapePattern(path))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse("p", got)
	if err != nil || strings.ContainsRune(string(got), '\u202e') {
		t.Fatalf("%q: %v", got, err)
	}
	if is, _ := p.Filesystem.Deny[0].Literal(); is != path {
		t.Errorf("%q is %q", path, is)
	}
	if _, _, err := AddPlaceholder("p", []byte(head), "/a/*"); !errors.Is(err, bourn.ErrInvalid) {
		t.Errorf("a pattern was added: %v", err)
	}
}
