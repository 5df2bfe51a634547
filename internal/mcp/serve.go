package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"bourn"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// An Answer is what came of a call, as a model reads it.
type Answer struct {
	Text   string
	Failed bool
	// Entry names the call in the log.
	Entry string
}

// An Offer is a tool as it is offered. Every hint is sent: clients that find one missing
// assume the worst.
type Offer struct {
	Name, Title, Description string
	Input                    any // a JSON schema
	ReadOnly, Destructive    bool
	Idempotent, OpenWorld    bool
}

// A Server is what one agent's client in one run is offered.
type Server struct {
	Version string
	// Instructions returns what a model is told, whenever a client begins; nil tells nothing.
	Instructions func() string
	Offers       []Offer // in any order: they are listed by name
	// Call performs a call of one of Offers; input is its arguments as they were sent.
	// Progress, if not nil, may be told output as it comes, until Call returns.
	Call func(ctx context.Context, name string, input []byte, progress func([]byte)) Answer
	// Shown says which of Offers are listed, at each listing; nil lists all. A call of what is
	// not listed is Call's to refuse.
	Shown func(name string) bool
	// Unsupported is told of a call of a tool that there is not.
	Unsupported func(ctx context.Context, name string)
	Log         *slog.Logger
	Budget      *Budget // of what is asked; nil for none
	Answers     *Budget // of long answers that are not taken yet; likewise
}

// maxText is the longest answer, in bytes: clients hold whole messages.
const maxText = 8 << 20

// listFor is how long a client may keep a list, in milliseconds: grants change.
const listFor = 5000

// Serve answers a client on conn until it goes or ctx ends, and closes conn. When it
// returns, no call is being performed.
func (s *Server) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := newStream(conn, s.Budget, s.Answers)
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	session, err := s.server(stream).Connect(ctx, stream, nil)
	if err != nil {
		return err
	}
	err = session.Wait()
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

// server makes the SDK's server for what comes in by a lane.
func (s *Server) server(by lane) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "bourn", Title: "Bourn", Version: s.Version}, &sdk.ServerOptions{
		Logger: s.Log, PageSize: 1000,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope, c.TTLMs = "private", listFor },
	})
	known := map[string]bool{}
	for _, o := range s.Offers {
		known[o.Name] = true
		server.AddTool(o.wire(), s.handler(o.Name, by))
	}
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			call, ok := req.(*sdk.CallToolRequest)
			if !ok {
				result, err := next(ctx, method, req)
				s.narrow(result)
				return result, err
			}
			if !known[call.Params.Name] {
				return nil, s.unsupported(ctx, call.Params.Name)
			}
			if err := by.begin(ctx, call.Extra); err != nil {
				return nil, err
			}
			return next(ctx, method, req)
		}
	})
	return server
}

// narrow takes what is not shown out of a list, and has a client told what holds now.
func (s *Server) narrow(result sdk.Result) {
	if begun, ok := result.(*sdk.InitializeResult); ok && begun != nil && s.Instructions != nil {
		begun.Instructions = s.Instructions()
	}
	if begun, ok := result.(*sdk.DiscoverResult); ok && begun != nil && s.Instructions != nil { // the newer era's
		begun.Instructions = s.Instructions()
	}
	if list, ok := result.(*sdk.ListToolsResult); ok && list != nil && s.Shown != nil {
		list.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *sdk.Tool) bool { return !s.Shown(t.Name) })
	}
}

// maxName is how much of a name that is no tool's is said.
const maxName = 128

// unsupported is the answer to a call of what is no tool.
func (s *Server) unsupported(ctx context.Context, name string) error {
	if len(name) > maxName {
		name = name[:maxName]
	}
	name = bourn.Printable(name)
	if s.Unsupported != nil {
		s.Unsupported(ctx, name)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unsupported_tool: there is no tool %q", name)}
}

func (o Offer) wire() *sdk.Tool {
	return &sdk.Tool{Name: o.Name, Title: o.Title, Description: o.Description, InputSchema: o.Input,
		Annotations: &sdk.ToolAnnotations{Title: o.Title, ReadOnlyHint: o.ReadOnly, DestructiveHint: &o.Destructive, IdempotentHint: o.Idempotent || o.ReadOnly, OpenWorldHint: &o.OpenWorld}}
}

func (s *Server) handler(name string, by lane) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var input json.RawMessage
		if req.Params.Arguments != nil {
			input = req.Params.Arguments
		}
		ctx, cancel := withGone(ctx)
		defer cancel()
		var tell func([]byte)
		if token := req.Params.GetProgressToken(); token != nil {
			tell = newProgress(ctx, req.Session, token).tell
		}
		a := s.Call(ctx, name, input, tell)
		if len(a.Text) > maxText {
			a = Answer{Text: fmt.Sprintf("invalid (too_large): the answer has more than %d bytes\nhint: ask for less", maxText), Failed: true, Entry: a.Entry}
		}
		if len(a.Text) > smallAnswer && !by.hold(ctx, req.Extra, len(a.Text)) {
			a = Answer{Text: notTaken, Failed: true, Entry: a.Entry}
		}
		r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Text}}, IsError: a.Failed}
		if a.Entry != "" {
			r.Meta = sdk.Meta{MetaPrefix + "entry": a.Entry}
		}
		return r, nil
	}
}
