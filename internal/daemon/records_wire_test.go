package daemon

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bourn/api"
	"bourn/internal/store"
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
		if size > store.PageBytes {
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

// A member who reads no answer has few that are held for them, and takes nothing from others.
func TestLargeAnswersWait(t *testing.T) {
	o := newOffice(t)
	// Each has more than sockets hold: JSON writes six bytes for one.
	o.admin("records", fmt.Sprintf("insert into app.record (owner_id, visibility, collection, body) select '%s', 'company', 'large', jsonb_build_object('a', repeat('<', 262000)) from generate_series(1, 16)", o.ids["ann"]))
	list := func(ctx context.Context, who string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, "GET", o.urls[who]+"/v1/records?limit=200", nil)
		must(t, err)
		return new(http.Transport).RoundTrip(r)
	}
	var held []*http.Response
	for range maxLarge {
		r, err := list(t.Context(), "ann")
		must(t, err)
		defer r.Body.Close()
		held = append(held, r)
	}
	if r, err := list(t.Context(), "bob"); err != nil || r.StatusCode != 200 || r.Body.Close() != nil {
		t.Errorf("another's: %v, %v", r, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if r, err := list(short, "ann"); err == nil {
		t.Errorf("one more than are read: %s", r.Status)
		r.Body.Close()
	}
	must(t, held[0].Body.Close())
	r, err := list(t.Context(), "ann")
	if err != nil || r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		t.Fatalf("after one was read: %v, %v", r, err)
	}
	r.Body.Close()
}
