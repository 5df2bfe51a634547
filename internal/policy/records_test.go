package policy

import (
	"errors"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
)

func TestRecordsHold(t *testing.T) {
	all := []Records{RecordsNone, RecordsRead, RecordsWrite}
	for i, a := range all {
		for j, b := range all {
			if got := a.Holds(b); got != (i >= j) {
				t.Errorf("%q holds %q: %v", a, b, got)
			}
			if got := a.Less(b); got != all[min(i, j)] {
				t.Errorf("of %q and %q: %q", a, b, got)
			}
		}
		for _, unknown := range []Records{"none", "all", "Write"} {
			if a.Holds(unknown) || unknown.Holds(a) || a.Less(unknown) != RecordsNone || unknown.Less(a) != RecordsNone {
				t.Errorf("%q is something beside %q", unknown, a)
			}
		}
	}
	for _, text := range []string{"", "none", "Read", "write "} {
		if r, err := ParseRecords(text); !errors.Is(err, bourn.ErrInvalid) || bourn.HintOf(err) == "" || r != RecordsNone {
			t.Errorf("%q is %q, %v", text, r, err)
		}
	}
}

// The item says who keeps it; without records there is none.
func TestRecordsItem(t *testing.T) {
	of := func(r *Request) (items []Item) {
		for _, it := range Compile(r).Items {
			if it.Kind == KindRecords {
				items = append(items, it)
			}
		}
		return items
	}
	if got := of(&Request{}); got != nil {
		t.Errorf("without any: %+v", got)
	}
	want := []Item{{Kind: KindRecords, Target: "read", From: "flag", Fate: Enforced, By: []string{"row security"}, Caveat: "as the member whose agent it is, by governed tools"}}
	if diff := cmp.Diff(want, of(&Request{Records: RecordsRead, RecordsFrom: "flag"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNarrowRecords(t *testing.T) {
	for _, c := range []struct {
		parent Records
		want   string
		gets   Records
		from   string
		is     error
		says   string
	}{
		{RecordsWrite, "", RecordsWrite, "profile", nil, ""},
		{RecordsWrite, "write", RecordsWrite, "profile", nil, ""},
		{RecordsWrite, "read", RecordsRead, FromSubagent, nil, ""},
		{RecordsWrite, "none", RecordsNone, "", nil, ""},
		{RecordsRead, "", RecordsRead, "profile", nil, ""},
		{RecordsRead, "write", "", "", bourn.ErrDenied, "records write: the parent has read"},
		{RecordsNone, "read", "", "", bourn.ErrDenied, "records read: the parent has none"},
		{RecordsNone, "none", RecordsNone, "", nil, ""},
		{RecordsWrite, "all", "", "", bourn.ErrInvalid, `records is read, write or none, not "all"`},
	} {
		parent := parentRequest()
		if parent.Records = c.parent; c.parent != RecordsNone {
			parent.RecordsFrom = "profile"
		}
		child, err := Narrow(parent, Narrowing{Records: c.want})
		if !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q of %q: %v", c.want, c.parent, err)
		}
		if err == nil && (child.Records != c.gets || child.RecordsFrom != c.from) {
			t.Errorf("%q of %q is %q from %q", c.want, c.parent, child.Records, child.RecordsFrom)
		}
	}
}
