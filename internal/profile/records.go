package profile

import (
	"slices"

	"bourn/internal/policy"

	"go.yaml.in/yaml/v3"
)

// records decodes what the agent does with the company's records.
func (d *decoder) records(where string, n *yaml.Node) {
	words := []string{string(policy.RecordsRead), string(policy.RecordsWrite)}
	word, ok := d.line(n, where, "read or write")
	switch {
	case !ok:
	case !slices.Contains(words, word):
		d.fail(n, "unknown %s %q%s", where, word, didYouMean(word, words))
	default:
		d.p.Records = policy.Records(word)
	}
}
