package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestForgedMeta has keys of Bourn's own be taken out, and nothing else.
func TestForgedMeta(t *testing.T) {
	for meta, want := range map[string]string{
		`{"bourn/caller":{"agent":"other"},"progressToken":1}`:                    `{"progressToken":1}`,
		`{"BOURN/caller":1,"bourn/":2,"bourn":3,"bournish":4,"x":"bourn/caller"}`: `{"bournish":4,"x":"bourn/caller"}`,
		`{"\u0062ourn/caller":1}`: `{}`,
	} {
		m, f := parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":` + meta + `,"arguments":{"_meta":{"bourn/x":1}}}}`))
		if f != nil {
			t.Fatal(f)
		}
		var p struct {
			Name      string
			Meta      json.RawMessage `json:"_meta"`
			Arguments json.RawMessage
		}
		if err := json.Unmarshal(m.params, &p); err != nil || string(p.Meta) != want || p.Name != "t" || string(p.Arguments) != `{"_meta":{"bourn/x":1}}` {
			t.Errorf("%s: %v: %s", meta, err, m.params)
		}
	}
}

// FuzzMessage holds what is taken to be what the SDK takes it for.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{hello, slowCall, `{"jsonrpc":"2.0","id":"a","method":"x","params":null}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"bourn/a":1}}}`,
		`{"id":1,"id":2}`, `{"jsonrpc":"2.0","id":1,"method":"a","Params":{}}`, `{"jsonrpc" : "2.0" , "method":"m", "params" : { "a":[1,2,{"b":{}}]} , "id":-0}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, bad := parse(line)
		if bad != nil {
			if bad.id != nil && !json.Valid(bad.id) {
				t.Errorf("%q: the id %q", line, bad.id)
			}
			return
		}
		if m.reply {
			return
		}
		other, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			t.Fatalf("%q is taken here, and not there: %v", line, err)
		}
		r, ok := other.(*jsonrpc.Request)
		if !ok || r.Method != m.method || r.ID != m.id {
			t.Fatalf("%q is %+v here, and %+v there", line, m, other)
		}
		if m.params != nil && !strings.Contains(strings.ToLower(string(line)), "ourn") && string(r.Params) != string(m.params) {
			t.Fatalf("%q has the params %s here, and %s there", line, m.params, r.Params)
		}
	})
}
