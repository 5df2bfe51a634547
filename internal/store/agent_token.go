package store

import (
	"context"
	"fmt"
	"time"

	"bourn"

	"github.com/jackc/pgx/v5"
)

// AgentPrefix begins every agent token, so that one that leaked is known for what it is.
const AgentPrefix = "bourn_agent_"

// LooksLikeAgentToken reports whether s has the form of one.
func LooksLikeAgentToken(s string) bool { return looksLike(s, AgentPrefix) }

// An AgentToken is what is kept of a token with which a client asks for the tools of one
// agent of one member, in one directory, and for nothing else.
type AgentToken struct {
	ID        string
	Name      string
	Member    MemberID
	Agent     bourn.AgentName
	Dir       string // absolute: what relative paths begin in
	CreatedAt time.Time
	Expires   time.Time
	Revoked   *time.Time
}

const agentTokenColumns = "id::text, name, member, agent, dir, created_at, expires_at, revoked_at"

func scanAgentToken(row pgx.CollectableRow) (t AgentToken, err error) {
	var agent string
	err = row.Scan(&t.ID, &t.Name, &t.Member, &agent, &t.Dir, &t.CreatedAt, &t.Expires, &t.Revoked)
	t.Agent = bourn.AgentName(agent)
	return t, err
}

// NewAgentToken makes a token of what t says and returns it, for the only time, with what
// is kept.
func (s *Store) NewAgentToken(ctx context.Context, t AgentToken) (string, AgentToken, error) {
	token := AgentPrefix + newSecret()
	rows, err := s.control.Query(ctx, `insert into control.agent_tokens (name, hash, member, agent, dir, expires_at) values ($1, $2, $3, $4, $5, $6)
		returning `+agentTokenColumns, t.Name, hashOf(token), t.Member, string(t.Agent), t.Dir, t.Expires)
	if err != nil {
		return "", AgentToken{}, classify(err)
	}
	kept, err := pgx.CollectExactlyOneRow(rows, scanAgentToken)
	if err != nil {
		return "", AgentToken{}, classify(err)
	}
	return token, kept, nil
}

// CheckAgentToken returns the token that was presented, if it is one that was made, has not
// expired and was not revoked; else ErrDenied, which does not say why.
func (s *Store) CheckAgentToken(ctx context.Context, presented string) (AgentToken, error) {
	rows, err := s.control.Query(ctx, `select `+agentTokenColumns+` from control.agent_tokens
		where hash = $1 and revoked_at is null and expires_at > clock_timestamp()`, hashOf(presented))
	if err != nil {
		return AgentToken{}, classify(err)
	}
	all, err := pgx.CollectRows(rows, scanAgentToken)
	if err != nil {
		return AgentToken{}, classify(err)
	}
	if len(all) != 1 {
		return AgentToken{}, fmt.Errorf("%w: the token is not valid", bourn.ErrDenied)
	}
	return all[0], nil
}

// AgentTokens returns a member's tokens, the newest first.
func (s *Store) AgentTokens(ctx context.Context, of MemberID) ([]AgentToken, error) {
	rows, err := s.control.Query(ctx, `select `+agentTokenColumns+` from control.agent_tokens where member = $1 order by created_at desc, id`, of)
	if err != nil {
		return nil, classify(err)
	}
	all, err := pgx.CollectRows(rows, scanAgentToken)
	return all, classify(err)
}

// RevokeAgentToken ends a member's token at once; ErrNotFound where there is none to end.
func (s *Store) RevokeAgentToken(ctx context.Context, of MemberID, id string) error {
	tag, err := s.control.Exec(ctx, `update control.agent_tokens set revoked_at = clock_timestamp()
		where id::text = $1 and member = $2 and revoked_at is null`, id, of)
	if err != nil {
		return classify(err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%w: no agent token of that id is valid", bourn.ErrNotFound)
	}
	return nil
}
