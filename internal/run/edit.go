package run

import (
	"fmt"
	"os"
	"slices"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox/survey"
)

// An Entry is one line of a profile.
type Entry struct {
	List profile.List `json:"list"`
	Path string       `json:"path"` // as the profile has it; of a rule for tools their pattern

	Policy string `json:"policy,omitempty"` // of a rule for tools
	Tier   string `json:"tier,omitempty"`
}

// A Change is what an edit did to an agent's profile. Nothing added and nothing removed
// means that the profile was like that already.
type Change struct {
	Agent   bourn.AgentName `json:"agent"`
	Path    string          `json:"path"` // as the profile has it
	Added   []Entry         `json:"added"`
	Removed []Entry         `json:"removed"`
	Running int             `json:"running"`           // runs that live, which keep what they were sealed with
	Notes   []string        `json:"notes"`             // what a person should know
	AtCall  bool            `json:"at_call,omitempty"` // it holds from the next call on, also in runs that live
}

// An editing is a profile under its agent's lock, on the way to its new text.
type editing struct {
	home    *Home
	name    bourn.AgentName
	src     []byte
	profile *profile.Profile
	change  Change
}

// edit carries out f on the profile of an agent, and replaces the file in one step when
// f has changed the text.
func (h *Home) edit(name bourn.AgentName, f func(*editing) error) (Change, error) {
	info, err := os.Lstat(h.ProfilePath(name)) // before the lock, which makes the directory
	if err != nil {
		return Change{}, h.noProfile(name, err)
	}
	if !info.Mode().IsRegular() {
		return Change{}, bourn.WithHint(fmt.Errorf("%w: %s is not a regular file", bourn.ErrInvalid, bourn.Printable(h.ProfilePath(name))),
			"edit by hand the file that it leads to, or put a file in its place")
	}
	unlock, err := h.lock(name)
	if err != nil {
		return Change{}, fmt.Errorf("cannot lock agent %q: %w", name, err)
	}
	defer unlock()
	prof, src, err := h.Profile(name)
	if err != nil {
		return Change{}, err
	}
	live, _, err := h.Live(name)
	if err != nil {
		return Change{}, err
	}
	e := &editing{home: h.of(prof), name: name, src: src, profile: prof,
		change: Change{Agent: name, Added: []Entry{}, Removed: []Entry{}, Running: len(live), Notes: []string{}}}
	if err := f(e); err != nil {
		return Change{}, err
	}
	if slices.Equal(e.src, src) {
		return e.change, nil
	}
	if err := h.noteChange(name, "profile changed", e.change.said(), e.src); err != nil {
		return Change{}, err
	}
	if err := writeFile(h.ProfilePath(name), e.src, info.Mode().Perm()); err != nil {
		return Change{}, fmt.Errorf("cannot write the profile of agent %q: %w", name, err)
	}
	return e.change, nil
}

func (e *editing) add(list profile.List, path string) error {
	out, changed, err := profile.Add(e.home.ProfilePath(e.name), e.src, list, path)
	if err != nil {
		return err
	}
	e.src = out
	if changed {
		e.change.Added = append(e.change.Added, Entry{List: list, Path: path})
	}
	return nil
}

func (e *editing) remove(list profile.List, text string) error {
	out, err := profile.Remove(e.home.ProfilePath(e.name), e.src, list, text)
	if err != nil {
		return err
	}
	e.src = out
	e.change.Removed = append(e.change.Removed, Entry{List: list, Path: text})
	return nil
}

func (e *editing) note(format string, args ...any) {
	e.change.Notes = append(e.change.Notes, fmt.Sprintf(format, args...))
}

// in reports whether a list grants exactly this path, however it is written.
func (e *editing) in(list []profile.Path, real string) bool {
	return slices.ContainsFunc(list, func(p profile.Path) bool { return e.home.expand(p.Text) == real })
}

// over returns the entry of a list that holds a path, or "".
func (e *editing) over(list []profile.Path, real string) string {
	for _, p := range list {
		if at := e.home.expand(p.Text); policy.Under(real, at) {
			return at
		}
	}
	return ""
}

// Allow adds a path, as typed, to what an agent may read (KindRead), write (KindWrite)
// or execute (KindSpawnDir). The profile gets its real path. A path that the list has
// already changes nothing. A path that cannot be granted is an error with the reason.
func (h *Home) Allow(name bourn.AgentName, kind policy.Kind, typed, cwd string) (Change, error) {
	add := map[policy.Kind]func(*editing, policy.Grant) error{
		policy.KindRead: (*editing).allowRead, policy.KindWrite: (*editing).allowWrite, policy.KindSpawnDir: (*editing).allowSpawn,
	}[kind]
	if add == nil {
		return Change{}, bourn.WithHint(fmt.Errorf("%w: %s is nothing that a path can be granted for", bourn.ErrInvalid, kind), "grant it for reading or writing")
	}
	return h.edit(name, func(e *editing) error {
		g, err := e.home.grantable(wish{agent: name, kind: kind, typed: typed, cwd: cwd, denies: e.profile.Filesystem.Deny})
		if err != nil {
			return err
		}
		e.change.Path = g.Real
		return add(e, g)
	})
}

func (e *editing) allowRead(g policy.Grant) error {
	files := e.profile.Filesystem
	switch writes := e.over(files.Write, g.Real); {
	case e.in(files.Read, g.Real), e.in(files.Write, g.Real):
		return nil
	case writes != "":
		e.note("it lies in %s, which is granted for writing, and stays writable", bourn.Printable(writes))
	}
	return e.add(profile.ReadList, g.Real)
}

func (e *editing) allowWrite(g policy.Grant) error {
	if e.in(e.profile.Filesystem.Write, g.Real) {
		return nil
	}
	if !g.Dir {
		e.note("a program that replaces this file by renaming another over it will fail (EBUSY): then grant its directory instead")
	}
	return e.add(profile.WriteList, g.Real)
}

// allowSpawn adds a spawn dir, which must also be readable or writable.
func (e *editing) allowSpawn(g policy.Grant) error {
	refused := func(reason, hint string) error {
		return bourn.WithHint(fmt.Errorf("%w: cannot make %s a spawn dir: %s", bourn.ErrDenied, bourn.Printable(g.Real), reason), hint)
	}
	switch {
	case e.in(e.profile.Processes.SpawnDirs, g.Real):
		return nil
	case !g.Dir:
		return refused("it is not a directory", "name the directory that holds the programs")
	case e.profile.Processes.Mode == profile.ProcessesNone:
		return refused("processes.mode is none, only system paths may execute", "set processes.mode to allowlist in "+e.home.ProfilePath(e.name))
	case e.over(e.profile.Filesystem.Write, g.Real) == "" && e.over(e.profile.Filesystem.Read, g.Real) == "":
		return refused("it must also be readable or writable, and no grant covers it",
			"grant it first: bourn agent perm allow-read "+string(e.name)+" "+shellQuote(g.Real))
	case e.profile.Processes.Mode == profile.ProcessesAny:
		e.note("processes.mode is any: every grant may execute already")
	}
	return e.add(profile.SpawnDirList, g.Real)
}

// Deny closes a path or a pattern, as typed, whatever is granted. It need not exist.
func (h *Home) Deny(name bourn.AgentName, typed, cwd string) (Change, error) {
	return h.denyTyped(name, typed, cwd, false)
}

// DenyPlaceholder is Deny for a path that cannot be made either: during a run an empty file
// stands there where nothing does. An entry without a placeholder gets one. A pattern is
// ErrInvalid.
func (h *Home) DenyPlaceholder(name bourn.AgentName, typed, cwd string) (Change, error) {
	return h.denyTyped(name, typed, cwd, true)
}

func (h *Home) denyTyped(name bourn.AgentName, typed, cwd string, placeholder bool) (Change, error) {
	return h.edit(name, func(e *editing) error {
		if _, err := e.home.absolute(typed, cwd); err != nil {
			return err
		}
		entry := e.home.denyEntry(typed, cwd)
		entry.placeholder = placeholder
		e.change.Path = entry.text
		check := e.denyPath
		if entry.glob {
			check = e.denyPattern
		}
		if err := check(entry); err != nil {
			return err
		}
		if i := slices.IndexFunc(e.profile.Filesystem.Deny, func(d profile.Deny) bool { return e.sameDeny(d, entry) }); i >= 0 {
			return e.placeholder(e.profile.Filesystem.Deny[i], entry)
		}
		return e.addDeny(entry)
	})
}

// denyPattern refuses a pattern that could not be searched for: with it in the profile
// nothing would start.
func (e *editing) denyPattern(entry denial) error {
	if _, err := survey.ParsePattern(e.home.expand(entry.text)); err != nil {
		return bourn.WithHint(fmt.Errorf("%w: %w", bourn.ErrInvalid, err), "a pattern has * ** ? [a-z] {a,b}; a backslash takes the next character literally")
	}
	return nil
}

// denyPath refuses to deny what is granted by exactly that name, and says what else the
// deny of a path means.
func (e *editing) denyPath(entry denial) error {
	at := profile.Unescape(entry.text)
	files := e.profile.Filesystem
	if e.in(files.Write, at) || e.in(files.Read, at) {
		return bourn.WithHint(fmt.Errorf("%w: %s is granted by exactly that name, and cannot be granted and denied", bourn.ErrConflict, bourn.Printable(at)),
			"take the grant away: bourn agent perm remove-path "+string(e.name)+" "+shellQuote(at))
	}
	for _, p := range slices.Concat(files.Write, files.Read) {
		if policy.Under(e.home.expand(p.Text), at) {
			e.note("the grant %s lies in it and will be dropped", bourn.Printable(p.Text))
		}
	}
	switch {
	case entry.exists:
	case entry.placeholder:
		e.note("it does not exist yet: while the agent runs an empty file stands there on the host, and git status lists it")
	default:
		e.note("it does not exist yet: when it appears during a run it is closed then, which is not prevented before")
	}
	return nil
}

// sameDeny reports whether an entry of the profile is the one that was typed.
func (e *editing) sameDeny(d profile.Deny, entry denial) bool {
	if d.Glob || entry.glob {
		return d.Glob == entry.glob && e.home.expand(d.Text) == e.home.expand(entry.text)
	}
	at, _ := d.Literal()
	return e.home.expand(at) == profile.Unescape(entry.text)
}

// Remove takes a path or pattern out of what is read, written and denied, whichever lists
// have it: by the text of the entry, by the path it names, or by the real path. None is
// ErrNotFound.
func (h *Home) Remove(name bourn.AgentName, typed, cwd string) (Change, error) {
	return h.edit(name, func(e *editing) error {
		if _, err := e.home.absolute(typed, cwd); err != nil {
			return err
		}
		e.change.Path = typed
		m := h.matcher(typed, cwd)
		files := e.profile.Filesystem
		// Where the path leads counts only if nothing has its name: a grant that is now a
		// symlink to another one must not take that one with it.
		is := m.named
		if !slices.ContainsFunc(slices.Concat(files.Read, files.Write), m.named) {
			is = m.leadsTo
		}
		for _, list := range []struct {
			name    profile.List
			entries []profile.Path
		}{{profile.ReadList, files.Read}, {profile.WriteList, files.Write}} {
			for _, p := range list.entries {
				if is(p) {
					if err := e.remove(list.name, p.Text); err != nil {
						return err
					}
				}
			}
		}
		entry := e.home.denyEntry(typed, cwd)
		for _, d := range files.Deny {
			if d.Text == typed || e.sameDeny(d, entry) {
				if err := e.remove(profile.DenyList, d.Text); err != nil {
					return err
				}
			}
		}
		if len(e.change.Removed) == 0 {
			return e.notListed(typed, cwd)
		}
		return e.uncovered()
	})
}

// RemoveSpawnDir takes a directory out of the spawn dirs; none is ErrNotFound.
func (h *Home) RemoveSpawnDir(name bourn.AgentName, typed, cwd string) (Change, error) {
	return h.edit(name, func(e *editing) error {
		if _, err := e.home.absolute(typed, cwd); err != nil {
			return err
		}
		e.change.Path = typed
		is := h.matcher(typed, cwd)
		for _, p := range e.profile.Processes.SpawnDirs {
			if is.named(p) || is.leadsTo(p) {
				return e.remove(profile.SpawnDirList, p.Text)
			}
		}
		return bourn.WithHint(fmt.Errorf("%w: %s is no spawn dir of agent %q", bourn.ErrNotFound, bourn.Printable(typed), name),
			"bourn agent perm list-paths "+string(name)+" shows what there is")
	})
}

// A matcher knows the ways in which an entry can be meant by what was typed.
type matcher struct {
	home  *Home
	typed string
	at    string // the absolute path as named
	real  string // and as it resolves, "" where it cannot be told
}

func (h *Home) matcher(typed, cwd string) matcher {
	m := matcher{home: h, typed: typed, at: h.lexical(typed, cwd)}
	m.real, _ = h.Resolve(typed, cwd)
	return m
}

// named reports whether an entry is the one that was typed.
func (m matcher) named(p profile.Path) bool {
	return p.Text == m.typed || m.home.expand(p.Text) == m.at
}

// leadsTo reports whether an entry is where the typed path leads.
func (m matcher) leadsTo(p profile.Path) bool {
	return m.real != "" && m.home.expand(p.Text) == m.real
}

// notListed is the error for a path that no list has.
func (e *editing) notListed(typed, cwd string) error {
	err := fmt.Errorf("%w: agent %q has no read, write or deny entry %s", bourn.ErrNotFound, e.name, bourn.Printable(typed))
	at := e.home.lexical(typed, cwd)
	files := e.profile.Filesystem
	if over := e.over(slices.Concat(files.Write, files.Read), at); over != "" {
		return bourn.WithHint(err, "it lies in the grant "+bourn.Printable(over)+"; to close it: bourn agent perm deny-path "+string(e.name)+" "+shellQuote(at))
	}
	return bourn.WithHint(err, "bourn agent perm list-paths "+string(e.name)+" shows what there is")
}

// uncovered notes the spawn dirs that no grant covers any more.
func (e *editing) uncovered() error {
	p, err := profile.Parse(string(e.name), e.src)
	if err != nil {
		return err
	}
	for _, dir := range p.Processes.SpawnDirs {
		at := e.home.expand(dir.Text)
		if e.over(slices.Concat(p.Filesystem.Write, p.Filesystem.Read), at) == "" {
			e.note("the spawn dir %s is covered by no grant any more and will be dropped: bourn agent perm deny-spawn-dir %s %s",
				bourn.Printable(dir.Text), e.name, shellQuote(dir.Text))
		}
	}
	return nil
}
