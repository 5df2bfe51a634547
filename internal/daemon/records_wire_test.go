package daemon

import (
	"fmt"
	"testing"

	"bourn/api"
)

// TestRecordsOfOthersLeaveAList: what a member's SQL has made, nested deeper than is written or
// as large as it may be, takes nobody's list away.
func TestRecordsOfOthersLeaveAList(t *testing.T) {
	o := newOffice(t)
	const deep, large = 12_000, 40
	insert := fmt.Sprintf("insert into app.record (owner_id, visibility, collection, body) select '%s', 'company', ", o.ids["ann"])
	o.admin("records", insert+fmt.Sprintf(`'deep', (repeat('{"a":', %d) || '1' || repeat('}', %[1]d))::jsonb`, deep),
		insert+fmt.Sprintf("'large', jsonb_build_object('a', repeat('x', 262000)) from generate_series(1, %d)", large))
	found, next, pages := map[string]int{}, "", 0
	for ; pages == 0 || next != ""; pages++ {
		got, err := o.clients["bob"].Records(t.Context(), api.RecordsQuery{Limit: 200, NextPage: next})
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, r := range got.Records {
			found[r.Collection]++
			size += len(r.Body)
			if r.Collection == "deep" && string(r.Body) != "null" {
				t.Errorf("the body is %.40s…", r.Body)
			}
		}
		if size > maxPageBytes {
			t.Errorf("a page has %d bytes", size)
		}
		next = got.Next
	}
	if fmt.Sprint(found) != "map[deep:1 large:40]" || pages != 3 {
		t.Errorf("%v on %d pages", found, pages)
	}
	o.profileOf("mur", "records: read\n")
	if said, ok := o.calls(o.runOf("mur", "bob", "r-bob"), "records_list", fields{}, nil); !ok {
		t.Errorf("an agent's list: %.200s", said)
	}
}
