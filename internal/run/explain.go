package run

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// An Explanation is an answer and what a person can do about it.
type Explanation struct {
	policy.Answer
	// Remove are the commands that take away the denies which close the target.
	Remove []string
	// Notes say why nothing mends it, or what else to know.
	Notes []string
}

// Explain says whether the run may do something to a target of the host, as typed: a
// path, for exec also the name of a program, for connect a host or a socket. Symlinks are
// resolved on the host first.
func (p *Prepared) Explain(op policy.Operation, typed string) (Explanation, error) {
	target, unresolved, err := p.target(op, typed)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Answer: p.Plan.Explain(op, target)}
	if unresolved != nil {
		e.Notes = append(e.Notes, "the answer is for the path as it is written: "+unresolved.Error())
	}
	e.Agent, e.Target = string(p.Options.Agent), typed
	if p.Whole != p.Plan && heldByTools(&e.Answer, p.Whole, p.Items) {
		return e, nil
	}
	if op == policy.OpConnect {
		p.explainHost(&e)
		return e, nil
	}
	p.notTheHosts(&e)
	p.droppedGrant(&e)
	if e.Allowed == "denied" {
		p.mend(&e)
	}
	return e, nil
}

// target returns what a question is about. Where a person may not look, the path is taken
// as it is written, and unresolved says why.
func (p *Prepared) target(op policy.Operation, typed string) (target string, unresolved, err error) {
	switch {
	case op == policy.OpConnect && !strings.HasPrefix(typed, "/"):
		return typed, nil, nil
	case op == policy.OpExec && typed != "" && !strings.Contains(typed, "/"):
		if typed, err = p.program(typed); err != nil {
			return "", nil, err
		}
	}
	at, err := p.home.absolute(typed, p.Options.Cwd)
	if err != nil {
		return "", nil, err
	}
	r, unresolved := survey.Resolve(at)
	if unresolved != nil {
		return filepath.Clean(at), unresolved, nil
	}
	return r.Real, nil, nil
}

// program finds a program by its name in PATH.
func (p *Prepared) program(name string) (string, error) {
	path, _ := p.home.lookup("PATH")
	for _, dir := range filepath.SplitList(path) {
		if at := filepath.Join(dir, name); filepath.IsAbs(dir) {
			if found, err := exec.LookPath(at); err == nil {
				return found, nil
			}
		}
	}
	return "", bourn.WithHint(fmt.Errorf("%w: no program %q in PATH", bourn.ErrNotFound, name), "give its path")
}

// ownPlace ends the target of the item that policy names for a place of the run's own.
const ownPlace = ": the run's own, nothing of the host's"

// notTheHosts corrects an answer about a place that is the run's own, where the host has
// the target or a directory on the way to it: the run may do it there, and not to the
// host's.
func (p *Prepared) notTheHosts(e *Explanation) {
	if e.Allowed != "allowed" || e.Item == nil {
		return
	}
	at, own := strings.CutSuffix(e.Item.Target, ownPlace)
	near := nearest(e.Resolved)
	if !own || policy.Under(at, near) {
		return
	}
	e.Allowed = "denied"
	e.Notes = append(e.Notes, "the run has a "+at+" of its own, in which "+near+" of the host is absent")
	e.Item = p.closer(e.Operation, e.Resolved)
}

// closer returns the item by which a path of the host is absent: the deny or protection
// that names it, else the default for everything that is not granted.
func (p *Prepared) closer(op policy.Operation, at string) *policy.Item {
	for i := range p.Plan.Items {
		if it := &p.Plan.Items[i]; it.Closes(op) && policy.Under(at, it.Target) {
			return it
		}
	}
	return everythingElse(p.Plan.Items)
}

// kindFor is the grant that an operation needs.
func kindFor(op policy.Operation) policy.Kind {
	if op == policy.OpWrite {
		return policy.KindWrite
	}
	return policy.KindRead
}

// droppedGrant names a grant that would have allowed it and was dropped, in the place of
// the item that stands for everything else.
func (p *Prepared) droppedGrant(e *Explanation) {
	if e.Allowed != "denied" || e.Item == nil || e.Item.Kind != policy.KindDefault {
		return
	}
	for i, it := range p.Plan.Items {
		grants := it.Kind == policy.KindWrite || it.Kind == kindFor(e.Operation)
		if grants && it.Fate == policy.Dropped && (policy.Under(e.Resolved, it.Target) || policy.Under(path.Clean(e.Target), it.Target)) {
			e.Item = &p.Plan.Items[i]
			return
		}
	}
}

// mend finds the command that would turn a refusal.
func (p *Prepared) mend(e *Explanation) {
	if it := e.Item; it != nil && (it.Kind == policy.KindDeny || it.Kind == policy.KindProtect) {
		p.mendClosed(e, it)
		return
	}
	kind, spawn := kindFor(e.Operation), p.lacksSpawnDir(e)
	if spawn {
		kind = policy.KindSpawnDir
		if p.Plan.Exec == policy.ExecNone {
			e.Notes = append(e.Notes, "processes.mode is none: only system paths may execute, whatever is granted")
			return
		}
	}
	at := p.Plan.Grantable(e.Answer, func(at string) string { return p.Request.Refusal(kind, at) }, exists)
	if spawn && at != "" && !isDir(at) {
		at = path.Dir(at)
	}
	if at == "" {
		e.Notes = append(e.Notes, p.ungrantable(kind, e.Resolved))
		return
	}
	e.Grant = p.grantCommand(kind, at)
}

// mendClosed says which entry closes the target, where a person has made it.
func (p *Prepared) mendClosed(e *Explanation, it *policy.Item) {
	if it.Blocks() {
		e.Notes = append(e.Notes, "the hard block "+strings.TrimPrefix(it.From, policy.BlockPrefix)+
			" of this host's administrator decides, and no grant changes that: bourn boundaries show")
		return
	}
	if it.Kind == policy.KindProtect {
		e.Notes = append(e.Notes, "it is protected, and no grant changes that")
		return
	}
	for _, d := range p.Request.Denies {
		switch _, ok := closing([]policy.Deny{d}, e.Resolved); {
		case !ok:
		case d.From == "profile":
			e.Remove = append(e.Remove, "bourn agent perm remove-path "+e.Agent+" "+shellQuote(p.entryText(d)))
		case d.From == fromHost:
			e.Notes = append(e.Notes, "this host's policy denies it, and no grant changes that: "+p.home.Floor)
		case d.From == fromRepository:
			e.Notes = append(e.Notes, "a repository's proposal denies it: --proposal none leaves that out")
		default:
			e.Notes = append(e.Notes, "a deny wins over every grant: leave out --deny "+shellQuote(d.Pattern))
		}
	}
	switch {
	case len(e.Remove) > 0:
		e.Notes = append(e.Notes, "a deny wins over every grant: this must go first")
	case len(e.Notes) == 0:
		e.Notes = append(e.Notes, "a deny decides, and no grant changes that")
	}
}

// entryText returns the entry of the profile that a deny comes from.
func (p *Prepared) entryText(d policy.Deny) string {
	for _, entry := range p.Profile.Filesystem.Deny {
		if q := p.home.deny(entry); q.Pattern == d.Pattern && q.Glob == d.Glob {
			return entry.Text
		}
	}
	return d.Pattern
}

// lacksSpawnDir reports whether the target can be read and only executing it is refused.
func (p *Prepared) lacksSpawnDir(e *Explanation) bool {
	return e.Operation == policy.OpExec && e.Item != nil && e.Item.Kind == policy.KindDefault &&
		strings.HasPrefix(e.Item.Target, "execution ")
}

// ungrantable says why no existing ancestor of a path can be granted.
func (p *Prepared) ungrantable(kind policy.Kind, target string) string {
	at := nearest(target)
	return "nothing that exists on the way to it can be granted: " + at + " is " + p.Request.Refusal(kind, at)
}

// nearest returns the path itself, or the nearest directory above it that exists.
func nearest(p string) string {
	for p = path.Clean(p); p != "/" && !exists(p); p = path.Dir(p) {
	}
	return p
}

// grantCommand is the command line that grants a path: to the agent for good, or to a
// run without one for this time.
func (p *Prepared) grantCommand(kind policy.Kind, at string) string {
	o := p.Options
	if o.Agent != "" {
		return "bourn agent perm " + verbs[kind] + " " + string(o.Agent) + " " + shellQuote(at)
	}
	flag := map[policy.Kind]string{policy.KindRead: "--read", policy.KindWrite: "--write", policy.KindSpawnDir: "--spawn-dir"}[kind]
	if len(o.Write) == 0 && kind == policy.KindWrite {
		return p.again("--write", ".", flag, at) // what a run without the flag has
	}
	return p.again(flag, at)
}

// again is the command line of this run with further flags.
func (p *Prepared) again(more ...string) string {
	o := p.Options
	words := []string{"bourn", "run"}
	add := func(flag string, values ...string) {
		for _, v := range values {
			words = append(words, flag, shellQuote(v))
		}
	}
	add("--preset", o.Presets...)
	add("--read", o.Read...)
	add("--write", o.Write...)
	add("--deny", o.Deny...)
	add("--spawn-dir", o.SpawnDirs...)
	add("--env", o.Env...)
	add("--host", o.Hosts...)
	if o.Records != policy.RecordsNone {
		add("--records", string(o.Records))
	}
	for i := 0; i+1 < len(more); i += 2 {
		add(more[i], more[i+1])
	}
	return strings.Join(append(words, "--", "COMMAND"), " ")
}

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}
