package run

import (
	"strings"

	"bourn/internal/policy"
)

// AbsentInside reports, inside a seal, whether an answer allows to read or execute what is
// not there: it lies in a place of the run's own, and the host's is not shown.
func (e *Explanation) AbsentInside() bool {
	return e.Allowed == "allowed" && e.Item != nil && strings.HasSuffix(e.Item.Target, ownPlace) &&
		(e.Operation == policy.OpRead || e.Operation == policy.OpExec) && !exists(e.Resolved)
}

// Absent corrects such an answer. Items are those of the run's report.
func (e *Explanation) Absent(items []policy.Item) {
	at, _ := strings.CutSuffix(e.Item.Target, ownPlace)
	e.Allowed, e.Item = "denied", everythingElse(items)
	e.Notes = append(e.Notes, "it does not exist inside: the run has a "+at+" of its own, and "+e.Resolved+" of the host is not granted")
	e.Grant = "ask a person to run: " + explainCommand(e.Agent, e.Operation, e.Resolved)
}

// everythingElse returns the item for what is not granted, or nil.
func everythingElse(items []policy.Item) *policy.Item {
	for i := range items {
		if it := &items[i]; it.Kind == policy.KindDefault && strings.HasPrefix(it.Target, "files: ") {
			return it
		}
	}
	return nil
}
