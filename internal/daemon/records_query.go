package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/store"
)

// queryRoutes are for SQL of a person's own.
func (s *server) queryRoutes() {
	op := s.large(operation("query-records", "POST", "/v1/records/query", "Run SQL on the records as the member who asks"))
	op.MaxBodyBytes = 2 << 20
	handle(s, op, func(ctx context.Context, in *in[api.QueryRecords]) (*out[api.QueriedRecords], error) {
		r, err := s.queryRecords(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &out[api.QueriedRecords]{r}, nil
	})
}

// queryRecords runs a person's SQL on a connection of its own, which ends with the call. The
// log has the digest of it first, and afterwards what each statement was: not its text, which
// may hold secrets.
func (s *server) queryRecords(ctx context.Context, q api.QueryRecords) (api.QueriedRecords, error) {
	var none api.QueriedRecords
	p := principalOf(ctx)
	if _, local := ctx.Value(peerKey).(Peer); p.member == nil || !local || p.stale != nil {
		return none, bourn.WithHint(fmt.Errorf("%w: SQL is run for members at the local socket", bourn.ErrDenied), "use the bourn command on this host")
	}
	query := store.SQLQuery{Text: q.SQL, Limits: personLimits}
	for _, v := range q.Parameters {
		query.Parameters = append(query.Parameters, &v)
	}
	entry := audit.Entry{ID: audit.NewID(), Kind: audit.KindAction, Who: p.name(), For: p.member.ID.String(), What: "records query", Target: "SQL", Digest: sqlDigest(q), Outcome: audit.Allowed, Trace: traceID(ctx)}
	c, err := s.tools.sql.open(ctx, p.member.ID, store.Socket, false)
	if err != nil {
		entry.Outcome, entry.Reason = audit.Denied, loggedReason(err)
		return none, errors.Join(err, s.control.log.Refused(ctx, entry))
	}
	defer c.End()
	if err := s.control.log.Append(ctx, entry); err != nil {
		return none, err
	}
	began := time.Now()
	got, err := c.Run(ctx, query)
	took := time.Since(began)
	if err != nil {
		err = refusedSQL(err, q.SQL)
		s.tools.logOutcome(entry, took, nil, err)
		return none, err
	}
	r := queried(got)
	s.tools.logOutcome(entry, took, sqlReceipt(r), nil)
	return r, nil
}

// sqlDigest is that of SQL with its parameters.
func sqlDigest(q api.QueryRecords) string {
	text, err := json.Marshal(q)
	if err != nil {
		return ""
	}
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:])
}
