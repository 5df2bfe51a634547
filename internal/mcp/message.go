package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A message is what a client sent, read once: what is judged is what is dispatched.
type message struct {
	id     jsonrpc.ID // not valid: a notification
	raw    json.RawMessage
	method string
	params json.RawMessage
	reply  bool // an answer, which nobody asked for
}

// A fault is why a message is refused, and whose call it was where that is known.
type fault struct {
	id   json.RawMessage // nil: not known
	code int64
	text string
}

// encode is the answer that says so.
func (f *fault) encode() []byte {
	id := f.id
	if id == nil {
		id = json.RawMessage("null")
	}
	data, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{"2.0", id, map[string]any{"code": f.code, "message": f.text}})
	if err != nil { // an id that is no JSON
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not a message"}}`)
	}
	return data
}

// MetaPrefix begins the keys of _meta that are Bourn's own. What a client sends under one
// is taken out before anything reads it.
const MetaPrefix = "bourn/"

// knownKeys are those whose case is held to: another reader might take "Method" for
// "method".
var (
	envelopeKeys = []string{"jsonrpc", "id", "method", "params", "result", "error"}
	paramsKeys   = []string{"name", "arguments", "_meta", "cursor", "requestId", "protocolVersion", "capabilities", "clientInfo", "inputResponses", "requestState"}
	metaKeys     = []string{"progressToken"}
)

// A reader reads one message, by its keys.
type reader struct {
	*jsontext.Decoder
	message
	line    []byte
	problem *fault // the first thing that is wrong with what is JSON
	own     bool   // its _meta has keys of Bourn's own
	version bool
	methods bool
}

// parse reads one message of a client's.
func parse(line []byte) (message, *fault) {
	r := &reader{line: line, Decoder: jsontext.NewDecoder(bytes.NewBuffer(line), jsontext.AllowDuplicateNames(false))}
	if r.PeekKind() == '[' {
		return message{}, &fault{nil, jsonrpc.CodeInvalidRequest, "batches are not taken: send a message a line"}
	}
	err := r.object(r.envelope)
	if err == nil {
		err = r.ended()
	}
	switch {
	case errors.Is(err, errNoObject):
		r.wrong(jsonrpc.CodeInvalidRequest, "a message is an object")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return message{}, &fault{claimedID(line), jsonrpc.CodeInvalidRequest, "a key is there twice"}
	case err != nil:
		return message{}, &fault{nil, jsonrpc.CodeParseError, "not JSON"}
	case !r.version:
		r.wrong(jsonrpc.CodeInvalidRequest, `jsonrpc must be "2.0"`)
	case !r.reply && (!r.methods || r.method == ""):
		r.wrong(jsonrpc.CodeInvalidRequest, "method is missing")
	case r.id.IsValid() && strings.HasPrefix(r.method, "notifications/"):
		r.wrong(jsonrpc.CodeInvalidRequest, "a notification has no id") // the SDK would act on it
	}
	if r.problem != nil {
		r.problem.id = r.raw
		return message{}, r.problem
	}
	if r.own {
		r.params = withoutOwn(r.params)
	}
	return r.message, nil
}

var errNoObject = errors.New("no object")

// object reads an object, with f for each key's value.
func (r *reader) object(f func(key string) error) error {
	if r.PeekKind() != '{' {
		if err := r.SkipValue(); err != nil {
			return err
		}
		return errNoObject
	}
	if _, err := r.ReadToken(); err != nil {
		return err
	}
	for r.PeekKind() == '"' {
		key, err := r.ReadToken()
		if err != nil {
			return err
		}
		if err := f(key.String()); err != nil {
			return err
		}
	}
	_, err := r.ReadToken()
	return err
}

// ended wants nothing after the message.
func (r *reader) ended() error {
	if _, err := r.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("something follows")
	}
	return nil
}

func (r *reader) wrong(code int64, text string) {
	if r.problem == nil {
		r.problem = &fault{code: code, text: text}
	}
}

// held reports whether a key is one of known; one that differs in its case is wrong.
func (r *reader) held(key string, known []string) bool {
	if slices.Contains(known, key) {
		return true
	}
	if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, key) }) {
		r.wrong(jsonrpc.CodeInvalidRequest, "a key differs from a known one in its case only: keys are compared with their case")
	}
	return false
}

func (r *reader) envelope(key string) error {
	if !r.held(key, envelopeKeys) {
		return r.SkipValue()
	}
	switch key {
	case "id":
		value, err := r.ReadValue()
		if err != nil {
			return err
		}
		return r.readID(value)
	case "jsonrpc":
		value, err := r.ReadValue()
		r.version = string(value) == `"2.0"`
		return err
	case "method":
		if r.PeekKind() != '"' {
			r.wrong(jsonrpc.CodeInvalidRequest, "method is a text")
			return r.SkipValue()
		}
		token, err := r.ReadToken()
		if err == nil {
			r.method, r.methods = token.String(), true
		}
		return err
	case "params":
		return r.readParams()
	}
	r.reply = true // result and error
	return r.SkipValue()
}

// maxID is how long an id may be, in bytes; a number fits where every reader has the same.
const maxID = 256

var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,14})$`)

// readID reads an id that is the same to every reader: a short text, or a whole number.
func (r *reader) readID(value jsontext.Value) error {
	var v any
	switch {
	case value.Kind() == '"' && len(value) <= maxID:
		if err := json.Unmarshal(value, &v); err != nil {
			return err
		}
	case wholeNumber.Match(value):
		n, err := strconv.ParseFloat(string(value), 64)
		if err != nil {
			return err
		}
		v = n
	default:
		r.wrong(jsonrpc.CodeInvalidRequest, "an id is a text of at most 256 bytes or a whole number of at most 15 digits")
		return nil
	}
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		return err
	}
	r.id, r.raw = id, json.RawMessage(bytes.Clone(value))
	return nil
}

func (r *reader) readParams() error {
	kind := r.PeekKind() // InputOffset is before blanks otherwise
	start := r.InputOffset()
	err := r.object(func(key string) error {
		if !r.held(key, paramsKeys) || key != "_meta" {
			return r.SkipValue()
		}
		err := r.object(func(key string) error {
			r.held(key, metaKeys)
			r.own = r.own || isOwn(key)
			return r.SkipValue()
		})
		if errors.Is(err, errNoObject) {
			r.wrong(jsonrpc.CodeInvalidParams, "_meta is an object")
			return nil
		}
		return err
	})
	if errors.Is(err, errNoObject) {
		if kind != 'n' {
			r.wrong(jsonrpc.CodeInvalidParams, "params is an object")
		}
		return nil
	}
	if err != nil {
		return err
	}
	whole := r.line[start:r.InputOffset()]
	r.params = bytes.Clone(whole[bytes.IndexByte(whole, '{'):])
	return nil
}

// isOwn reports whether a key of _meta is Bourn's own, however it is written.
func isOwn(key string) bool {
	return len(key) >= len(MetaPrefix) && strings.EqualFold(key[:len(MetaPrefix)], MetaPrefix) || strings.EqualFold(key+"/", MetaPrefix)
}

// withoutOwn returns params without the keys of _meta that are Bourn's own.
func withoutOwn(params json.RawMessage) json.RawMessage {
	var all, meta map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil || json.Unmarshal(all["_meta"], &meta) != nil {
		return nil // it was read as both already
	}
	for key := range meta {
		if isOwn(key) {
			delete(meta, key)
		}
	}
	kept, err := json.Marshal(meta)
	if err != nil {
		return nil
	}
	all["_meta"] = kept
	if kept, err = json.Marshal(all); err != nil {
		return nil
	}
	return kept
}

// What an id looks like before or after everything else in a message that is not read.
var (
	idFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?[0-9]{1,15}|"[^"\\]{0,200}")\s*[,}]`)
	idLast  = regexp.MustCompile(`[,{]\s*"id"\s*:\s*(-?[0-9]{1,15}|"[^"\\]{0,200}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// claimedID is the id that a message that cannot be taken seems to have, so that its call
// fails instead of waiting; nil where it is not plain. Its sender could only deceive
// himself.
func claimedID(line []byte) json.RawMessage {
	return claimed(line[:min(len(line), ends)], line[max(0, len(line)-ends):])
}

// ends is how much of a message's beginning and end is looked at.
const ends = 512

func claimed(head, tail []byte) json.RawMessage {
	first, last := idFirst.FindSubmatch(head), idLast.FindSubmatch(tail)
	switch {
	case first != nil && last != nil && !bytes.Equal(first[1], last[1]):
		return nil
	case first != nil:
		return bytes.Clone(first[1])
	case last != nil:
		return bytes.Clone(last[1])
	}
	return nil
}
