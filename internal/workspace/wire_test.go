package workspace

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"bourn"
)

// framed is a message as it is sent.
func framed(t testing.TB, m message) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := newChannel(&b).send(m); err != nil {
		t.Fatalf("%+v: %v", m, err)
	}
	return b.Bytes()
}

// FuzzFrame: whatever comes, it is refused or it is a message, and one that is sent on is the
// same for who gets it.
func FuzzFrame(f *testing.F) {
	long := strings.Repeat("d", 255)
	for _, m := range []message{
		{Hello: &hello{Protocol: Protocol, Version: "1", Pid: 2, Cwd: "/", Home: "/root"}},
		{Rules: &rules{json.RawMessage(`{"version":1,"hardBlocks":[]}`)}},
		{ID: 1, Call: &call{}},
		{ID: 2, Call: &call{Request: Request{Tool: "files_read", Verb: Read, Path: "a"}, Review: Review{bourn.Allow, digest(nil), digest(nil)}, Chunks: true}},
		{ID: 3, Call: &call{Request: Request{Verb: Write, Path: "a"}, Review: Review{bourn.Deny, long, long}}, blob: []byte("content")},
		{ID: 4, Done: &done{Result: json.RawMessage(`{"path":"a"}`)}, blob: []byte("content")},
		{ID: 5, Done: &done{Problem: &Problem{Code: bourn.CodeDenied, Text: "no"}}},
		{ID: 6, Chunk: true, Errs: true, blob: []byte("printed")},
		{ID: 7, Input: &input{Size: &Size{24, 80}}},
		{ID: 8, Cancel: true},
	} {
		b := framed(f, m)
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	for kind := range byte(16) {
		f.Add([]byte{kind << 4, 0, 0, 9, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 255})
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := newChannel(bytes.NewBuffer(frame)).receive()
		if err != nil {
			return
		}
		first := framed(t, m)
		again, err := newChannel(bytes.NewBuffer(first)).receive()
		if err != nil {
			t.Fatalf("%q came as %+v, and that is %q: %v", frame, m, first, err)
		}
		if second := framed(t, again); !bytes.Equal(first, second) {
			t.Errorf("%q is sent on as %q, and then as %q", frame, first, second)
		}
	})
}

// TestOtherVersions: who speaks another version is told so: an actor's greeting is what one of
// any version can read.
func TestOtherVersions(t *testing.T) {
	older := `{"hello":{"protocol":2,"version":"0.9","pid":7,"cwd":"/","home":"/"}}`
	frame := append([]byte{0, 0, 0, byte(len(older)), 0, 0, 0, 0}, older...)
	_, err := Dial(t.Context(), fakeConn(frame))
	if !errors.Is(err, otherVersion) {
		t.Errorf("an older actor: %v", err)
	}
	for name, m := range map[string]message{"a greeting": {Hello: &hello{Protocol: Protocol}}, "a refusal": {Done: &done{Problem: otherVersion}}} {
		b := framed(t, m)
		var body map[string]any
		if n := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3]); n != len(b)-headSize || json.Unmarshal(b[headSize:], &body) != nil {
			t.Errorf("%s is %q: who is older cannot read it", name, b)
		}
	}
}

// fakeConn is a connection on which one frame comes.
func fakeConn(frame []byte) *oneFrame { return &oneFrame{*bytes.NewReader(frame)} }

type oneFrame struct{ bytes.Reader }

func (*oneFrame) Write(p []byte) (int, error) { return len(p), nil }
func (*oneFrame) Close() error                { return nil }
