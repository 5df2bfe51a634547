package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of one connection.
const (
	maxMessage   = 16 << 20        // bytes of one message that is read
	maxUnheard   = 256             // requests that are not answered yet; more are refused
	maxAtOnce    = 16              // calls that are performed, or whose answer waits to be taken
	maxHeld      = 32 << 20        // bytes of requests that are not answered yet
	takenWithin  = 2 * time.Minute // a client that takes nothing for so long has gone
	codeTooMuch  = -32000          // the server's own code for what can be tried again
	flightHeader = "Flight"        // under which a request's number comes to its handler
)

// A stream is the stdio transport over any connection: a message a line. It keeps the
// count of what is not answered.
//
//	client ── line ──▶ parse ──▶ admit ──▶ the SDK ──▶ handler: begin ──▶ call
//	   ▲                 │         │                                       │
//	   └── complaint ────┴─────────┘ ◀── answered ◀──── answer ────────────┘
//
// An answer that its client does not take keeps its place: a slow client is slow for
// itself.
type stream struct {
	conn    io.ReadWriteCloser
	r       *bufio.Reader
	budget  *Budget
	answers *Budget

	writing sync.Mutex
	closed  sync.Once
	err     error

	mu       sync.Mutex // of what follows
	next     int
	unheard  map[jsonrpc.ID]*flight
	byNumber map[int]*flight
	held     int
	over     bool          // it is closed: nothing more is held
	slots    chan struct{} // one for each call at once
}

// A flight is a request that is not answered yet.
type flight struct {
	number    int
	size      int
	answer    int  // bytes of its answer that are held
	cancelled bool // its answer is not wanted
	slot      bool // it has one
}

func newStream(conn io.ReadWriteCloser, budget, answers *Budget) *stream {
	return &stream{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), budget: budget, answers: answers, unheard: map[jsonrpc.ID]*flight{}, byNumber: map[int]*flight{},
		slots: make(chan struct{}, maxAtOnce)}
}

// Connect implements sdk.Transport.
func (s *stream) Connect(context.Context) (sdk.Connection, error) { return s, nil }

// SessionID implements sdk.Connection.
func (s *stream) SessionID() string { return "" }

// Close implements sdk.Connection.
func (s *stream) Close() error {
	s.closed.Do(func() {
		s.err = s.conn.Close()
		s.mu.Lock()
		s.budget.give(s.held)
		s.held, s.over = 0, true
		for _, f := range s.byNumber {
			s.answers.give(f.answer)
			f.answer = 0
		}
		s.mu.Unlock()
	})
	return s.err
}

// Read returns the next message. What is none is answered and skipped.
func (s *stream) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, f, err := s.line()
		if err != nil {
			return nil, err
		}
		if f == nil && len(line) == 0 {
			continue
		}
		var m jsonrpc.Message
		if f == nil {
			m, f = s.take(line)
		}
		if f != nil {
			if err := s.complain(f); err != nil {
				return nil, err
			}
			continue
		}
		if m != nil {
			return m, nil
		}
	}
}

// take makes a line into what the SDK is to handle; nil where there is nothing to do.
func (s *stream) take(line []byte) (jsonrpc.Message, *fault) {
	m, f := parse(line)
	if f != nil || m.reply {
		return nil, f
	}
	r := &jsonrpc.Request{ID: m.id, Method: m.method, Params: m.params}
	if !m.id.IsValid() {
		if m.method == "notifications/cancelled" {
			s.cancelled(m.params)
		}
		return r, nil
	}
	number, f := s.admit(m.id, m.raw, len(line))
	if f != nil {
		return nil, f
	}
	r.Extra = &sdk.RequestExtra{Header: http.Header{flightHeader: {strconv.Itoa(number)}}}
	return r, nil
}

// admit counts a request that is to be answered. An id that is in use is the earlier
// request's: its answer must not be taken for the later one's.
func (s *stream) admit(id jsonrpc.ID, raw json.RawMessage, size int) (int, *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unheard[id] != nil {
		return 0, &fault{nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a request with the id %q is not answered yet", fmt.Sprint(id.Raw()))}
	}
	if len(s.unheard) >= maxUnheard || s.held+size > maxHeld || !s.budget.take(size) {
		return 0, &fault{raw, codeTooMuch, "too much at once: wait for answers, and try again"}
	}
	s.next++
	f := &flight{number: s.next, size: size}
	s.unheard[id], s.byNumber[s.next] = f, f
	s.held += size
	return s.next, nil
}

// cancelled notes that the answer to a request is not wanted any more: none is sent.
func (s *stream) cancelled(params []byte) {
	var p struct {
		RequestID any `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	id, err := jsonrpc.MakeID(p.RequestID)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.unheard[id]; f != nil {
		f.cancelled = true
	}
}

// begin waits until a call may be performed.
func (s *stream) begin(ctx context.Context, extra *sdk.RequestExtra) error {
	if extra == nil {
		return nil
	}
	number, err := strconv.Atoi(extra.Header.Get(flightHeader))
	if err != nil {
		return nil
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byNumber[number]
	if f == nil { // it cannot be: its answer is not sent before this returns
		<-s.slots
		return nil
	}
	f.slot = true
	return nil
}

// answered forgets a request, once its answer was taken or is not to be sent.
func (s *stream) answered(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byNumber, f.number)
	s.answers.give(f.answer)
	f.answer = 0
	if f.slot {
		<-s.slots
	}
}

// Write implements sdk.Connection.
func (s *stream) Write(_ context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		f := s.leave(r.ID)
		if f != nil {
			defer s.answered(f)
			if f.cancelled {
				return nil
			}
		}
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return s.write(data)
}

// leave lets a request's id be used again, just before its answer is sent.
func (s *stream) leave(id jsonrpc.ID) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.unheard[id]
	if f == nil {
		return nil
	}
	delete(s.unheard, id)
	if s.held >= f.size { // else all was given back
		s.held -= f.size
		s.budget.give(f.size)
	}
	return f
}

// line returns the next line, without its end; one that is too long is read to its end and
// is a fault.
func (s *stream) line() ([]byte, *fault, error) {
	var line, tail []byte
	long := false
	for {
		part, err := s.r.ReadSlice('\n')
		switch {
		case long:
			tail = append(tail, part...)
			tail = tail[max(0, len(tail)-ends):]
		case len(line)+len(part) > maxMessage:
			long, line, tail = true, bytes.Clone(line[:min(len(line), ends)]), bytes.Clone(part[max(0, len(part)-ends):])
		default:
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, nil, err // a last line without its end is none
		case long:
			return nil, &fault{claimed(line, tail), jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has more than %d bytes", maxMessage)}, nil
		}
		return bytes.TrimSpace(line), nil, nil
	}
}

// complain answers what is not taken.
func (s *stream) complain(f *fault) error {
	if f.code != codeTooMuch && f.id != nil && s.inUse(f.id) {
		f.id = nil
	}
	return s.write(f.encode())
}

// inUse reports whether an id is that of a request that is to be answered yet: a complaint
// must not be taken for its answer.
func (s *stream) inUse(raw json.RawMessage) bool {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return true
	}
	id, err := jsonrpc.MakeID(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err != nil || s.unheard[id] != nil
}

func (s *stream) write(data []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if timed, ok := s.conn.(interface{ SetWriteDeadline(time.Time) error }); ok {
		if err := timed.SetWriteDeadline(time.Now().Add(takenWithin)); err != nil {
			return err
		}
	}
	_, err := s.conn.Write(append(bytes.TrimRight(data, "\n"), '\n'))
	return err
}
