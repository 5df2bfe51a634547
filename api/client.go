package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"bourn"
)

// SocketName is the local socket's name in $BOURN_HOME.
const SocketName = "bourn.sock"

// SharedSocket is the local socket of the control plane of a shared host.
const SharedSocket = "/run/bourn/bourn.sock"

// maxAnswer bounds an answer that is read into memory, in bytes.
const maxAnswer = 64 << 20

// A Client asks a control plane. Its zero value is of no use: see NewClient and
// NewSocketClient.
type Client struct {
	http   *http.Client
	dial   func(ctx context.Context) (net.Conn, error) // of a local socket; nil for none
	base   string
	bearer string
	where  string // for errors
}

// NewSocketClient returns a client of the control plane whose local socket is at path.
// Who asks is who runs the program: the kernel says so.
func NewSocketClient(path string) *Client {
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	transport := &http.Transport{MaxIdleConns: 4, IdleConnTimeout: time.Minute,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	return &Client{http: &http.Client{Transport: transport}, dial: dial, base: "http://bourn", where: path}
}

// NewClient returns a client of the control plane at a URL, as in http://localhost:7720,
// which presents a bearer token.
func NewClient(base, bearer string) *Client {
	return &Client{http: &http.Client{}, base: strings.TrimRight(base, "/"), bearer: bearer, where: base}
}

// Close closes the connections that are kept for what may be asked next.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Health asks whether the control plane does its work.
func (c *Client) Health(ctx context.Context) (h Health, err error) {
	return h, c.Do(ctx, "GET", "/v1/health", nil, &h)
}

// Status asks what the control plane is doing.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.Do(ctx, "GET", "/v1/status", nil, &s)
}

// Boundaries asks for the hard blocks in force.
func (c *Client) Boundaries(ctx context.Context) (b Boundaries, err error) {
	return b, c.Do(ctx, "GET", "/v1/boundaries", nil, &b)
}

// SaveBoundaries saves a new version of the hard blocks.
func (c *Client) SaveBoundaries(ctx context.Context, s SaveBoundaries) (b Boundaries, err error) {
	return b, c.Do(ctx, "PUT", "/v1/boundaries", s, &b)
}

// BoundariesHistory asks for the newest versions of the hard blocks.
func (c *Client) BoundariesHistory(ctx context.Context, most int) (h BoundariesHistory, err error) {
	return h, c.Do(ctx, "GET", fmt.Sprintf("/v1/boundaries/history?most=%d", most), nil, &h)
}

// TestBoundaries asks which hard blocks an action meets.
func (c *Client) TestBoundaries(ctx context.Context, t TestBoundaries) (r TestedBoundaries, err error) {
	return r, c.Do(ctx, "POST", "/v1/boundaries/test", t, &r)
}

// Log asks for lines of the log. Its query has the keys after, run, agent, kind,
// outcome, since, most and newest.
func (c *Client) Log(ctx context.Context, query url.Values) (l LogLines, err error) {
	return l, c.Do(ctx, "GET", "/v1/log?"+query.Encode(), nil, &l)
}

// VerifyLog asks for a verification of the whole log.
func (c *Client) VerifyLog(ctx context.Context, v VerifyLog) (r VerifiedLog, err error) {
	return r, c.Do(ctx, "POST", "/v1/log/verify", v, &r)
}

// DiagnosticsTokens asks for all diagnostics tokens.
func (c *Client) DiagnosticsTokens(ctx context.Context) (t DiagnosticsTokens, err error) {
	return t, c.Do(ctx, "GET", "/v1/diagnostics-tokens", nil, &t)
}

// NewDiagnosticsToken makes a diagnostics token.
func (c *Client) NewDiagnosticsToken(ctx context.Context, n NewDiagnosticsToken) (t DiagnosticsToken, err error) {
	return t, c.Do(ctx, "POST", "/v1/diagnostics-tokens", n, &t)
}

// RevokeDiagnosticsToken ends a diagnostics token.
func (c *Client) RevokeDiagnosticsToken(ctx context.Context, id string) error {
	return c.Do(ctx, "DELETE", "/v1/diagnostics-tokens/"+url.PathEscape(id), nil, nil)
}

// Share copies a person's file or directory into a circle.
func (c *Client) Share(ctx context.Context, person string, q Share) (s Shared, err error) {
	err = c.Do(ctx, http.MethodPost, "/v1/people/"+url.PathEscape(person)+"/share", q, &s)
	return s, err
}

// AgentTokens asks for the agent tokens of who asks.
func (c *Client) AgentTokens(ctx context.Context) (t AgentTokens, err error) {
	return t, c.Do(ctx, "GET", "/v1/agent-tokens", nil, &t)
}

// NewAgentToken makes an agent token.
func (c *Client) NewAgentToken(ctx context.Context, n NewAgentToken) (t AgentToken, err error) {
	return t, c.Do(ctx, "POST", "/v1/agent-tokens", n, &t)
}

// RevokeAgentToken ends an agent token.
func (c *Client) RevokeAgentToken(ctx context.Context, id string) error {
	return c.Do(ctx, "DELETE", "/v1/agent-tokens/"+url.PathEscape(id), nil, nil)
}

// Do asks for anything of the interface: body is sent as JSON unless it is nil, and the
// answer is read into answer unless that is nil. An error that the server sent is one
// of the root package's, with its hint; a server that does not answer is ErrUnavailable.
func (c *Client) Do(ctx context.Context, method, path string, body, answer any) error {
	r, err := c.Stream(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err != nil {
		return c.unreachable(err)
	}
	if len(data) > maxAnswer {
		return fmt.Errorf("%w: the answer has more than %d bytes", bourn.ErrUnavailable, maxAnswer)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%w: cannot read the answer of %s: %w", bourn.ErrUnavailable, c.where, err)
	}
	return nil
}

// Stream is Do for an answer that is read as it comes.
func (c *Client) Stream(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, problem(resp)
}

// unreachable says that the server does not answer, and what to do.
func (c *Client) unreachable(err error) error {
	hint := "start it with `bourn serve`, or `make up` in a checkout"
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" || errors.Is(err, fs.ErrPermission) {
		hint = "see `bourn doctor`"
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return bourn.WithHint(fmt.Errorf("%w: the control plane at %s does not answer: %w", bourn.ErrUnavailable, c.where, err), hint)
}

// problem reads an error that the server sent.
func problem(resp *http.Response) error {
	var p Problem
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(data, &p) != nil || p.Code == "" {
		return fmt.Errorf("%w: the control plane answered %s", bourn.ErrUnavailable, resp.Status)
	}
	return &Error{p}
}

// An Error is a problem that the server sent, as a Go error.
type Error struct{ Problem Problem }

func (e *Error) Error() string {
	text := e.Problem.Detail
	for _, d := range e.Problem.Errors {
		text += "\n  "
		if at := d.Code; at != "" {
			text += at + ": "
		} else if d.Location != "" {
			text += d.Location + ": "
		}
		text += d.Message
	}
	if e.Problem.Code == string(bourn.CodeInternal) && e.Problem.Instance != "" {
		text += " (the control plane's log has it under " + e.Problem.Instance + ")"
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = bourn.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the sentinel of the problem's code, with its hint.
func (e *Error) Unwrap() error {
	return bourn.WithHint(bourn.Code(e.Problem.Code).Err(), e.Problem.Hint)
}

// Upgrade asks the server to take the connection over for another protocol (RFC 9110,
// section 7.8), and returns it once it has.
func (c *Client) Upgrade(ctx context.Context, path, protocol string) (net.Conn, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	if c.dial == nil {
		return nil, fmt.Errorf("%w: only a local socket is taken over", bourn.ErrInvalid)
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, c.unreachable(err)
	}
	// The answer's head has the time that ctx gives; what follows has all the time it needs.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // the connection is closed, then
	if err := req.Write(conn); err != nil {
		return nil, errors.Join(c.unreachable(err), conn.Close())
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, errors.Join(c.unreachable(err), conn.Close())
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, errors.Join(problem(resp), conn.Close())
	}
	if !stop() {
		return nil, errors.Join(c.unreachable(ctx.Err()), conn.Close())
	}
	return &upgraded{conn, r}, nil
}

// upgraded is a connection whose first bytes may have been read with the answer's head.
type upgraded struct {
	net.Conn
	r *bufio.Reader
}

func (u *upgraded) Read(p []byte) (int, error) { return u.r.Read(p) }

// CloseWrite tells the server that nothing more comes.
func (u *upgraded) CloseWrite() error {
	if half, ok := u.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return u.Close()
}
