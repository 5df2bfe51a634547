package mcp

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A lane is what requests come in by, and answers go out.
type lane interface {
	// begin waits until a call may be performed.
	begin(ctx context.Context, extra *sdk.RequestExtra) error
	// hold reports whether there is room for an answer of so many bytes until it is taken, and
	// keeps it.
	hold(ctx context.Context, extra *sdk.RequestExtra, bytes int) bool
}

// smallAnswer is how many bytes an answer may have that always has room: a call that changes
// something answers with less.
const smallAnswer = 64 << 10

// notTaken is what is answered in the place of an answer that there is no room for.
const notTaken = "unavailable (answers_not_taken): the run's clients have not taken so much of what was answered that there is no room for this\nhint: take the answers, and ask again"

// hold implements lane.
func (s *stream) hold(_ context.Context, extra *sdk.RequestExtra, bytes int) bool {
	if extra == nil {
		return false
	}
	number, err := strconv.Atoi(extra.Header.Get(flightHeader))
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byNumber[number]
	if f == nil || s.over || !s.answers.take(bytes) {
		return false
	}
	f.answer += bytes
	return true
}

// exchanges are requests over HTTP: each has its answer by itself.
type exchanges struct{ answers *Budget }

func (exchanges) begin(context.Context, *sdk.RequestExtra) error { return nil }

func (e exchanges) hold(ctx context.Context, _ *sdk.RequestExtra, bytes int) bool {
	held, ok := ctx.Value(heldKey{}).(*atomic.Int64)
	if !ok || !e.answers.take(bytes) {
		return false
	}
	held.Add(int64(bytes))
	return true
}

// heldKey is under which a call finds what its answer holds.
type heldKey struct{}

// holding returns the request with room for what its answer holds, which release gives back.
func (e exchanges) holding(r *http.Request) (with *http.Request, release func()) {
	held := new(atomic.Int64)
	return r.WithContext(context.WithValue(r.Context(), heldKey{}, held)), func() { e.answers.give(int(held.Load())) }
}
