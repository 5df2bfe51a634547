package daemon

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
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

	loading sync.Mutex // by one at a time: what was read first must not come last
	highest int64      // the newest version that was ever in force here
	now     atomic.Pointer[inForce]
	behind  atomic.Pointer[error] // why runs do not have what is in force, nil when they do
}

// inForce is what was last read of the store. Its zero value denies every mutation.
type inForce struct {
	document  store.Document
	state     string // ok, none, invalid
	rules     int
	compiled  *review.Compiled
	problems  []api.Detail
	published []byte // signed, for readers without a daemon
}

// newBoundaries returns boundaries that deny until they are loaded.
func newBoundaries(s *store.Store, log *logWriter, key ed25519.PrivateKey, home, person string) *boundaries {
	b := &boundaries{store: s, log: log, key: key, home: home, base: review.Base{Root: "/", Home: person}}
	b.now.Store(&inForce{state: "invalid", compiled: review.Invalid(errors.New("the hard blocks were not read yet"))})
	if text, err := os.ReadFile(filepath.Join(home, review.SnapshotName)); err == nil {
		// The version is there also of a snapshot that says that they are not valid.
		_, b.highest, _ = review.Published(key.Public().(ed25519.PublicKey), text, b.base)
	}
	if _, err := os.Lstat(filepath.Join(home, review.ConfiguredName)); err == nil {
		b.highest = max(b.highest, 1)
	}
	return b
}

// Load reads what is stored, also what was changed behind Bourn's back, and publishes it.
// What is stored and is not valid denies every mutation until it is mended, and so do hard
// blocks that are gone or went back to an older version. If the store cannot be read, what
// was read before stays in force.
func (b *boundaries) Load(ctx context.Context) error {
	b.loading.Lock()
	defer b.loading.Unlock()
	return b.load(ctx)
}

func (b *boundaries) load(ctx context.Context) error {
	d, err := b.store.Metadata(ctx, boundariesKey)
	if err != nil && !errors.Is(err, bourn.ErrNotFound) {
		return fmt.Errorf("cannot read the hard blocks: %w", err)
	}
	next := b.now.Load()
	if next.published == nil || next.document.Version != d.Version || string(next.document.Value) != string(d.Value) || d.Version < b.highest {
		if next, err = b.judged(d); err != nil {
			return err
		}
		b.now.Store(next)
		b.highest = max(b.highest, d.Version)
	}
	return b.publish(next.published)
}

// judged makes what is stored into what is in force; d is the zero document where nothing
// is.
func (b *boundaries) judged(d store.Document) (next *inForce, err error) {
	rules := review.NoRules()
	switch {
	case d.Version < b.highest:
		why := fmt.Errorf("the stored hard blocks went back from version %d to %d", b.highest, d.Version)
		if d.Version == 0 {
			why = errors.New("the stored hard blocks are gone")
		}
		next = &inForce{document: d, state: "invalid", compiled: review.Invalid(why), problems: []api.Detail{{Message: why.Error()}}}
	case d.Version == 0:
		compiled, err := review.Compile(rules, b.base)
		if err != nil {
			return nil, err
		}
		next = &inForce{state: "none", compiled: compiled}
	default:
		next = b.read(d)
		rules, _ = review.Parse(d.Value, b.base)
	}
	next.published, err = review.Publish(b.key, max(d.Version, b.highest), rules, next.state != "invalid")
	return next, err
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
	return b.log.Effect(ctx, entry, func() error {
		b.loading.Lock()
		defer b.loading.Unlock()
		version, err := b.store.SaveMetadata(ctx, boundariesKey, document, after, who)
		if err != nil {
			return err
		}
		b.highest = version
		return b.load(ctx)
	})
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

// asJSON returns a stored text as the object it is. What is none is not shown: it was not
// saved here.
func asJSON(value []byte) json.RawMessage {
	if !json.Valid(value) || !bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
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
		before := b.now.Load()
		if err := b.Load(ctx); err != nil && ctx.Err() == nil {
			say("cannot read the hard blocks", "error", err)
		}
		if after := b.now.Load(); after != before {
			b.found(ctx, after, say)
		}
	}
}

// found says what Watch came upon: nothing that this control plane saved, or what it did
// and the log has already.
func (b *boundaries) found(ctx context.Context, now *inForce, say func(msg string, args ...any)) {
	if now.state == "invalid" {
		say("the stored hard blocks are not valid: every change by an agent is refused", "problems", len(now.problems))
	}
	digest := sha256.Sum256(now.document.Value)
	e := audit.Entry{Kind: audit.KindChange, Who: "host", What: "boundaries read", Target: fmt.Sprintf("version %d, %s", now.document.Version, now.state),
		Digest: hex.EncodeToString(digest[:]), Outcome: audit.Done}
	if err := b.log.Append(ctx, e); err != nil && ctx.Err() == nil {
		say("cannot write the log", "error", err)
	}
}

// publish writes the signed rules where `run` and `plan` read them without a daemon, and
// mends what was changed there. What is not valid is published as such: they refuse it.
// Where it cannot, health says so until it can.
func (b *boundaries) publish(text []byte) error {
	err := b.writeSnapshot(text)
	if err == nil {
		b.behind.Store(nil)
		return nil
	}
	err = bourn.WithHint(fmt.Errorf("%w: version %d of the hard blocks is stored, and runs do not have it yet: %w", bourn.ErrUnavailable, b.highest, err),
		"mend that: it is tried again every second")
	b.behind.Store(&err)
	return err
}

func (b *boundaries) writeSnapshot(text []byte) error {
	if b.highest > 0 {
		// Before the rules: with it, a snapshot that is missing refuses.
		at := filepath.Join(b.home, review.ConfiguredName)
		if _, err := os.Lstat(at); err != nil {
			if err := replaceFile(at, nil, 0o600); err != nil {
				return err
			}
		}
	}
	at := filepath.Join(b.home, review.SnapshotName)
	if info, err := os.Lstat(at); err == nil && info.Mode() == 0o600 { // a file, and nobody else's to read
		if old, err := os.ReadFile(at); err == nil && string(old) == string(text) {
			return nil
		}
	}
	if err := replaceFile(at, text, 0o600); err != nil {
		return err
	}
	return nil
}
