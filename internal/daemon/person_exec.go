package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/posix"
	"bourn/internal/store"
	"bourn/internal/workspace"
)

// Limits of commands that are executed for a client of their own.
const (
	maxRunAttached = 8                // of one person's actor at once
	startWithin    = 10 * time.Second // a client may take to say what it wants
	doneWithin     = 10 * time.Second // and to take how it has ended
)

// execTool is the tool that such a command is reviewed and logged as.
const execTool = "shell_exec"

// serveExec takes over a connection on which a command is executed as a person: for
// themselves, or for an administrator.
func (s *server) serveExec(w http.ResponseWriter, r *http.Request) {
	registry, person, key, err := s.whom(r.Context(), r.PathValue("person"), r.URL.Query().Get("agent"), execTool)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	h, err := s.tools.host(r.Context(), key)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if err = h.run.attach(); err != nil {
		s.tools.unuse(h)
		s.refuse(w, r, err)
		return
	}
	leave := func() { h.run.detach(); s.tools.unuse(h) }
	conn, err := takeOver(w, r, api.ExecProtocol)
	if err != nil {
		leave()
		s.refuse(w, r, err)
		return
	}
	who, id := principalOf(r.Context()).name(), requestID(r.Context())
	s.tools.all.Go(func() {
		defer leave()
		a := &attachment{gate: s.tools, conn: conn, run: h.run, who: who, home: registry.Home(person)}
		a.serve(id)
	})
}

// whom tells as whom a client may do something, and with which actor: as themselves, or an
// administrator as anybody. What is refused is logged.
func (s *server) whom(ctx context.Context, id, agent, what string) (posix.Registry, posix.Entry, hostKey, error) {
	p, people := principalOf(ctx), s.control.people
	refuse := func(err error) (posix.Registry, posix.Entry, hostKey, error) {
		return posix.Registry{}, posix.Entry{}, hostKey{}, err
	}
	if _, local := ctx.Value(peerKey).(Peer); p.member == nil || !local {
		return refuse(fmt.Errorf("%w: who acts as a person comes in by the local socket", bourn.ErrDenied))
	}
	if people == nil {
		return refuse(bourn.WithHint(fmt.Errorf("%w: this is no shared host", bourn.ErrNotFound), "bourn run executes a command under a seal"))
	}
	member, known := people.memberOf(id)
	if !p.member.Administrator && (!known || member != p.member.ID) {
		err := s.control.log.Refused(ctx, audit.Entry{Kind: audit.KindAction, Who: p.name(), What: what, Target: bourn.Printable(id), By: "administrators and the person only"})
		return refuse(errors.Join(err, bourn.WithHint(fmt.Errorf("%w: only an administrator acts as another person", bourn.ErrDenied), "ask an administrator")))
	}
	if !known {
		return refuse(bourn.WithHint(fmt.Errorf("%w: nobody is known as %q", bourn.ErrNotFound, id), "bourn people list shows who there is"))
	}
	key := hostKey{member: member}
	if agent != "" {
		var err error
		if key.agent, err = bourn.ParseAgentName(agent); err != nil {
			return refuse(err)
		}
	}
	registry, person, err := people.entry(member)
	key.dir = registry.Home(person)
	return registry, person, key, err
}

// memberOf returns the member that a person is, by the person's id.
func (p *people) memberOf(person string) (store.MemberID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.registry.People, func(e posix.Entry) bool { return e.ID == person && e.Member != "" })
	if i < 0 {
		return store.MemberID{}, false
	}
	id, err := memberID(p.registry.People[i].Member)
	return id, err == nil
}

// attach counts a command that is executed for a client of its own.
func (r *gatedRun) attach() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attached >= maxRunAttached {
		return bourn.WithHint(fmt.Errorf("%w: the person has %d commands running so already", bourn.ErrUnavailable, maxRunAttached), "end one of them")
	}
	r.attached++
	return nil
}

func (r *gatedRun) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attached--
}

// An attachment is a client whose command is executed.
type attachment struct {
	gate *gate
	conn net.Conn
	run  *gatedRun
	who  string
	home string

	sending sync.Mutex
}

// serve executes what the client asks for, until that or the client has ended.
func (a *attachment) serve(request string) {
	defer a.conn.Close()
	ctx, cancel := context.WithCancel(a.gate.ctx)
	defer cancel()
	// Who has gone, or takes nothing, is not waited for.
	stop := context.AfterFunc(ctx, func() { a.conn.Close() })
	result, err := a.execute(ctx, cancel)
	if !stop() {
		return
	}
	done := api.Executed{Status: result.Status, Signal: result.Signal}
	if err != nil {
		p := problemOf(context.WithValue(ctx, requestIDKey, request), a.gate.control.config.Log, err)
		done = api.Executed{Problem: &p.Problem}
	}
	_ = a.conn.SetWriteDeadline(time.Now().Add(doneWithin))
	_ = a.send(func() error { return api.WriteExecOf(a.conn, api.ExecDone, done) })
}

func (a *attachment) send(f func() error) error {
	a.sending.Lock()
	defer a.sending.Unlock()
	return f()
}

// execute reviews the command, logs it, and has it executed.
func (a *attachment) execute(ctx context.Context, gone func()) (result workspace.ExecResult, err error) {
	g := a.gate
	request, err := a.asked()
	if err != nil {
		return result, err
	}
	entry := audit.Entry{ID: audit.NewID(), Kind: audit.KindAction, Who: a.who, For: a.run.member.String(), Agent: string(a.run.agent), Run: a.run.run, What: execTool}
	review, noted, err := g.grant(ctx, a.run, g.known[execTool], request, &entry)
	if err != nil {
		return result, err
	}
	began := time.Now()
	command, err := a.run.actor.Attach(ctx, request, review, func(b []byte, errs bool) {
		kind := api.ExecOutput
		if errs {
			kind = api.ExecErrors
		}
		if a.send(func() error { return api.WriteExec(a.conn, kind, b) }) != nil {
			gone()
		}
	})
	var raw workspace.Raw
	if err == nil {
		var pumps sync.WaitGroup
		ended := make(chan struct{})
		pieces := make(chan []byte, api.ExecWindow)
		pumps.Go(func() { a.listen(command, pieces, ended, gone) })
		pumps.Go(func() { a.feed(command, pieces, ended) })
		err = command.Wait(&raw)
		close(ended)
		_ = a.conn.SetReadDeadline(time.Now()) // nothing more is wanted of the client
		pumps.Wait()
	}
	g.ended(entry, noted, time.Since(began), raw.JSON, err)
	if err == nil {
		err = raw.Into(&result)
	}
	return result, err
}

// asked reads what the client wants.
func (a *attachment) asked() (q workspace.Request, err error) {
	if err := a.conn.SetReadDeadline(time.Now().Add(startWithin)); err != nil {
		return q, err
	}
	kind, b, err := api.ReadExec(a.conn)
	if err != nil || kind != api.ExecStart {
		return q, fmt.Errorf("%w: the client does not say what is to be executed", bourn.ErrInvalid)
	}
	var e api.Exec
	if err := api.DecodeExec(b, &e); err != nil {
		return q, err
	}
	if len(e.Command) == 0 {
		return q, fmt.Errorf("%w: there is no command", bourn.ErrInvalid)
	}
	q = workspace.Request{Tool: execTool, Verb: workspace.Exec, Argv: e.Command, Cwd: e.Dir, Pty: e.Terminal, Attached: true}
	if !filepath.IsAbs(q.Cwd) {
		q.Cwd = filepath.Join(a.home, q.Cwd)
	}
	if e.Terminal {
		q.Size = workspace.Size(e.Size)
		q.Env = []string{"TERM=" + e.Term}
	}
	return q, a.conn.SetReadDeadline(time.Time{})
}

// listen takes what the client sends until the command has ended. A client that has gone, or
// does not keep to the protocol, ends it.
func (a *attachment) listen(command *workspace.Attached, pieces chan<- []byte, ended <-chan struct{}, gone func()) {
	for {
		kind, b, err := api.ReadExec(a.conn)
		select {
		case <-ended:
			return
		default:
		}
		if err == nil {
			err = a.took(command, kind, b, pieces)
		}
		if err != nil {
			gone()
			return
		}
	}
}

// took handles a frame of the client's.
func (a *attachment) took(command *workspace.Attached, kind api.ExecKind, b []byte, pieces chan<- []byte) error {
	switch kind {
	case api.ExecInput, api.ExecEnd:
		if kind == api.ExecEnd {
			b = nil
		} else if len(b) == 0 || len(b) > api.ExecPiece {
			return errProtocol
		}
		select {
		case pieces <- b:
			return nil
		default: // more than may be on its way
			return errProtocol
		}
	case api.ExecResize:
		var size api.ExecSize
		if err := api.DecodeExec(b, &size); err != nil {
			return err
		}
		return command.Resize(workspace.Size(size))
	case api.ExecStart, api.ExecTaken, api.ExecOutput, api.ExecErrors, api.ExecDone:
	}
	return errProtocol
}

var errProtocol = fmt.Errorf("%w: the client does not keep to the protocol", bourn.ErrInvalid)

// feed has the command read what the client sent.
func (a *attachment) feed(command *workspace.Attached, pieces <-chan []byte, ended <-chan struct{}) {
	for {
		select {
		case b := <-pieces:
			send := command.End
			if b != nil {
				send = func() error { return command.Send(b) }
			}
			if send() != nil || a.send(func() error { return api.WriteExec(a.conn, api.ExecTaken, nil) }) != nil {
				return // it has ended
			}
		case <-ended:
			return
		}
	}
}
