package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// patience is how long an event may take before its absence is a defect.
const patience = 12 * time.Second

var anyInput = json.RawMessage(`{"type":"object"}`)

// served serves s to the other end of what it returns, and says when Serve has returned.
func served(t *testing.T, s *Server) (net.Conn, <-chan error) {
	t.Helper()
	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context(), theirs) }()
	t.Cleanup(func() { ours.Close() })
	return ours, ended
}

// echo is a server with tools that tell what they were asked, and one that fails.
func echo() *Server {
	return &Server{Version: "1", Offers: []Offer{{Name: "zed", Input: anyInput}, {Name: "echo", Title: "Echo", Description: "says it again", Input: anyInput, ReadOnly: true}},
		Call: func(_ context.Context, name string, input []byte, _ func([]byte)) Answer {
			return Answer{Text: name + " " + string(input), Failed: name == "zed", Entry: "e1"}
		}}
}

// connected returns an SDK's client of s in one era.
func connected(t *testing.T, s *Server, version string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	conn, _ := served(t, s)
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), &sdk.IOTransport{Reader: conn, Writer: conn}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var eras = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

func TestBothEras(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			c := connected(t, echo(), era, nil)
			if got := c.InitializeResult(); got != nil && got.ProtocolVersion != era {
				t.Errorf("it speaks %q", got.ProtocolVersion)
			}
			l, err := c.ListTools(t.Context(), nil)
			if err != nil || len(l.Tools) != 2 || l.Tools[0].Name != "echo" || l.Tools[1].Name != "zed" {
				t.Fatalf("%v: %v", err, l)
			}
			if l.CacheScope != "private" || l.TTLMs != listFor {
				t.Errorf("a list may be kept %d ms by %q", l.TTLMs, l.CacheScope)
			}
			a := l.Tools[0].Annotations
			if a == nil || !a.ReadOnlyHint || a.DestructiveHint == nil || *a.DestructiveHint || a.OpenWorldHint == nil || !a.IdempotentHint {
				t.Errorf("the hints are not all sent: %+v", a)
			}
			for name, failed := range map[string]bool{"echo": false, "zed": true} {
				r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: map[string]any{"n": 1}})
				if err != nil {
					t.Fatal(err)
				}
				if text := r.Content[0].(*sdk.TextContent).Text; text != name+` {"n":1}` || r.IsError != failed || r.Meta["bourn/entry"] != "e1" {
					t.Errorf("%s: %q, failed %v, %v", name, text, r.IsError, r.Meta)
				}
			}
			_, err = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "ECHO"})
			var wire *jsonrpc.Error
			if !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams || !strings.HasPrefix(wire.Message, "unsupported_tool: ") {
				t.Errorf("a tool that there is not: %v", err)
			}
		})
	}
}

// A plain is a client that sends what it likes.
type plain struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func newPlain(t *testing.T, s *Server) (*plain, <-chan error) {
	conn, ended := served(t, s)
	p := &plain{t, conn, bufio.NewReaderSize(conn, 1<<20)}
	if r := p.ask(hello); r.Error != nil {
		t.Fatalf("it does not say hello: %v", r.Error)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p, ended
}

type answer struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

func (p *plain) send(line string) {
	p.t.Helper()
	if err := p.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.conn.Write([]byte(line + "\n")); err != nil {
		p.t.Fatalf("cannot send: %v", err)
	}
}

func (p *plain) next() (a answer) {
	p.t.Helper()
	line, err := p.r.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		p.t.Fatalf("%v: %s", err, line)
	}
	return a
}

func (p *plain) ask(line string) answer {
	p.t.Helper()
	p.send(line)
	return p.next()
}

// works holds the connection to go on.
func (p *plain) works() {
	p.t.Helper()
	if a := p.ask(`{"jsonrpc":"2.0","id":"after","method":"tools/call","params":{"name":"echo","arguments":{}}}`); string(a.ID) != `"after"` || a.Error != nil {
		p.t.Errorf("the connection does not go on: %s %v", a.ID, a.Error)
	}
}

func TestRefusedMessages(t *testing.T) {
	for line, want := range map[string]struct {
		id   string
		code int
	}{
		`nonsense`: {"null", -32700},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call"`:       {"null", -32700},
		"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"a\x80\"}": {"null", -32700},
		`{"jsonrpc":"2.0","id":7,"method":"ping"} {}`:         {"null", -32700},
		`{"jsonrpc":"2.0","id":7,"method":"ping"}x`:           {"null", -32700},
		`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`:          {"null", -32600},
		`7`:                        {"null", -32600},
		`{"id":7,"method":"ping"}`: {"7", -32600},
		`{"jsonrpc":"1.0","id":7,"method":"ping"}`:                                                                     {"7", -32600},
		`{"jsonrpc":"2.0","id":7}`:                                                                                     {"7", -32600},
		`{"jsonrpc":"2.0","id":7,"method":3}`:                                                                          {"7", -32600},
		`{"jsonrpc":"2.0","id":7,"method":"ping","Method":"tools/call"}`:                                               {"7", -32600},
		`{"jsonrpc":"2.0","ID":7,"method":"ping"}`:                                                                     {"null", -32600},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","Params":{}}`:                                                   {"7", -32600},
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:                                                                   {"null", -32600},
		`{"jsonrpc":"2.0","id":1e3,"method":"ping"}`:                                                                   {"null", -32600},
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`:                                                      {"null", -32600},
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`:                                                                  {"null", -32600},
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:                                                                    {"null", -32600},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}`:                                                   {"7", -32602},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":3}}`:                                          {"7", -32602},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","method":"ping"}`:                                               {"7", -32600},
		`{"method":"tools/call","params":{"name":"zed","name":"echo"},"jsonrpc":"2.0","id":7}`:                         {"7", -32600},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","Name":"zed"}}`:                         {"7", -32600},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}}}`:            {"7", -32600},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"a":{"b":1,"\u0062":2}}}}`: {"7", -32600},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"nope"}}`:                                      {"7", -32602},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":3}}`:                                           {"7", -32602},
		`{"jsonrpc":"2.0","id":7,"method":"notifications/cancelled","params":{"requestId":"after"}}`:                   {"7", -32600},
		`{"jsonrpc":"2.0","id":7,"method":"no/such"}`:                                                                  {"7", -32601},
	} {
		t.Run(line, func(t *testing.T) {
			s := echo()
			s.Call = func(_ context.Context, _ string, input []byte, _ func([]byte)) Answer {
				if len(input) > 2 {
					t.Errorf("a refused call is performed: %s", input)
				}
				return Answer{Text: "ok"}
			}
			p, _ := newPlain(t, s)
			if a := p.ask(line); string(a.ID) != want.id || a.Error == nil || a.Error.Code != want.code {
				t.Errorf("answered with id %s and %+v, want id %s and %d", a.ID, a.Error, want.id, want.code)
			}
			p.works()
		})
	}
}

// TestPassedOver has lines that are no requests change nothing. (The SDK hands a cancellation to a goroutine: one for an id that is asked later may reach it.)
func TestPassedOver(t *testing.T) {
	p, _ := newPlain(t, echo())
	for _, line := range []string{"", "  ", `{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":"after","error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"of none"}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`, `{"jsonrpc":"2.0","method":"notifications/none"}`} {
		p.send(line)
	}
	p.works()
}

func TestTooLongMessage(t *testing.T) {
	p, _ := newPlain(t, echo())
	long := strings.Repeat("x", 20<<20)
	for line, id := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"t":"` + long + `"}}}`:         "7",
		`{"method":"tools/call","params":{"name":"echo","arguments":{"t":"` + long + `"}},"jsonrpc":"2.0","id":"of mine"}`: `"of mine"`,
		`{"method":"tools/call","id":7,"params":{"t":"` + long + `"}}`:                                                     "null",
	} {
		if a := p.ask(line); string(a.ID) != id || a.Error == nil || a.Error.Code != jsonrpc.CodeInvalidRequest {
			t.Errorf("answered with id %s and %+v, want id %s", a.ID, a.Error, id)
		}
		p.works()
	}
}

func TestTooLongAnswer(t *testing.T) {
	s := echo()
	s.Call = func(context.Context, string, []byte, func([]byte)) Answer {
		return Answer{Text: strings.Repeat("x", maxText+1)}
	}
	a := call(t, connected(t, s, "2026-07-28", nil))
	if !a.IsError || !strings.Contains(a.Content[0].(*sdk.TextContent).Text, "too_large") {
		t.Errorf("%+v", a)
	}
}

func call(t *testing.T, c *sdk.ClientSession) *sdk.CallToolResult {
	t.Helper()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTenThousandCalls has many calls at once be answered, each with its own, of which some
// are performed at once.
func TestTenThousandCalls(t *testing.T) {
	var now, most atomic.Int32
	s := echo()
	s.Call = func(_ context.Context, _ string, input []byte, _ func([]byte)) Answer {
		defer now.Add(-1)
		for n, m := now.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return Answer{Text: string(input)}
	}
	p, _ := newPlain(t, s)
	const calls, ahead = 10000, 200
	room := make(chan struct{}, ahead)
	go func() {
		for i := range calls {
			room <- struct{}{}
			_, err := fmt.Fprintf(p.conn, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"n":%d}}}`+"\n", i, i)
			if err != nil {
				return // the reader says so
			}
		}
	}()
	seen := map[string]bool{}
	for range calls {
		a := p.next()
		<-room
		if want := fmt.Sprintf(`{\"n\":%s}`, a.ID); !strings.Contains(string(a.Result), want) || seen[string(a.ID)] {
			t.Fatalf("call %s is answered with %s %+v", a.ID, a.Result, a.Error)
		}
		seen[string(a.ID)] = true
	}
	if most.Load() > maxAtOnce {
		t.Errorf("%d calls are performed at once", most.Load())
	}
}

// held is a server whose calls wait until they are let go or cancelled.
type held struct {
	*Server
	began, letGo chan string
	cancelled    chan string
}

func holding() *held {
	h := &held{Server: echo(), began: make(chan string, 1000), letGo: make(chan string, 1000), cancelled: make(chan string, 1000)}
	h.Call = func(ctx context.Context, _ string, input []byte, _ func([]byte)) Answer {
		if string(input) == "{}" {
			return Answer{Text: "at once"}
		}
		h.began <- string(input)
		select {
		case <-h.letGo:
		case <-ctx.Done():
			h.cancelled <- string(input)
		}
		return Answer{Text: string(input)}
	}
	return h
}

func from[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("it never comes to this: " + what)
	}
	return v
}

const slowCall = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"n":%d}}}`

// TestSameID has an id that is in use stay the first request's.
func TestSameID(t *testing.T) {
	h := holding()
	p, _ := newPlain(t, h.Server)
	p.send(fmt.Sprintf(slowCall, 1, 1))
	from(t, "the call begins", h.began)
	if a := p.ask(fmt.Sprintf(slowCall, 1, 2)); string(a.ID) != "null" || a.Error == nil {
		t.Errorf("the second is answered with id %s, %+v", a.ID, a.Error)
	}
	// A text is another id, and a message that is refused takes nobody's.
	if a := p.ask(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"echo","arguments":{}}}`); string(a.ID) != `"1"` || a.Error != nil {
		t.Errorf("a text as id: %s, %+v", a.ID, a.Error)
	}
	if a := p.ask(`{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`); string(a.ID) != "null" || a.Error == nil {
		t.Errorf("a refused message is answered with id %s, %+v", a.ID, a.Error)
	}
	h.letGo <- ""
	if a := p.next(); string(a.ID) != "1" || !strings.Contains(string(a.Result), `{\"n\":1}`) {
		t.Errorf("the first: %s %s", a.ID, a.Result)
	}
	h.letGo <- ""
	if a := p.ask(fmt.Sprintf(slowCall, 1, 3)); !strings.Contains(string(a.Result), `{\"n\":3}`) {
		t.Errorf("the id is not free again: %s %+v", a.Result, a.Error)
	}
}

func TestDisconnect(t *testing.T) {
	h := holding()
	p, ended := newPlain(t, h.Server)
	for n := range maxAtOnce + 4 { // some wait
		p.send(fmt.Sprintf(slowCall, n, n))
	}
	for range maxAtOnce {
		from(t, "a call begins", h.began)
	}
	began := time.Now()
	p.conn.Close()
	for range maxAtOnce {
		from(t, "a call is cancelled", h.cancelled)
	}
	if err := from(t, "serving ends", ended); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it takes %s", took)
	}
	if len(h.began) > 0 {
		t.Errorf("a call begins for who has gone: %s", <-h.began)
	}
}

// TestEnd has a server that is to end cancel what it performs.
func TestEnd(t *testing.T) {
	h := holding()
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(ctx, theirs) }()
	p := &plain{t, ours, bufio.NewReader(ours)}
	p.ask(hello)
	p.send(fmt.Sprintf(slowCall, 1, 1))
	from(t, "the call begins", h.began)
	cancel()
	from(t, "the call is cancelled", h.cancelled)
	if err := from(t, "serving ends", ended); err != nil {
		t.Error(err)
	}
}

func TestCancelled(t *testing.T) {
	h := holding()
	p, _ := newPlain(t, h.Server)
	p.send(fmt.Sprintf(slowCall, 1, 1))
	p.send(fmt.Sprintf(slowCall, 2, 2))
	from(t, "a call begins", h.began)
	from(t, "a call begins", h.began)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
	if got := from(t, "the call is cancelled", h.cancelled); got != `{"n":1}` {
		t.Errorf("%s is cancelled", got)
	}
	h.letGo <- ""
	// What was cancelled is not answered: the next answer is the other's.
	if a := p.next(); string(a.ID) != "2" {
		t.Errorf("%s is answered", a.ID)
	}
	p.works()
}

func TestProgress(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			s := echo()
			s.Call = func(_ context.Context, _ string, _ []byte, progress func([]byte)) Answer {
				if progress == nil {
					return Answer{Text: "nobody asked"}
				}
				for range 1000 {
					progress([]byte("\x80line\n"))
				}
				return Answer{Text: "told"}
			}
			told := make(chan *sdk.ProgressNotificationParams, 100)
			c := connected(t, s, era, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { told <- r.Params }})
			if got := call(t, c).Content[0].(*sdk.TextContent).Text; got != "nobody asked" {
				t.Error(got)
			}
			params := &sdk.CallToolParams{Name: "echo"}
			params.SetProgressToken("mine")
			if r, err := c.CallTool(t.Context(), params); err != nil || r.Content[0].(*sdk.TextContent).Text != "told" {
				t.Errorf("%v %v", err, r)
			}
			if p := from(t, "progress is told", told); p.ProgressToken != "mine" || p.Progress != 6 || p.Message != "line\n" {
				t.Errorf("%+v", p)
			}
			if len(told) > 5 {
				t.Errorf("%d notifications of so little", len(told))
			}
		})
	}
}

// TestSlowReader has a client that takes no answers hold what it may, and no more.
func TestSlowReader(t *testing.T) {
	var performed atomic.Int32
	full := make(chan struct{})
	s := echo()
	s.Call = func(context.Context, string, []byte, func([]byte)) Answer {
		if performed.Add(1) == maxAtOnce {
			close(full)
		}
		return Answer{Text: "done"}
	}
	p, _ := newPlain(t, s)
	const calls = maxUnheard + 50
	var sending sync.WaitGroup
	sending.Go(func() {
		for n := range calls {
			if _, err := fmt.Fprintf(p.conn, slowCall+"\n", n, n); err != nil {
				return
			}
		}
	})
	from(t, "as many are performed as may be", full)
	other, _ := newPlain(t, s) // whom it does not hold up
	other.works()
	if n := performed.Load() - 1; n > maxAtOnce {
		t.Errorf("%d are performed for who takes no answers", n)
	}
	good, refused := 0, 0
	for range calls {
		switch a := p.next(); {
		case a.Error == nil:
			good++
		case a.Error.Code == codeTooMuch:
			refused++
		default:
			t.Errorf("%s: %+v", a.ID, a.Error)
		}
	}
	if good < maxUnheard || good+refused != calls {
		t.Errorf("%d are answered, %d refused", good, refused)
	}
	sending.Wait()
	p.works()
}

// TestBudget has the bytes of what is not answered be bounded, over connections.
func TestBudget(t *testing.T) {
	h := holding()
	h.Budget = NewBudget(3 << 20)
	p, ended := newPlain(t, h.Server)
	other, _ := newPlain(t, h.Server)
	big := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"t":"` + strings.Repeat("x", 1<<20) + `"}}}`
	for n := range 2 {
		p.send(fmt.Sprintf(big, n))
		from(t, "the call begins", h.began)
	}
	if a := other.ask(fmt.Sprintf(big, 1)); a.Error == nil || a.Error.Code != codeTooMuch || string(a.ID) != "1" {
		t.Errorf("beyond the budget: %s %+v", a.ID, a.Error)
	}
	other.works()
	p.conn.Close() // gives back what it held
	from(t, "serving ends", ended)
	other.send(fmt.Sprintf(big, 1))
	from(t, "the call begins", h.began)
	h.letGo <- ""
	other.next()
	if h.Budget.left != 3<<20 {
		t.Errorf("%d bytes of the budget are left", h.Budget.left)
	}
}

func TestListIsTheSame(t *testing.T) {
	s := echo()
	var lists []string
	for range 3 {
		slices.Reverse(s.Offers)
		p, _ := newPlain(t, s)
		lists = append(lists, string(p.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Result))
	}
	if lists[0] != lists[1] || lists[1] != lists[2] {
		t.Errorf("%s", lists)
	}
}
