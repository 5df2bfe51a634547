package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn/internal/run/nettest"
	"bourn/internal/run/runtest"
)

// worldTime is how long one test may take in its world.
const worldTime = 3 * time.Minute

var worldPossible = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return nettest.Possible(ctx)
})

// inWorld calls f in a world of the test's own (package nettest): this process runs the
// test once more there, and passes on how it ended.
func inWorld(t *testing.T, f func(t *testing.T, w *nettest.World)) {
	t.Helper()
	if nettest.Inside() {
		must(t, nettest.Enter())
		w := nettest.New(t)
		populate(w)
		f(t, w)
		return
	}
	t.Parallel()
	if err := worldPossible(); err != nil {
		t.Log(err)
		runtest.Need(t, "userns", false)
	}
	ctx, cancel := context.WithTimeout(context.Background(), worldTime)
	defer cancel()
	cmd, err := nettest.Command(ctx, []string{"BOURN_TEST_BINARY=" + runtest.Binary(t), netprobeVar + "=" + netprobe(t)},
		"-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+worldTime.String())
	must(t, err)
	out, err := cmd.CombinedOutput()
	t.Logf("in its world:\n%s", out)
	switch {
	case err != nil:
		t.Errorf("it failed in its world: %v", err)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Skip("skipped in its world")
	case !strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Error("it did not run in its world")
	}
}

const netprobeVar = "BOURN_TEST_NETPROBE"

var (
	netprobeOnce sync.Once
	netprobeErr  error
)

// netprobe returns the path of the program that tries to reach things, built once, outside.
func netprobe(t testing.TB) string {
	t.Helper()
	if at := os.Getenv(netprobeVar); at != "" {
		return at
	}
	at := filepath.Join(filepath.Dir(probe(t)), "netprobe")
	netprobeOnce.Do(func() {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", at, "bourn/internal/run/testdata/netprobe")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			netprobeErr = fmt.Errorf("%w: %s", err, out)
		}
	})
	must(t, netprobeErr)
	return at
}

// populate gives a world its names and its pages. Servers are each test's own.
func populate(w *nettest.World) {
	for name, addrs := range map[string]string{
		"good.example":             "93.184.216.34 2606:2800:220:1::34",
		"other.example":            "93.184.216.35",
		"*.wild.example":           "93.184.216.40",
		"v6.example":               "2606:2800:220:1::36",
		"private.example":          "10.1.2.3",
		"private6.example":         "fd12::3",
		"loop.example":             "127.0.0.1",
		"loop6.example":            "::1",
		"metadata.example":         "169.254.169.254",
		"metadata6.example":        "fd00:ec2::254",
		"link.example":             "169.254.1.1",
		"link6.example":            "fe80::1",
		"zero.example":             "0.0.0.0",
		"zero6.example":            "::",
		"mapped.example":           "::ffff:10.1.2.3",
		"mappedloop.example":       "::ffff:127.0.0.1",
		"nat64.example":            "64:ff9b::a01:203",
		"sixtofour.example":        "2002:a01:203::1",
		"compatible.example":       "::10.1.2.3",
		"cgnat.example":            "100.64.0.1",
		"multicast.example":        "224.0.0.1",
		"benchmark.example":        "198.18.0.1",
		"mixed.example":            "10.1.2.3 93.184.216.37",
		"empty.example":            "",
		"control.example":          "10.0.0.5",
		"internal":                 "93.184.216.38",
		"xn--bcher-kva.example":    "93.184.216.39",
		"git.example":              "93.184.216.41",
		"npm.example":              "93.184.216.42",
		"goproxy.example":          "93.184.216.43",
		"hostile.example":          "93.184.216.44",
		"localhost.example":        "127.0.0.1",
		"sub.localhost":            "127.0.0.1",
		"under_score.example":      "93.184.216.45",
		"93.184.216.34.example":    "93.184.216.46",
		"good.example.evil.test":   "93.184.216.47",
		"evilgood.example":         "93.184.216.48",
		"www.good.example":         "93.184.216.49",
		"wild.example":             "93.184.216.50",
		"metadata.google.internal": "169.254.169.254",
	} {
		w.Name(name, nettest.Always(strings.Fields(addrs)...))
	}
	w.Name("silent.example", nil)
	w.Name("flip.example", nettest.Turning("93.184.216.51", "127.0.0.1"))
	w.Name("rebound.example", nettest.InTurn("127.0.0.1", "93.184.216.52"))
	w.Web.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, "at %v host %s\n", r.Context().Value(http.LocalAddrContextKey), r.Host)
	})
}

// An attempt is one thing that the netprobe tries, and what should come of it: want is what
// it says, or after "no " what is in the error. Both may be several, separated by |.
type attempt struct {
	Via, Host, Port, Say string
	want                 string
}

// met reports whether an answer is what an attempt wants.
func (a attempt) met(said string) bool {
	parts, fails := strings.CutPrefix(a.want, "no ")
	if !fails {
		return slices.Contains(strings.Split(a.want, "|"), said)
	}
	text, failed := strings.CutPrefix(said, "failed: ")
	return failed && slices.ContainsFunc(strings.Split(parts, "|"), func(p string) bool { return strings.Contains(text, p) })
}

// reach makes all attempts in one run of u's and returns what came of each.
func reach(t *testing.T, u *runtest.User, flags []string, all []attempt) ([]string, runtest.Result) {
	t.Helper()
	data, err := json.Marshal(all)
	must(t, err)
	file := u.Write("attempts.json", string(data))
	args := slices.Concat([]string{"run", "--read", netprobe(t), "--write", "."}, flags, []string{"--", netprobe(t), file})
	r := u.Bourn(args...)
	var said []string
	if err := json.Unmarshal([]byte(r.Out), &said); err != nil || r.Status != 0 || len(said) != len(all) {
		t.Fatalf("the netprobe did not answer: status %d, out %q, err %q", r.Status, r.Out, r.Err)
	}
	return said, r
}

// reaches makes all attempts in one run and reports what did not come as it should.
func reaches(t *testing.T, u *runtest.User, flags []string, all []attempt) runtest.Result {
	t.Helper()
	said, r := reach(t, u, flags, all)
	for i, a := range all {
		if !a.met(said[i]) {
			t.Errorf("%s %s port %s, saying %q: %q, want %q", a.Via, a.Host, a.Port, a.Say, said[i], a.want)
		}
	}
	return r
}

// hosts returns flags that grant hosts.
func hosts(names ...string) (flags []string) {
	for _, n := range names {
		flags = append(flags, "--host", n)
	}
	return flags
}

// only reports every visit at an address that is not one of those named.
func only(t *testing.T, w *nettest.World, addrs ...string) {
	t.Helper()
	for _, v := range w.Visits() {
		if !slices.Contains(addrs, v.At.Addr().String()) && !slices.Contains(addrs, v.At.String()) {
			t.Errorf("a server was reached at %v: %+v", v.At, v)
		}
	}
}

// A refusal is one of a run's record.
type refusal struct {
	Operation, Target, Reason, Grant string
	Count                            int
}

// recorded returns the refusals in the newest record of u's runs, of an agent or of none.
func recorded(t *testing.T, u *runtest.User, agent string) []refusal {
	t.Helper()
	dir := filepath.Join(u.Home, ".bourn", "runs")
	if agent != "" {
		dir = filepath.Join(u.Home, ".bourn", "agents", agent, "runs")
	}
	at, err := filepath.Glob(filepath.Join(dir, "*.json"))
	must(t, err)
	if len(at) == 0 {
		t.Fatalf("no record in %s", dir)
	}
	var rec struct{ Refusals []refusal }
	must(t, json.Unmarshal([]byte(u.Read(slices.Max(at))), &rec))
	return rec.Refusals
}

var refusedLine = regexp.MustCompile(`(?m)^bourn: refused: (\S+) (\S+): (.*)$`)

// networked makes an agent by hand with a network section.
func networked(t *testing.T, u *runtest.User, name, network string) {
	t.Helper()
	agent(t, u, filepath.Join(u.Home, ".bourn"), name, "{write: ["+u.Work+"]}\n"+network)
}
