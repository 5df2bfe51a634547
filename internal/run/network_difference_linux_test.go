package run_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bourn/internal/run/nettest"
	"bourn/internal/run/runtest"
)

// Variables that say how many random attempts are made, and the seed of the first policy.
const (
	netTrialsVar = "BOURN_NET_TRIALS"
	netSeedVar   = "BOURN_DIFF_SEED"
)

// triesEach is how many attempts are made under one policy.
const triesEach = 14

// TestNetworkDifference makes random policies and attempts under them, and compares what
// came of each with an oracle of its own, with the plan's items, with explain, with the
// record, and with what servers and the name server really saw.
func TestNetworkDifference(t *testing.T) {
	inWorld(t, func(t *testing.T, w *nettest.World) {
		number := func(name string, otherwise int) int {
			if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
				return n
			}
			return otherwise
		}
		seed := uint64(number(netSeedVar, int(time.Now().UnixNano()&0xffffffff)))
		policies := (number(netTrialsVar, 420) + triesEach - 1) / triesEach
		t.Logf("seed %d, %d policies of %d attempts (%s, %s)", seed, policies, triesEach, netSeedVar, netTrialsVar)
		w.Serve(w.Echo, trialPorts...)
		uids := []int{os.Getuid()}
		if os.Getuid() == 0 {
			uids = append(uids, runtest.OrdinaryUID)
		}
		d := &netDifference{w: w, may: map[string]bool{}}
		var next atomic.Int64
		var workers sync.WaitGroup
		for range 2 * runtime.GOMAXPROCS(0) {
			users := make([]*runtest.User, len(uids))
			for i, uid := range uids {
				users[i] = runtest.NewUser(t, uid)
			}
			workers.Go(func() {
				for {
					n := int(next.Add(1) - 1)
					if n >= policies || d.differences.Load() > 20 {
						return
					}
					d.one(t, users[n%len(users)], newTrial(seed+uint64(n), n, triesEach))
				}
			})
		}
		workers.Wait()
		for _, v := range w.Visits() {
			if !d.may[v.At.String()] {
				t.Errorf("a server was reached at %v, which nothing allows: %+v", v.At, v)
			}
		}
		for _, name := range w.Asked() {
			if !d.may[name] {
				t.Errorf("the name server was asked for %q, which nothing allows", name)
			}
		}
		t.Logf("%d attempts got through, %d were refused", d.through.Load(), d.refused.Load())
		if d.through.Load() == 0 || d.refused.Load() == 0 {
			t.Error("it shows nothing")
		}
	})
}

type netDifference struct {
	w                             *nettest.World
	mu                            sync.Mutex
	may                           map[string]bool // addresses and names that may be seen
	differences, through, refused atomic.Int64
}

// one makes one trial.
func (d *netDifference) one(t *testing.T, u *runtest.User, trial *netTrial) {
	for name, addrs := range trial.names {
		d.w.Name(name, nettest.Always(addrs...))
	}
	d.mu.Lock()
	for _, a := range trial.tries {
		may, _ := trial.expect(a)
		for _, at := range may {
			d.may[at] = true
		}
		d.may[a.Host] = d.may[a.Host] || trial.known(a.Host)
	}
	d.mu.Unlock()
	differs := func(format string, args ...any) {
		d.differences.Add(1)
		t.Errorf("seed %d: %s\n\tgrants %v, denies %v\n%s", trial.seed, fmt.Sprintf(format, args...), trial.grants, trial.denies, trial.profile)
	}
	name := fmt.Sprintf("trial%d", trial.n)
	networked(t, u, name, trial.profile)
	spelled := rand.New(rand.NewPCG(trial.seed, 1))
	tries := slices.Clone(trial.tries)
	for i := range tries {
		tries[i].Host = spell(spelled, tries[i].Host)
	}
	data, err := json.Marshal(tries)
	must(t, err)
	r := u.Bourn("run", "-q", "--agent", name, "--read", netprobe(t), "--", netprobe(t), u.Write(name+".json", string(data)))
	var said []string
	if err := json.Unmarshal([]byte(r.Out), &said); err != nil || len(said) != len(tries) {
		differs("the run did not answer: status %d, out %q, err %q", r.Status, r.Out, r.Err)
		return
	}
	record := recorded(t, u, name)
	for i, a := range trial.tries {
		if text := d.attempt(trial, a, said[i], record); text != "" {
			differs("%s %s port %s: %s", a.Via, tries[i].Host, a.Port, text)
		}
		if text := d.explained(u, trial, name, a); text != "" {
			differs("explain %s port %s: %s", a.Host, a.Port, text)
		}
	}
	d.planned(u, trial, name, differs)
}

// attempt says what is wrong with what came of an attempt, or "".
func (d *netDifference) attempt(trial *netTrial, a attempt, said string, record []refusal) string {
	noted := func(target string) bool {
		return slices.ContainsFunc(record, func(r refusal) bool { return r.Target == target })
	}
	if a.Via == "dns" {
		addrs := trial.names[a.Host]
		answered := strings.HasPrefix(said, "[198.18.") || a.Host == "localhost" && said == "[127.0.0.1 ::1]"
		known := trial.known(a.Host)
		switch want := known && len(addrs) > 0 || a.Host == "localhost"; {
		case answered != want:
			return fmt.Sprintf("%q, and the oracle says %t; it has %v", said, want, addrs)
		case !known && a.Host != "localhost" && !noted(a.Host):
			return "the record does not have it"
		}
		return ""
	}
	where, through := strings.CutPrefix(said, "at ")
	want, must := trial.expect(a)
	switch {
	case through:
		d.through.Add(1)
		if !slices.Contains(want, where) {
			return fmt.Sprintf("%q, and the oracle says %q", said, want)
		}
	case must:
		return fmt.Sprintf("%q, and the oracle says %q", said, want)
	default:
		d.refused.Add(1)
		_, resolves := trial.names[a.Host]
		byItself := a.Host == "localhost" || net.ParseIP(a.Host) != nil
		target := net.JoinHostPort(a.Host, a.Port)
		if a.Via != "direct" && trial.denied(a.Host, a.Port) && !slices.ContainsFunc(record, func(r refusal) bool {
			return r.Target == target && strings.HasPrefix(r.Reason, "denied by ") && r.Grant == ""
		}) {
			return "the record does not say that it is denied, or offers a grant"
		}
		if a.Via != "direct" && (byItself || resolves || !trial.granted(a.Host, a.Port)) && len(trial.addresses(a.Host)) > 0 && !noted(target) {
			return "the record does not have it"
		}
	}
	return ""
}

// explained compares explain with the oracle.
func (d *netDifference) explained(u *runtest.User, trial *netTrial, name string, a attempt) string {
	r := u.Bourn("explain", name, "connect", net.JoinHostPort(a.Host, a.Port), "--json")
	var answer struct {
		Answer string
		Item   *struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(r.Out), &answer); err != nil {
		return fmt.Sprintf("status %d, out %q, err %q", r.Status, r.Out, r.Err)
	}
	want := len(trial.reach(a.Host, a.Port)) > 0
	if len(trial.addresses(a.Host)) == 0 { // it says so, and answers for the name
		want = trial.granted(a.Host, a.Port) && !trial.denied(a.Host, a.Port)
	}
	switch {
	case (answer.Answer == "allowed") != want:
		return fmt.Sprintf("it says %s, the oracle says %t: %s", answer.Answer, want, r.Out)
	case answer.Item == nil || want && answer.Item.Kind != "host" || trial.denied(a.Host, a.Port) && answer.Item.Kind != "deny":
		return "another item decides: " + r.Out
	case r.Status != map[bool]int{true: 0, false: 3}[want]:
		return fmt.Sprintf("the status is %d", r.Status)
	}
	return ""
}

// planned compares the plan's items with the oracle.
func (d *netDifference) planned(u *runtest.User, trial *netTrial, name string, differs func(string, ...any)) {
	r := u.Bourn("plan", "--agent", name, "--json", "--", "true")
	var plan struct {
		Items []struct{ Kind, Target, Fate, Reason string }
	}
	if err := json.Unmarshal([]byte(r.Out), &plan); err != nil {
		differs("the plan: status %d, out %q, err %q", r.Status, r.Out, r.Err)
		return
	}
	want := map[string]string{}
	for _, g := range trial.grants {
		want["host "+canonical(g)] = map[bool]string{true: "dropped", false: "enforced"}[trial.closed(g)]
	}
	for _, g := range trial.denies {
		want["deny connect "+canonical(g)] = "enforced"
	}
	for _, it := range plan.Items {
		if key := it.Kind + " " + it.Target; it.Kind == "host" || it.Kind == "deny" && strings.HasPrefix(it.Target, "connect ") {
			if want[key] != it.Fate {
				differs("item %+v, the oracle says %q", it, want[key])
			}
			delete(want, key)
		}
	}
	if len(want) > 0 {
		differs("the plan lacks %v", want)
	}
}

// canonical is how an item writes a rule.
func canonical(r rule) string {
	if addr, err := netip.ParseAddr(r.host); err == nil {
		r.host = addr.String()
	}
	return r.String()
}
