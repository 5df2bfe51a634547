// Package difftest holds a run's report, the kernel and the policy model against each
// other: random trees and requests are sealed, every operation is tried by every
// spelling, and what succeeded is compared with an oracle of its own (oracle_test.go),
// with the report, with the gate's explanations, and with the same operations outside.
//
//	go test ./internal/run/difftest -difftest.trials=100000 -difftest.seed=1
package difftest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bourn/internal/run/runtest"
)

var (
	trials = flag.Int("difftest.trials", number("BOURN_DIFF_TRIALS", 150), "how many random trials are made")
	seed   = flag.Uint64("difftest.seed", uint64(number("BOURN_DIFF_SEED", int(time.Now().UnixNano()&0xffffffff))), "the seed of the first trial; the others follow")
	plain  = flag.Bool("difftest.plain", false, "no directory has a mode that hides something from its owner")
	again  = flag.Int("difftest.again", 8, "one trial in so many is sealed again after its command has renamed things")
	each   = flag.Bool("difftest.each", false, "a line for every difference of every trial, and none is made small")
	onlyAs = flag.Int("difftest.uid", -1, "make trials as this user only")
)

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// buildProbe compiles the probe into a directory that every user may read.
func buildProbe(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "bourn-probe-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, "difftest-probe"), "./testdata/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the probe: %v\n%s", err, out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// users are those that trials run as.
func users() []int {
	switch {
	case *onlyAs >= 0:
		return []int{*onlyAs}
	case os.Getuid() == 0:
		return []int{0, runtest.OrdinaryUID}
	}
	return []int{os.Getuid()}
}

// places are directories in which trees are made: one that every run has as its own,
// and one that no run has.
func places() []string {
	out := []string{"/var/tmp"}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/srv", 0o755); err == nil {
			out = append(out, "/srv")
		}
	}
	return out
}

// run carries out a trial, with its second run if it has one.
func (e *engine) run(t *trial) (verdict, error) {
	if len(t.Moves) > 0 {
		return e.restart(t)
	}
	return e.check(t)
}

func TestDifference(t *testing.T) {
	bourn, bin := runtest.Binary(t), buildProbe(t)
	t.Logf("seed %d, %d trials", *seed, *trials)
	var next atomic.Int64
	var tally tally
	var workers sync.WaitGroup
	began := time.Now()
	as := users()
	for range 4 * runtime.GOMAXPROCS(0) { // a trial mostly waits for the kernel
		engines := make([]*engine, len(as))
		for i, uid := range as {
			e, err := newEngine(bourn, bin, uid, places())
			if err != nil {
				t.Fatal(err)
			}
			engines[i] = e
		}
		workers.Go(func() {
			for _, e := range engines {
				defer e.close()
			}
			for !tally.full() {
				n := next.Add(1) - 1
				if n >= int64(*trials) {
					return
				}
				at := *seed + uint64(n)
				e := engines[at%uint64(len(engines))] // so that a seed alone tells the user
				tally.one(t, e, generate(at, e.uid, places()))
			}
		})
	}
	workers.Wait()
	took := time.Since(began)
	t.Logf("%d trials, %d refused, %d operations in %s: %.1f trials/s", tally.trials, tally.refused, tally.ops, took.Round(time.Millisecond), float64(tally.trials)/took.Seconds())
	for _, kind := range slices.Sorted(maps.Keys(tally.kinds)) {
		t.Logf("%6d × %s (first: seed %d)", tally.kinds[kind], kind, tally.first[kind])
	}
}

// A tally counts, and reports the first difference of each kind made small.
type tally struct {
	mu                   sync.Mutex
	trials, refused, ops int
	kinds                map[string]int
	first                map[string]uint64
	shown                map[string]bool // kinds that need no report of their own any more
	reports, errors      int
}

const shownKinds, shrinkBudget = 12, 120

func (y *tally) full() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.errors > 5
}

func (y *tally) one(t *testing.T, e *engine, trial *trial) {
	v, err := e.run(trial)
	y.mu.Lock()
	y.trials++
	y.ops += v.ops
	if v.refused != "" {
		y.refused++
	}
	if err != nil {
		y.errors++
		y.mu.Unlock()
		t.Errorf("seed %d uid %d: %v\n%s", trial.Seed, e.uid, err, e.reproduction(trial))
		return
	}
	fresh := ""
	for _, f := range v.findings {
		if y.kinds == nil {
			y.kinds, y.first, y.shown = map[string]int{}, map[string]uint64{}, map[string]bool{}
		}
		if y.kinds[f.Kind] == 0 {
			y.first[f.Kind] = trial.Seed
		}
		if y.kinds[f.Kind]++; !y.shown[f.Kind] && fresh == "" && y.reports < shownKinds {
			fresh = f.Kind
			y.shown[fresh] = true
			y.reports++
		}
	}
	y.mu.Unlock()
	if *each {
		for _, f := range v.findings {
			t.Logf("seed %d: [%s] %s", trial.Seed, f.Kind, f.Text)
		}
	}
	if fresh != "" {
		budget := shrinkBudget
		if fresh == hung || *each {
			budget = 0
		}
		small, last := e.shrink(trial, fresh, budget)
		if len(last.findings) == 0 {
			last = v
		}
		text := ""
		y.mu.Lock()
		for i, f := range last.findings {
			y.shown[f.Kind] = true
			if i < 8 {
				text += fmt.Sprintf("  [%s] %s\n", f.Kind, f.Text)
			}
		}
		y.mu.Unlock()
		t.Errorf("%s\n%s%s", fresh, text, e.reproduction(small))
	}
	if len(v.findings) > 0 {
		t.Fail()
	}
}

// TestRed shows that the harness sees what it is for: the run is started with a request
// that differs from what the oracle was told.
func TestRed(t *testing.T) {
	bourn, bin := runtest.Binary(t), buildProbe(t)
	uid := users()[0]
	e, err := newEngine(bourn, bin, uid, places()[:1])
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	made := trial{UID: uid, Place: places()[0], Cwd: "w", Exec: "any", Bourn: "bh",
		Nodes: []node{{Path: "home", Kind: "dir", Mode: 0o755}, {Path: "w", Kind: "dir", Mode: 0o755}, {Path: "o", Kind: "dir", Mode: 0o755},
			{Path: "bh", Kind: "dir", Mode: 0o700}, {Path: "w/secret", Kind: "file", Mode: 0o644}, {Path: "w/d", Kind: "dir", Mode: 0o755},
			{Path: "w/d/x", Kind: "file", Mode: 0o755}, {Path: "o/y", Kind: "file", Mode: 0o644}},
		Write: []string{"w"}, Read: []string{"o"}, Deny: []deny{{Text: "w/secret"}, {Text: "d", Glob: true}}}
	made.Deny[1].Text = "[d]"
	for _, test := range []struct {
		name   string
		tamper func(string) string
		want   []string
	}{
		{"as asked", nil, nil},
		{"a deny is forgotten", drop("--deny=", "secret"), []string{"leak by read", "closed but write", "deny not enforced"}},
		{"a pattern is forgotten", drop("--deny=", "[d]"), []string{"leak by read", "closed but create"}},
		{"a grant to read may write", func(a string) string { return strings.Replace(a, "--read=", "--write=", 1) }, []string{"read-only but write", "grants differ"}},
		{"a grant is forgotten", drop("--read=", "/o"), []string{"over-closed read 2", "grants differ"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e.tamper = func(args []string) []string {
				var out []string
				for _, a := range args {
					if test.tamper != nil {
						a = test.tamper(a)
					}
					if a != "" {
						out = append(out, a)
					}
				}
				return out
			}
			v, err := e.run(&made)
			if err != nil || v.refused != "" {
				t.Fatal(err, v.refused)
			}
			if test.tamper == nil && len(v.findings) > 0 {
				t.Errorf("found %q", v.findings)
			}
			for _, kind := range test.want {
				if !slices.ContainsFunc(v.findings, func(f finding) bool { return f.Kind == kind }) {
					t.Errorf("not seen: %s; seen: %q", kind, v.findings)
				}
			}
		})
	}
}

// TestRedAgain shows that a denied object is looked for after a restart.
func TestRedAgain(t *testing.T) {
	bourn, bin := runtest.Binary(t), buildProbe(t)
	e, err := newEngine(bourn, bin, users()[0], places()[:1])
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	made := &trial{UID: e.uid, Place: places()[0], Cwd: "w", Exec: "any", Bourn: "bh", Write: []string{"w"}, Deny: literal("w/d/f"),
		Nodes: []node{dirNode("home", 0o755), dirNode("w", 0o755), dirNode("o", 0o755), dirNode("bh", 0o700), dirNode("w/d", 0o755), fileNode("w/d/f", 0o644)},
		Moves: []move{{"w/d", "w/moved"}}}
	if v, err := e.run(made); err != nil || v.refused != "" || len(v.findings) > 0 {
		t.Errorf("as asked: %v %v", err, v)
	}
	e.forget = func(base string) { os.Remove(base + "/bh/denied") }
	v, err := e.run(made)
	if err != nil || !slices.ContainsFunc(v.findings, func(f finding) bool { return f.Kind == "leak after a restart by read" }) {
		t.Errorf("with nothing remembered: %v %v", err, v)
	}
}

// drop leaves out the argument that begins and ends so.
func drop(begin, end string) func(string) string {
	return func(a string) string {
		if strings.HasPrefix(a, begin) && strings.HasSuffix(a, end) {
			return ""
		}
		return a
	}
}
