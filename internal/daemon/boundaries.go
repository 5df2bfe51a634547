package daemon

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/review"
	"bourn/internal/store"
)

// boundariesKey is the key of the hard blocks among the documents.
const boundariesKey = "execution_boundaries"

// boundaries keeps the hard blocks in force.
type boundaries struct {
	store *store.Store
	log   *logWriter
	key   ed25519.PrivateKey
	home  string
	base  review.Base

	now atomic.Pointer[inForce]
}

// inForce is what was last read of the store. Its zero value denies every mutation.
type inForce struct {
	document store.Document
	state    string // ok, none, invalid
	rules    int
	compiled *review.Compiled
	problems []api.Detail
}

// newBoundaries returns boundaries that deny until they are loaded.
func newBoundaries(s *store.Store, log *logWriter, key ed25519.PrivateKey, home, person string) *boundaries {
	b := &boundaries{store: s, log: log, key: key, home: home, base: review.Base{Root: "/", Home: person}}
	b.now.Store(&inForce{state: "invalid", compiled: review.Invalid(errors.New("the hard blocks were not read yet"))})
	return b
}

// Load reads what is stored, also what was changed behind Bourn's back, and publishes it.
// What is stored and is not valid denies every mutation until it is mended. If the store
// cannot be read, what was read before stays in force.
func (b *boundaries) Load(ctx context.Context) error {
	d, err := b.store.Metadata(ctx, boundariesKey)
	if errors.Is(err, bourn.ErrNotFound) {
		compiled, err := review.Compile(review.NoRules(), b.base)
		if err != nil {
			return err
		}
		b.now.Store(&inForce{state: "none", compiled: compiled})
		return b.publish(0, review.NoRules(), true)
	}
	if err != nil {
		return fmt.Errorf("cannot read the hard blocks: %w", err)
	}
	if old := b.now.Load(); old.document.Version == d.Version && string(old.document.Value) == string(d.Value) {
		return nil
	}
	next := b.read(d)
	b.now.Store(next)
	rules, _ := review.Parse(d.Value, b.base)
	return b.publish(d.Version, rules, next.state == "ok")
}

// read judges a stored document.
func (b *boundaries) read(d store.Document) *inForce {
	rules, problems := review.Parse(d.Value, b.base)
	if len(problems) > 0 {
		return &inForce{document: d, state: "invalid", problems: details(problems),
			compiled: review.Invalid(fmt.Errorf("the stored hard blocks (version %d) are not valid: %s", d.Version, problems[0]))}
	}
	compiled, err := review.Compile(rules, b.base)
	if err != nil {
		return &inForce{document: d, state: "invalid", compiled: compiled, problems: []api.Detail{{Message: err.Error()}}}
	}
	return &inForce{document: d, state: "ok", rules: len(rules.HardBlocks), compiled: compiled}
}

func details(problems []review.Problem) []api.Detail {
	out := make([]api.Detail, len(problems))
	for i, p := range problems {
		out[i] = api.Detail{Location: p.Path, Code: p.Key(), Message: p.Text}
	}
	return out
}

// Save checks a document and makes it the version after the one the caller has seen. What
// is wrong is said all at once, and nothing is stored. The log has it before it holds.
func (b *boundaries) Save(ctx context.Context, who string, document []byte, after int64) error {
	rules, problems := review.Parse(document, b.base)
	if len(problems) > 0 {
		return detailed{bourn.WithHint(fmt.Errorf("%w: the hard blocks have %s; nothing was saved", bourn.ErrInvalid, count(len(problems), "mistake")), "mend what is listed, and save again"), details(problems)}
	}
	if _, err := review.Compile(rules, b.base); err != nil {
		return err
	}
	entry := audit.Entry{Kind: audit.KindChange, Who: who, What: "boundaries set", Target: fmt.Sprintf("version %d, %s", after+1, count(len(rules.HardBlocks), "rule")),
		Digest: rules.Digest(), Outcome: audit.Allowed}
	if err := b.log.Append(ctx, entry); err != nil {
		return err
	}
	_, err := b.store.SaveMetadata(ctx, boundariesKey, document, after, who)
	if err != nil {
		return err
	}
	return b.Load(ctx)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Show returns what is in force.
func (b *boundaries) Show() api.Boundaries { return shown(b.now.Load()) }

func shown(f *inForce) api.Boundaries {
	return api.Boundaries{Version: f.document.Version, State: f.state, Rules: f.rules, SavedAt: f.document.SavedAt, SavedBy: f.document.SavedBy,
		Document: asJSON(f.document.Value), Problems: f.problems}
}

// asJSON returns a stored text as the JSON it is: what is stored is always JSON.
func asJSON(value []byte) json.RawMessage {
	if !json.Valid(value) {
		return nil
	}
	return value
}

// History returns the newest versions with what each says.
func (b *boundaries) History(ctx context.Context, most int) (api.BoundariesHistory, error) {
	all, err := b.store.History(ctx, boundariesKey, most)
	h := api.BoundariesHistory{Versions: []api.Boundaries{}}
	for _, d := range all {
		h.Versions = append(h.Versions, shown(b.read(d)))
	}
	return h, err
}

// Test says which rules an action meets.
func (b *boundaries) Test(t api.TestBoundaries) (api.TestedBoundaries, error) {
	compiled := b.now.Load().compiled
	if len(t.Document) > 0 {
		rules, problems := review.Parse(t.Document, b.base)
		if len(problems) > 0 {
			return api.TestedBoundaries{}, detailed{fmt.Errorf("%w: the hard blocks have %s", bourn.ErrInvalid, count(len(problems), "mistake")), details(problems)}
		}
		var err error
		if compiled, err = review.Compile(rules, b.base); err != nil {
			return api.TestedBoundaries{}, err
		}
	}
	action, err := tested(t)
	if err != nil {
		return api.TestedBoundaries{}, err
	}
	return explained(review.Explain(action, compiled)), nil
}

// tested makes the action that a test is about.
func tested(t api.TestBoundaries) (bourn.Action, error) {
	given := 0
	for _, is := range []bool{t.Command != "", len(t.Argv) > 0, t.Path != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return bourn.Action{}, fmt.Errorf("%w: give one of command, argv and path", bourn.ErrInvalid)
	}
	if t.Path == "" {
		return bourn.Action{Tool: "shell_exec", Command: &bourn.Command{Text: t.Command, Argv: t.Argv, Cwd: t.Dir}}, nil
	}
	operation := bourn.Read
	if t.Operation != "" {
		var err error
		if operation, err = bourn.ParseOperation(t.Operation); err != nil {
			return bourn.Action{}, err
		}
	}
	at := t.Path
	if !filepath.IsAbs(at) && t.Dir != "" {
		at = filepath.Join(t.Dir, at)
	}
	return bourn.Action{Tool: "boundaries test", Targets: []bourn.Target{{Operation: operation, Path: at}}}, nil
}

func explained(e review.Explanation) api.TestedBoundaries {
	r := api.TestedBoundaries{Verdict: e.Verdict.Outcome.String(), Matches: []api.Match{}}
	for _, reason := range e.Verdict.Reasons {
		if r.Reason == "" {
			r.Reason = reason.Blocker()
			if reason.Text != "" {
				r.Reason += ": " + reason.Text
			}
		}
	}
	for _, f := range e.Findings {
		on := f.Compared
		if f.Where != "" {
			on += " (" + f.Where + ")"
		}
		r.Matches = append(r.Matches, api.Match{Rule: f.Rule.ID, On: on, Reason: f.Rule.Reason})
	}
	return r
}

// Watch reads again what another daemon saved, or somebody changed in the database, until
// ctx ends.
func (b *boundaries) Watch(ctx context.Context, every time.Duration, say func(msg string, args ...any)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		before := b.now.Load().state
		if err := b.Load(ctx); err != nil && ctx.Err() == nil {
			say("cannot read the hard blocks", "error", err)
		}
		if after := b.now.Load().state; after != before && after == "invalid" {
			say("the stored hard blocks are not valid: every change by an agent is refused", "problems", len(b.now.Load().problems))
		}
	}
}

// publish writes the rules, signed, where `run` and `plan` read them without a daemon.
// What is not valid is published as such: they refuse it.
func (b *boundaries) publish(version int64, rules review.Boundaries, valid bool) error {
	text, err := review.Publish(b.key, version, rules, valid)
	if err != nil {
		return err
	}
	at := filepath.Join(b.home, review.SnapshotName)
	if old, err := os.ReadFile(at); err == nil && strings.TrimSpace(string(old)) == strings.TrimSpace(string(text)) {
		return nil
	}
	if err := replaceFile(at, text, 0o600); err != nil {
		return fmt.Errorf("cannot publish the hard blocks: %w", err)
	}
	return nil
}
