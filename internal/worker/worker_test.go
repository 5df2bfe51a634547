package worker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn"
	"bourn/internal/workspace"
)

// fake is a child that prints what its task says, and waits where that says so.
type fake struct {
	t       *testing.T
	j       Job
	dropped chan string
	printed chan int // of each piece that was taken
}

func (f fake) Drop() { f.dropped <- f.j.Work.Task }

func (f fake) Run(ctx context.Context, started func(), out func(Stream, []byte)) (Ended, error) {
	started()
	switch f.j.Work.Task {
	case "wait":
		<-ctx.Done()
		return Ended{Signal: "signal 15"}, ErrEnded
	case "flood":
		for i := 0; ctx.Err() == nil; i++ {
			out(Stderr, []byte("x"))
			f.printed <- i
		}
		return Ended{}, ErrEnded
	case "until":
		for ctx.Err() == nil {
			out(Stderr, []byte("x"))
		}
		f.printed <- 0
		return Ended{}, ErrEnded
	case "fail":
		return Ended{}, bourn.WithHint(bourn.ErrDenied, "what to do")
	}
	out(Stdout, bytes.Repeat([]byte(f.j.Work.Task), 40<<10))
	return Ended{Status: 7, Files: []string{"a"}, Refusals: []string{"b"}, Notes: []string{"c"}}, nil
}

// pair is a worker of fakes and its client.
func pair(t *testing.T) (c *Client, dropped chan string, printed chan int, served chan error) {
	t.Helper()
	ours, theirs := net.Pipe()
	dropped, printed, served = make(chan string, 10), make(chan int, 1000), make(chan error, 1)
	go func() {
		served <- Serve(t.Context(), theirs, Handler{Denied: Inherited{Hosts: []string{"h"}}, Prepare: func(_ context.Context, run string, j Job) (Child, error) {
			if j.Work.Task == "refuse" {
				return nil, &Problem{Code: bourn.CodeParked, Reason: "r", Text: "t", Hint: "h"}
			}
			return fake{t, j, dropped, printed}, nil
		}})
	}()
	c, err := Dial(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, dropped, printed, served
}

func task(text string) Job { return Job{Work: workspace.Job{Task: text}} }

func TestWorker(t *testing.T) {
	c, dropped, _, served := pair(t)
	if len(c.Denied().Hosts) != 1 {
		t.Errorf("%+v", c.Denied())
	}
	var out, errs Kept
	keep := func(s Stream, b []byte) {
		if s == Stdout {
			out.Add(b)
		} else {
			errs.Add(b)
		}
	}
	if err := c.Prepare(t.Context(), "1", task("ab")); err != nil {
		t.Fatal(err)
	}
	starts := 0
	e, err := c.Run(t.Context(), "1", func() { starts++ }, keep)
	r := e.Result("1", &out, &errs)
	if err != nil || starts != 1 || r.Status != 7 || len(r.Files)+len(r.Refusals)+len(r.Notes) != 3 || len(r.Stdout) != Tail || r.LeftOut != 80<<10-Tail || string(r.Stdout[:2]) != "ab" {
		t.Errorf("%v %d %d left out, %d kept", err, starts, r.LeftOut, len(r.Stdout))
	}
	if _, err := c.Run(t.Context(), "1", func() {}, keep); err == nil {
		t.Error("it runs twice")
	}
	err = c.Prepare(t.Context(), "2", task("refuse"))
	var p *Problem
	if !errors.As(err, &p) || p.Reason != "r" || bourn.CodeOf(err) != bourn.CodeParked || bourn.HintOf(err) != "h" {
		t.Errorf("%v", err)
	}
	if err := c.Prepare(t.Context(), "3", task("fail")); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Run(t.Context(), "3", func() {}, keep); bourn.CodeOf(err) != bourn.CodeDenied || bourn.HintOf(err) != "what to do" {
		t.Errorf("%v", err)
	}
	if err := c.Prepare(t.Context(), "4", task("never")); err != nil {
		t.Fatal(err)
	}
	c.Drop("4")
	if got := <-dropped; got != "never" {
		t.Error(got)
	}
	if _, err := c.Run(t.Context(), "4", func() {}, keep); err == nil {
		t.Error("what was dropped runs")
	}
	c.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestWorkerEnds: a child ends with the context of who waits for it, and every child with the
// connection.
func TestWorkerEnds(t *testing.T) {
	c, dropped, _, served := pair(t)
	for _, run := range []string{"1", "2", "3"} {
		if err := c.Prepare(t.Context(), run, task("wait")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	e, err := c.Run(ctx, "1", cancel, nil)
	if !errors.Is(err, ErrEnded) && err.Error() != ErrEnded.Error() || e.Signal != "signal 15" {
		t.Errorf("%+v %v", e, err)
	}
	started, done := make(chan struct{}), make(chan error)
	go func() {
		_, err := c.Run(t.Context(), "2", func() { close(started) }, nil)
		done <- err
	}()
	<-started
	c.Close()
	if err := <-done; bourn.CodeOf(err) != bourn.CodeUnavailable {
		t.Error(err)
	}
	if got := <-dropped; got != "wait" { // the third
		t.Error(got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := c.Prepare(t.Context(), "5", task("x")); err == nil {
		t.Error("a worker that has gone plans")
	}
}

// TestWorkerHoldsUp: a child whose output nobody takes waits, and another does not.
func TestWorkerHoldsUp(t *testing.T) {
	c, _, printed, _ := pair(t)
	for run, what := range map[string]string{"1": "flood", "2": "ab"} {
		if err := c.Prepare(t.Context(), run, task(what)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	held, holding := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		first := true
		_, _ = c.Run(ctx, "1", func() {}, func(Stream, []byte) {
			if first {
				first = false
				close(holding)
				<-held
			}
		})
	})
	<-holding
	for n := range window { // what may be on its way, and no more
		if got := <-printed; got != n {
			t.Fatal(got)
		}
	}
	if _, err := c.Run(t.Context(), "2", func() {}, func(Stream, []byte) {}); err != nil {
		t.Error(err)
	}
	if n := len(printed); n > 0 {
		t.Errorf("%d more", n)
	}
	cancel()
	close(held)
	all.Wait()
}

// TestWorkerEndsUnheard: a child whose output nobody takes ends when it is to end, and not
// only when somebody takes it.
func TestWorkerEndsUnheard(t *testing.T) {
	c, _, printed, _ := pair(t)
	if err := c.Prepare(t.Context(), "1", task("until")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, err := c.Run(ctx, "1", func() {}, func(Stream, []byte) {
			cancel()
			<-held
		})
		if err == nil {
			t.Error("it was not ended")
		}
	})
	select {
	case <-printed:
	case <-time.After(10 * time.Second):
		t.Error("it goes on while nobody takes what it prints")
	}
	close(held)
	all.Wait()
}

// TestWorkerStrict: what does not keep to the protocol ends the connection.
func TestWorkerStrict(t *testing.T) {
	frame := func(text string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
	}
	for _, text := range []string{
		frame(`{"id":"1","start":true,"more":1}`), frame(`{"id":"1","start":true,"end":true}`), frame(`{"id":"1"}`), frame(`{"id":"1","started":true}`),
		frame(`{"id":"1","start":true} {}`), frame(`nonsense`), frame(`{"id":"","prepare":{"parent":"","root":{"path":"","dev":0,"ino":0},"work":{"task":"x","root":""}}}`),
		frame(`{"id":"1","prepare":{"parent":"","root":{"path":"","dev":0,"ino":0},"work":{"task":"x","root":"","grants":[]}}}`),
		"\xff\xff\xff\xff",
	} {
		ours, theirs := net.Pipe()
		served := make(chan error, 1)
		go func() {
			served <- Serve(t.Context(), theirs, Handler{Prepare: func(context.Context, string, Job) (Child, error) { return nil, bourn.ErrDenied }})
		}()
		ch := &channel{r: ours, w: ours}
		if m, err := ch.receive(); err != nil || m.Hello == nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		_, _ = io.WriteString(ours, text)
		if err := <-served; !errors.Is(err, bourn.ErrInvalid) {
			t.Errorf("%.60q: %v", text, err)
		}
		ours.Close()
	}
	for _, text := range []string{frame(`{"hello":{"protocol":2}}`), frame(`{"id":"1","ended":{"status":0}}`), frame(`{"hello":{"protocol":1,"more":1}}`), ""} {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = io.WriteString(theirs, text)
			theirs.Close()
		}()
		if _, err := Dial(t.Context(), ours); err == nil || !strings.Contains(err.Error(), "what starts children") {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}
