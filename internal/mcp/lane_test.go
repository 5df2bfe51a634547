package mcp

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// large is a server whose calls answer with a mebibyte, or with little, and tell that they do.
func large() (*Server, chan string) {
	s, answered := echo(), make(chan string, 100)
	s.Answers = NewBudget(3 << 20)
	s.Call = func(_ context.Context, name string, _ []byte, _ func([]byte)) Answer {
		defer func() { answered <- name }()
		if name == "zed" {
			return Answer{Text: strings.Repeat("x", 1<<20)}
		}
		return Answer{Text: "little"}
	}
	return s, answered
}

const (
	zed    = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"zed","arguments":{}}}`
	little = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}`
)

// TestAnswersNotTaken has what is answered, and not taken, be bounded over connections.
func TestAnswersNotTaken(t *testing.T) {
	s, answered := large()
	p, ended := newPlain(t, s)
	for _, id := range []string{"1", "2", "3"} {
		p.send(strings.Replace(zed, `"id":1`, `"id":`+id, 1))
		from(t, "it is answered", answered)
	}
	other, _ := newPlain(t, s)
	got := ""
	for range 50 { // an answer is held once its call has returned, which may be a little later
		if got = string(other.ask(zed).Result); strings.Contains(got, "answers_not_taken") {
			break
		}
	}
	if !strings.Contains(got, `"isError":true`) {
		t.Error(got)
	}
	if got := string(other.ask(little).Result); !strings.Contains(got, "little") {
		t.Error(got)
	}
	p.next()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(10 * time.Second)
	for len(other.ask(zed).Result) < 1<<20 { // what an answer held is given back once it was written, which may be a little later
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("there is no room although an answer was taken")
		}
	}
	p.conn.Close()
	from(t, "serving ends", ended)
	other.works()
	left := func() int {
		s.Answers.mu.Lock()
		defer s.Answers.mu.Unlock()
		return s.Answers.left
	}
	for left() != 3<<20 {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d bytes are left", left())
		}
	}
}

func TestAnswersOverHTTP(t *testing.T) {
	s, _ := large()
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	for range 4 { // each gives back what it held
		if status, got := posted(t, t.Context(), server.URL, zed); status != 200 || len(got) < 1<<20 {
			t.Errorf("%d %.100s", status, got)
		}
	}
	s.Answers.take(3 << 20)
	if status, got := posted(t, t.Context(), server.URL, zed); status != 200 || !strings.Contains(got, "answers_not_taken") {
		t.Errorf("%d %.100s", status, got)
	}
	server.Close()
	if s.Answers.left != 0 {
		t.Errorf("%d bytes are left", s.Answers.left)
	}
}

// TestSlowSender has a body hold its place before it is there.
func TestSlowSender(t *testing.T) {
	s := echo()
	s.Budget = NewBudget(1 << 20).Part(1 << 19)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	if status, got := posted(t, t.Context(), server.URL, little); status != 200 {
		t.Fatalf("%d %s", status, got)
	}
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	begun := "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: "
	if _, err := io.WriteString(conn, begun+"524280\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 100)); err != nil { // to go on: its body is being read
		t.Fatal(err)
	}
	if status, got := posted(t, t.Context(), server.URL, little); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s, with a body to come", status, got)
	}
}

// TestPart has a part of a budget leave the rest to others.
func TestPart(t *testing.T) {
	whole := NewBudget(10)
	a, b := whole.Part(6), whole.Part(6)
	if a.take(7) || !a.take(6) || b.take(5) || !b.take(4) || a.left != 0 || b.left != 2 || whole.left != 0 {
		t.Errorf("%d and %d of %d", a.left, b.left, whole.left)
	}
	b.give(4)
	a.give(6)
	if a.left != 6 || b.left != 6 || whole.left != 10 {
		t.Errorf("%d and %d of %d", a.left, b.left, whole.left)
	}
}
