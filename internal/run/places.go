package run

import (
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
)

// An agent's home stands at the person's home path, with the grants mounted over it.
// Their mount points must exist in the agent's home; those that a run makes are written
// down first and removed when the agent's last run has ended, by that run or, after a
// crash, by the next bourn command.

func (h *Home) placesPath(name bourn.AgentName) string {
	return filepath.Join(h.agent(name), "places.json")
}

// makePlaces makes the mount points of a plan in the agent's home. The caller holds the
// agent's lock.
func (h *Home) makePlaces(name bourn.AgentName, plan *policy.Plan) error {
	root, err := os.OpenRoot(filepath.Join(h.agent(name), "home"))
	if err != nil {
		return fmt.Errorf("cannot open the agent's home: %w", err)
	}
	defer root.Close()
	made, err := h.places(name)
	if err != nil {
		return err
	}
	want := h.wanted(plan)
	var missing []place
	for _, p := range want {
		if err := h.fits(name, root, p); err != nil {
			return err
		}
		for _, dir := range parents(p.Path) {
			missing = h.missing(root, missing, place{Path: dir, Dir: true})
		}
		missing = h.missing(root, missing, p)
	}
	if len(missing) == 0 {
		return nil
	}
	if err := h.writePlaces(name, append(made, missing...)); err != nil {
		return err
	}
	return h.asUser(func() error {
		for _, p := range missing {
			if err := p.make(root); err != nil {
				return fmt.Errorf("cannot make a mount point in the agent's home: %w", err)
			}
		}
		return nil
	})
}

// place is a mount point, relative to the agent's home.
type place struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir"`
}

func (p place) make(root *os.Root) error {
	if p.Dir {
		return root.Mkdir(p.Path, 0o755)
	}
	f, err := root.OpenFile(p.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// wanted returns the mount points that a plan needs below the person's home, but those in a
// place in memory there.
func (h *Home) wanted(plan *policy.Plan) []place {
	var out []place
	inMemory := func(at string) bool {
		return slices.ContainsFunc(plan.Private, func(p policy.Private) bool {
			return at != p.Path && policy.Under(at, p.Path) && policy.Under(p.Path, h.Person)
		})
	}
	add := func(at string, dir bool) {
		if rel, ok := strings.CutPrefix(at, h.Person+"/"); ok && !inMemory(at) {
			out = append(out, place{rel, dir})
		}
	}
	for _, b := range plan.Binds {
		add(b.Path, b.Dir)
	}
	for _, p := range plan.Private {
		add(p.Path, true)
	}
	for _, s := range plan.Stubs {
		add(s, false)
	}
	return out
}

// fits returns an error where the agent's home has something else in the place of a mount
// point: whatever the agent left there, it is not mounted over nor followed.
func (h *Home) fits(name bourn.AgentName, root *os.Root, p place) error {
	info, err := root.Lstat(p.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() == p.Dir && info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	at := filepath.Join(h.HomePath(name), p.Path)
	return bourn.WithHint(fmt.Errorf("%w: in the home of agent %q something stands in the place of a mount point, or is a symlink on the way to it: %s", bourn.ErrConflict, string(name), bourn.Printable(at)),
		"the agent could write there: look at it, and move it away")
}

func (h *Home) missing(root *os.Root, missing []place, p place) []place {
	if slices.ContainsFunc(missing, func(m place) bool { return m.Path == p.Path }) {
		return missing
	}
	if _, err := root.Lstat(p.Path); errors.Is(err, fs.ErrNotExist) {
		missing = append(missing, p)
	}
	return missing
}

// parents returns the parents of a relative path, outermost first.
func parents(rel string) []string {
	var out []string
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

func (h *Home) places(name bourn.AgentName) ([]place, error) {
	data, err := os.ReadFile(h.placesPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []place
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount points of the agent's home: %w", err)
	}
	return all, nil
}

func (h *Home) writePlaces(name bourn.AgentName, all []place) error {
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return writeFile(h.placesPath(name), data, 0o600)
}

// removePlaces removes what makePlaces made, unless a run of the agent lives: removing
// a directory detaches what other runs have mounted on it. What the agent has filled
// meanwhile stays. The caller holds the agent's lock.
func (h *Home) removePlaces(name bourn.AgentName) error {
	made, err := h.places(name)
	if err != nil || len(made) == 0 {
		return err
	}
	live, unreadable, err := h.Live(name)
	if err != nil || unreadable != nil || len(live) > 0 {
		return err
	}
	root, err := os.OpenRoot(filepath.Join(h.agent(name), "home"))
	if err != nil {
		return err
	}
	defer root.Close()
	for i := len(made) - 1; i >= 0; i-- {
		info, err := root.Lstat(made[i].Path)
		if err != nil || info.IsDir() != made[i].Dir || !info.IsDir() && (!info.Mode().IsRegular() || info.Size() > 0) {
			continue
		}
		_ = root.Remove(made[i].Path) // a directory that is not empty stays
	}
	return os.Remove(h.placesPath(name))
}

// Sweep removes what runs that were killed have left on disk, and returns what to say of it.
// Every bourn command that works with $BOURN_HOME calls it first; without leftovers it costs
// one look for a file and one directory read.
func (h *Home) Sweep() (notes []string, err error) {
	c, err := h.clearPlaceholders("")
	if err != nil {
		return nil, err
	}
	return c.notes, h.sweepPlaces()
}

func (h *Home) sweepPlaces() error {
	left, err := filepath.Glob(filepath.Join(h.agents(), "*", "places.json"))
	if err != nil {
		return err
	}
	for _, at := range left {
		name := bourn.AgentName(filepath.Base(filepath.Dir(at)))
		if err := h.sweepAgent(name); err != nil {
			return err
		}
	}
	return nil
}

func (h *Home) sweepAgent(name bourn.AgentName) error {
	unlock, err := h.lock(name)
	if err != nil {
		return err
	}
	defer unlock()
	h.removeStale(name)
	return h.removePlaces(name)
}

// removeStale removes what killed commands were writing. The caller holds the lock under
// which these files are written.
func (h *Home) removeStale(name bourn.AgentName) {
	for _, pattern := range []string{".places.json.*", ".denied.*", ".profile.yaml.*"} {
		left, _ := filepath.Glob(filepath.Join(h.base(name), pattern))
		for _, at := range left {
			_ = os.Remove(at)
		}
	}
}
