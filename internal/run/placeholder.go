package run

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox/placeholder"
)

// Placeholders stand on the host while runs need them, and must go whatever happens to those.
// $BOURN_HOME/placeholders lists them, and is settled on disk before each step:
//
//	intent      name, directory and a random name            → an object is made by that name
//	identity    device, inode, birth                         → it gets its own name
//	placed      the time of its last change                  → the run is sealed
//	            no run uses it any more: removed, settled    → the line goes
//
// What stands at the random name is bourn's. What stands at the own name is bourn's if it is
// the object that the ledger names, empty and unchanged; all else stays. Runs of one
// $BOURN_HOME share an artefact: whoever leaves last removes it, and when that was killed the
// next bourn command does.

// ledgerVersion is the version of the ledger's format.
const ledgerVersion = 1

// A ledger is the list of artefacts, in the order in which they were made.
type ledger struct {
	Version   int        `json:"version"`
	Artefacts []artefact `json:"placeholders"`
}

// An artefact is one object that stands on the host for runs.
type artefact struct {
	Path    string        `json:"path"`
	Dir     bool          `json:"dir,omitempty"` // made for another one that is in it
	Temp    string        `json:"temp"`          // the name by which it is made and removed
	Parent  policy.Object `json:"parent"`
	Object  policy.Object `json:"object"`            // zero until it is made
	Changed int64         `json:"changed,omitempty"` // zero until it is placed
	Boot    string        `json:"boot_id"`           // in which the identities were taken
	Sharers []sharer      `json:"users"`
}

// A sharer is a run that needs an artefact. Until its record is on disk it lives by the
// process that sees to it from outside.
type sharer struct {
	Agent     bourn.AgentName `json:"agent"`
	Run       string          `json:"run"`
	Pid       int             `json:"pid"`
	StartTime uint64          `json:"start_time"`
	BootID    string          `json:"boot_id"`
}

func (a *artefact) state() placeholder.State {
	return placeholder.State{Object: a.Object, Changed: a.Changed, Dir: a.Dir}
}

// made reports whether the artefact stands at its name, as it was made.
func (a *artefact) made(boot string) bool {
	d, err := placeholder.Open(filepath.Dir(a.Path))
	if err != nil || a.Object == (policy.Object{}) {
		return false
	}
	defer d.Close()
	s, err := d.Stat(filepath.Base(a.Path))
	return err == nil && s.Is(a.state(), boot == a.Boot)
}

func (h *Home) ledgerPath() string { return filepath.Join(h.Dir, "placeholders") }

// readLedger returns the ledger; without a file it is empty.
func (h *Home) readLedger() (*ledger, error) {
	l := &ledger{Version: ledgerVersion}
	err := readJSON(h.ledgerPath(), l, &l.Version, ledgerVersion)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot read which placeholders stand on this host: %w", err),
			"remove "+h.ledgerPath()+" and the empty files without permissions that it names")
	}
	return l, nil
}

// writeLedger replaces the ledger and settles it and its name on disk. An empty one goes.
func (h *Home) writeLedger(l *ledger) error {
	err := h.replaceLedger(l)
	if err == nil {
		err = syncDir(h.Dir)
	}
	if err != nil {
		return fmt.Errorf("cannot write down which placeholders stand on this host: %w", err)
	}
	return nil
}

// syncDir puts what was renamed in a directory on disk.
func syncDir(dir string) error {
	d, err := placeholder.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (h *Home) replaceLedger(l *ledger) error {
	if len(l.Artefacts) == 0 {
		return os.Remove(h.ledgerPath())
	}
	return writeJSON(h.ledgerPath(), l)
}

// lives reports whether a run may still need its artefacts. What cannot be told
// lives.
func (h *Home) lives(u sharer) bool {
	if (Record{Pid: u.Pid, StartTime: u.StartTime, BootID: u.BootID}).Live() {
		return true
	}
	r, err := readHead(filepath.Join(h.runsDir(u.Agent), u.Run+".json"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return r.Live()
}

// A clearance is what came of removing artefacts.
type clearance struct {
	removed int
	notes   []string // what a person should know: what stays where it is
	stuck   []string // what could not be removed, and is tried again
}

// clearPlaceholders removes the artefacts that no live run needs, and those of a run that
// ends, which is named.
func (h *Home) clearPlaceholders(ended string) (clearance, error) {
	var c clearance
	if !exists(h.ledgerPath()) {
		return c, nil
	}
	unlock, err := lockFile(h.ledgerPath())
	if err != nil {
		return c, err
	}
	defer unlock()
	l, err := h.readLedger()
	if err != nil || len(l.Artefacts) == 0 {
		return c, err
	}
	boot, err := bootID()
	if err != nil {
		return c, err
	}
	changed := false
	gone := map[int]bool{}
	for i := range slices.Backward(l.Artefacts) { // what stands in a directory goes before it
		a := &l.Artefacts[i]
		before := len(a.Sharers)
		a.Sharers = slices.DeleteFunc(a.Sharers, func(u sharer) bool { return u.Run == ended || !h.lives(u) })
		changed = changed || len(a.Sharers) != before
		if len(a.Sharers) == 0 && c.clear(a, boot) {
			gone[i] = true
		}
	}
	if !changed && len(gone) == 0 {
		return c, nil
	}
	var kept []artefact
	for i, a := range l.Artefacts {
		if !gone[i] {
			kept = append(kept, a)
		}
	}
	l.Artefacts = kept
	return c, h.writeLedger(l)
}

// clear removes an artefact, and reports whether its line can go.
func (c *clearance) clear(a *artefact, boot string) bool {
	at := bourn.Printable(a.Path)
	note := func(format string, args ...any) bool {
		c.notes = append(c.notes, fmt.Sprintf(format, args...))
		return true
	}
	err := a.remove(boot == a.Boot)
	switch {
	case placeholder.Gone(err), errors.Is(err, errMoved):
		return note("%s: its directory is not where it was, and an empty file that bourn made may be left in it", at)
	case err == nil:
		c.removed++
		return true
	case errors.Is(err, placeholder.ErrFilled):
		return note("%s, a directory that bourn made, holds other things now and stays", at)
	case errors.Is(err, placeholder.ErrOther):
		return note("%s is not the placeholder any more that bourn made, and stays", at)
	}
	c.stuck = append(c.stuck, fmt.Sprintf("the placeholder %s cannot be removed: %v", at, innermost(err)))
	return false
}

// errMoved: another directory stands where an artefact's was.
var errMoved = errors.New("its directory was replaced")

// remove removes what stands at the random name, and at the own one if it is the artefact's.
// What is gone already is removed.
func (a *artefact) remove(sameBoot bool) error {
	d, err := placeholder.Open(filepath.Dir(a.Path))
	if err != nil {
		return err
	}
	defer d.Close()
	is, err := d.Object()
	if err == nil && !placeholder.Same(is, a.Parent, sameBoot) {
		err = errMoved
	}
	temp := a.Temp
	if err == nil && a.taken(d, sameBoot) {
		temp = tempName()
	} else if err == nil {
		err = a.removeTemp(d, sameBoot)
	}
	if err == nil && a.Object != (policy.Object{}) {
		err = d.Remove(filepath.Base(a.Path), temp, a.state(), sameBoot)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, d.Sync()) // before the line goes
}

// taken reports whether somebody else's stands at the random name: whoever may write there
// saw it while the artefact was made, and the artefact is in its place.
func (a *artefact) taken(d *placeholder.Dir, sameBoot bool) bool {
	s, err := d.Stat(a.Temp)
	if err != nil || a.Object == (policy.Object{}) || placeholder.Same(s.Object, a.Object, sameBoot) {
		return false
	}
	own, err := d.Stat(filepath.Base(a.Path))
	return err == nil && own.Is(a.state(), sameBoot)
}

// removeTemp removes what stands at the random name: by that name it is bourn's. Only what
// was moved there an instant too late is not empty, and goes back.
func (a *artefact) removeTemp(d *placeholder.Dir, sameBoot bool) error {
	s, err := d.Stat(a.Temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = d.Remove(a.Temp, a.Temp, placeholder.State{Object: s.Object, Dir: a.Dir}, sameBoot)
	}
	if errors.Is(err, placeholder.ErrOther) {
		_, back := d.Place(a.Temp, filepath.Base(a.Path))
		return errors.Join(err, back)
	}
	return err
}

// innermost is an error about a path that is printed anyway.
func innermost(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// tempName returns a name that nobody else uses.
func tempName() string { return placeholder.Prefix + rand.Text() }

// placeholdersLeft removes the placeholders of runs that were killed, and says what came of it.
func (h *Home) placeholdersLeft(c Check) Check {
	cleared, err := h.clearPlaceholders("")
	switch {
	case err != nil:
		return c.untold(err)
	case len(cleared.stuck) > 0:
		return c.because(cleared.stuck[0]).bad("let yourself write to its directory, and run bourn doctor again")
	case len(cleared.notes) > 0:
		c.Detail = strings.Join(cleared.notes, "; ")
	case cleared.removed > 0:
		c.Detail = plural(cleared.removed, "placeholder") + " of killed runs removed"
	default:
		c.Detail = "none"
	}
	return c.good()
}
