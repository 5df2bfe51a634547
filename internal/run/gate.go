package run

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"bourn"
	"bourn/internal/policy"
)

// The gate is what a run can ask Bourn: newline-delimited JSON-RPC 2.0 on
// /run/bourn/gate.sock. Whoever connects is that agent in that run. Its answers come
// from the plan that the run was started with and from nothing else: they do not tell
// whether a path exists on the host.
//
//	→ {"jsonrpc":"2.0","id":1,"method":"bourn/whoami"}
//	← {"jsonrpc":"2.0","id":1,"result":{"agent":…,"run":…,"sandbox":…,"items":[…]}}
//	→ {"jsonrpc":"2.0","id":2,"method":"bourn/explain","params":{"operation":"read","target":"/p/.env"}}
//	← {"jsonrpc":"2.0","id":2,"result":{"agent":…,"operation":…,"answer":"denied","item":{…}}}
//
// Every other method is MCP: the connection is handed to the control plane from its first
// line on, with everything after it.
type gate struct {
	tools  func() (io.ReadWriteCloser, error) // a connection to the control plane's tools; nil for none
	plan   *policy.Plan
	whole  *policy.Plan // what governed tools have besides, nil for nothing
	report func() Report
	hosts  func(*policy.Answer) // judges what a granted name resolves to
	slots  chan struct{}        // bounds how many connections are served at once
}

const (
	gateLine  = 64 << 10        // bytes in one request
	gateIdle  = 5 * time.Minute // a connection that says nothing is closed
	gateConns = 32
)

type request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func newGate(plan *policy.Plan, report func() Report, hosts func(*policy.Answer)) *gate {
	return &gate{plan: plan, report: report, hosts: hosts, slots: make(chan struct{}, gateConns)}
}

// serve answers one connection until it is closed, says nothing for long, or sends the gate
// itself a line that is too long. With all slots taken a new connection is closed at once.
func (g *gate) serve(conn net.Conn) {
	defer conn.Close()
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		return
	}
	lines := bufio.NewReaderSize(conn, gateLine)
	out := json.NewEncoder(conn)
	for first := true; ; first = false {
		_ = conn.SetDeadline(time.Now().Add(gateIdle))
		line, err := lines.ReadSlice('\n')
		if first && g.tools != nil && errors.Is(err, bufio.ErrBufferFull) {
			// Nothing of the gate's own is that long.
			_ = conn.SetDeadline(time.Time{})
			g.relay(conn, request{}, io.MultiReader(bytes.NewReader(slices.Clone(line)), lines))
			return
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return
		}
		var req request
		err = json.Unmarshal(line, &req)
		if err == nil && first && g.tools != nil && req.Method != "" && !strings.HasPrefix(req.Method, "bourn/") {
			_ = conn.SetDeadline(time.Time{})
			g.relay(conn, req, io.MultiReader(bytes.NewReader(slices.Clone(line)), lines))
			return
		}
		if err != nil {
			if out.Encode(response{Version: "2.0", ID: json.RawMessage("null"), Error: &rpcError{-32700, "not JSON"}}) != nil {
				return
			}
			continue
		}
		if req.ID == nil {
			continue // a notification is not answered
		}
		resp := response{Version: "2.0", ID: req.ID}
		resp.Result, resp.Error = g.call(req)
		if out.Encode(resp) != nil {
			return
		}
	}
}

// relay hands a connection to the control plane and carries its bytes until either side
// has gone. Where no control plane answers, the client is told so.
func (g *gate) relay(conn net.Conn, req request, from io.Reader) {
	to, err := g.tools()
	if err != nil {
		text := err.Error()
		if hint := bourn.HintOf(err); hint != "" {
			text += "; " + hint
		}
		_ = json.NewEncoder(conn).Encode(response{Version: "2.0", ID: req.ID, Error: &rpcError{-32000, bourn.Printable(text)}})
		return
	}
	carry(conn, from, to)
}

// carry copies both ways between a connection and another, and closes both when one ends.
func carry(a io.WriteCloser, fromA io.Reader, b io.ReadWriteCloser) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(b, fromA) // whichever side goes first ends it
		b.Close()
	}()
	_, _ = io.Copy(a, b)
	a.Close()
	b.Close()
	<-done
}

func (g *gate) call(req request) (any, *rpcError) {
	switch req.Method {
	case "bourn/whoami":
		return g.report(), nil
	case "bourn/explain":
		var p struct {
			Operation policy.Operation `json:"operation"`
			Target    string           `json:"target"`
		}
		if err := json.Unmarshal(req.Params, &p); err != nil {
			return nil, &rpcError{-32602, "params need operation and target"}
		}
		return g.explain(p.Operation, p.Target)
	}
	return nil, &rpcError{-32601, "unknown method: use bourn/whoami or bourn/explain"}
}

func (g *gate) explain(op policy.Operation, target string) (any, *rpcError) {
	switch op {
	case policy.OpConnect:
	case policy.OpRead, policy.OpWrite, policy.OpExec:
		if !path.IsAbs(target) {
			return nil, &rpcError{-32602, "target must be an absolute path"}
		}
	default:
		return nil, &rpcError{-32602, "operation must be read, write, exec or connect"}
	}
	a := g.plan.Explain(op, target)
	if op == policy.OpConnect && g.hosts != nil {
		g.hosts(&a)
	}
	a.Agent = string(g.report().Agent)
	if g.whole != nil && heldByTools(&a, g.whole, g.report().Items) {
		return a, nil
	}
	if a.Allowed == "denied" && (a.Item == nil || a.Item.Kind != policy.KindDeny && a.Item.Kind != policy.KindProtect) {
		a.Grant = "ask a person to run: " + explainCommand(a.Agent, op, target)
	}
	return a, nil
}

func explainCommand(agent string, op policy.Operation, target string) string {
	words := []string{"bourn", "explain"}
	if agent != "" {
		words = append(words, agent)
	}
	return strings.Join(append(words, string(op), shellQuote(target)), " ")
}

// AskGate sends one request over conn, the gate of the run that the caller is in, and
// decodes its result.
func AskGate(conn io.ReadWriter, method string, params, result any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(conn).Encode(request{Version: "2.0", ID: json.RawMessage("1"), Method: method, Params: data}); err != nil {
		return err
	}
	var resp struct {
		Result json.RawMessage `json:"result"`
		Error  *rpcError       `json:"error"`
	}
	if err := json.NewDecoder(conn).Decode(&resp); err != nil {
		return err
	}
	if resp.Error != nil {
		return &gateError{resp.Error.Message}
	}
	return json.Unmarshal(resp.Result, result)
}

// GatePath is where a run finds its gate.
const GatePath = "/run/bourn/gate.sock"

type gateError struct{ text string }

func (e *gateError) Error() string { return "the gate refused: " + e.text }

// shellQuote returns s as one word of a shell command. What a terminal could act on
// becomes $'\xHH', which bash, zsh and ksh know.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./~+=:@%,", r)
	}
	switch {
	case s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0:
		return s
	case bourn.Printable(s) == s:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < 0x20 || c > 0x7e:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return "$'" + b.String() + "'"
}
