package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/store/storetest"
)

// note appends entries to the log.
func (p *plane) note(n int) {
	p.t.Helper()
	for i := range n {
		if err := p.log.Append(p.t.Context(), audit.Entry{Kind: audit.KindAction, Who: "host", What: fmt.Sprintf("do %d", i)}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// What an administrator of the database does to the log is found, also once more was
// chained after it.
func TestLogTampered(t *testing.T) {
	t.Parallel()
	const cut = `delete from log.link where position > 5; delete from log.entry where seq not in (select seq from log.link)`
	for name, change := range map[string]string{
		"an entry changed":             "update log.entry set body = replace(body::text, 'do 3', 'do 9')::json where body->>'what' = 'do 3'",
		"an entry removed":             "delete from log.entry where body->>'what' = 'do 3'",
		"a link removed":               "delete from log.link where position = 4",
		"an entry removed with link":   "delete from log.link where position = 4; delete from log.entry where body->>'what' = 'do 3'",
		"its time changed":             "update log.entry set at = at - interval '1 year' where body->>'what' = 'do 3'",
		"its id changed":               "update log.entry set id = gen_random_uuid() where body->>'what' = 'do 3'",
		"the end cut off":              cut,
		"with its checkpoints":         cut + "; delete from log.checkpoint where position > 5",
		"all of it":                    "delete from log.link; delete from log.entry; delete from log.checkpoint",
		"another end":                  cut + "; delete from log.checkpoint; insert into log.entry (id, at, body) select gen_random_uuid(), now(), '{}' from generate_series(1, 40)",
		"a checkpoint's signature":     "update log.checkpoint set signature = decode(repeat('00', 64), 'hex')",
		"a checkpoint's statement":     "update log.checkpoint set signed = 'x'",
		"a closing that nobody signed": "insert into log.segment (last, at, signed, signature) values (3, now(), '{}', decode(repeat('00', 64), 'hex'))",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t)
			p.note(10)
			if v := p.chained(); len(v.Problems) != 0 || v.Entries < 11 {
				t.Fatalf("%+v", v)
			}
			p.admin("control", "begin; "+change+"; commit")
			// The chainer goes on, and must not cover it up.
			p.note(30)
			until(t, 20*time.Second, "the log goes on", func() bool { v := p.verified(); return v.Unchained == 0 || len(v.Problems) > 0 })
			if v := p.verified(); len(v.Problems) == 0 {
				t.Errorf("nothing was found: %+v", v)
			}
			p.note(30)
			until(t, 20*time.Second, "it is chained", func() bool { return p.verified().Unchained == 0 })
			if v := p.verified(); len(v.Problems) == 0 {
				t.Errorf("it was covered up: %+v", v)
			}
		})
	}
}

// That an end was cut off stays found, over a start as well, and health says so until
// somebody has looked.
func TestLogCutStaysFound(t *testing.T) {
	home, db := testHome(t), storetest.New(t)
	p := beginOn(t, home, db)
	p.note(10)
	p.chained()
	p.admin("control", "begin; delete from log.link where position > 5; delete from log.entry where seq not in (select seq from log.link); delete from log.checkpoint; commit")
	p.note(20)
	failing := func(p *plane) bool {
		var h api.Health
		p.get("/v1/health", &h)
		return h.Status == "failing" && h.Components[1].Status == "failing" && strings.Contains(h.Components[1].Hint, lostName)
	}
	until(t, 10*time.Second, "health says so", func() bool { return failing(p) })
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p = beginOn(t, home, db)
	if !failing(p) || len(p.verified().Problems) == 0 {
		t.Error("after a start nothing is found")
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(home, lostName)); err != nil {
		t.Fatal(err)
	}
	p = beginOn(t, home, db)
	if v := p.chained(); failing(p) || len(v.Problems) != 0 {
		t.Errorf("it was explained, and is still found: %+v", v)
	}
}

// While no control plane ran, the log can be cut as well, or be another.
func TestLogCutBetween(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"cut":         "begin; delete from log.link where position > 3; delete from log.entry where seq not in (select seq from log.link); delete from log.checkpoint; commit",
		"another log": "update control.metadata set value = '{\"id\":\"other\"}' where key = 'log'",
		"all":         "truncate log.entry, log.link, log.checkpoint, log.segment; delete from control.metadata",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, db := testHome(t), storetest.New(t)
			p := beginOn(t, home, db)
			p.note(10)
			p.chained()
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
			p.admin("control", change)
			p = beginOn(t, home, db)
			p.note(30)
			until(t, 20*time.Second, "it is chained", func() bool { return p.verified().Unchained == 0 })
			if v := p.verified(); len(v.Problems) == 0 {
				t.Errorf("nothing was found: %+v", v)
			}
		})
	}
}

// Without the checkpoint beside the database the log verifies, and says that it is missing.
func TestLogHeadMissing(t *testing.T) {
	home, db := testHome(t), storetest.New(t)
	p := beginOn(t, home, db)
	written := func() bool { _, err := os.Lstat(HeadFile(home)); return err == nil }
	p.note(5)
	p.chained()
	until(t, 10*time.Second, "it is written", written) // after what it says is committed
	if err := os.Remove(HeadFile(home)); err != nil {
		t.Fatal(err)
	}
	p.note(1)
	p.chained()
	until(t, 10*time.Second, "it is written again", written)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(HeadFile(home)); err != nil {
		t.Fatal(err)
	}
	p = beginOn(t, home, db)
	if v := p.chained(); len(v.Problems) != 0 {
		t.Errorf("%+v", v)
	}
	if log := p.ask("GET", "/v1/log?kind=service", "").body; !strings.Contains(log, "no checkpoint beside the database") {
		t.Error("the log does not say that it was missing")
	}
}

// A checkpoint that was taken away finds what even the holder of everything here cut off.
func TestLogCheckpointElsewhere(t *testing.T) {
	home, db := testHome(t), storetest.New(t)
	p := beginOn(t, home, db)
	p.note(10)
	sent := p.chained().Checkpoint
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p.admin("control", "begin; delete from log.link where position > 3; delete from log.entry where seq not in (select seq from log.link); delete from log.checkpoint; commit")
	if err := os.Remove(HeadFile(home)); err != nil {
		t.Fatal(err)
	}
	p = beginOn(t, home, db)
	p.note(30)
	if v := p.chained(); len(v.Problems) != 0 {
		t.Fatalf("%+v", v)
	}
	body, err := json.Marshal(api.VerifyLog{Checkpoints: []api.SignedStatement{sent}})
	if err != nil {
		t.Fatal(err)
	}
	if a := p.ask("POST", "/v1/log/verify", string(body)); a.status != 200 || !strings.Contains(a.body, "signed checkpoint saw") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A key that was replaced: what the old one signed verifies by the key in keys/, the log
// says so, and without the old key it is one problem.
func TestIdentityReplaced(t *testing.T) {
	home, db := testHome(t), storetest.New(t)
	p := beginOn(t, home, db)
	p.note(10)
	p.chained()
	if a := p.set(0, rules); a.status != 200 {
		t.Fatal(a.body)
	}
	old := audit.KeyName(p.public)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(home, "identity.key")); err != nil {
		t.Fatal(err)
	}
	p = beginOn(t, home, db)
	p.note(1)
	if v := p.chained(); len(v.Problems) != 0 || v.Key == old {
		t.Errorf("%+v", v)
	}
	if log := p.ask("GET", "/v1/log?kind=service", "").body; !strings.Contains(log, "host's key replaced") || !strings.Contains(log, old) {
		t.Error("the log does not say so")
	}
	if _, _, err := p.published(); err != nil {
		t.Errorf("the published hard blocks are not signed anew: %v", err)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(home, "keys", old+".pub")); err != nil {
		t.Fatal(err)
	}
	p = beginOn(t, home, db)
	v := p.chained()
	if len(v.Problems) != 1 || !strings.Contains(v.Problems[0].What, old) || !strings.Contains(v.Problems[0].What, "keys/") {
		t.Errorf("%+v", v)
	}
}

// What is wrong with the key keeps the control plane from starting, and nothing of it is
// in the error.
func TestIdentityRefused(t *testing.T) {
	for name, spoil := range map[string]func(at string) error{
		"readable":  func(at string) error { return os.Chmod(at, 0o644) },
		"a link":    func(at string) error { return os.Rename(at, at+".x") },
		"no key":    func(at string) error { return os.WriteFile(at, []byte("CANARY-key"), 0o600) },
		"empty":     func(at string) error { return os.WriteFile(at, nil, 0o600) },
		"a cut key": func(at string) error { return os.Truncate(at, 60) },
	} {
		t.Run(name, func(t *testing.T) {
			home := testHome(t)
			if _, err := loadIdentity(home); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(home, "identity.key")
			if err := spoil(at); err != nil {
				t.Fatal(err)
			}
			if name == "a link" {
				if err := os.Symlink(at+".x", at); err != nil {
					t.Fatal(err)
				}
			}
			_, err := loadIdentity(home)
			if err == nil || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("got %v", err)
			}
		})
	}
}
