package policy

import (
	"fmt"
	"slices"

	"bourn"
)

// Records says what a run does with the company's records, by governed tools and as the member
// that it acts for. The zero value is nothing.
type Records string

// What may be done, less to more.
const (
	RecordsNone  Records = ""
	RecordsRead  Records = "read"
	RecordsWrite Records = "write"
)

// recordsOrder lists them, the least first.
var recordsOrder = []Records{RecordsNone, RecordsRead, RecordsWrite}

// NoRecords is how a narrowing says that a subagent has none, whatever its parent has.
const NoRecords = "none"

// ParseRecords reads read or write; anything else is ErrInvalid.
func ParseRecords(text string) (Records, error) {
	if r := Records(text); r == RecordsRead || r == RecordsWrite {
		return r, nil
	}
	return RecordsNone, bourn.WithHint(fmt.Errorf("%w: records is read or write, not \"%s\"", bourn.ErrInvalid, bourn.Printable(text)), "leave it out for none")
}

// Holds reports whether all that o lets do is let done. What is neither of the three holds
// nothing and is held by nothing.
func (r Records) Holds(o Records) bool {
	at := slices.Index(recordsOrder, o)
	return at >= 0 && slices.Index(recordsOrder, r) >= at
}

// Less returns what both let do.
func (r Records) Less(o Records) Records {
	switch {
	case r.Holds(o):
		return o
	case o.Holds(r):
		return r
	}
	return RecordsNone
}

// byRowSecurity is the mechanism: the database decides row by row, as the member.
const byRowSecurity = "row security"

// records adds the item of the door to the company's records.
func (c *compiler) records() {
	if c.req.Records == RecordsNone {
		return
	}
	item := c.keep(KindRecords, string(c.req.Records), c.req.RecordsFrom, byRowSecurity)
	c.caveat(item, "as the member whose agent it is, by governed tools")
}

// records narrows what the child does with records.
func (w *narrower) records(child *Request) {
	want := Records(w.n.Records)
	switch {
	case w.n.Records == "":
		return
	case w.n.Records == NoRecords:
		child.Records, child.RecordsFrom = RecordsNone, ""
	case want != RecordsRead && want != RecordsWrite:
		w.isInvalid("records is read, write or none, not \"%s\"", bourn.Printable(w.n.Records))
	case !w.parent.Records.Holds(want):
		w.isDenied("leave it out, or ask a person to grant it to the parent", "records %s: the parent has %s", want, orNone(w.parent.Records))
	case want != w.parent.Records:
		child.Records, child.RecordsFrom = want, FromSubagent
	}
}

func orNone(r Records) string {
	if r == RecordsNone {
		return NoRecords
	}
	return string(r)
}
