// Package run is one run from profile to report: it reads the profile, asks the host,
// compiles the plan, launches it, keeps its record on disk and serves its gate.
//
// On disk, below $BOURN_HOME (0700):
//
//	agents/<name>/profile.yaml    the declaration
//	agents/<name>/identity.key    Ed25519, 0600; identity.pub beside it
//	agents/<name>/home/           the agent's own writable home
//	agents/<name>/context/        what it may be offered, to read: see package skill
//	agents/<name>/runs/<id>.json  records of runs; runs/ here for runs without an agent
//	agents/<name>/denied          the objects that the last seal denied, by identity
//	boundaries.json               this host's hard blocks, published and signed by the control plane
//	journal.jsonl                 what the control plane has not taken into the log yet
//	skills/<name>/SKILL.md        Bourn's own skills, as the program holds them
//	written                       what runs without an agent could write
//	projects                      where runs had something to guard below their write grants
//	gitlinks                      checkouts and the git directories that were granted with them
//	accepted                      what proposals of repositories the person accepted
//	placeholders                  what stands at denied paths of the host for runs, until they end
//	agents/<name>/places.json     mount points that a run made in home/, until it ends
package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"bourn"
	"bourn/internal/sandbox/survey"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// A Home is $BOURN_HOME and what the environment says of the person.
type Home struct {
	Dir     string // $BOURN_HOME, absolute
	Person  string // the person's home directory, absolute
	Program string // the bourn program, canonical
	Environ []string
	Now     func() time.Time // nil means time.Now
	Floor   string           // the host's policy, "" for none

	// Starter is the home of whoever starts bourn, where Person is that of the user whom the
	// run becomes; else "".
	Starter string

	logged     bool     // who asked for a run has it in the log itself: nothing is noted
	user       *account // whom runs become, nil for the starter
	floorOwner int      // who besides root may own it, for tests
}

func (h *Home) now() time.Time {
	if h.Now == nil {
		return time.Now()
	}
	return h.Now()
}

func (h *Home) agents() string                    { return filepath.Join(h.Dir, "agents") }
func (h *Home) agent(name bourn.AgentName) string { return filepath.Join(h.agents(), string(name)) }

// base is the directory that holds the records of an agent's runs, or of runs without one.
func (h *Home) base(name bourn.AgentName) string {
	if name == "" {
		return h.Dir
	}
	return h.agent(name)
}

// Make makes $BOURN_HOME where it is missing. Its parent must exist: bourn makes nobody's
// home.
func (h *Home) Make() error {
	err := ownWay(h.Dir, os.Geteuid())
	if err == nil {
		err = os.Mkdir(h.Dir, 0o700)
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		info, statErr := os.Stat(h.Dir)
		switch {
		case statErr != nil:
			err = statErr
		case !info.IsDir():
			err = errors.New("it is not a directory")
		case !h.own():
			err = errors.New("it belongs to somebody else, or others can write there")
		default:
			return nil
		}
	}
	return bourn.WithHint(fmt.Errorf("%w: cannot make %s, where runs are recorded: %w", bourn.ErrUnavailable, h.Dir, err),
		"set BOURN_HOME to a directory that you can write")
}

// own reports whether $BOURN_HOME is this user's, and only theirs to write.
func (h *Home) own() bool {
	o, err := survey.Stat(h.Dir)
	return err == nil && int(o.Uid) == os.Geteuid() && o.Mode&0o022 == 0
}

// ownWay returns an error if a user other than root and uid can replace a directory above a
// path: whoever can puts another $BOURN_HOME in its place, with profiles of theirs. A group
// may write there, as users' own groups do, and anybody in a sticky directory, where what
// is another's stays. The path itself need not exist.
func ownWay(at string, uid int) error {
	real, err := filepath.EvalSymlinks(at)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = filepath.EvalSymlinks(filepath.Dir(at))
		real = filepath.Join(real, filepath.Base(at))
	}
	if err != nil {
		return err
	}
	for _, way := range []string{at, real} { // a link on the way is its owner's to change
		for dir := filepath.Dir(way); ; dir = filepath.Dir(dir) {
			o, err := survey.Stat(dir + "/.")
			switch {
			case err != nil:
				return err
			case int(o.Uid) != 0 && int(o.Uid) != uid && !unmapped(int(o.Uid)):
				return fmt.Errorf("%s belongs to the user with the ID %d, who can put another in its place", dir, o.Uid)
			case o.Mode&0o002 != 0 && o.Mode&0o1000 == 0:
				return fmt.Errorf("everybody can write in %s, and put another in its place", dir)
			}
			if dir == "/" {
				break
			}
		}
	}
	return nil
}

// unmapped reports whether a user ID stands for all that have none in this user namespace
// (user_namespaces(7)), among them perhaps the host's root.
func unmapped(uid int) bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(text)), " ") != "0 0 4294967295" && uid == overflowUID
}

// overflowUID is what owners without an ID look like (kernel.overflowuid).
const overflowUID = 65534

// ProfilePath is where the profile of an agent stands.
func (h *Home) ProfilePath(name bourn.AgentName) string {
	return filepath.Join(h.agent(name), "profile.yaml")
}

// lock takes the lock of an agent, or of runs without one, until unlock is called.
func (h *Home) lock(name bourn.AgentName) (unlock func(), err error) {
	dir := h.base(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return lockedfile.MutexAt(filepath.Join(dir, ".lock")).Lock()
}

// Agents returns the names of all agents, sorted.
func (h *Home) Agents() ([]bourn.AgentName, error) {
	entries, err := os.ReadDir(h.agents())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list agents: %w", err)
	}
	var names []bourn.AgentName
	for _, e := range entries {
		if name, err := bourn.ParseAgentName(e.Name()); err == nil && e.IsDir() {
			names = append(names, name)
		}
	}
	sort.Slice(names, func(i, j int) bool { return names[i] < names[j] })
	return names, nil
}

// writeFile replaces a file in one step: a reader sees the old content or the new, also
// after a power loss.
func writeFile(path string, data []byte, mode os.FileMode) error {
	d, err := newDraft(path, data, mode)
	if err != nil {
		return err
	}
	defer d.discard()
	return d.commit((*os.File).Sync)
}

// A draft is a file's new content, not in its place yet.
type draft struct {
	file *os.File
	path string
}

func newDraft(path string, data []byte, mode os.FileMode) (*draft, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	d := &draft{f, path}
	if _, err = f.Write(data); err == nil && mode != 0o600 { // what CreateTemp gives
		err = f.Chmod(mode)
	}
	if err != nil {
		d.discard()
		return nil, err
	}
	return d, nil
}

// commit puts the draft in its place; settle is called first, if it is not nil.
func (d *draft) commit(settle func(*os.File) error) error {
	if settle != nil {
		if err := settle(d.file); err != nil {
			return err
		}
	}
	return os.Rename(d.file.Name(), d.path)
}

// discard closes the draft, and removes it if it was not committed.
func (d *draft) discard() {
	d.file.Close()
	_ = os.Remove(d.file.Name())
}
