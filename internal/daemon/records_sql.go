package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/store"
	"bourn/internal/tool"
	"bourn/internal/workspace"
)

// SQL of agents and of persons runs on connections of the member's own role:
//
//	records_query ─▶ gate ─▶ the run's connection ── helper's dial, as the person ──▶ PostgreSQL
//	POST /v1/records/query ─▶ one for the call                                        row security
//
// A run has one, which ends with the run; nobody else ever has it.

// How many connections there are at once: the server has room for others, and of those that a
// role may have the runs leave some for what the person asks.
const (
	maxSQL    = 40
	maxRunSQL = 6 // of a member's runs
)

// Limits of a call's result: a model reads the first, a person the second.
var (
	agentLimits  = store.SQLLimits{Rows: 500, Bytes: 128 << 10, Time: 30 * time.Second}
	personLimits = store.SQLLimits{Rows: 10_000, Bytes: 8 << 20, Time: 60 * time.Second}
)

// sqlRuns are the connections of runs.
type sqlRuns struct {
	control *control
	all     *store.SQLs

	mu      sync.Mutex
	of      map[*gatedRun]*store.SQL
	opening map[*gatedRun]chan struct{} // closed when it is open, or cannot be
	count   int                         // all that there are, with those that are being opened
	ofRuns  map[store.MemberID]int      // of these, those of each member's runs

	work sync.WaitGroup
}

func newSQLRuns(c *control) *sqlRuns {
	q := &sqlRuns{control: c, all: c.store.NewSQLs(c.now), of: map[*gatedRun]*store.SQL{}, opening: map[*gatedRun]chan struct{}{}, ofRuns: map[store.MemberID]int{}}
	c.onLeaving(q.endOf)
	return q
}

// close ends all of them, and waits.
func (q *sqlRuns) close() {
	if q != nil {
		q.all.Close()
		q.work.Wait()
	}
}

// connection returns the run's connection, and opens it where there is none that holds for
// what the run may do now.
func (q *sqlRuns) connection(ctx context.Context, run *gatedRun, readOnly bool) (*store.SQL, error) {
	for {
		q.mu.Lock()
		c, opening := q.of[run], q.opening[run]
		if opening == nil && (c == nil || c.ReadOnly() != readOnly) {
			opened := make(chan struct{})
			q.opening[run] = opened
			q.mu.Unlock()
			if c != nil { // the door is another than it was
				c.End()
			}
			c, err := q.open(ctx, run.member, store.Agent, readOnly)
			q.mu.Lock()
			if delete(q.opening, run); err == nil {
				q.of[run] = c
			}
			q.mu.Unlock()
			close(opened)
			if err == nil {
				q.work.Go(func() { q.follow(run, c) })
			}
			return c, err
		}
		q.mu.Unlock()
		if opening == nil {
			return c, nil
		}
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// follow ends a connection with its run, and forgets one that has ended.
func (q *sqlRuns) follow(run *gatedRun, c *store.SQL) {
	select {
	case <-run.actor.Ended():
		c.End()
	case <-c.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of[run] == c {
		delete(q.of, run)
	}
}

// open makes a connection of a member's, one of those that there may be.
func (q *sqlRuns) open(ctx context.Context, member store.MemberID, kind store.Kind, readOnly bool) (*store.SQL, error) {
	who, err := q.control.sqlFor(ctx, member)
	if err != nil {
		return nil, err
	}
	who.Kind, who.ReadOnly = kind, readOnly
	if !q.room(member, kind) {
		return nil, bourn.WithHint(fmt.Errorf("%w: too many connections to the records are in use", bourn.ErrUnavailable), "try again in a minute: connections that nobody uses end")
	}
	c, err := q.all.Open(ctx, who)
	if err != nil {
		q.counts(member, kind, -1)
		return nil, err
	}
	q.work.Go(func() {
		<-c.Done()
		q.counts(member, kind, -1)
	})
	return c, nil
}

// counts counts a connection that comes or goes.
func (q *sqlRuns) counts(member store.MemberID, kind store.Kind, by int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(member, kind, by)
}

func (q *sqlRuns) add(member store.MemberID, kind store.Kind, by int) {
	q.count += by
	if kind != store.Agent {
		return
	}
	if q.ofRuns[member] += by; q.ofRuns[member] == 0 {
		delete(q.ofRuns, member)
	}
}

// room takes a place for a connection. Where there is none, one that nobody uses gives way: the
// one that was used last longest ago, and the member's own where their runs have all of theirs.
func (q *sqlRuns) room(member store.MemberID, kind store.Kind) bool {
	q.mu.Lock()
	own := kind == store.Agent && q.ofRuns[member] >= maxRunSQL
	if !own && q.count < maxSQL {
		q.add(member, kind, 1)
		q.mu.Unlock()
		return true
	}
	var all []*store.SQL
	for run, c := range q.of {
		if !own || run.member == member {
			all = append(all, c)
		}
	}
	q.mu.Unlock()
	slices.SortFunc(all, func(a, b *store.SQL) int { return a.Used().Compare(b.Used()) })
	for _, c := range all {
		if c.Yield() {
			q.counts(member, kind, 1) // it goes down when that is done
			return true
		}
	}
	return false
}

// endOf ends what a member has open.
func (q *sqlRuns) endOf(member store.MemberID) {
	if q != nil {
		q.all.EndOf(member)
	}
}

// sqlFor says as which role a member's SQL runs, and how its connection comes about. There is
// one way on each host and no other behind it: what is refused there is refused.
func (c *control) sqlFor(ctx context.Context, member store.MemberID) (store.SQLFor, error) {
	who := store.SQLFor{Member: member}
	if c.people != nil {
		_, person, err := c.people.entry(member)
		if err != nil {
			return who, err
		}
		if who.Role, err = store.AgentRole(person.Name); err != nil {
			return who, err
		}
		switch {
		case c.db.url != "":
		case c.db.socket == "":
			return who, bourn.WithHint(fmt.Errorf("%w: the database is the control plane's own, and on a shared host records are queried on one that has a service of its own", bourn.ErrUnavailable),
				"systemctl enable --now bourn-db.service, and set BOURN_DATABASE_SOCKET="+SharedDatabaseSocket)
		default:
			who.Dial = c.people.dialer(person.Name)
			return who, nil
		}
	} else {
		// The role of a private database is the person's whose control plane this is.
		if own, err := c.isOwn(ctx, member); err != nil {
			return who, err
		} else if !own {
			return who, bourn.WithHint(fmt.Errorf("%w: the member is another OS user than the control plane, and has no role of its own in the database", bourn.ErrDenied),
				"where several people share the host: bourn people init")
		}
		who.Role = store.SelfRole
		if running := c.db.cluster(); running != nil {
			who.Socket = running.SocketDir()
			return who, nil
		}
		if c.db.url == "" {
			return who, bourn.WithHint(fmt.Errorf("%w: the database is a shared host's, and this host has no people", bourn.ErrUnavailable), "run: bourn people sync")
		}
		who.Role = store.MemberRole(member)
	}
	var err error
	who.URL = c.db.url
	who.Certificate, err = roleCertificate(c.config.Home, who.Role)
	return who, err
}

// isOwn reports whether a member is the one that the control plane's user is.
func (c *control) isOwn(ctx context.Context, id store.MemberID) (bool, error) {
	members, err := c.store.Roster(ctx)
	return slices.ContainsFunc(members, func(m store.Member) bool {
		return m.ID == id && m.UID != nil && int(*m.UID) == os.Geteuid() && !m.Removed
	}), err
}

// CertificateDir is where the client certificates of agents' roles are, ROLE.crt and ROLE.key,
// for a server that others run.
func CertificateDir(home string) string { return filepath.Join(home, "secrets", "database") }

// HasCertificate reports whether there is one that can be used.
func HasCertificate(home, role string) bool {
	_, err := roleCertificate(home, role)
	return err == nil
}

// roleCertificate reads the client certificate of a role, by which a server elsewhere knows it.
func roleCertificate(home, role string) (*tls.Certificate, error) {
	dir := CertificateDir(home)
	crt, key := filepath.Join(dir, role+".crt"), filepath.Join(dir, role+".key")
	hint := "have the server's administrator sign one for the role " + role + " (its common name), and put " + role + ".crt and " + role + ".key into " + dir + "; bourn db migrate makes the role"
	for _, at := range []string{crt, key} {
		info, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, bourn.WithHint(fmt.Errorf("%w: the database is on another server, and there is no client certificate for the role %s", bourn.ErrUnavailable, role), hint)
		}
		if err == nil && at == key && info.Mode().Perm()&0o077 != 0 {
			return nil, bourn.WithHint(fmt.Errorf("%w: others may read %s", bourn.ErrDenied, at), "chmod 600 "+at)
		}
	}
	pair, err := tls.LoadX509KeyPair(crt, key)
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("%w: the client certificate of the role %s cannot be used: %w", bourn.ErrUnavailable, role, err), hint)
	}
	return &pair, nil
}

// runSQL runs a call of records_query's.
func (g *gate) runSQL(ctx context.Context, run *gatedRun, readOnly bool, request workspace.Request, result *workspace.Raw) error {
	var in tool.RecordsQuery
	if err := json.Unmarshal(request.Input, &in); err != nil {
		return fmt.Errorf("%w: the SQL cannot be read", bourn.ErrInternal)
	}
	q := store.SQLQuery{Text: in.SQL, Parameters: in.Parameters, Limits: agentLimits}
	for tries := 0; ; tries++ {
		c, err := g.sql.connection(ctx, run, readOnly)
		if err != nil {
			return err
		}
		got, err := c.Run(ctx, q)
		if errors.Is(err, store.ErrSQLEnded) && tries < 2 && ctx.Err() == nil {
			continue // it ended unused, and nothing was done
		}
		if err != nil {
			return refusedSQL(err, in.SQL)
		}
		result.JSON, err = json.Marshal(queried(got))
		return err
	}
}

// queried is a result as it is handed out.
func queried(r *store.SQLResult) api.QueriedRecords {
	out := api.QueriedRecords{Statements: []api.QueriedStatement{}, Notices: r.Notices, Truncated: r.Truncated, Cancelled: r.Cancelled, RolledBack: r.RolledBack}
	for _, s := range r.Statements {
		one := api.QueriedStatement{Rows: s.Rows, Tag: s.Tag}
		if s.Columns != nil {
			one.Columns = []api.QueriedColumn{}
		}
		for _, c := range s.Columns {
			one.Columns = append(one.Columns, api.QueriedColumn(c))
		}
		out.Statements = append(out.Statements, one)
	}
	return out
}
