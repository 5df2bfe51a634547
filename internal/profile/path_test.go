package profile

import (
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"/": "/", "//": "/", "/a//b/": "/a/b", "/a/./b/.": "/a/b", "~": "~", "~/": "~", "~//a/": "~/a", "~/a/./b": "~/a/b",
	} {
		if got := (Path{Text: text}).Clean(); got != want {
			t.Errorf("Clean(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestLiteral(t *testing.T) {
	for _, test := range []struct {
		text, literal string
		glob          bool
	}{
		{"/a/.env", "/a/.env", false},
		{`/a/\[x\]/`, "/a/[x]", false},
		{`/a/\\*`, "", true},
		{"/a/]", "/a/]", false},
		{"/a/{b,c}", "", true},
		{"/a/[b-c]", "", true},
		{"/a/?", "", true},
	} {
		d := Deny{Path: Path{Text: test.text}, Glob: IsPattern(test.text)}
		if got, ok := d.Literal(); got != test.literal || ok == test.glob {
			t.Errorf("Literal(%q) = %q, %v, want %q, %v", test.text, got, ok, test.literal, !test.glob)
		}
	}
}

func TestEscapePattern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := "/" + rapid.StringMatching(`[a\\*?\[\]{}!^,-]{0,8}`).Draw(t, "path")
		text := EscapePattern(p)
		if bad := checkDeny(text); bad != "" {
			t.Fatalf("checkDeny(%q) = %s", text, bad)
		}
		if got, ok := (Deny{Path: Path{Text: text}, Glob: IsPattern(text)}).Literal(); got != p || !ok {
			t.Fatalf("Literal(%q) = %q, %v, want %q", text, got, ok, p)
		}
		if ok, err := doublestar.Match(text, p); !ok || err != nil {
			t.Fatalf("Match(%q, %q) = %v, %v", text, p, ok, err)
		}
	})
}

// A pattern that passes can be carried out.
func FuzzPattern(f *testing.F) {
	for _, text := range []string{"/a/**/*.pem", "/[a-", "/{a,{b,c}}", `/\`, "/[]]", "/[^/]", "~/[a-z]?"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if checkDeny(text) != "" {
			return
		}
		if !doublestar.ValidatePattern(text) {
			t.Fatalf("checkDeny accepts %q", text)
		}
		if _, err := doublestar.Match(text, "/a/b/c"); err != nil {
			t.Fatalf("Match(%q): %v", text, err)
		}
		if p, ok := (Deny{Path: Path{Text: text}, Glob: IsPattern(text)}).Literal(); ok && strings.Contains(p+"/", "/../") {
			t.Fatalf("Literal(%q) = %q", text, p)
		}
	})
}
