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
}

// name is how the log calls the principal.
func (p principal) name() string {
	switch {
	case p.member != nil:
		return "member:" + p.member.ID.String()
	case p.token != nil:
		return "diagnostics:" + p.token.ID
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
	"use the bourn command on this host, or a diagnostics token")

// A gatekeeper tells who asks and what they may reach.
type gatekeeper struct {
	store *store.Store
	log   *logWriter

	mu      sync.Mutex
	members map[uint32]store.Member // by OS user, as last read
	read    time.Time
	now     func() time.Time
}

// identify tells who sent a request. One that presents a bearer is that token's or
// nobody's: neither the peer of the socket nor a cookie counts beside it.
func (g *gatekeeper) identify(r *http.Request) (principal, error) {
	if _, presented := r.Header["Authorization"]; presented {
		return g.bearer(r)
	}
	if peer, ok := r.Context().Value(peerKey).(Peer); ok {
		m, err := g.member(r.Context(), peer.UID)
		if err != nil {
			return principal{}, err
		}
		return principal{member: &m}, nil
	}
	return principal{}, errNobody
}

func (g *gatekeeper) bearer(r *http.Request) (principal, error) {
	values := r.Header.Values("Authorization")
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) != 1 || !strings.EqualFold(scheme, "Bearer") || !strings.HasPrefix(token, store.DiagnosticsPrefix) {
		return principal{}, fmt.Errorf("%w: the bearer is not valid", bourn.ErrDenied)
	}
	kept, err := g.store.CheckDiagnosticsToken(r.Context(), token)
	if errors.Is(err, bourn.ErrDenied) {
		return principal{}, fmt.Errorf("%w: the bearer is not valid", bourn.ErrDenied)
	}
	if err != nil {
		return principal{}, err
	}
	return principal{token: &kept}, nil
}

// membersFor is how long the roster's answer holds: who is removed is out within it.
const membersFor = time.Second

// member returns the member that an OS user is. Who is none is ErrDenied.
func (g *gatekeeper) member(ctx context.Context, uid uint32) (store.Member, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.members == nil || g.now().Sub(g.read) > membersFor {
		all, err := g.store.Roster(ctx)
		if err != nil {
			return store.Member{}, err
		}
		g.members, g.read = map[uint32]store.Member{}, g.now()
		for _, m := range all {
			if m.UID != nil && !m.Removed {
				g.members[*m.UID] = m
			}
		}
	}
	m, known := g.members[uid]
	if !known {
		return m, bourn.WithHint(fmt.Errorf("%w: user %d of this host is no member", bourn.ErrDenied, uid), "ask an administrator")
	}
	return m, nil
}

// admit says whether a principal may reach what it asks for.
func (g *gatekeeper) admit(p principal, r *http.Request) error {
	switch {
	case p.member != nil:
		return nil
	case p.token != nil:
		if r.Method == http.MethodGet && diagnostics[r.URL.Path] {
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
		p, err := s.gate.identify(r)
		if err == nil {
			err = s.gate.admit(p, r)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, principalKey, p)))
	})
}
