package workspace

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn"
	"bourn/internal/review"
)

func TestUnreviewed(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "a")
	o := newOwner(t, dir)
	r := Request{Tool: "files_write", Verb: Write, Path: "a", Content: []byte("x")}
	good, err := o.review(r)
	if err != nil {
		t.Fatal(err)
	}
	other := r
	other.Content = []byte("y")
	for name, c := range map[string]struct {
		r Request
		v Review
	}{
		"none":            {r, Review{}},
		"asked":           {r, Review{bourn.Ask, good.Action, good.Rules}},
		"denied":          {r, Review{bourn.Deny, good.Action, good.Rules}},
		"another action":  {other, good},
		"another tool":    {Request{Tool: "x", Verb: Write, Path: "a", Content: []byte("x")}, good},
		"other rules":     {r, Review{bourn.Allow, good.Action, digest(nil)}},
		"no rules":        {r, Review{bourn.Allow, good.Action, ""}},
		"no action":       {r, Review{bourn.Allow, "", good.Rules}},
		"another timeout": {Request{Tool: r.Tool, Verb: Write, Path: "a", Content: r.Content, Timeout: 1}, good},
	} {
		if err := o.Do(t.Context(), c.r, c.v, nil, nil); reasonOf(err) != "unreviewed" || !errors.Is(err, bourn.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Rules that came between the review and the call: the owner is to ask again.
	stale := o.rules
	o.setRules((&Actor{Cwd: dir}).base(), rule("x", "exact", dir+"/other", "write"))
	if err := o.Do(t.Context(), r, good, nil, nil); reasonOf(err) != "unreviewed" {
		t.Errorf("stale: %v", err)
	}
	o.must(r, nil)
	o.rules = stale
	o.refused(r, "unreviewed")
	if got := content(t, dir+"/a"); got != "x" {
		t.Errorf("%q", got)
	}
}

// An owner that allows what the rules deny does not get it done.
func TestSecondVerdict(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "a")
	document := rule("x", "exact", dir+"/a", "write")
	o := newOwner(t, dir, document)
	r := Request{Tool: "files_write", Verb: Write, Path: "a", Content: []byte("x")}
	action, _ := r.Action()
	err := o.Do(t.Context(), r, Review{bourn.Allow, action.Digest(), o.rules.Digest()}, nil, nil)
	if reasonOf(err) != blocked+"x" {
		t.Error(err)
	}
	// The rules' words reach who is refused.
	o.setRules((&Actor{Cwd: dir}).base(), `{"id":"g","type":"command","match":"prefix","pattern":"git push","operations":["execute"],"reason":"ask Ann"}`)
	r = Request{Tool: "shell_exec", Verb: Exec, Command: "cd /; git push"}
	action, _ = r.Action()
	err = o.Do(t.Context(), r, Review{bourn.Allow, action.Digest(), o.rules.Digest()}, nil, nil)
	if reasonOf(err) != blocked+"g" || err.Error() != "a hard block refuses it: ask Ann" {
		t.Errorf("%v %s", err, reasonOf(err))
	}
	// What it can only ask about was allowed by a review that knew; here it is not.
	r = Request{Tool: "shell_exec", Verb: Exec, Command: "$x push"}
	action, _ = r.Action()
	err = o.Do(t.Context(), r, Review{bourn.Allow, action.Digest(), o.rules.Digest()}, nil, nil)
	if reasonOf(err) != "command_unclear" {
		t.Errorf("%v %s", err, reasonOf(err))
	}
}

// Rules that cannot be read deny every change, and reading goes on, whatever the owner says.
func TestInvalidRules(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "a")
	o := newOwner(t, dir)
	for name, document := range map[string][]byte{"none": nil, "garbage": []byte(`"x"`), "unknown": []byte(`{"version":1,"hardBlocks":[],"more":1}`), "another version": []byte(`{"version":2,"hardBlocks":[]}`)} {
		if err := o.SetRules(document); err != nil {
			t.Fatal(err)
		}
		o.rules = review.Invalid(errors.New("x"))
		o.must(Request{Verb: Read, Path: "a"}, nil)
		for _, r := range []Request{{Verb: Write, Path: "a"}, {Verb: Delete, Path: "a"}, {Verb: Exec, Command: "rm a"}} {
			action, err := r.Action()
			if err != nil {
				t.Fatal(err)
			}
			if err := o.Do(t.Context(), r, Review{bourn.Allow, action.Digest(), ""}, nil, nil); reasonOf(err) != "boundaries_invalid" {
				t.Errorf("%s: %s: %v", name, r.Verb, err)
			}
		}
	}
	// A document that is not even JSON ends nothing: it is not sent.
	if err := o.SetRules([]byte("{")); err == nil {
		t.Error("sent")
	}
	if got := content(t, dir+"/a"); got != "a" {
		t.Error(got)
	}
}

// Before the first rules nothing is changed.
func TestNoRulesYet(t *testing.T) {
	dir := tempDir(t)
	conn, _ := startActor(t, &Actor{Cwd: dir})
	c, err := Dial(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := Request{Verb: Write, Path: "a"}
	action, _ := r.Action()
	for reason, rules := range map[string]string{"boundaries_invalid": "", "unreviewed": mustCompile(t, dir).Digest()} {
		if err := c.Do(t.Context(), r, Review{bourn.Allow, action.Digest(), rules}, nil, nil); reasonOf(err) != reason {
			t.Errorf("%q: %v", rules, err)
		}
	}
}

func frame(body, blob []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(blob)))
	return append(append(b, body...), blob...)
}

// kindFrame is a frame whose body is of a kind.
func kindFrame(kind uint32, body string) []byte {
	return append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, kind|uint32(len(body))), 0), body...)
}

// What is no message ends the actor, and says why.
func TestGarbage(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"no JSON":       frame([]byte("x"), nil),
		"another type":  frame([]byte(`{"id":"x"}`), nil),
		"too long":      {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"both too long": {0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff},
		"long blob":     {0, 0, 0, 2, 0x7f, 0, 0, 0},
		"no call":       frame([]byte(`{"call":5}`), nil),
		"another kind":  kindFrame(kindResult+1<<lengthBits, "12345678{}"),
		"half an id":    kindFrame(kindCall, "1234"),
		"half a digest": kindFrame(kindCall, "12345678\x00\x02\x40digest"),
		"no digest":     kindFrame(kindCall, "12345678\x00\x02\x00"),
		"no request":    kindFrame(kindCall, "12345678\x00\x02\x00\x00"),
		"long digest":   kindFrame(kindCall, "12345678\x00\x02\xff"+strings.Repeat("d", 300)),
	} {
		t.Run(name, func(t *testing.T) {
			conn, cmd := startActor(t, &Actor{Cwd: tempDir(t)})
			cmd.Stderr = nil
			if _, err := conn.Write(bytes); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
				t.Errorf("ended with %v", err)
			}
		})
	}
	// Half a message, or none: the owner has gone, and that is no error.
	for _, b := range [][]byte{nil, {0, 0}, {0, 0, 0, 9, 0, 0, 0, 0, '{'}} {
		conn, cmd := startActor(t, &Actor{Cwd: tempDir(t)})
		_, _ = conn.Write(b)
		conn.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", b, err)
		}
	}
}

// fake is an actor that says what a test wants.
func fake(t *testing.T, serve func(c *channel)) net.Conn {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		serve(newChannel(theirs))
	}()
	return ours
}

func TestDial(t *testing.T) {
	for name, c := range map[string]struct {
		serve  func(c *channel)
		reason string
		code   bourn.Code
	}{
		"gone":            {func(*channel) {}, "actor_runtime_unavailable", bourn.CodeUnavailable},
		"another version": {func(c *channel) { _ = c.send(message{Hello: &hello{Protocol: Protocol + 1}}) }, "actor_runtime_unavailable", bourn.CodeConflict},
		"no hello":        {func(c *channel) { _ = c.send(message{ID: 1}) }, "actor_runtime_unavailable", bourn.CodeConflict},
		"garbage":         {func(c *channel) { _, _ = c.w.Write([]byte("HTTP/1.1 400 Bad Request\r\n")) }, "actor_runtime_unavailable", bourn.CodeUnavailable},
	} {
		_, err := Dial(t.Context(), fake(t, c.serve))
		if err == nil || reasonOf(err) != c.reason || bourn.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Dial(ctx, fake(t, func(c *channel) { _, _ = c.receive() }))
	if bourn.CodeOf(err) != bourn.CodeUnavailable {
		t.Error(err)
	}
}

// An actor that sends more chunks than it may, or answers what was not asked, hurts nobody
// else.
func TestRogueActor(t *testing.T) {
	c, err := Dial(t.Context(), fake(t, func(c *channel) {
		_ = c.send(message{Hello: &hello{Protocol: Protocol}})
		_ = c.send(message{ID: 77, Done: &done{}})
		_ = c.send(message{ID: 78, Chunk: true, blob: []byte("x")})
		m, err := c.receive()
		if err != nil {
			return
		}
		for range 3 * window {
			if c.send(message{ID: m.ID, Chunk: true, blob: []byte("x")}) != nil {
				return
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	block := make(chan struct{})
	finished := make(chan error, 1)
	go func() {
		finished <- c.Do(t.Context(), Request{Verb: Exec}, Review{}, nil, func([]byte) { <-block })
	}()
	<-c.Ended()
	close(block)
	if err := <-finished; reasonOf(err) != "actor_runtime_unavailable" {
		t.Error(err)
	}
	if err := c.Do(t.Context(), Request{}, Review{}, nil, nil); reasonOf(err) != "actor_runtime_unavailable" {
		t.Error(err)
	}
}

// An actor that sends what only its owner sends, or a result that is none, ends nobody but
// itself.
func TestRogueFrames(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		gone  bool
	}{
		"a call":        {kindFrame(kindCall, "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x02\xff"+strings.Repeat("d", 300)), true},
		"another kind":  {kindFrame(kindResult+1<<lengthBits, "\x00\x00\x00\x00\x00\x00\x00\x01{}"), true},
		"half an id":    {kindFrame(kindResult, "\x00\x00\x00\x00"), true},
		"no result":     {kindFrame(kindResult, "\x00\x00\x00\x00\x00\x00\x00\x01"), false},
		"half a result": {kindFrame(kindResult, "\x00\x00\x00\x00\x00\x00\x00\x01{\"path\":"), false},
	} {
		client, err := Dial(t.Context(), fake(t, func(c2 *channel) {
			_ = c2.send(message{Hello: &hello{Protocol: Protocol}})
			if _, err := c2.receive(); err == nil {
				_, _ = c2.w.Write(c.frame)
			}
			_, _ = c2.receive() // until it is closed
		}))
		if err != nil {
			t.Fatal(err)
		}
		var raw Raw
		err = client.Do(t.Context(), Request{Verb: Read}, Review{}, &raw, nil)
		if c.gone != (reasonOf(err) == "actor_runtime_unavailable") || !c.gone && !errors.Is(err, bourn.ErrInternal) || raw.JSON != nil {
			t.Errorf("%s: %v, %q", name, err, raw.JSON)
		}
		client.Close()
	}
}

// Two calls with one id: the first is performed, and answered once.
func TestSameID(t *testing.T) {
	dir := tempDir(t)
	conn, _ := startActor(t, &Actor{Cwd: dir, Env: []string{"PATH=/usr/bin:/bin"}})
	c := newChannel(conn)
	if m, err := c.receive(); err != nil || m.Hello == nil {
		t.Fatal(err)
	}
	send := func(m message) {
		if err := c.send(m); err != nil {
			t.Fatal(err)
		}
	}
	rules0 := mustCompile(t, dir)
	send(message{Rules: &rules{json.RawMessage(`{"version":1,"hardBlocks":[]}`)}})
	for _, command := range []string{"echo 1 >>log; sleep 60", "echo 2 >>log"} {
		r := Request{Verb: Exec, Command: command}
		action, _ := r.Action()
		send(message{ID: 5, Call: &call{Request: r, Review: Review{bourn.Allow, action.Digest(), rules0.Digest()}}})
	}
	eventually(t, 5*time.Second, "the first has begun", func() bool { return content(t, dir+"/log") == "1\n" })
	send(message{ID: 5, Cancel: true})
	send(message{ID: 99, Cancel: true})
	send(message{ID: 98, Taken: true})
	m, err := c.receive()
	if err != nil || m.ID != 5 || m.Done == nil || m.Done.Problem == nil || m.Done.Problem.Reason != "cancelled" {
		t.Fatalf("%+v %v", m, err)
	}
	// The id is free again.
	r := Request{Verb: Read, Path: "log"}
	action, _ := r.Action()
	send(message{ID: 5, Call: &call{Request: r, Review: Review{bourn.Allow, action.Digest(), rules0.Digest()}}})
	if m, err = c.receive(); err != nil || m.ID != 5 || string(m.blob) != "1\n" {
		t.Errorf("%+v %v", m, err)
	}
}

func TestTooLong(t *testing.T) {
	o := newOwner(t, tempDir(t))
	err := o.ask(Request{Verb: Write, Path: "a", Content: make([]byte, maxFrame)}, nil)
	if bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Error(err)
	}
	o.must(Request{Verb: List}, nil) // and nothing is lost by it
}

// An actor that is killed fails every call that waits.
func TestActorKilled(t *testing.T) {
	o := newOwner(t, tempDir(t))
	var all sync.WaitGroup
	errs := make(chan error, 10)
	for range 10 {
		all.Go(func() { errs <- o.ask(Request{Verb: Exec, Command: "sleep 60"}, nil) })
	}
	eventually(t, 5*time.Second, "all run", func() bool { return len(descendants(o.cmd.Process.Pid)) >= 10 })
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if reasonOf(err) != "actor_runtime_unavailable" || !errors.Is(err, bourn.ErrUnavailable) {
			t.Error(err)
		}
	}
	<-o.Ended()
}

// descendants are the living processes below one.
func descendants(pid int) []process {
	var alive []process
	for _, p := range processes().below(pid) {
		if !p.dead {
			alive = append(alive, p)
		}
	}
	return alive
}

// TestActorTakesNothing: a call to an actor that greets and reads nothing from then on, as one
// that a command of its agent's has stopped, ends, and keeps nothing.
func TestActorTakesNothing(t *testing.T) {
	conn, theirs := socketpair(t)
	defer theirs.Close()
	if err := newChannel(theirs).send(message{Hello: &hello{Protocol: Protocol}}); err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.closer.(*socket).within = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // who asked has gone
	ended := make(chan error, 1)
	go func() {
		ended <- c.Do(ctx, Request{Tool: "files_write", Verb: Write, Path: "x", Content: make([]byte, 8<<20)}, Review{Outcome: bourn.Allow}, nil, nil)
	}()
	select {
	case err := <-ended:
		if reasonOf(err) != "actor_runtime_unavailable" {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the call waits for ever")
	}
	<-c.Ended()
}

// The owner goes away in the middle: within a second nothing is left of what it had started.
func TestOwnerGone(t *testing.T) {
	dir := tempDir(t)
	o := newOwner(t, dir)
	for i := range 4 {
		go func() {
			_ = o.ask(Request{Verb: Exec, Command: fmt.Sprintf("trap '' TERM; setsid sleep 61 & (setsid env -i /bin/sleep 62 &) ; echo >%d; sleep 63 & wait", i)}, nil)
		}()
	}
	eventually(t, 5*time.Second, "all run", func() bool { return len(descendants(o.cmd.Process.Pid)) >= 4*4 })
	all := descendants(o.cmd.Process.Pid)
	o.closer.Close()
	eventually(t, time.Second, "everything is dead", func() bool {
		now := processes()
		for _, p := range all {
			if q, there := now[p.pid]; there && !q.dead {
				return false
			}
		}
		return true
	})
	if err := o.cmd.Wait(); err != nil {
		t.Errorf("the actor ended with %v", err)
	}
}

// A reader that takes no chunk keeps its own command waiting, and nobody else; cancelling it
// works all the same.
func TestSlowReader(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "a")
	o := newOwner(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	first, block := make(chan struct{}), make(chan struct{})
	var once sync.Once
	finished := make(chan error, 1)
	go func() {
		finished <- o.askFor(ctx, Request{Verb: Exec, Command: "yes"}, nil, func([]byte) {
			once.Do(func() { close(first) })
			<-block
		})
	}()
	<-first
	for range 100 {
		o.must(Request{Verb: Read, Path: "a"}, nil)
	}
	cancel()
	eventually(t, time.Second, "yes has ended", func() bool { return len(descendants(o.cmd.Process.Pid)) == 0 })
	close(block)
	if err := <-finished; reasonOf(err) != "cancelled" {
		t.Error(err)
	}
	// Cancelled between sending and answering, often.
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if err := o.askFor(ctx, Request{Verb: Read, Path: "a"}, nil, nil); err != nil && reasonOf(err) != "cancelled" {
			t.Fatal(err)
		}
	}
}

func TestChunks(t *testing.T) {
	o := newOwner(t, tempDir(t))
	var live bytes.Buffer
	var r ExecResult
	if err := o.askFor(t.Context(), Request{Verb: Exec, Command: "head -c 5000000 /dev/zero | tr '\\0' x; echo err >&2"}, &r, func(b []byte) { live.Write(b) }); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(live.Bytes(), []byte("x")); n != 5_000_000 || live.Len() != 5_000_004 {
		t.Errorf("%d of %d", n, live.Len())
	}
	if r.LeftOut != 5_000_000-maxOutput || string(r.Stderr) != "err\n" {
		t.Errorf("left out %d, %q", r.LeftOut, r.Stderr)
	}
}

// Many at once, some cancelled; nothing is left on either side.
func TestManyAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	dir := tempDir(t)
	put(t, dir+"/a", "a")
	o := newOwner(t, dir)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r := Request{Verb: Exec, Command: fmt.Sprintf("echo %d; (sleep 0.01 &)", i)}
			switch i % 4 {
			case 1:
				r = Request{Verb: Read, Path: "a"}
			case 2:
				r = Request{Verb: Write, Path: fmt.Sprint("f", i)}
			case 3:
				r.Command += "; sleep 60"
				ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
				defer cancel()
			}
			var e ExecResult
			err := o.askFor(ctx, r, &e, nil)
			if i%4 == 3 && reasonOf(err) == "cancelled" {
				return
			}
			if err != nil || r.Verb == Exec && string(e.Stdout) != fmt.Sprintln(i) {
				t.Errorf("%d: %v %q", i, err, e.Stdout)
			}
		})
	}
	all.Wait()
	eventually(t, 2*time.Second, "no process is left, no zombie either", func() bool { return len(processes().below(o.cmd.Process.Pid)) == 0 })
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", o.cmd.Process.Pid))
	if err != nil || len(fds) > 16 {
		t.Errorf("%d descriptors: %v", len(fds), err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, 2*time.Second, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+1 })
}
