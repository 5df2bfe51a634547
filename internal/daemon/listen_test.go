package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"bourn"
	"bourn/internal/audit"
)

// localhost is every loopback address that there is, and nothing else is listened on.
func TestListen(t *testing.T) {
	all, err := listenTCP("localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(all[0].Addr().String())
	for _, l := range all {
		if _, p, _ := net.SplitHostPort(l.Addr().String()); p != port {
			t.Errorf("%s and port %s", l.Addr(), port)
		}
		defer l.Close()
	}
	probe, err := net.Listen("tcp", "[::1]:0")
	if want := map[bool]int{true: 2, false: 1}[err == nil]; len(all) != want {
		t.Errorf("%d addresses, want %d", len(all), want)
	}
	if err == nil {
		probe.Close()
	}
	if again, err := listenTCP("localhost:" + port); bourn.CodeOf(err) != bourn.CodeConflict || bourn.HintOf(err) == "" {
		t.Errorf("taken: %v, %v", again, err)
	}
	for _, bad := range []string{"", ":7720", "0.0.0.0:0", "[::]:0", "10.0.0.1:0", "example.com:80", "localhost", "127.0.0.1", "localhost:x", "[::ffff:10.0.0.1]:0"} {
		if l, err := listenTCP(bad); err == nil {
			l[0].Close()
			t.Errorf("%q is listened on", bad)
		}
	}
}

// What runs noted while no control plane was there is taken in once, also where a line of
// it is nobody's; another user's journal is not.
func TestJournalTakenIn(t *testing.T) {
	p := begin(t)
	path := audit.JournalPath(p.config.Home)
	e := audit.Entry{ID: audit.NewID(), Kind: audit.KindRun, Who: "host", Run: "r1", What: "run ended"}
	for range 3 { // as after an end that came too early
		if err := audit.Note(path, e); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, `{"id":"x","kind":"run","who":"host","what":"no id"}`+"\n"+`{"id":"%s","kind":"run","who":"host","what":"x","detail":{"a":"\u0000"}}`+"\n", audit.NewID())
	f.Close()
	until(t, 10*time.Second, "it is taken in", func() bool {
		var lines struct{ Lines []any }
		p.get("/v1/log?kind=run", &lines)
		return len(lines.Lines) == 2
	})
	var lines struct{ Lines []any }
	if p.get("/v1/log?run=r1", &lines); len(lines.Lines) != 1 {
		t.Errorf("%d lines", len(lines.Lines))
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := audit.Note(path, audit.Entry{Kind: audit.KindRun, Who: "host", What: "another"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := p.takeIn(context.WithoutCancel(t.Context())); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("another user's: %v", err)
	}
}
