package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"bourn/api"
)

// TestSharedHostCircles: the registry's circles are the records', for persons who ask and for
// their agents, and who leaves one sees nothing of it within a second or two.
func TestSharedHostCircles(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		p := serveShared(t)
		putProfile(t, "clerk", "records: write\n")
		ann, bob := p.caller(annUID, "clerk", annHome), p.caller(bobUID, "clerk", bobHome)
		status, answer := askAs(t, annUID, "GET", "/v1/circles", "")
		var circles api.Circles
		if status != 200 || json.Unmarshal([]byte(answer), &circles) != nil || len(circles.Circles) != 1 || circles.Circles[0].Name != "sales" || !circles.Circles[0].FromHost || len(circles.Circles[0].Members) != 2 {
			t.Fatalf("the circles are %d %s", status, answer)
		}
		sales := circles.Circles[0].ID
		var made api.Record
		must(t, json.Unmarshal([]byte(ann.does(`"visibility":"circle"`, "records_create", args{"collection": "plans", "circle": sales, "body": args{"text": "of sales"}})), &made))
		if made.Owner != annMember {
			t.Errorf("it is %s's", made.Owner)
		}
		ann.does(annMember, "records_create", args{"collection": "notes", "body": args{"text": "of ann"}})
		if text := bob.does("of sales", "records_list", args{}); strings.Contains(text, "of ann") {
			t.Errorf("bob's agent sees what is ann's: %s", text)
		}
		// The administrator, who is in no circle, and the circle, which is the host's.
		if status, answer := askAs(t, 0, "GET", "/v1/records", ""); status != 200 || strings.Contains(answer, "of ") {
			t.Errorf("root sees %d %s", status, answer)
		}
		if status, answer := askAs(t, 0, "DELETE", "/v1/circles/"+sales+"/members/"+bobMember, ""); status != 409 || !strings.Contains(answer, "bourn people circle") {
			t.Errorf("root changes what the registry has: %d %s", status, answer)
		}
		if status, answer := askAs(t, annUID, "POST", "/v1/circles", `{"name":"x"}`); status != 403 {
			t.Errorf("ann makes a circle: %d %s", status, answer)
		}

		left := time.Now()
		r := worldPeople()
		r.People[1].Groups = []uint32{sharedGID}
		setPeople(t, r)
		until(t, 10*time.Second, "bob sees nothing of the circle", func() bool {
			status, answer := askAs(t, bobUID, "GET", "/v1/records/"+made.ID, "")
			return status == 404 && !strings.Contains(answer, "of sales")
		})
		if took := time.Since(left); took > 4*time.Second {
			t.Errorf("it took %v", took)
		}
		until(t, 20*time.Second, "bob's agent sees nothing of it", func() bool {
			text, ok := bob.call("records_list", args{})
			return ok && !strings.Contains(text, "of sales")
		})
		ann.does("of sales", "records_get", args{"id": made.ID})

		// Ann is removed: nobody acts as her.
		r.People[0].Active, r.People[0].Groups = false, []uint32{}
		setPeople(t, r)
		until(t, 10*time.Second, "ann is no member", func() bool { status, _ := askAs(t, annUID, "GET", "/v1/records", ""); return status == 403 })
		ann.refused("records_list", args{}, "bearer", "permission_denied", "not active", "removed")
		for _, want := range []string{"circle made", "circle changed: 0 joined, 1 left"} {
			found := false
			for _, e := range logged(t, "change") {
				found = found || fmt.Sprint(e["what"]) == want && e["target"] == "sales"
			}
			if !found {
				t.Errorf("the log does not have %q", want)
			}
		}
	})
}
