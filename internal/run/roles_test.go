package run_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A child role that somebody starts by hand changes nothing, whatever its descriptor 3
// is and whatever namespaces it is in. All attempts are made in a mount namespace that
// the test makes for them; the probe refuses in the machine's.
func TestRolesAreInert(t *testing.T) {
	host, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		mounts := mountTable(t)
		shells := map[string][]string{"user": {"-Urm"}, "user and pid": {"-Urmpf"}}
		if u.UID == 0 {
			shells["mount"] = []string{"-m"}
			shells["mount and pid"] = []string{"-m", "-p", "-f"}
		}
		for name, flags := range shells {
			for _, three := range []string{"none", "null", "dir", "pipe", "tcp", "named", "dgram", "pair", "pair-data", "pair-order"} {
				for _, extra := range []string{"", "+pid", "+user+pid", "+mnt+pid"} {
					if strings.HasPrefix(extra, "+user") && (u.UID != 0 || strings.HasSuffix(name, "pid")) {
						continue // a user namespace in that user namespace cannot be mapped
					}
					t.Run(name+"/"+three+extra, func(t *testing.T) {
						r := u.Do("unshare", append(flags, "--", probe(t), "role", three+extra, runtest.Binary(t), host)...)
						var rep struct {
							Status, Signal int
							Err            string
							Changed        bool
							Before, After  string
						}
						if err := json.Unmarshal([]byte(r.Out), &rep); err != nil {
							t.Fatalf("the role changed what started it, or it could not be tried: status %d, out %q, err %q", r.Status, r.Out, r.Err)
						}
						if rep.Status <= 0 || rep.Changed {
							t.Errorf("status %d signal %d, err %q, changed %v\nbefore %s\nafter %s", rep.Status, rep.Signal, rep.Err, rep.Changed, rep.Before, rep.After)
						}
					})
				}
			}
		}
		if mountTable(t) != mounts {
			t.Error("mounts of the machine changed")
		}
	})
}
