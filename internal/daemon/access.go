package daemon

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/store"
)

// A principal is who asks: exactly one of its fields is set.
type principal struct {
	member *store.Member
	token  *store.DiagnosticsToken
	agent  *store.AgentToken
	// stale says that the roster could not be read: who was a member when it last could
	// may see how the control plane is, and nothing else.
	stale error
}

// name is how the log calls the principal.
func (p principal) name() string {
	switch {
	case p.member != nil:
		return "member:" + p.member.ID.String()
	case p.token != nil:
		return "diagnostics:" + p.token.ID
	case p.agent != nil:
		return "agent token:" + p.agent.ID
	}
	return "nobody"
}

type contextKey int

const (
	peerKey contextKey = iota
	principalKey
	requestIDKey
	patternKey
)

func principalOf(ctx context.Context) principal {
	p, _ := ctx.Value(principalKey).(principal)
	return p
}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey).(string)
	return id
}

func newRequestID() string {
	b := make([]byte, 10)
	rand.Read(b)
	return strings.ToLower(base32.StdEncoding.EncodeToString(b))
}

// diagnostics is all that a diagnostics token reaches, exactly as it is written here.
var diagnostics = map[string]bool{"/v1/health": true, "/v1/status": true, "/metrics": true, "/v1/traces": true}

// errNobody is the answer to who is not known.
var errNobody = bourn.WithHint(fmt.Errorf("%w: it is not known who asks", bourn.ErrDenied),
	"use the bourn command on this host, a diagnostics token, or at /mcp an agent token")

// A gatekeeper tells who asks and what they may reach.
type gatekeeper struct {
	store *store.Store
	log   *logWriter
	now   func() time.Time
	// checking are the bearers that are held against the database at once: a flood of them
	// must not take the connections that the log needs.
	checking chan struct{}

	reading sync.Mutex // held by who reads the roster; before mu
	mu      sync.Mutex
	members map[uint32]store.Member // by OS user, as last read
	read    time.Time               // when it was last tried
	failed  error                   // why it could not be read then
}

func newGatekeeper(s *store.Store, log *logWriter, now func() time.Time) *gatekeeper {
	return &gatekeeper{store: s, log: log, now: now, checking: make(chan struct{}, 2)}
}

// identify tells who sent a request. One that presents a bearer is that token's or
// nobody's: neither the peer of the socket nor a cookie counts beside it.
func (g *gatekeeper) identify(r *http.Request) (principal, error) {
	if _, presented := r.Header["Authorization"]; presented {
		return g.bearer(r)
	}
	if peer, ok := r.Context().Value(peerKey).(Peer); ok {
		m, stale, err := g.member(r.Context(), peer.UID)
		if err != nil {
			return principal{}, err
		}
		return principal{member: &m, stale: stale}, nil
	}
	return principal{}, errNobody
}

// errBearer is the answer to a bearer that is none, whatever is wrong with it.
var errBearer = bourn.WithHint(fmt.Errorf("%w: the bearer is not valid", bourn.ErrDenied), "bourn key makes one, which may expire and be revoked")

func (g *gatekeeper) bearer(r *http.Request) (principal, error) {
	values := r.Header.Values("Authorization")
	scheme, token, _ := strings.Cut(values[0], " ")
	agents := store.LooksLikeAgentToken(token)
	if len(values) != 1 || !strings.EqualFold(scheme, "Bearer") || !agents && !store.LooksLikeDiagnosticsToken(token) {
		return principal{}, errBearer
	}
	select {
	case g.checking <- struct{}{}:
		defer func() { <-g.checking }()
	case <-r.Context().Done():
		return principal{}, errBearer
	}
	if agents {
		return g.agentBearer(r.Context(), token)
	}
	kept, err := g.store.CheckDiagnosticsToken(r.Context(), token)
	if errors.Is(err, bourn.ErrDenied) {
		return principal{}, errBearer
	}
	if err != nil {
		return principal{}, err
	}
	return principal{token: &kept}, nil
}

// membersFor is how long the roster's answer holds: who is removed is out within it.
const membersFor = time.Second

// failedFor is how long it is not tried again to read a roster that could not be read.
const failedFor = 100 * time.Millisecond

// rosterWithin is how long reading the roster may take.
const rosterWithin = 2 * time.Second

// member returns the member that an OS user is, and why the roster cannot be read if it
// cannot. Who is none is ErrDenied.
func (g *gatekeeper) member(ctx context.Context, uid uint32) (m store.Member, stale, err error) {
	members, stale := g.roster(ctx)
	m, known := members[uid]
	if !known && stale != nil {
		return m, nil, stale
	}
	if !known {
		return m, nil, bourn.WithHint(fmt.Errorf("%w: user %d of this host is no member", bourn.ErrDenied, uid), "ask an administrator")
	}
	return m, stale, nil
}

// roster returns the members as they were last read, and reads them where that is too long
// ago: one request does, and the others wait for it.
func (g *gatekeeper) roster(ctx context.Context) (map[uint32]store.Member, error) {
	if members, err, fresh := g.lastRead(); fresh {
		return members, err
	}
	g.reading.Lock()
	defer g.reading.Unlock()
	if members, err, fresh := g.lastRead(); fresh {
		return members, err
	}
	// Not the request's own time: others wait for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rosterWithin)
	defer cancel()
	all, err := g.store.Roster(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.read, g.failed = g.now(), err
	if err == nil {
		g.members = map[uint32]store.Member{}
		for _, m := range all {
			if m.UID != nil && !m.Removed {
				g.members[*m.UID] = m
			}
		}
	}
	return g.members, err
}

func (g *gatekeeper) lastRead() (members map[uint32]store.Member, err error, fresh bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	hold := membersFor
	if g.failed != nil {
		hold = failedFor
	}
	return g.members, g.failed, !g.read.IsZero() && g.now().Sub(g.read) <= hold
}

// admit says whether a principal may reach what it asks for.
func (g *gatekeeper) admit(p principal, r *http.Request) error {
	// As it was sent: no other spelling of a path is on the list.
	looks := r.Method == http.MethodGet && diagnostics[r.URL.Path] && r.URL.RawPath == ""
	if p.agent != nil && (r.URL.Path != mcpPath || r.URL.RawPath != "") {
		return fmt.Errorf("%w: an agent token asks for tools at %s, and for nothing else", bourn.ErrDenied, mcpPath)
	}
	switch {
	case p.agent != nil:
		return nil
	case p.member != nil:
		if looks {
			return nil
		}
		return p.stale
	case p.token != nil:
		if looks {
			return nil
		}
		return fmt.Errorf("%w: a diagnostics token reads health, status, metrics and traces, and nothing else", bourn.ErrDenied)
	}
	return errNobody
}

// administrator is for what only administrators do. The refusal is in the log.
func (g *gatekeeper) administrator(ctx context.Context, what string) (string, error) {
	p := principalOf(ctx)
	if p.member != nil && p.member.Administrator {
		return p.name(), nil
	}
	err := g.log.Refused(ctx, audit.Entry{Kind: audit.KindAction, Who: p.name(), What: what, By: "administrators only"})
	if err != nil {
		return "", err
	}
	return "", bourn.WithHint(fmt.Errorf("%w: only administrators may %s", bourn.ErrDenied, what), "ask an administrator")
}

// identified wraps what answers requests: each gets an id, and what is not admitted ends
// here.
func (s *server) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), requestIDKey, newRequestID())
		r = r.WithContext(ctx)
		w.Header().Set("X-Request-Id", requestID(ctx))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		var p principal
		err := s.local(r)
		if err == nil {
			p, err = s.gate.identify(r)
		}
		if err == nil {
			err = s.gate.admit(p, r)
		}
		if err != nil {
			// Who is not let in does not keep a place.
			w.Header().Set("Connection", "close")
			s.noteRefused(ctx, p, err)
			s.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, principalKey, p)))
	})
}

// noteRefused logs that a request was not let in. Many alike are counted.
func (s *server) noteRefused(ctx context.Context, p principal, why error) {
	if bourn.CodeOf(why) != bourn.CodeDenied {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	e := audit.Entry{Kind: audit.KindAction, Who: p.name(), What: "ask the control plane", By: "admission", Reason: why.Error(), Trace: traceID(ctx)}
	if err := s.control.log.Refused(ctx, e); err != nil {
		s.log.WarnContext(ctx, "cannot write the log", "error", err)
	}
}
