package posix

import (
	"path"
	"slices"
	"strings"
)

// check lists what the host must have, and every problem with what it has. It returns
// whether a plan can be made at all.
func (p *planner) check() bool {
	if err := p.state.Check(); err != nil {
		p.problem(true, "state", "", "%v", err)
		return false
	}
	if err := checkWorkspace(p.host.Workspace); err != nil {
		p.problem(true, "workspace", "", "%v", err)
		return false
	}
	p.services()
	p.people()
	for _, a := range p.wanted {
		p.byName[a.name] = a
	}
	for group := range p.members {
		slices.Sort(p.members[group])
	}
	p.checkRange()
	p.checkUsers()
	p.checkGroups()
	return true
}

// services lists the service's own accounts, as the host has them already or with numbers
// from the beginning of the range.
func (p *planner) services() {
	for i, f := range fixed {
		n := p.state.Range.First + uint32(i)
		a := account{name: f.name, uid: n, gid: n, user: f.user, home: path.Join(p.host.Workspace, f.home), active: true}
		if g, exists := p.groups[f.name]; exists {
			a.gid, a.adopted = g.GID, !f.user
		}
		if u, exists := p.users[f.name]; exists && f.user {
			a.uid, a.gid, a.adopted = u.UID, u.GID, true
		}
		if people := p.state.Range.people(); f.user && (a.uid == 0 || people.contains(a.uid)) || a.gid == 0 || people.contains(a.gid) ||
			p.state.Range.nobodys(a.uid) || p.state.Range.nobodys(a.gid) {
			p.problem(true, f.name, "give the account a number of its own", "has the number %d:%d, which is root's or a person's, or must be nobody's", a.uid, a.gid)
		}
		p.wanted = append(p.wanted, a)
		switch f.name {
		case serviceUser:
			p.numbers.service, p.numbers.serviceGroup = a.uid, a.gid
		case sharedGroup:
			p.numbers.shared = a.gid
		case cacheUser:
			p.numbers.cache, p.numbers.cacheGroup = a.uid, a.gid
		}
	}
}

// people lists the accounts of everybody, and of those who are forgotten.
func (p *planner) people() {
	users := map[string]string{}
	for _, q := range p.state.People {
		users[q.ID] = q.User()
		home := path.Join(p.host.Workspace, privateDir, q.ID)
		p.wanted = append(p.wanted, account{name: q.User(), uid: q.UID, gid: q.UID, user: true, home: home, person: q.ID, active: !q.Removed})
		if !q.Removed {
			p.members[sharedGroup] = append(p.members[sharedGroup], q.User())
		}
	}
	for _, c := range p.state.Circles {
		p.wanted = append(p.wanted, account{name: c.Group(), gid: c.GID, circle: true, active: !c.Removed})
		p.circles[c.GID] = c.Group()
		for _, m := range c.Members {
			p.members[c.Group()] = append(p.members[c.Group()], users[m])
		}
	}
	for _, t := range p.state.Tombstones {
		a := account{name: t.account(), gid: t.Number, circle: true}
		if t.Kind == KindPerson {
			a = account{name: t.account(), uid: t.Number, gid: t.Number, user: true, person: t.ID}
		}
		p.wanted = append(p.wanted, a)
	}
}

// checkRange refuses a range of which somebody else may give numbers away. With user
// namespaces whoever has such a number as a subordinate id can act as that person.
func (p *planner) checkRange() {
	r := p.state.Range
	for _, sub := range []struct {
		file string
		ids  []SubID
	}{{"/etc/subuid", p.host.SubUIDs}, {"/etc/subgid", p.host.SubGIDs}} {
		for _, id := range sub.ids {
			if id.Count > 0 && r.overlaps(id.numbers()) {
				p.problem(true, "range "+r.String(), "take another range before the first person is added, or change "+sub.file,
					"overlaps %s, which %s gives to %q", id.numbers(), sub.file, id.Owner)
			}
		}
	}
	for _, d := range p.host.Defs {
		if r.overlaps(d.Range) {
			p.problem(true, "range "+r.String(), "take another range before the first person is added, or change /etc/login.defs",
				"overlaps %s, which login.defs gives away as %s", d.Range, d.Name)
		}
	}
}

const (
	foreignHint = "change its number, or take another range before the first person is added"
	unknownHint = "restore the state file that it comes from; a number is never given twice"
)

// foreign names an entry that lies in the range or is called like ours, and is not known.
func (p *planner) foreign(what, name string, number uint32) {
	if strings.HasPrefix(name, personPrefix) || strings.HasPrefix(name, circlePrefix) {
		p.problem(true, what+" "+name, unknownHint, "has the number %d, and the state does not know it", number)
		return
	}
	p.problem(true, what+" "+name, foreignHint, "has the number %d, which lies in %s", number, p.state.Range)
}

func (p *planner) checkUsers() {
	seen := map[string]bool{}
	for _, u := range p.host.Users {
		a, known := p.byName[u.Name]
		prefixed := strings.HasPrefix(u.Name, personPrefix) || strings.HasPrefix(u.Name, circlePrefix)
		switch {
		case known && seen[u.Name]:
			p.problem(true, "user "+u.Name, "remove the second entry", "stands twice in passwd")
		case known && !a.user:
			p.problem(true, "user "+u.Name, "remove the user", "has the name of a group of ours")
		case known && (u.UID != a.uid || u.GID != a.gid):
			p.problem(true, "user "+u.Name, "look who changed it", "is %d:%d and must be %d:%d", u.UID, u.GID, a.uid, a.gid)
		case !known && (prefixed || p.state.Range.contains(u.UID)):
			p.foreign("user", u.Name, u.UID)
		case !known && p.state.Range.contains(u.GID):
			p.problem(true, "user "+u.Name, "give the user another group", "has the group %d, which lies in %s", u.GID, p.state.Range)
		}
		seen[u.Name] = true
	}
}

func (p *planner) checkGroups() {
	seen := map[string]bool{}
	for _, g := range p.host.Groups {
		a, known := p.byName[g.Name]
		prefixed := strings.HasPrefix(g.Name, personPrefix) || strings.HasPrefix(g.Name, circlePrefix)
		switch {
		case known && seen[g.Name]:
			p.problem(true, "group "+g.Name, "remove the second entry", "stands twice in group")
		case known && g.GID != a.gid:
			p.problem(true, "group "+g.Name, "look who changed it", "is %d and must be %d", g.GID, a.gid)
		case !known && (prefixed || p.state.Range.contains(g.GID)):
			p.foreign("group", g.Name, g.GID)
		case !known:
			for _, m := range g.Members {
				if p.byName[m].person != "" {
					p.problem(false, "group "+g.Name, "take the user out; the helper gives actors only the groups of the registry", "has the member %s", m)
				}
			}
		}
		seen[g.Name] = true
	}
}
