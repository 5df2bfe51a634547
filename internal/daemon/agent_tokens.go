package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/store"
)

// agentBearer is whose an agent token is. Its member must still be one.
func (g *gatekeeper) agentBearer(ctx context.Context, token string) (principal, error) {
	kept, err := g.store.CheckAgentToken(ctx, token)
	if errors.Is(err, bourn.ErrDenied) {
		return principal{}, errBearer
	}
	if err != nil {
		return principal{}, err
	}
	members, stale := g.roster(ctx)
	if stale != nil {
		return principal{}, stale
	}
	for _, m := range members {
		if m.ID == kept.Member {
			return principal{agent: &kept}, nil
		}
	}
	return principal{}, errBearer
}

// agentTokenRoutes are about the tokens of who asks: nobody makes one for another's agents.
func (s *server) agentTokenRoutes() {
	handle(s, operation("list-agent-tokens", "GET", "/v1/agent-tokens", "Your agent tokens"), func(ctx context.Context, _ *none) (*out[api.AgentTokens], error) {
		m, err := asMember(ctx)
		if err != nil {
			return nil, err
		}
		all, err := s.control.store.AgentTokens(ctx, m.ID)
		if err != nil {
			return nil, err
		}
		list := api.AgentTokens{Tokens: []api.AgentToken{}}
		for _, t := range all {
			list.Tokens = append(list.Tokens, wireAgentToken(t))
		}
		return &out[api.AgentTokens]{list}, nil
	})
	handle(s, operation("new-agent-token", "POST", "/v1/agent-tokens", "Make an agent token; it is shown once"), func(ctx context.Context, in *in[api.NewAgentToken]) (*out[api.AgentToken], error) {
		m, err := asMember(ctx)
		if err != nil {
			return nil, err
		}
		t, err := s.askedToken(m, in.Body)
		if err != nil {
			return nil, err
		}
		entry := audit.Entry{Kind: audit.KindChange, Who: principalOf(ctx).name(), Agent: string(t.Agent), What: "agent token made", Target: t.Name, Outcome: audit.Allowed, Trace: traceID(ctx)}
		var token string
		var kept store.AgentToken
		err = s.control.log.Effect(ctx, entry, func() (err error) {
			token, kept, err = s.control.store.NewAgentToken(ctx, t)
			return err
		})
		if err != nil {
			return nil, err
		}
		made := wireAgentToken(kept)
		made.Token = token
		return &out[api.AgentToken]{made}, nil
	})
	handle(s, operation("revoke-agent-token", "DELETE", "/v1/agent-tokens/{id}", "End an agent token at once"), func(ctx context.Context, in *byID) (*none, error) {
		m, err := asMember(ctx)
		if err != nil {
			return nil, err
		}
		entry := audit.Entry{Kind: audit.KindChange, Who: principalOf(ctx).name(), What: "agent token revoked", Target: in.ID, Outcome: audit.Allowed, Trace: traceID(ctx)}
		return nil, s.control.log.Effect(ctx, entry, func() error { return s.control.store.RevokeAgentToken(ctx, m.ID, in.ID) })
	})
}

// asMember is the member that asks.
func asMember(ctx context.Context) (*store.Member, error) {
	if p := principalOf(ctx); p.member != nil {
		return p.member, nil
	}
	return nil, errNobody
}

// askedToken checks what a token is asked for.
func (s *server) askedToken(m *store.Member, n api.NewAgentToken) (t store.AgentToken, err error) {
	t = store.AgentToken{Name: n.Name, Member: m.ID, Dir: n.Dir, Expires: n.Expires}
	if t.Agent, err = bourn.ParseAgentName(n.Agent); err != nil {
		return t, err
	}
	switch {
	case !n.Expires.After(s.control.now()):
		return t, fmt.Errorf("%w: the token would have expired already", bourn.ErrInvalid)
	case bourn.Printable(n.Name) != n.Name:
		return t, fmt.Errorf("%w: the token's name holds characters that cannot be printed", bourn.ErrInvalid)
	case !filepath.IsAbs(n.Dir) || filepath.Clean(n.Dir) != n.Dir:
		return t, fmt.Errorf("%w: the token's directory is not an absolute path in its shortest form", bourn.ErrInvalid)
	}
	return t, nil
}

func wireAgentToken(t store.AgentToken) api.AgentToken {
	return api.AgentToken{ID: t.ID, Name: t.Name, Agent: string(t.Agent), Dir: t.Dir, CreatedAt: t.CreatedAt, Expires: t.Expires, Revoked: t.Revoked}
}
