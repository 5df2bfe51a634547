package review

import (
	"bytes"
	"encoding/json"

	"bourn"
)

// The wire form of a document, keys in the order in which they are written.
type (
	wireDocument struct {
		Version    int        `json:"version"`
		HardBlocks []wireRule `json:"hardBlocks"`
	}
	wireRule struct {
		ID         string            `json:"id"`
		Enabled    bool              `json:"enabled"`
		Type       RuleType          `json:"type"`
		Pattern    string            `json:"pattern"`
		Match      Match             `json:"match"`
		Operations []bourn.Operation `json:"operations"`
		Reason     string            `json:"reason,omitempty"`
		Examples   *wireExamples     `json:"examples,omitempty"`
	}
	wireExamples struct {
		Blocks []string `json:"blocks,omitempty"`
		Passes []string `json:"passes,omitempty"`
	}
)

// Encode returns the canonical form of the document: one line, every default written out,
// keys and operations in a fixed order, rules in theirs. Parse reads it back to the same.
func (b Boundaries) Encode() []byte {
	doc := wireDocument{Version: b.Version, HardBlocks: []wireRule{}}
	for _, r := range b.HardBlocks {
		w := wireRule{r.ID, r.Enabled, r.Type, r.Pattern, r.Match, r.Operations, r.Reason, nil}
		if len(r.Blocks)+len(r.Passes) > 0 {
			w.Examples = &wireExamples{r.Blocks, r.Passes}
		}
		doc.HardBlocks = append(doc.HardBlocks, w)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(doc); err != nil {
		panic(err) // strings, numbers and booleans: cannot happen
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
