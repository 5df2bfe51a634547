package run

import (
	"strconv"
	"testing"

	"bourn/internal/policy"
)

// Many refusals of one kind do not hide those of another, and what is not kept is counted.
func TestRefusalsBeyondTheBound(t *testing.T) {
	var r refusals
	none := func() string { return "" }
	for i := range maxRefusals + 20 {
		r.add(policy.OpRead, "/f"+strconv.Itoa(i), "not granted", none)
	}
	r.add(policy.OpConnect, "exfil.example:443", "not granted", none)
	r.add(policy.OpRead, "/f0", "not granted", none)
	all, more := r.list()
	if len(all) != maxRefusals+1 || more != 20 || all[0].Count != 2 || all[maxRefusals].Target != "exfil.example:443" {
		t.Errorf("%d kept, %d not, the first %+v, the last %+v", len(all), more, all[0], all[len(all)-1])
	}
}
