package run

import (
	"crypto/rand"
	"encoding/json"
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

	"github.com/rogpeppe/go-internal/lockedfile"
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
// the object that the journal names, empty and unchanged; all else stays. Runs of one
// $BOURN_HOME share an artefact: whoever leaves last removes it, and when that was killed the
// next bourn command does.

// journalVersion is the version of the journal's format.
const journalVersion = 1

// A journal is the list of artefacts, in the order in which they were made.
type journal struct {
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
	Users   []user        `json:"users"`
}

// A user is a run that needs an artefact. Until its record is on disk it lives by the process
// that sees to it from outside.
type user struct {
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

func (h *Home) journalPath() string { return filepath.Join(h.Dir, "placeholders") }

// readJournal returns the journal; without a file it is empty.
func (h *Home) readJournal() (*journal, error) {
	j := &journal{Version: journalVersion}
	data, err := os.ReadFile(h.journalPath())
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err == nil {
		err = json.Unmarshal(data, j)
	}
	if err == nil && j.Version != journalVersion {
		err = fmt.Errorf("version %d is not known", j.Version)
	}
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot read which placeholders stand on this host: %w", err),
			"remove "+h.journalPath()+" and the empty files without permissions that it names")
	}
	return j, nil
}

// writeJournal replaces the journal and settles it and its name on disk. An empty one goes.
func (h *Home) writeJournal(j *journal) error {
	err := h.replaceJournal(j)
	if err == nil {
		err = settle(h.Dir)
	}
	if err != nil {
		return fmt.Errorf("cannot write down which placeholders stand on this host: %w", err)
	}
	return nil
}

// settle puts what was renamed in a directory on disk.
func settle(dir string) error {
	d, err := placeholder.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (h *Home) replaceJournal(j *journal) error {
	if len(j.Artefacts) == 0 {
		return os.Remove(h.journalPath())
	}
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(h.journalPath(), append(data, '\n'), 0o600)
}

// lockJournal takes the journal's lock, and removes what killed commands were writing.
func (h *Home) lockJournal() (unlock func(), err error) {
	if unlock, err = lockedfile.MutexAt(h.journalPath() + ".lock").Lock(); err != nil {
		return nil, fmt.Errorf("cannot lock the list of placeholders: %w", err)
	}
	left, _ := filepath.Glob(filepath.Join(h.Dir, ".placeholders.*"))
	for _, at := range left {
		_ = os.Remove(at)
	}
	return unlock, nil
}

// lives reports whether the run of a user may still need its artefacts. What cannot be told
// lives.
func (h *Home) lives(u user) bool {
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
	if !exists(h.journalPath()) {
		return c, nil
	}
	unlock, err := h.lockJournal()
	if err != nil {
		return c, err
	}
	defer unlock()
	j, err := h.readJournal()
	if err != nil || len(j.Artefacts) == 0 {
		return c, err
	}
	boot, err := bootID()
	if err != nil {
		return c, err
	}
	changed := false
	gone := map[int]bool{}
	for i := range slices.Backward(j.Artefacts) { // what stands in a directory goes before it
		a := &j.Artefacts[i]
		before := len(a.Users)
		a.Users = slices.DeleteFunc(a.Users, func(u user) bool { return u.Run == ended || !h.lives(u) })
		changed = changed || len(a.Users) != before
		if len(a.Users) == 0 && c.clear(a, boot) {
			gone[i] = true
		}
	}
	if !changed && len(gone) == 0 {
		return c, nil
	}
	var kept []artefact
	for i, a := range j.Artefacts {
		if !gone[i] {
			kept = append(kept, a)
		}
	}
	j.Artefacts = kept
	return c, h.writeJournal(j)
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
	if err == nil {
		err = a.removeTemp(d, sameBoot)
	}
	if err == nil && a.Object != (policy.Object{}) {
		err = d.Remove(filepath.Base(a.Path), a.Temp, a.state(), sameBoot)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, d.Sync()) // before the line goes
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
