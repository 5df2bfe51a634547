package posix

import (
	"fmt"
	"slices"
	"strings"

	"bourn"
)

// A Registry is what the helper knows of people: what [Perform] made true. It says who may
// be become, with which numbers; no caller can add to it.
type Registry struct {
	Version   int    `json:"version"`
	Range     Range  `json:"range"`
	Workspace string `json:"workspace"`
	// Service is the uid of the control plane: besides root the only one whom the helper obeys.
	Service uint32 `json:"service"`
	// Shared is the gid of the group that everybody is in.
	Shared  uint32        `json:"shared"`
	People  []Entry       `json:"people"`
	Circles []CircleEntry `json:"circles"`
	// Revoked is what the helper took away and the state still gives. It stays until the state
	// does not give it any more, so that no sync gives it back unasked.
	Revoked []Revocation `json:"revoked"`
}

// An Entry is a person in the registry.
type Entry struct {
	ID     string   `json:"id"`     // names the private directory
	Member string   `json:"member"` // the same human in the records, a uuid or ""
	Name   string   `json:"name"`   // the user name
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"` // supplementary, sorted
	Active bool     `json:"active"`
}

// A CircleEntry is a circle in the registry.
type CircleEntry struct {
	ID   string `json:"id"`
	Name string `json:"name"` // the group name
	GID  uint32 `json:"gid"`
}

// A Revocation takes a person out of one circle or, with Circle "", out of everything.
type Revocation struct {
	Person string `json:"person"` // user name
	Circle string `json:"circle"` // group name or ""
}

// MaxRegistry is the largest registry that is written or read, in bytes: all numbers of the
// default range, each in several circles, fit.
const MaxRegistry = 16 << 20

func errTooLarge(n int) error {
	return fmt.Errorf("%w registry: %d bytes are more than %d", bourn.ErrInvalid, n, MaxRegistry)
}

// ParseRegistry reads a registry's file. Errors are ErrInvalid and name the entry.
func ParseRegistry(data []byte) (Registry, error) {
	if len(data) > MaxRegistry {
		return Registry{}, errTooLarge(len(data))
	}
	var r Registry
	if err := decodeStrict(data, &r); err != nil {
		return Registry{}, err
	}
	if err := r.check(); err != nil {
		return Registry{}, err
	}
	return r, nil
}

// Encode returns the content of the registry's file.
func (r Registry) Encode() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	r.People, r.Circles, r.Revoked = filled(r.People), filled(r.Circles), filled(r.Revoked)
	for i, p := range r.People {
		r.People[i].Groups = filled(p.Groups)
	}
	data, err := encode(r)
	if err == nil && len(data) > MaxRegistry {
		return nil, errTooLarge(len(data))
	}
	return data, err
}

func (r Registry) check() error {
	if r.Version != stateVersion {
		return fmt.Errorf("%w: version %d is not known, only %d is", bourn.ErrInvalid, r.Version, stateVersion)
	}
	if err := r.Range.check(); err != nil {
		return err
	}
	if err := checkWorkspace(r.Workspace); err != nil {
		return err
	}
	people := r.Range.people()
	if r.Service == 0 || people.contains(r.Service) || r.Range.nobodys(r.Service) || r.Range.nobodys(r.Shared) || r.Shared == 0 || people.contains(r.Shared) {
		return fmt.Errorf("%w: the service's uid and the shared group's gid may be neither root's nor a person's nor nobody's", bourn.ErrInvalid)
	}
	numbers, ids := map[uint32]bool{r.Shared: true}, map[string]bool{}
	once := func(entry, id string, number uint32) error {
		if !people.contains(number) || numbers[number] && number != r.Shared {
			return fmt.Errorf("%w %s: the number %d is not in %s or stands twice", bourn.ErrInvalid, entry, number, people)
		}
		if err := checkID(id); err != nil || ids[entry] {
			return fmt.Errorf("%w %s: its id is not well formed or stands twice", bourn.ErrInvalid, entry)
		}
		numbers[number], ids[entry] = true, true
		return nil
	}
	groups, names, members := map[uint32]bool{r.Shared: true}, map[string]bool{}, map[string]bool{}
	for _, c := range r.Circles {
		if _, err := ParseGroupName(c.Name); err != nil {
			return err
		}
		if err := once(fmt.Sprintf("circle %q", c.ID), c.ID, c.GID); err != nil {
			return err
		}
		if names[c.Name] {
			return fmt.Errorf("%w circle %q: its name stands twice", bourn.ErrInvalid, c.ID)
		}
		names[c.Name], groups[c.GID] = true, true
	}
	for _, p := range r.People {
		if err := once(fmt.Sprintf("person %q", p.ID), p.ID, p.UID); err != nil {
			return err
		}
		if err := p.check(groups); err != nil {
			return err
		}
		if names[p.Name] {
			return fmt.Errorf("%w person %q: the name %q stands twice", bourn.ErrInvalid, p.ID, p.Name)
		}
		if p.Member != "" && members[p.Member] {
			return fmt.Errorf("%w person %q: the member %q stands twice", bourn.ErrInvalid, p.ID, p.Member)
		}
		names[p.Name], members[p.Member] = true, true
	}
	for _, v := range r.Revoked {
		if err := v.check(); err != nil {
			return err
		}
	}
	return nil
}

// check holds an entry to the groups that the registry names.
func (e Entry) check(groups map[uint32]bool) error {
	if _, err := ParseUserName(e.Name); err != nil {
		return err
	}
	if e.Member != "" && !uuid.MatchString(e.Member) {
		return fmt.Errorf("%w person %q: the member %q is not a lower-case uuid", bourn.ErrInvalid, e.ID, e.Member)
	}
	if e.GID != e.UID {
		return fmt.Errorf("%w person %q: gid %d is not their own group's", bourn.ErrInvalid, e.ID, e.GID)
	}
	for i, g := range e.Groups {
		if !groups[g] {
			return fmt.Errorf("%w person %q: group %d is no circle's", bourn.ErrInvalid, e.ID, g)
		}
		if i > 0 && e.Groups[i-1] >= g {
			return fmt.Errorf("%w person %q: the groups are not sorted", bourn.ErrInvalid, e.ID)
		}
	}
	if !e.Active && len(e.Groups) > 0 {
		return fmt.Errorf("%w person %q: they are not active and in groups", bourn.ErrInvalid, e.ID)
	}
	return nil
}

func (v Revocation) check() error {
	if _, err := ParseUserName(v.Person); err != nil {
		return err
	}
	if v.Circle == "" {
		return nil
	}
	_, err := ParseGroupName(v.Circle)
	return err
}

// Lookup returns the entry of a user name: an active person's. Everything else is a
// [Refusal]: a registry that is not valid actor_runtime_unavailable, a name that is none
// operation_failed, nobody actor_identity_missing, one who is not active permission_denied.
func (r Registry) Lookup(user string) (Entry, error) {
	if err := r.check(); err != nil {
		return Entry{}, refuse(RuntimeUnavailable, "cannot use the registry: %v", err)
	}
	if _, err := ParseUserName(user); err != nil {
		return Entry{}, refuse(OperationFailed, "%v", err)
	}
	i := slices.IndexFunc(r.People, func(e Entry) bool { return e.Name == user })
	if i < 0 {
		return Entry{}, refuse(IdentityMissing, "nobody is %q", user)
	}
	if !r.People[i].Active {
		return Entry{}, refuse(PermissionDenied, "%q is not active", user)
	}
	return r.People[i], nil
}

// Shown returns what the base seal of a person shows besides their home: the circles that
// they are in, to write, and what everybody has, to read.
func (r Registry) Shown(e Entry) (write, read []string) {
	for _, c := range r.Circles {
		if slices.Contains(e.Groups, c.GID) {
			write = append(write, circlePath(r.Workspace, c.ID))
		}
	}
	return write, []string{r.Workspace + "/" + publicDir, r.Workspace + "/" + skillsDir}
}

// Home returns the private directory of a person.
func (r Registry) Home(e Entry) string { return r.Workspace + "/" + privateDir + "/" + e.ID }

// Revoke returns the registry without what v takes away. It only narrows. Who or what is not there is
// a [Refusal], not_found; what is taken already, or was never given, stays so and is not noted: the registry
// grows by no more than it gives.
func (r Registry) Revoke(v Revocation) (Registry, error) {
	if err := v.check(); err != nil {
		return Registry{}, refuse(OperationFailed, "%v", err)
	}
	i := slices.IndexFunc(r.People, func(e Entry) bool { return e.Name == v.Person })
	c := slices.IndexFunc(r.Circles, func(c CircleEntry) bool { return c.Name == v.Circle })
	if i < 0 || c < 0 && v.Circle != "" {
		return Registry{}, refuse(NotFound, "cannot revoke %q: no such person or circle", strings.TrimSpace(v.Person+" "+v.Circle))
	}
	if v.Circle == "" && !r.People[i].Active || v.Circle != "" && !slices.Contains(r.People[i].Groups, r.Circles[c].GID) {
		return r, nil
	}
	r.People = slices.Clone(r.People)
	if e := &r.People[i]; v.Circle == "" {
		e.Active, e.Groups = false, []uint32{}
	} else {
		gid := r.Circles[c].GID
		e.Groups = slices.DeleteFunc(slices.Clone(e.Groups), func(g uint32) bool { return g == gid })
	}
	if !slices.Contains(r.Revoked, v) {
		r.Revoked = append(slices.Clone(r.Revoked), v)
	}
	return r, nil
}

// revokedAs returns r without what now has revoked and r still gives: what was revoked since
// r was planned. What the plan knew of, it does not give, or the state does not any more.
func (r Registry) revokedAs(now Registry) Registry {
	for _, v := range now.Revoked {
		if narrower, err := r.Revoke(v); err == nil {
			r = narrower
		}
	}
	return r
}

// narrow returns what both r and wanted give: what r may keep before anything was done.
func (r Registry) narrow(wanted Registry) Registry {
	want := map[string]Entry{}
	for _, e := range wanted.People {
		want[e.Name] = e
	}
	people := slices.Clone(r.People)
	for i, e := range people {
		w := want[e.Name]
		if w.ID != e.ID || w.Member != e.Member || w.UID != e.UID || w.GID != e.GID || !w.Active || r.Workspace != wanted.Workspace {
			people[i].Active, people[i].Groups = false, []uint32{}
			continue
		}
		people[i].Groups = slices.DeleteFunc(slices.Clone(e.Groups), func(g uint32) bool { return !slices.Contains(w.Groups, g) })
	}
	r.People = people
	return r
}
