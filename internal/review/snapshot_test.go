package review

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
)

var snapshotBase = Base{Root: "/", Home: "/home/u"}

func newKey(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func published1(t testing.TB, key ed25519.PrivateKey, document string) []byte {
	t.Helper()
	b, problems := Parse([]byte(document), snapshotBase)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	text, err := Publish(key, 7, b, true)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const twoRules = `{"version":1,"hardBlocks":[
	{"id":"keys","type":"path","match":"exact","pattern":"~/key","operations":["read","write"],"reason":"a <key>","examples":{"blocks":["/home/u/key"]}},
	{"id":"push","enabled":false,"type":"command","pattern":"git push","operations":["execute"]}]}`

// TestPublishedReadsBack holds both ways of reading a snapshot against what was published.
func TestPublishedReadsBack(t *testing.T) {
	public, private := newKey(t)
	want, _ := Parse([]byte(twoRules), snapshotBase)
	text := published1(t, private, twoRules)
	for name, read := range map[string]func() (Boundaries, int64, error){
		"published": func() (Boundaries, int64, error) { return Published(public, text, snapshotBase) },
		"signed":    func() (Boundaries, int64, error) { return Signed(public, text) },
	} {
		got, at, err := read()
		if err != nil || at != 7 {
			t.Errorf("%s: version %d, %v", name, at, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestPublishedRefuses tries every text that is not what the key's holder published.
func TestPublishedRefuses(t *testing.T) {
	public, private := newKey(t)
	_, other := newKey(t)
	good := published1(t, private, twoRules)
	var outer published
	if err := json.Unmarshal(good, &outer); err != nil {
		t.Fatal(err)
	}
	edited := func(f func(p *published)) []byte {
		p := published{bytes.Clone(outer.Snapshot), bytes.Clone(outer.Signature)}
		f(&p)
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	sign := func(inner string) []byte {
		return edited(func(p *published) {
			p.Snapshot = []byte(inner)
			p.Signature = ed25519.Sign(private, append([]byte(snapshotContext), inner...))
		})
	}
	invalid, err := Publish(private, 8, Boundaries{}, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"nothing":          nil,
		"no JSON":          []byte("boundaries"),
		"half of it":       good[:len(good)/2],
		"empty object":     []byte("{}"),
		"another key":      published1(t, other, twoRules),
		"no signature":     edited(func(p *published) { p.Signature = nil }),
		"changed":          edited(func(p *published) { p.Snapshot = bytes.Replace(p.Snapshot, []byte(`"keys"`), []byte(`"kays"`), 1) }),
		"without context":  edited(func(p *published) { p.Signature = ed25519.Sign(private, p.Snapshot) }),
		"not valid":        invalid,
		"another version":  sign(`{"version":2,"boundaries":1,"valid":true,"document":{"version":1,"hardBlocks":[]}}`),
		"no document":      sign(`{"version":1,"boundaries":1,"valid":true}`),
		"unknown key":      sign(`{"version":1,"boundaries":1,"valid":true,"document":{"version":1,"hardBlocks":[],"more":1}}`),
		"unknown type":     sign(`{"version":1,"boundaries":1,"valid":true,"document":{"version":1,"hardBlocks":[{"id":"a","type":"host","pattern":"a","operations":["read"]}]}}`),
		"no operation":     sign(`{"version":1,"boundaries":1,"valid":true,"document":{"version":1,"hardBlocks":[{"id":"a","type":"path","pattern":"a","operations":[]}]}}`),
		"document version": sign(`{"version":1,"boundaries":1,"valid":true,"document":{"version":2,"hardBlocks":[]}}`),
	} {
		if b, _, err := Signed(public, text); err == nil || len(b.HardBlocks) > 0 || b.Version != 0 {
			t.Errorf("%s: read as %v, %v", name, b, err)
		} else if !errors.Is(err, bourn.ErrInvalid) && !errors.Is(err, bourn.ErrDenied) {
			t.Errorf("%s: %v has no code", name, err)
		}
		if _, _, err := Published(public, text, snapshotBase); err == nil {
			t.Errorf("%s: published", name)
		}
	}
	// What a pattern says is looked at by Published alone.
	bad := sign(`{"version":1,"boundaries":1,"valid":true,"document":{"version":1,"hardBlocks":[{"id":"a","type":"path","match":"regex","pattern":"(","operations":["read"]}]}}`)
	if _, _, err := Published(public, bad, snapshotBase); err == nil {
		t.Error("a pattern that is none is taken")
	}
}

// TestPublishedLarge publishes a document whose canonical form is longer than a document
// may be: its defaults are written out.
func TestPublishedLarge(t *testing.T) {
	public, private := newKey(t)
	var rules []string
	for i := range 8000 {
		rules = append(rules, fmt.Sprintf(`{"id":"r%d","type":"path","pattern":"/srv/%s%d","operations":["read"]}`, i, strings.Repeat("x", 50), i))
	}
	document := `{"version":1,"hardBlocks":[` + strings.Join(rules, ",") + `]}`
	text := published1(t, private, document)
	if inner, _ := Parse([]byte(document), snapshotBase); len(inner.Encode()) <= maxDocument || len(document) > maxDocument {
		t.Fatalf("the document has %d bytes, its canonical form %d: the test tests nothing", len(document), len(inner.Encode()))
	}
	if b, _, err := Signed(public, text); err != nil || len(b.HardBlocks) != len(rules) {
		t.Errorf("%d rules, %v", len(b.HardBlocks), err)
	}
}

// FuzzSigned holds that nothing but the signer's bytes is read.
func FuzzSigned(f *testing.F) {
	public, private := newKey(f)
	text := published1(f, private, twoRules)
	f.Add(text)
	f.Add([]byte(`{"snapshot":"` + base64.StdEncoding.EncodeToString([]byte("{}")) + `","signature":""}`))
	want, _, err := Signed(public, text)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, _, err := Signed(public, data)
		if err == nil && !cmp.Equal(b, want) {
			t.Errorf("%q is read as %v", data, b)
		}
	})
}

func BenchmarkSigned(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		public, private := newKey(b)
		var rules []string
		for i := range n {
			rules = append(rules, fmt.Sprintf(`{"id":"p%d","type":"path","match":"prefix","pattern":"/srv/a%d","operations":["write","delete"]}`, i, i))
		}
		text := published1(b, private, `{"version":1,"hardBlocks":[`+strings.Join(rules, ",")+`]}`)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := Signed(public, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
