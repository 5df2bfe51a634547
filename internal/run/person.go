package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"bourn"
	"bourn/internal/review"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// On a shared host the control plane runs as a user of its own and touches nobody's file: an
// actor does, as the person, whose launcher has become that person before this begins. What
// it needs of what the service keeps comes with what it is told; it stands in the person's
// own $BOURN_HOME from then on, where no seal shows it.

// A PersonActor says what a person's actor is to be sealed as.
type PersonActor struct {
	Agent   bourn.AgentName // "" for the base seal
	Profile []byte          // the agent's
	Rules   []byte          // the published hard blocks; nil for a host without any
	Key     []byte          // identity.pub, by which they are signed
	Dir     string          // the working directory
	Run     string          // the run's id, as the control plane's log has it
	// Read and Write are what the base seal shows; the person's home may be among them. For an
	// agent they are what others write, too.
	Read, Write []string
}

// givenRun is what a run's id looks like that comes from the control plane; see newRunID.
var givenRun = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{3}-[0-9a-f]{8}$`)

// ServePerson runs the actor alone, which speaks on sock, until whoever is at the other end
// has gone. An error means that no actor came up.
func (h *Home) ServePerson(a PersonActor, sock, stderr *os.File) (Outcome, error) {
	h.logged = true
	if !givenRun.MatchString(a.Run) { // it names a file
		return Outcome{}, bourn.WithHint(fmt.Errorf("%w: that is no run's id", bourn.ErrInvalid), "the control plane starts this; by hand it is of no use")
	}
	p, err := h.prepareAs(a)
	if err != nil {
		return Outcome{}, err
	}
	plan := *p.Whole
	plan.Command = actorCommand
	p.Plan = &plan
	p.Request.Advisory = false // an actor performs nothing without a seal
	p.actorOnly, p.given = true, a.Run
	return p.Run(Streams{In: sock, Out: sock, Err: stderr}, nil, false)
}

// prepareAs plans the actor by what came with the order, and by nothing that came with another:
// actors of one person start at once, and the hard blocks of one order may be older.
func (h *Home) prepareAs(a PersonActor) (*Prepared, error) {
	dir, err := workingDirectory(a.Dir)
	if err != nil {
		return nil, err
	}
	if err := h.Make(); err != nil {
		return nil, err
	}
	unlock, err := lockedfile.MutexAt(filepath.Join(h.Dir, ".order.lock")).Lock()
	if err != nil {
		return nil, fmt.Errorf("cannot lock what the control plane said: %w", err)
	}
	defer unlock()
	if err := h.lay(a); err != nil {
		return nil, err
	}
	// What somebody proposes in a circle keeps nobody else of it from what is theirs.
	o := Options{Agent: a.Agent, Cwd: dir, Starting: true, others: slices.Concat(a.Read, a.Write)}
	if a.Agent == "" {
		o.Read, o.Write, o.wholeHome = a.Read, a.Write, true
		o.Proposal = NoProposal
	}
	p, err := h.Prepare(o)
	if err == nil && p.Plan.Cwd != dir && dir != h.Person {
		err = bourn.WithHint(fmt.Errorf("%w: the working directory %q is not granted", bourn.ErrDenied, a.Dir), elsewhere)
	}
	return p, err
}

// elsewhere is what to do about a working directory that an actor cannot begin in.
const elsewhere = "make a token for a directory that the agent's profile grants: bourn key mcp new"

// workingDirectory returns the real path of the directory that an actor is to begin in. One that
// is not there, or that the person may not see, is an error before anything is sealed.
func workingDirectory(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(real)
	}
	switch {
	case !filepath.IsAbs(dir):
		err = fmt.Errorf("%w: the working directory %q is not an absolute path", bourn.ErrInvalid, dir)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: there is no directory %q", bourn.ErrNotFound, dir)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: the working directory %q cannot be entered", bourn.ErrDenied, dir)
	case err != nil || !info.IsDir():
		err = fmt.Errorf("%w: %q is no directory", bourn.ErrInvalid, dir)
	default:
		return real, nil
	}
	return "", bourn.WithHint(err, elsewhere)
}

// lay puts what came with the order where a run looks for it.
func (h *Home) lay(a PersonActor) error {
	files := []struct {
		name string
		text []byte
	}{
		{identityName, a.Key},
		// The mark that there are hard blocks goes first: without them nothing starts then.
		{review.ConfiguredName, a.Rules},
		{review.SnapshotName, a.Rules},
	}
	for _, f := range files {
		text := f.text
		if f.name == review.ConfiguredName && text != nil {
			text = []byte{}
		}
		if err := h.put(filepath.Join(h.Dir, f.name), text); err != nil {
			return err
		}
	}
	if a.Agent == "" {
		return nil
	}
	for _, dir := range []string{h.agent(a.Agent), h.HomePath(a.Agent)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("cannot make the agent's place: %w", err)
		}
	}
	return h.put(h.ProfilePath(a.Agent), a.Profile)
}

// put replaces a file, or removes it where there is no text.
func (h *Home) put(at string, text []byte) error {
	if text == nil {
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove what does not hold any more: %w", err)
		}
		return nil
	}
	if err := writeFile(at, text, 0o600); err != nil {
		return fmt.Errorf("cannot keep what the control plane said: %w", err)
	}
	return nil
}
