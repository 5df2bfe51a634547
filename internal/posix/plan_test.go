package posix

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bourn"
)

// debian is a host without people.
func debian() Host {
	defs, _ := ParseLoginDefs(nil)
	return Host{
		Users:     []User{{Name: "root", Home: "/root"}, {Name: "joe", UID: 1000, GID: 1000}},
		Groups:    []Group{{Name: "root"}, {Name: "joe", GID: 1000}, {Name: "sudo", GID: 27}},
		SubUIDs:   []SubID{{"joe", 100000, 65536}},
		SubGIDs:   []SubID{{"joe", 100000, 65536}},
		Defs:      defs,
		Workspace: DefaultWorkspace,
		Dirs:      map[string]Dir{},
		Mounts:    map[string]bool{"/": true},
		Owners:    map[string][]uint32{},
		Running:   map[uint32][]uint32{},
	}
}

// after returns the host as it is when changes are made: the meaning of each, written down apart
// from the code that performs it.
func after(h Host, changes []Change) Host {
	h.Users, h.Groups = slices.Clone(h.Users), slices.Clone(h.Groups)
	h.Dirs, h.Mounts, h.Owners, h.Running = maps.Clone(h.Dirs), maps.Clone(h.Mounts), maps.Clone(h.Owners), maps.Clone(h.Running)
	for _, c := range changes {
		user := slices.IndexFunc(h.Users, func(u User) bool { return u.Name == c.User })
		group := slices.IndexFunc(h.Groups, func(g Group) bool { return g.Name == c.Group })
		switch c.Do {
		case NarrowRegistry, WriteRegistry:
			h.Registry = *c.Registry
		case LockUser:
			h.Users[user].Locked, h.Users[user].Expired = true, h.Users[user].Expired || c.Expire
		case RemoveMember:
			h.Groups[group].Members = without(h.Groups[group].Members, c.User)
		case Stop:
			delete(h.Running, c.UID)
		case CreateGroup:
			h.Groups = append(h.Groups, Group{Name: c.Group, GID: c.GID})
		case CreateUser:
			h.Users = append(h.Users, User{Name: c.User, UID: c.UID, GID: c.GID, Home: c.Path, Shell: nologin, Locked: true})
		case MendUser:
			h.Users[user].Home, h.Users[user].Shell = c.Path, nologin
		case AddMember:
			h.Groups[group].Members = append(slices.Clone(h.Groups[group].Members), c.User)
		case MakeDirectory, MendDirectory:
			h.Dirs[c.Path] = Dir{c.UID, c.GID, c.Mode, "directory"}
		case Reown:
			h.Owners[c.Path] = slices.DeleteFunc(slices.Clone(h.Owners[c.Path]), func(uid uint32) bool { return uid == c.UID })
		case Mount:
			h.Mounts[c.Path] = true
		}
	}
	return h
}

// settled is the host once everything that the state says is performed.
func settled(t *testing.T, s State) Host {
	t.Helper()
	changes, problems := Plan(s, debian())
	if len(problems) > 0 || len(changes) == 0 {
		t.Fatal(problems)
	}
	return after(debian(), changes)
}

func TestPlanGolden(t *testing.T) {
	s := newState(t)
	if _, err := s.AddPerson("ann", "", nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddCircle("ops"); err != nil {
		t.Fatal(err)
	}
	if err := s.Join("ops", "ann"); err != nil {
		t.Fatal(err)
	}
	changes, problems := Plan(s, debian())
	var got []string
	for _, c := range changes {
		got = append(got, strings.NewReplacer(s.People[0].User(), "ANN", s.Circles[0].Group(), "OPS", DefaultWorkspace, "W").Replace(c.String()))
	}
	want := []string{
		"create-group bourn (66000)", "create-group bc_shared (66001)", "create-group bc_cache (66002)", "create-group ANN (66016)", "create-group OPS (66017)",
		"create-user bourn (66000:66000) with home W/.bourn", "create-user bc_cache (66002:66002) with home W/shared/cache/dependencies",
		"create-user ANN (66016:66016) with home W/private/people/ann",
		"add-member ANN to bc_shared", "add-member ANN to OPS",
		"make-directory W 0:0 0711", "make-directory W/private 0:0 0711", "make-directory W/private/people 0:0 0711", "make-directory W/circles 0:0 0711",
		"make-directory W/shared 0:0 0711", "make-directory W/shared/cache 0:0 0711",
		"make-directory W/shared/public 66000:66001 2775", "make-directory W/shared/cache/dependencies 66002:66002 2755",
		"make-directory W/skills 66000:66000 0755", "make-directory W/.bourn 66000:66000 0700",
		"make-directory W/private/people/ann 0:66016 2770", "make-directory W/private/people/ann/tmp 0:66016 2770", "make-directory W/private/people/ann/artifacts 0:66016 2770",
		"make-directory W/circles/ops 0:66017 2770",
		"mount W/shared/public on itself", "mount W/shared/cache/dependencies on itself", "mount W/skills on itself", "mount W/.bourn on itself",
		"mount W/private/people/ann on itself", "mount W/circles/ops on itself",
		"write-registry: 1 active people, 1 circles",
	}
	if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
		t.Error(problems, diff)
	}
}

// Who leaves or is removed: registry first, processes before files, and nobody else.
func TestPlanLeaving(t *testing.T) {
	s := company(t)
	h := settled(t, s)
	sales := DefaultWorkspace + "/circles/sales"
	h.Owners[sales] = []uint32{s.People[0].UID, s.People[1].UID}
	h.Running[s.People[1].UID] = []uint32{s.People[1].UID, 66001, s.Circles[0].GID}
	if changes, problems := Plan(s, h); len(changes)+len(problems) > 0 {
		t.Fatal(changes, problems)
	}
	if err := s.RemovePerson("bob"); err != nil {
		t.Fatal(err)
	}
	changes, problems := Plan(s, h)
	var got []string
	for _, c := range changes {
		got = append(got, strings.ReplaceAll(c.String(), s.People[1].User(), "BOB"))
	}
	want := []string{
		"narrow-registry: 1 active people, 2 circles", "lock-user BOB and end the account", "remove-member BOB from bc_shared",
		"remove-member BOB from " + s.Circles[0].Group(), "stop what BOB (66017) runs", "re-own what BOB (66017) owns in " + sales,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
		t.Error(problems, diff)
	}
	// Where the performance broke off after the groups, the facts still ask for the rest.
	half := after(h, changes[:4])
	rest, _ := Plan(s, half)
	if diff := cmp.Diff(changes[4:], rest); diff != "" {
		t.Error(diff)
	}
}

func TestPlanProblems(t *testing.T) {
	s := company(t)
	ann, sales := s.People[0], s.Circles[0]
	set := func(f func(*Host)) Host {
		h := settled(t, s)
		f(&h)
		return h
	}
	user := func(name string) func(*Host) *User {
		return func(h *Host) *User {
			return &h.Users[slices.IndexFunc(h.Users, func(u User) bool { return u.Name == name })]
		}
	}
	for name, c := range map[string]struct {
		host   Host
		says   string
		blocks bool
	}{
		"subuid":           {set(func(h *Host) { h.SubUIDs = append(h.SubUIDs, SubID{"joe", 99999, 1}) }), `overlaps 99999-99999, which /etc/subuid gives to "joe"`, true},
		"subgid":           {set(func(h *Host) { h.SubGIDs = append(h.SubGIDs, SubID{"joe", 1, 66000}) }), `overlaps 1-66000, which /etc/subgid`, true},
		"login.defs":       {set(func(h *Host) { h.Defs = []Def{{"UID", Range{1000, 70000}}} }), "login.defs gives away as UID", true},
		"foreign user":     {set(func(h *Host) { h.Users = append(h.Users, User{Name: "kim", UID: 70000, GID: 70000}) }), "user kim: has the number 70000", true},
		"foreign twin":     {set(func(h *Host) { h.Users = append(h.Users, User{Name: "kim", UID: ann.UID, GID: 100}) }), "user kim: has the number 66016", true},
		"foreign primary":  {set(func(h *Host) { h.Users = append(h.Users, User{Name: "kim", UID: 1002, GID: sales.GID}) }), "user kim: has the group 66019", true},
		"foreign group":    {set(func(h *Host) { h.Groups = append(h.Groups, Group{Name: "kim", GID: 99999}) }), "group kim: has the number 99999", true},
		"unknown person":   {set(func(h *Host) { h.Users = append(h.Users, User{Name: someone, UID: 5, GID: 5}) }), someone + ": has the number 5, and the state does not know it", true},
		"unknown circle":   {set(func(h *Host) { h.Groups = append(h.Groups, Group{Name: somewhere, GID: 5}) }), "the state does not know it", true},
		"other uid":        {set(func(h *Host) { user(ann.User())(h).UID = 5 }), "is 5:66016 and must be 66016:66016", true},
		"root by our name": {set(func(h *Host) { user(ann.User())(h).UID = 0 }), "is 0:66016", true},
		"other gid":        {set(func(h *Host) { user(ann.User())(h).GID = 27 }), "is 66016:27", true},
		"other group":      {set(func(h *Host) { h.Groups[len(h.Groups)-1].GID = 5 }), "is 5 and must be 66020", true},
		"twice":            {set(func(h *Host) { h.Users = append(h.Users, *user(ann.User())(h)) }), "stands twice in passwd", true},
		"group twice":      {set(func(h *Host) { h.Groups = append(h.Groups, Group{Name: sales.Group(), GID: sales.GID}) }), "stands twice in group", true},
		"user for circle":  {set(func(h *Host) { h.Users = append(h.Users, User{Name: sales.Group(), UID: 5}) }), "has the name of a group of ours", true},
		"service is root":  {set(func(h *Host) { user("bourn")(h).UID = 0 }), "which is root's or a person's", true},
		"in sudo":          {set(func(h *Host) { h.Groups[2].Members = []string{ann.User()} }), "group sudo: has the member", false},
		"link":             {set(func(h *Host) { h.Dirs[DefaultWorkspace+"/circles"] = Dir{Kind: "a symbolic link"} }), "is not a directory but a symbolic link", true},
		"fifo for tmp":     {set(func(h *Host) { h.Dirs[DefaultWorkspace+"/private/people/ann/tmp"] = Dir{Kind: "a fifo"} }), "is not a directory but a fifo", false},
		"other's tmp": {set(func(h *Host) {
			h.Dirs[DefaultWorkspace+"/private/people/ann/tmp"] = Dir{ann.UID, sales.GID, 0o2770, "directory"}
		}), "belongs to 66016:66019 and is not touched", false},
		"workspace": {set(func(h *Host) { h.Workspace = "/srv/a:b/c" }), "invalid workspace", true},
		"relative":  {set(func(h *Host) { h.Workspace = "srv/b" }), "invalid workspace", true},
	} {
		changes, problems := Plan(s, c.host)
		if !slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.String(), c.says) && p.Blocks == c.blocks }) {
			t.Errorf("%s: %v, want %q", name, problems, c.says)
		}
		for _, change := range changes {
			if c.blocks && !slices.Contains([]Do{NarrowRegistry, LockUser, RemoveMember, Stop, Reown}, change.Do) {
				t.Errorf("%s: %s", name, change)
			}
		}
	}
	if _, problems := Plan(State{}, debian()); len(problems) != 1 || !problems[0].Blocks {
		t.Error(problems)
	}
}

// A problem keeps nobody in: what takes away is planned all the same.
func TestPlanNarrowsWhileBlocked(t *testing.T) {
	s := company(t)
	h := settled(t, s)
	h.SubUIDs = append(h.SubUIDs, SubID{"joe", 70000, 1})
	if err := s.RemovePerson("bob"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddPerson("kim", "", nil, nil); err != nil {
		t.Fatal(err)
	}
	changes, _ := Plan(s, h)
	then := after(h, changes)
	if _, err := then.Registry.Lookup(s.People[1].User()); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("bob: %v", err)
	}
	if _, err := then.Registry.Lookup(s.People[0].User()); err != nil {
		t.Errorf("ann: %v", err)
	}
	if rest, _ := Plan(s, then); len(rest) > 0 {
		t.Error(rest)
	}
}

// What the helper revoked does not come back by a sync, until the state has let go of it.
func TestPlanRevoked(t *testing.T) {
	s := company(t)
	h := settled(t, s)
	ann, sales := s.People[0].User(), s.Circles[0]
	var err error
	if h.Registry, err = h.Registry.Revoke(Revocation{ann, sales.Group()}); err != nil {
		t.Fatal(err)
	}
	changes, problems := Plan(s, h)
	if len(problems) != 1 || problems[0].Blocks || !slices.ContainsFunc(changes, func(c Change) bool { return c.Do == RemoveMember && c.Group == sales.Group() }) {
		t.Fatal(changes, problems)
	}
	h = after(h, changes)
	if changes, problems = Plan(s, h); len(changes) > 0 || len(problems) != 1 {
		t.Fatal(changes, problems)
	}
	if err := s.Leave("sales", "ann"); err != nil {
		t.Fatal(err)
	}
	if changes, problems = Plan(s, h); len(changes) != 1 || len(problems) > 0 {
		t.Fatal(changes, problems)
	}
	h = after(h, changes)
	if err := s.Join("sales", "ann"); err != nil {
		t.Fatal(err)
	}
	changes, _ = Plan(s, h)
	h = after(h, changes)
	e, err := h.Registry.Lookup(ann)
	if err != nil || !slices.Contains(e.Groups, sales.GID) {
		t.Error(e, err)
	}
	// A person as a whole: locked, and so again by the next plan.
	if h.Registry, err = h.Registry.Revoke(Revocation{Person: ann}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		changes, problems = Plan(s, h)
		h = after(h, changes)
		_, err = h.Registry.Lookup(ann)
		i := slices.IndexFunc(h.Users, func(u User) bool { return u.Name == ann })
		if len(problems) != 1 || bourn.CodeOf(err) != bourn.CodeDenied || !h.Users[i].Expired {
			t.Error(problems, err, h.Users[i])
		}
	}
}

// After a plan is performed, wholly or in part and then the rest, nothing is left to do, and
// the host gives exactly what the state says.
func TestPlanSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := NewState(DefaultRange)
		if err != nil {
			t.Fatal(err)
		}
		h := debian()
		if rapid.Bool().Draw(t, "adopted") {
			h.Users = append(h.Users, User{Name: "bourn", UID: 400, GID: 401})
			h.Groups = append(h.Groups, Group{Name: "bourn", GID: 401}, Group{Name: "bc_shared", GID: 402, Members: []string{"bourn"}})
		}
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			for range 8 {
				edit(t, &s)
			}
			disturb(t, s, &h)
			changes, problems := Plan(s, h)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			h = after(h, changes[:rapid.IntRange(0, len(changes)).Draw(t, "performed")])
			changes, _ = Plan(s, h)
			h = after(h, changes)
			if changes, problems = Plan(s, h); len(changes)+len(problems) > 0 {
				t.Fatal(changes, problems)
			}
			exact(t, s, h)
		}
	})
}

// disturb changes the host as people and time do.
func disturb(t *rapid.T, s State, h *Host) {
	for _, c := range s.Circles {
		at := circlePath(h.Workspace, c.ID)
		if len(s.People) > 0 && h.Dirs[at].Kind != "" {
			h.Owners[at] = []uint32{rapid.SampledFrom(s.People).Draw(t, "owner").UID}
		}
	}
	for i, u := range h.Users {
		if strings.HasPrefix(u.Name, personPrefix) && rapid.Bool().Draw(t, "disturbed") {
			h.Users[i].Locked, h.Users[i].Shell = false, "/bin/bash"
			h.Running[u.UID] = []uint32{u.UID, 66019}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(h.Dirs)) {
		if rapid.IntRange(0, 9).Draw(t, "wide") == 0 {
			d := h.Dirs[path]
			d.Mode |= 0o7
			h.Dirs[path] = d
		}
	}
}

// exact compares groups of host and registry with the state, by another way than Plan.
func exact(t *rapid.T, s State, h Host) {
	for _, c := range s.Circles {
		var want, got, able []string
		for _, id := range c.Members {
			i := slices.IndexFunc(s.People, func(p Person) bool { return p.ID == id })
			want = append(want, s.People[i].User())
		}
		for _, g := range h.Groups {
			if g.Name == c.Group() {
				got = append(got, g.Members...)
			}
		}
		for _, e := range h.Registry.People {
			if e.Active && slices.Contains(e.Groups, c.GID) {
				able = append(able, e.Name)
			}
		}
		for _, list := range [][]string{want, got, able} {
			slices.Sort(list)
		}
		if !slices.Equal(want, got) || !slices.Equal(want, able) {
			t.Fatalf("circle %s: wanted %v, in group %v, in registry %v", c.ID, want, got, able)
		}
	}
	for _, p := range s.People {
		_, err := h.Registry.Lookup(p.User())
		i := slices.IndexFunc(h.Users, func(u User) bool { return u.Name == p.User() })
		if (err == nil) == p.Removed || !p.Removed && (i < 0 || h.Users[i].UID != p.UID) || i >= 0 && (!h.Users[i].Locked || p.Removed && !h.Users[i].Expired) {
			t.Fatal(fmt.Sprint(p, err, i))
		}
	}
}

// Service accounts that a package made keep their numbers and members.
func TestPlanAdopts(t *testing.T) {
	s, h := company(t), debian()
	h.Users = append(h.Users, User{Name: "bourn", UID: 400, GID: 401, Shell: "/bin/false"})
	h.Groups = append(h.Groups, Group{Name: "bourn", GID: 401}, Group{Name: "bc_shared", GID: 402, Members: []string{"bourn"}})
	changes, problems := Plan(s, h)
	for _, c := range changes {
		if c.Group == "bourn" || c.User == "bourn" || c.Do == CreateGroup && c.Group == sharedGroup || c.Do == RemoveMember {
			t.Error(c)
		}
	}
	h = after(h, changes)
	if d := h.Dirs[DefaultWorkspace+"/shared/public"]; len(problems) > 0 || d.UID != 400 || d.GID != 402 || h.Registry.Service != 400 || h.Registry.Shared != 402 {
		t.Error(problems, d, h.Registry.Service, h.Registry.Shared)
	}
	if rest, _ := Plan(s, h); len(rest) > 0 {
		t.Error(rest)
	}
}
