package workspace

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// plainLines is what lines has to find, in the plainest way.
func plainLines(text []byte, query string, regex bool) (all []string) {
	if !regex {
		query = regexp.QuoteMeta(query)
	}
	re := regexp.MustCompile(query)
	lines := bytes.Split(text, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	for i, l := range lines {
		l = bytes.TrimSuffix(l, []byte("\r"))
		if re.Match(l) {
			all = append(all, fmt.Sprintf("%d:%s", i+1, l))
		}
	}
	return all
}

func matchedLines(t *testing.T, text []byte, query string, regex bool) (all []string) {
	t.Helper()
	m, err := newLineMatcher(query, regex)
	if err != nil {
		t.Fatal(err)
	}
	m.lines(t.Context(), text, func(n int, line []byte) bool {
		all = append(all, fmt.Sprintf("%d:%s", n, line))
		return true
	})
	return all
}

func TestLines(t *testing.T) {
	text := []byte("one\ntwo two\n\n  three\r\nfour\tFive\n\nlast one")
	for _, regex := range []bool{false, true} {
		for _, query := range []string{"one", "two", "o", "x", "\n", "ee\n", "three", "last one", "two t"} {
			if got, want := matchedLines(t, text, query, regex), plainLines(text, query, regex); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q, %v: %q; want %q", query, regex, got, want)
			}
		}
	}
	for _, query := range []string{"^", "$", "^$", "^one$", "e$", `\s+`, `\s*three`, `(?i)FIVE`, `two\b`, `\bone\b`, `\Aone`, `one\z`, `(?s).`, "(?s)one.two", "o+e?", "(one|two)", "x*", `[^x]`, "(?-s:.)*", "a)|(b", `\n`, `[\n]`, "(?m)^f", "t(w)o|f", "(th){1,2}ree", "e{2}$"} {
		if _, err := regexp.Compile(query); err != nil {
			continue
		}
		if got, want := matchedLines(t, text, query, true), plainLines(text, query, true); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %q; want %q", query, got, want)
		}
	}
}

// FuzzLines holds what is found in many lines at once against each line by itself.
func FuzzLines(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n\nthree"), `^t`, true)
	f.Add([]byte("one\ntwo\n"), `o`, false)
	f.Add([]byte("a\n\n\nb"), `\s*b$|^$`, true)
	f.Fuzz(func(t *testing.T, text []byte, query string, regex bool) {
		if query == "" || !utf8.ValidString(query) || len(query) > 100 || strings.Count(query, "{") > 2 {
			return
		}
		if _, err := regexp.Compile(query); regex && err != nil {
			return
		}
		got, want := matchedLines(t, text, query, regex), plainLines(text, query, regex)
		if !regex && strings.ContainsAny(query, "\r\n") {
			return // no line holds its own end
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q in %q: %q; want %q", query, text, got, want)
		}
	})
}
