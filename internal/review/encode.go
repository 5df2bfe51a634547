package review

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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

// readCanonical reads what Encode wrote, and refuses what could not be of it.
func readCanonical(text []byte) (Boundaries, error) {
	var doc wireDocument
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return Boundaries{}, errors.New("the document cannot be read")
	}
	if doc.Version != version || doc.HardBlocks == nil {
		return Boundaries{}, errors.New("the document is of another version of bourn")
	}
	b := NoRules()
	for i, w := range doc.HardBlocks {
		r := HardBlock{ID: w.ID, Enabled: w.Enabled, Type: w.Type, Pattern: w.Pattern, Match: w.Match, Operations: w.Operations, Reason: w.Reason}
		if w.Examples != nil {
			r.Blocks, r.Passes = w.Examples.Blocks, w.Examples.Passes
		}
		if !r.known() {
			return Boundaries{}, fmt.Errorf("rule %d has a word that is not known", i)
		}
		b.HardBlocks = append(b.HardBlocks, r)
	}
	return b, nil
}

// known reports whether a rule is made of words that this version knows.
func (r *HardBlock) known() bool {
	return validID(r.ID) && (r.Type == PathRule || r.Type == CommandRule) && r.Pattern != "" && len(r.Operations) > 0 &&
		slices.Contains([]Match{Exact, Prefix, Glob, Regex, Contains}, r.Match) &&
		!slices.ContainsFunc(r.Operations, func(o bourn.Operation) bool { return opBit(o) == 0 })
}
