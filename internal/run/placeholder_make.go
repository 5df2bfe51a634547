package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox/placeholder"
)

// markPlaceholders tells denied places at which an artefact of another run stands: it goes
// when that run ends, unless this one shares it.
func (p *Prepared) markPlaceholders() error {
	if len(p.Request.Denies) == 0 {
		return nil
	}
	l, err := p.home.readLedger()
	if err != nil || len(l.Artefacts) == 0 {
		return err
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	stands := map[string]bool{}
	for i := range l.Artefacts {
		if a := &l.Artefacts[i]; !a.Dir && a.made(boot) {
			stands[a.Path] = true
		}
	}
	for i := range p.Request.Denies {
		d := &p.Request.Denies[i]
		d.Made = stands[d.Real]
		for k := range d.Matches {
			d.Matches[k].Made = stands[d.Matches[k].Real]
		}
		for k := range d.More {
			d.More[k].Made = stands[d.More[k].Real]
		}
	}
	return nil
}

// A placing makes the artefacts of one run.
type placing struct {
	runner *runner
	ledger *ledger
	run    sharer
	boot   string
	new    []int // the artefacts of this run that are not in their place
}

// placehold makes the placeholders of the plan, or shares those of other runs, and ties the
// masks to them. After an error nothing may start.
func (r *runner) placehold() error {
	if len(r.Whole.Placeholders) == 0 {
		return nil
	}
	r.placed = true // whatever of it succeeds
	unlock, err := lockFile(r.home.ledgerPath())
	if err != nil {
		return err
	}
	defer unlock()
	w := placing{runner: r, run: sharer{Agent: r.Options.Agent, Run: r.id, Pid: os.Getpid()}}
	if w.ledger, err = r.home.readLedger(); err != nil {
		return err
	}
	if w.boot, err = bootID(); err == nil {
		w.run.BootID = w.boot
		w.run.StartTime, err = startTime(w.run.Pid)
	}
	if err != nil {
		return fmt.Errorf("cannot write down whose placeholders they are: %w", err)
	}
	for { // outermost first: what is missing on the way is made before what stands in it
		more, err := w.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := w.make(); err != nil {
			return err
		}
	}
	if err := r.home.writeLedger(w.ledger); err != nil {
		return err
	}
	return w.tie()
}

// next adds to the ledger, for each placeholder, the outermost object that is missing, and
// shares what is there of other runs. It reports whether anything is to be made.
func (w *placing) next() (more bool, err error) {
	w.new = nil
	for _, p := range w.runner.Whole.Placeholders {
		if !utf8.ValidString(p.Path) {
			return false, cannotPlace(p.Path, errors.New("its name is not UTF-8"))
		}
		w.share(p.Path)
		at, missing := nearest(p.Path), p.Path
		if at == p.Path {
			continue
		}
		for up := filepath.Dir(missing); up != at; up = filepath.Dir(up) {
			missing = up
		}
		if w.adds(missing) {
			if err := w.add(missing, missing != p.Path); err != nil {
				return false, cannotPlace(p.Path, err)
			}
		}
	}
	return len(w.new) > 0, nil
}

// add adds an artefact to the ledger.
func (w *placing) add(at string, dir bool) error {
	d, err := placeholder.Open(filepath.Dir(at))
	if err != nil {
		return err
	}
	defer d.Close()
	parent, err := d.Object()
	if err != nil {
		return err
	}
	w.new = append(w.new, len(w.ledger.Artefacts))
	w.ledger.Artefacts = append(w.ledger.Artefacts, artefact{
		Path: at, Dir: dir, Temp: tempName(), Parent: parent, Boot: w.boot, Sharers: []sharer{w.run}})
	return nil
}

// adds reports whether a path is not about to be made already.
func (w *placing) adds(at string) bool {
	return !slices.ContainsFunc(w.new, func(i int) bool { return w.ledger.Artefacts[i].Path == at })
}

// share makes the run a sharer of the artefacts of others at a path and on the way to it.
func (w *placing) share(at string) {
	for i := range w.ledger.Artefacts {
		a := &w.ledger.Artefacts[i]
		mine := slices.ContainsFunc(a.Sharers, func(u sharer) bool { return u.Run == w.run.Run })
		if !mine && policy.Under(at, a.Path) && a.made(w.boot) {
			a.Sharers = append(a.Sharers, w.run)
		}
	}
}

// make makes what the last step added. The ledger is on disk before each object is made, and
// before it gets its name.
func (w *placing) make() error {
	all := w.ledger.Artefacts
	if err := w.runner.home.writeLedger(w.ledger); err != nil {
		return err
	}
	var dirs []*placeholder.Dir
	defer func() {
		for _, d := range dirs {
			d.Close()
		}
	}()
	for _, i := range w.new {
		a := &all[i]
		d, err := placeholder.Open(filepath.Dir(a.Path))
		if err != nil {
			return cannotPlace(a.Path, err)
		}
		dirs = append(dirs, d)
		if err := w.makeOne(a, d); err != nil {
			return cannotPlace(a.Path, err)
		}
	}
	if err := w.runner.home.writeLedger(w.ledger); err != nil {
		return err
	}
	for k, i := range w.new {
		if err := all[i].place(dirs[k]); err != nil {
			return cannotPlace(all[i].Path, err)
		}
	}
	return nil
}

// makeOne makes an object under its random name. Of a run as somebody else it is theirs.
func (w *placing) makeOne(a *artefact, in *placeholder.Dir) error {
	is, err := in.Object()
	if err != nil {
		return err
	}
	if !placeholder.Same(is, a.Parent, true) {
		return errors.New("its directory was replaced just now")
	}
	return w.runner.home.asUser(func() error {
		s, err := in.Make(a.Temp, a.Dir)
		a.Object = s.Object
		return err
	})
}

// place gives an object its own name, and asserts that it is the one that was made.
func (a *artefact) place(in *placeholder.Dir) error {
	s, err := in.Place(a.Temp, filepath.Base(a.Path))
	if err != nil {
		return err
	}
	if a.Changed = s.Changed; !s.Is(a.state(), true) {
		return placeholder.ErrOther
	}
	return in.Sync()
}

// tie names to each mask of a placeholder the object that must be under it.
func (w *placing) tie() error {
	for _, p := range w.runner.Whole.Placeholders {
		i := slices.IndexFunc(w.ledger.Artefacts, func(a artefact) bool {
			return a.Path == p.Path && !a.Dir && slices.Contains(a.Sharers, w.run)
		})
		if i < 0 {
			return cannotPlace(p.Path, fs.ErrExist)
		}
		for k := range w.runner.Whole.Masks {
			if m := &w.runner.Whole.Masks[k]; m.Path == p.Path {
				m.Object = w.ledger.Artefacts[i].Object
			}
		}
	}
	return nil
}

// cannotPlace is the error for a placeholder that cannot be made, with what can be done.
func cannotPlace(at string, err error) error {
	hint := "make " + shellQuote(at) + " yourself, let yourself write to its directory, or take the placeholder out of the profile"
	if errors.Is(err, fs.ErrExist) || errors.Is(err, placeholder.ErrOther) {
		hint = "something came to stand there while the run was prepared: start again"
	}
	return bourn.WithHint(fmt.Errorf("%w: cannot make the placeholder %s: %w", bourn.ErrUnavailable, bourn.Printable(at), innermost(err)), hint)
}

// unplace gives up the placeholders of the run and returns what to say of them.
func (r *runner) unplace() ([]string, error) {
	if !r.placed {
		return nil, nil
	}
	r.placed = false
	c, err := r.home.clearPlaceholders(r.id)
	for _, s := range c.stuck {
		c.notes = append(c.notes, s+"; the next bourn command tries again")
	}
	return c.notes, err
}
