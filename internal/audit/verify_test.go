package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"bourn/internal/audit"

	"pgregory.net/rapid"
)

var at = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// log is a log of n entries with a checkpoint at every tenth and at the end.
type log struct {
	rows        []audit.Row
	checkpoints []audit.Signed
	closings    []audit.Signed
}

func statement(t testing.TB, k ed25519.PrivateKey, kind string, first, position int64, hash audit.Hash) audit.Signed {
	s, err := audit.Sign(k, audit.Statement{Type: kind, Log: "L", First: first, Position: position, Hash: hash.String(), At: at})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func made(t testing.TB, n int) *log {
	l := &log{}
	hash := audit.Genesis("L")
	for i := range n {
		e := audit.Entry{Kind: audit.KindAction, Who: "host", What: fmt.Sprintf("do %d", i)}
		body, err := e.Encode(at)
		if err != nil {
			t.Fatal(err)
		}
		position := int64(i + 1)
		hash = audit.Next(hash, position, body)
		l.rows = append(l.rows, audit.Row{Position: position, Seq: position + 7, ID: e.ID, Body: body, Hash: hash})
		if i%10 == 9 || i == n-1 {
			l.checkpoints = append(l.checkpoints, statement(t, key(1), audit.TypeCheckpoint, 0, position, hash))
		}
	}
	return l
}

func (l *log) all() iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		for _, r := range l.rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (l *log) verify(t testing.TB, trusted ...audit.Signed) audit.Result {
	r, err := audit.Verify(audit.Kept{ID: "L", Rows: l.all(), Checkpoints: l.checkpoints, Closings: l.closings}, public(key(1)), trusted)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rechain makes the links fit again, as who tampers with the database would.
func (l *log) rechain() {
	hash := audit.Genesis("L")
	for i := range l.rows {
		l.rows[i].Position = int64(i + 1)
		hash = audit.Next(hash, l.rows[i].Position, l.rows[i].Body)
		l.rows[i].Hash = hash
	}
}

func TestVerify(t *testing.T) {
	good := made(t, 25)
	if r := good.verify(t); !r.OK() || r.Entries != 25 || r.Covered != 25 {
		t.Fatalf("%+v", r)
	}
	prune := func(l *log, n int) {
		l.closings = append(l.closings, statement(t, key(1), audit.TypeClosing, 1, int64(n), l.rows[n-1].Hash))
		l.rows = l.rows[n:]
		l.checkpoints = slices.DeleteFunc(l.checkpoints, func(s audit.Signed) bool {
			st, err := s.Open(public(key(1)))
			return err == nil && st.Position < int64(n)
		})
	}
	for name, c := range map[string]struct {
		change func(l *log)
		says   string // "" means that nothing is found
	}{
		"nothing": {func(*log) {}, ""},
		"pruned":  {func(l *log) { prune(l, 10) }, ""},
		"a change": {func(l *log) {
			l.rows[3].Body = bytes.Replace(l.rows[3].Body, []byte("do 3"), []byte("do 4"), 1)
		}, "was changed"},
		"a change, chained anew": {func(l *log) {
			l.rows[3].Body = bytes.Replace(l.rows[3].Body, []byte("do 3"), []byte("do 4"), 1)
			l.rechain()
		}, "checkpoint saw another"},
		"one left out":                    {func(l *log) { l.rows = slices.Delete(l.rows, 3, 4) }, "missing"},
		"one left out, chained anew":      {func(l *log) { l.rows = slices.Delete(l.rows, 3, 4); l.rechain() }, "checkpoint saw"},
		"the first left out":              {func(l *log) { l.rows = l.rows[1:] }, "missing"},
		"one put in":                      {func(l *log) { l.rows = slices.Insert(l.rows, 3, l.rows[9]); l.rechain() }, "twice"},
		"two exchanged":                   {func(l *log) { l.rows[3], l.rows[4] = l.rows[4], l.rows[3]; l.rechain() }, "checkpoint saw another"},
		"the end cut off":                 {func(l *log) { l.rows = l.rows[:20] }, "ends at 20"},
		"all cut off":                     {func(l *log) { l.rows = nil }, "ends at 0"},
		"pruned without a closing":        {func(l *log) { prune(l, 10); l.closings = nil }, "missing"},
		"pruned further than the closing": {func(l *log) { prune(l, 10); l.rows = l.rows[2:] }, "missing"},
		"a closing of another key": {func(l *log) {
			prune(l, 10)
			l.closings[0] = statement(t, key(2), audit.TypeClosing, 1, 10, audit.Hash{})
		}, "cannot be trusted"},
		"a closing with another hash": {func(l *log) {
			prune(l, 10)
			l.closings[0] = statement(t, key(1), audit.TypeClosing, 1, 10, audit.Hash{})
		}, "was changed"},
		"a checkpoint for a closing":  {func(l *log) { l.closings = append(l.closings, l.checkpoints[0]) }, "something else"},
		"a checkpoint of another key": {func(l *log) { l.checkpoints[0] = statement(t, key(2), audit.TypeCheckpoint, 0, 10, l.rows[9].Hash) }, "cannot be trusted"},
		"a checkpoint with a changed letter": {func(l *log) {
			l.checkpoints[0].Bytes = bytes.Replace(l.checkpoints[0].Bytes, []byte("L"), []byte("M"), 1)
		}, "cannot be trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			l := made(t, 25)
			c.change(l)
			r := l.verify(t)
			if c.says == "" {
				if !r.OK() {
					t.Errorf("found %+v", r.Problems)
				}
				return
			}
			if r.OK() || !strings.Contains(fmt.Sprint(r.Problems), c.says) {
				t.Errorf("found %+v, want one with %q", r.Problems, c.says)
			}
		})
	}
}

// Who holds the key and the database can cut the end off with its checkpoints; a checkpoint
// that was sent away tells.
func TestTrustedCheckpoint(t *testing.T) {
	l := made(t, 25)
	sent := l.checkpoints[2]
	l.rows, l.checkpoints = l.rows[:10], l.checkpoints[:1]
	if r := l.verify(t); !r.OK() {
		t.Fatalf("found %+v without what was sent away", r.Problems)
	}
	if r := l.verify(t, sent); r.OK() {
		t.Error("the end was cut off, and nothing was found")
	}
}

// Any single change to what is covered is found, whatever it is.
func TestAnyChange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := made(t, 30)
		i := rapid.IntRange(0, len(l.rows)-1).Draw(rt, "entry")
		switch rapid.IntRange(0, 3).Draw(rt, "how") {
		case 0:
			body := slices.Clone(l.rows[i].Body)
			body[rapid.IntRange(0, len(body)-1).Draw(rt, "byte")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
			l.rows[i].Body = body
		case 1:
			l.rows = slices.Delete(l.rows, i, i+1)
		case 2:
			l.rows = slices.Insert(l.rows, i, l.rows[i])
		case 3:
			l.rows = l.rows[:i]
		}
		if rapid.Bool().Draw(rt, "chained anew") {
			l.rechain()
		}
		if l.verify(t).OK() {
			rt.Fatal("not found")
		}
	})
}

func TestEncode(t *testing.T) {
	e := audit.Entry{Kind: audit.KindAction, Who: "agent:a", What: "x\x00\x1b[31m", Target: strings.Repeat("é", 2000), Detail: []byte(`{"a":"` + strings.Repeat("b", 20000) + `"}`)}
	body, err := e.Encode(at)
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > 4096 || bytes.ContainsAny(body, "\x00\x1b") || !bytes.Contains(body, []byte("…cut")) || !bytes.Contains(body, []byte("left_out_bytes")) {
		t.Errorf("%d bytes: %s", len(body), body)
	}
	for _, bad := range []audit.Entry{{}, {Kind: audit.KindAction, Who: "x"}, {Kind: audit.KindAction, What: "x"}, {Who: "x", What: "y"}} {
		if _, err := bad.Encode(at); err == nil {
			t.Errorf("%+v was encoded", bad)
		}
	}
}
