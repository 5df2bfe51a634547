package posix

import (
	"fmt"
	"reflect"
	"slices"
)

// Plan returns what must change on the host so that it is as the state says, in the order in
// which it must be done, and what is in the way. It is pure: the same input gives the same
// plan. Once everything is performed, the next plan is empty, but for what [Result].Left names.
//
// With a problem that blocks, the plan holds only what takes something away from somebody.
func Plan(state State, host Host) ([]Change, []Problem) {
	p := newPlanner(state, host)
	if host.Spoilt != "" {
		p.problem(false, "registry", "look who changed "+RegistryPath+"; what the service had revoked in it, only its log says", "is written anew, because it cannot be used: %s", host.Spoilt)
	}
	if !p.check() {
		return nil, p.problems
	}
	p.removals()
	if !p.blocked() {
		p.accounts()
		p.directories()
	}
	p.reown()
	if !p.blocked() {
		p.mounts()
	}
	p.registries()
	return p.changes, p.problems
}

// account is what a name must be: a user with the group of the same name, or a group.
type account struct {
	name     string
	uid, gid uint32
	user     bool
	home     string
	person   string // the id, where it is a person's
	circle   bool
	active   bool
	adopted  bool // a service account that the host had before
}

// ours reports whether the group's members are exactly those of the state.
func (a account) ours() bool { return a.person != "" || a.circle }

type planner struct {
	state    State // without what was revoked
	host     Host
	numbers  numbers
	users    map[string]User
	groups   map[string]Group
	wanted   []account
	byName   map[string]account
	members  map[string][]string // wanted and sorted, by group
	circles  map[uint32]string   // group names by gid
	revoked  []Revocation        // what was revoked and the state still gives
	stopped  map[string]bool     // user names whose processes must end
	left     map[string][]string // members that a group loses
	changes  []Change
	problems []Problem
}

func newPlanner(state State, host Host) *planner {
	p := &planner{
		host: host, users: map[string]User{}, groups: map[string]Group{}, byName: map[string]account{},
		members: map[string][]string{}, circles: map[uint32]string{}, stopped: map[string]bool{}, left: map[string][]string{},
	}
	for _, u := range host.Users {
		if _, twice := p.users[u.Name]; !twice {
			p.users[u.Name] = u
		}
	}
	for _, g := range host.Groups {
		if _, twice := p.groups[g.Name]; !twice {
			p.groups[g.Name] = g
		}
	}
	p.state = p.effective(state)
	return p
}

func (p *planner) problem(blocks bool, subject, hint, format string, args ...any) {
	p.problems = append(p.problems, Problem{subject, fmt.Sprintf(format, args...), hint, blocks})
}

func (p *planner) blocked() bool {
	return slices.ContainsFunc(p.problems, func(q Problem) bool { return q.Blocks })
}

func (p *planner) add(c Change) { p.changes = append(p.changes, c) }

// effective returns the state without what the helper revoked, and names what it still gives.
func (p *planner) effective(state State) State {
	state.People, state.Circles = slices.Clone(state.People), slices.Clone(state.Circles)
	still := "remove the person, or let them leave the circle, and sync; then they can be added again"
	for _, v := range p.host.Registry.Revoked {
		i := slices.IndexFunc(state.People, func(q Person) bool { return q.User() == v.Person && !q.Removed })
		if i < 0 {
			continue
		}
		id := state.People[i].ID
		if v.Circle == "" {
			p.revoked = append(p.revoked, v)
			state.People[i].Removed = true
			p.problem(false, v.Person, still, "was revoked, and the state still has person %q", id)
		}
		for c, circle := range state.Circles {
			if (v.Circle == "" || v.Circle == circle.Group()) && slices.Contains(circle.Members, id) {
				state.Circles[c].Members = without(circle.Members, id)
				if v.Circle != "" {
					p.revoked = append(p.revoked, v)
					p.problem(false, v.Person, still, "was revoked from circle %q, and the state still has them there", circle.ID)
				}
			}
		}
	}
	return state
}

// removals plans what people lose.
func (p *planner) removals() {
	p.narrowRegistry()
	for _, a := range p.wanted {
		u, exists := p.users[a.name]
		if a.person != "" && exists && u.UID == a.uid && (!u.Locked || !a.active && !u.Expired) {
			p.add(Change{Do: LockUser, User: a.name, Expire: !a.active})
		}
	}
	for _, a := range p.wanted {
		group, exists := p.groups[a.name]
		if !exists || group.GID != a.gid || !a.ours() && a.name != sharedGroup {
			continue
		}
		for _, m := range group.Members {
			if p.byName[m].person == "" && a.name == sharedGroup {
				continue // a package or an administrator may put service accounts there
			}
			if !p.member(a.name, m) {
				p.left[a.name] = append(p.left[a.name], m)
				p.stopped[m] = true
				p.add(Change{Do: RemoveMember, User: m, Group: a.name})
			}
		}
	}
	p.stops()
}

// member reports whether the state wants the user in the group.
func (p *planner) member(group, user string) bool {
	_, found := slices.BinarySearch(p.members[group], user)
	return found
}

// stops plans the end of processes that have more than their user now has.
func (p *planner) stops() {
	for _, a := range p.wanted {
		if a.person == "" || p.users[a.name].UID != a.uid {
			continue
		}
		more := slices.ContainsFunc(p.host.Running[a.uid], func(gid uint32) bool {
			if gid == a.gid || gid == p.numbers.shared {
				return !a.active
			}
			return !p.member(p.circles[gid], a.name)
		})
		if more || p.stopped[a.name] {
			p.add(Change{Do: Stop, User: a.name, UID: a.uid})
		}
	}
}

// accounts plans groups and users that are missing. Of who is removed nothing is made any
// more: the state keeps their number.
func (p *planner) accounts() {
	for _, a := range p.wanted {
		if _, exists := p.groups[a.name]; !exists && a.active && !(a.adopted && a.user) {
			p.add(Change{Do: CreateGroup, Group: a.name, GID: a.gid})
		}
	}
	for _, a := range p.wanted {
		u, exists := p.users[a.name]
		switch {
		case !a.user || !a.active:
		case !exists:
			p.add(Change{Do: CreateUser, User: a.name, UID: a.uid, GID: a.gid, Path: a.home})
		case a.person != "" && (u.Home != a.home || u.Shell != nologin):
			p.add(Change{Do: MendUser, User: a.name, Path: a.home})
		}
	}
	for _, a := range p.wanted {
		have := slices.Sorted(slices.Values(p.groups[a.name].Members))
		for _, m := range p.members[a.name] {
			if _, is := slices.BinarySearch(have, m); !is {
				p.add(Change{Do: AddMember, User: m, Group: a.name})
			}
		}
	}
}

// directories plans the workspace.
func (p *planner) directories() {
	for _, d := range directories(p.state, p.host.Workspace, p.numbers) {
		have, exists := p.host.Dirs[d.path]
		c := Change{Path: d.path, UID: d.uid, GID: d.gid, Mode: d.mode, Movable: d.writableBy}
		switch {
		case !exists:
			c.Do = MakeDirectory
		case have.Kind != "directory":
			p.problem(d.writableBy == 0, d.path, "look who put it there, and move it away", "is not a directory but %s", have.Kind)
			continue
		case have.UID == d.uid && have.GID == d.gid && (have.Mode == d.mode || d.also != 0 && have.Mode == d.also):
			continue
		case d.writableBy != 0 && (have.UID != 0 && have.UID != d.writableBy || have.GID != d.gid):
			p.problem(false, d.path, "look who put it there, and move it away", "belongs to %d:%d and is not touched", have.UID, have.GID)
			continue
		default:
			c.Do = MendDirectory
		}
		p.add(c)
	}
}

// reown plans to take from leavers what they own in a circle.
func (p *planner) reown() {
	for _, circle := range p.state.Circles {
		at := circlePath(p.host.Workspace, circle.ID)
		if p.host.Dirs[at].Kind != "directory" || p.groups[circle.Group()].GID != circle.GID {
			continue
		}
		for _, a := range p.wanted {
			if a.person == "" || p.member(circle.Group(), a.name) {
				continue
			}
			if slices.Contains(p.host.Owners[at], a.uid) || slices.Contains(p.left[circle.Group()], a.name) {
				p.add(Change{Do: Reown, User: a.name, UID: a.uid, GID: circle.GID, Path: at})
			}
		}
	}
}

// mounts plans a mount of its own for each workspace root.
func (p *planner) mounts() {
	if p.host.Mounts == nil {
		return
	}
	for _, d := range directories(p.state, p.host.Workspace, p.numbers) {
		if d.root && !p.host.Mounts[d.path] {
			p.add(Change{Do: Mount, Path: d.path})
		}
	}
}

// registry returns what the helper's registry must say.
func (p *planner) registry() Registry {
	r := Registry{
		Version: stateVersion, Range: p.state.Range, Workspace: p.host.Workspace,
		Service: p.numbers.service, Shared: p.numbers.shared,
		People: []Entry{}, Circles: []CircleEntry{}, Revoked: []Revocation{},
	}
	groups := map[string][]uint32{}
	for _, c := range p.state.Circles {
		if c.Removed {
			continue
		}
		r.Circles = append(r.Circles, CircleEntry{c.ID, c.Group(), c.GID})
		for _, m := range c.Members {
			groups[m] = append(groups[m], c.GID)
		}
	}
	for _, q := range p.state.People {
		e := Entry{ID: q.ID, Member: q.Member, Name: q.User(), UID: q.UID, GID: q.UID, Groups: []uint32{}, Active: !q.Removed}
		if e.Active {
			e.Groups = append(groups[q.ID], r.Shared)
			slices.Sort(e.Groups)
		}
		r.People = append(r.People, e)
	}
	for _, t := range p.state.Tombstones {
		if t.Kind == KindPerson { // what they still run can be ended
			r.People = append(r.People, Entry{ID: t.ID, Name: t.account(), UID: t.Number, GID: t.Number, Groups: []uint32{}})
		}
	}
	r.Revoked = append(r.Revoked, p.revoked...)
	return r
}

// narrowRegistry plans to take from the registry at once what the state does not give.
func (p *planner) narrowRegistry() {
	have := p.host.Registry
	if have.Version == 0 {
		return
	}
	narrow := have.narrow(p.registry())
	if reflect.DeepEqual(have, narrow) {
		return
	}
	for i, e := range narrow.People {
		if e.Active != have.People[i].Active || len(e.Groups) != len(have.People[i].Groups) {
			p.stopped[e.Name] = true
		}
	}
	p.add(Change{Do: NarrowRegistry, Registry: &narrow})
	p.host.Registry = narrow
}

// registries plans the registry as everything is once the plan is performed.
func (p *planner) registries() {
	if want := p.registry(); !p.blocked() && !reflect.DeepEqual(want, p.host.Registry) {
		p.add(Change{Do: WriteRegistry, Registry: &want})
	}
}
