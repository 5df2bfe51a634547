package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/review"
	"bourn/internal/store/storetest"
)

const rules = `{"version":1,"hardBlocks":[{"id":"push","type":"command","match":"prefix","pattern":"git push","operations":["execute"]}]}`

// set saves a version of the hard blocks.
func (p *plane) set(after int64, document string) asked {
	p.t.Helper()
	return p.ask("PUT", "/v1/boundaries", fmt.Sprintf(`{"after":%d,"document":%s}`, after, document))
}

// judge judges an action by the hard blocks that are in force.
func (p *plane) judge(a bourn.Action) bourn.Outcome {
	return review.Judge(a, p.boundaries.now.Load().compiled).Outcome
}

var (
	writing = bourn.Action{Tool: "files_write", Targets: []bourn.Target{{Operation: bourn.Write, Path: "/srv/a"}}}
	pushing = bourn.Action{Tool: "shell_exec", Command: &bourn.Command{Text: "git push", Cwd: "/"}}
)

func TestBoundariesSaved(t *testing.T) {
	p := begin(t)
	var b api.Boundaries
	if p.get("/v1/boundaries", &b); b.State != "none" || b.Version != 0 {
		t.Errorf("at first: %+v", b)
	}
	if _, version, err := p.published(); version != 0 || err != nil {
		t.Errorf("published at first: version %d, %v", version, err)
	}
	if a := p.set(0, rules); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if p.judge(pushing) != bourn.Deny || p.judge(writing) != bourn.Allow {
		t.Error("the saved rules are not in force")
	}
	if b, version, err := p.published(); version != 1 || err != nil || len(b.HardBlocks) != 1 {
		t.Errorf("published: version %d, %+v, %v", version, b, err)
	}
	if a := p.set(0, rules); a.status != 409 {
		t.Errorf("another version after 0: %d %s", a.status, a.body)
	}
	if _, err := os.Lstat(filepath.Join(p.config.Home, review.ConfiguredName)); err != nil {
		t.Error(err)
	}
	// The log has it before it holds, and how it ended.
	log := p.ask("GET", "/v1/log?kind=outcome", "").body
	if strings.Count(log, `"outcome":"done"`) != 1 || strings.Count(log, `"outcome":"failed"`) != 1 {
		t.Errorf("outcomes: %s", log)
	}
}

// What somebody does to the stored hard blocks behind Bourn's back refuses every change by
// an agent, is shown everywhere, and is mended by setting them.
func TestBoundariesBehindTheBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		after  int64 // the version that set follows
	}{
		"not valid":       {"update control.metadata set value = '{\"version\":1,\"hardBlocks\":[{}]}' where key = 'execution_boundaries' and version = 2", 2},
		"another object":  {"update control.metadata set value = '[]' where key = 'execution_boundaries' and version = 2", 2},
		"a newer one":     {"insert into control.metadata (key, version, value, saved_by) values ('execution_boundaries', 3, '{}', 'x')", 3},
		"the newest gone": {"delete from control.metadata where key = 'execution_boundaries' and version = 2", 1},
		"all gone":        {"delete from control.metadata where key = 'execution_boundaries'", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t)
			for after := range int64(2) {
				if a := p.set(after, rules); a.status != 200 {
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
			p.admin("control", c.change)
			until(t, 20*time.Second, "every change is refused", func() bool { return p.judge(writing) == bourn.Deny })
			if p.judge(bourn.Action{Tool: "files_read", Targets: []bourn.Target{{Operation: bourn.Read, Path: "/srv/a"}}}) != bourn.Allow {
				t.Error("reading is refused as well")
			}
			var b api.Boundaries
			if p.get("/v1/boundaries", &b); b.State != "invalid" || len(b.Problems) == 0 {
				t.Errorf("shown: %+v", b)
			}
			var h api.Health
			if p.get("/v1/health", &h); h.Status != "degraded" || h.Components[2].Status != "degraded" || h.Components[2].Hint == "" {
				t.Errorf("health: %+v", h)
			}
			if m := p.ask("GET", "/metrics", "").body; !strings.Contains(m, `bourn_boundaries_state{state="invalid"} 1`) || !strings.Contains(m, `bourn_boundaries_state{state="ok"} 0`) {
				t.Error("the metrics do not say so")
			}
			// It is judged by before it is published.
			until(t, 20*time.Second, "it is published as not valid", func() bool { _, _, err := p.published(); return bourn.CodeOf(err) == bourn.CodeInvalid })
			until(t, 20*time.Second, "the log says so", func() bool {
				return strings.Contains(p.ask("GET", "/v1/log?kind=change", "").body, "invalid")
			})
			if a := p.set(c.after, rules); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			if p.judge(writing) != bourn.Allow || p.judge(pushing) != bourn.Deny {
				t.Error("set did not mend it")
			}
			if p.get("/v1/health", &h); h.Status != "ok" {
				t.Errorf("health: %+v", h)
			}
			if _, _, err := p.published(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Hard blocks that went while no control plane ran are missed by the next one.
func TestBoundariesGoneBetween(t *testing.T) {
	home, db := testHome(t), storetest.New(t)
	p := beginOn(t, home, db)
	if a := p.set(0, rules); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p.admin("control", "delete from control.metadata where key = 'execution_boundaries'")
	p = beginOn(t, home, db)
	if p.judge(writing) != bourn.Deny {
		t.Error("the hard blocks are gone, and nothing is refused")
	}
}

// What is published is written again where it was changed, removed or could not be written.
func TestBoundariesPublishedAgain(t *testing.T) {
	t.Parallel()
	p := begin(t)
	if a := p.set(0, rules); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	at := filepath.Join(p.config.Home, review.SnapshotName)
	if err := os.WriteFile(at, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, 20*time.Second, "it is mended", func() bool { _, v, err := p.published(); return err == nil && v == 1 })
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	until(t, 20*time.Second, "it is there again", func() bool { _, err := os.Lstat(at); return err == nil })
	// Something in the way: what was saved is in force, and published once the way is free.
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(at, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if a := p.set(1, rules); a.status != 503 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	until(t, 20*time.Second, "it is published", func() bool {
		_, err := os.Lstat(at)
		if err != nil {
			return false
		}
		_, v, err := p.published()
		return err == nil && v == 2
	})
}

// Of several that save at once one does, at two control planes on one database as well, and
// what is in force after all is the newest everywhere.
func TestBoundariesAtOnce(t *testing.T) {
	one := begin(t)
	two := beginOn(t, testHome(t), one.db)
	var wg sync.WaitGroup
	var mu sync.Mutex
	saved := map[int]int{}
	for i := range 8 {
		p := []*plane{one, two}[i%2]
		wg.Go(func() {
			a := p.set(0, rules)
			mu.Lock()
			defer mu.Unlock()
			saved[a.status]++
		})
	}
	wg.Wait()
	if saved[200] != 1 || saved[409] != 7 {
		t.Errorf("answers: %v", saved)
	}
	for after := int64(1); after < 4; after++ {
		if a := one.set(after, rules); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if v := one.boundaries.Show().Version; v != after+1 {
			t.Errorf("version %d is in force after %d was saved", v, after+1)
		}
	}
	until(t, 20*time.Second, "the other one has read it", func() bool { return two.boundaries.Show().Version == 4 })
}
