package cli

import (
	"fmt"
	"io"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/run"
	"bourn/internal/skill"
)

// printContext prints what an agent is offered, apart from what it is granted.
func printContext(w io.Writer, offers []run.Offer) {
	if len(offers) == 0 {
		return
	}
	fmt.Fprintf(w, "\nCONTEXT  selects what is offered; it grants nothing\n")
	for _, o := range offers {
		what := string(o.Part)
		if o.Part == skill.OfSkill {
			what += " " + o.Name
		}
		if o.BuiltIn {
			what += ", Bourn's own"
		}
		fmt.Fprintf(w, "  %s %s: %s\n", marks[o.Fate], bourn.Printable(what), bourn.Printable(o.Path))
		if o.Fate == policy.Dropped {
			fmt.Fprintf(w, "      dropped — %s\n", bourn.Printable(o.Reason))
		} else if o.Description != "" {
			fmt.Fprintf(w, "      %s\n", bourn.Printable(o.Description))
		}
	}
}

// granted returns a report without what context offers.
func granted(r run.Report) run.Report {
	var items []policy.Item
	for _, it := range r.Items {
		if it.From != policy.FromContext {
			items = append(items, it)
		}
	}
	r.Items = items
	return r
}
