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

// Whatever else is refused, what leads into the host's own network is kept, and comes first.
func TestRefusalsOfOwnNetworkAreKept(t *testing.T) {
	var r refusals
	none := func() string { return "" }
	for i := range maxRefusals + 20 {
		r.add(policy.OpConnect, "h"+strconv.Itoa(i)+".example:443", "not granted", none)
	}
	for i := range maxRefusals + 20 {
		r.add(policy.OpConnect, "10.1."+strconv.Itoa(i/250)+"."+strconv.Itoa(i%250)+":80", "not granted", none)
		r.add(policy.OpConnect, "169.254.1.1:"+strconv.Itoa(i+1), "not granted", none)
	}
	r.add(policy.OpConnect, "169.254.169.254:80", "not granted", none)
	r.add(policy.OpConnect, "[::ffff:169.254.169.254]:80", "not granted", none)
	r.add(policy.OpConnect, "api.example.com:80", "100.100.100.200 is a metadata service, and it is not granted as an address", none)
	r.add(policy.OpRead, "/f", "not granted", none)
	all, more := r.list()
	if len(all) != 3*maxRefusals+4 || more != 60 {
		t.Fatalf("%d kept, %d not", len(all), more)
	}
	for i, want := range []string{"169.254.169.254:80", "[::ffff:169.254.169.254]:80", "api.example.com:80", "169.254.1.1:1"} {
		if all[i].Target != want {
			t.Errorf("%d: %s, want %s", i, all[i].Target, want)
		}
	}
	if at := all[3+maxRefusals].Target; at != "10.1.0.0:80" {
		t.Errorf("then %s", at)
	}
}
