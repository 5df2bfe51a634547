package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"bourn/internal/posix"
	"bourn/internal/store"

	"github.com/google/go-cmp/cmp"
)

func someMember(n byte, name string, uid int64, administrator, removed bool) store.Member {
	m := store.Member{ID: store.MemberID{6: 0x40, 8: 0x80, 15: n}, Name: name, Administrator: administrator, Removed: removed}
	if uid >= 0 {
		u := uint32(uid)
		m.UID = &u
	}
	return m
}

func TestRosterChanges(t *testing.T) {
	entry := func(n byte, id string, uid uint32, active bool) posix.Entry {
		return posix.Entry{ID: id, Member: someMember(n, "", -1, false, false).ID.String(), Name: "bc_person_aaaaaaaaa" + id[:1], UID: uid, GID: uid, Active: active}
	}
	service, root := someMember(1, "bourn", 700, true, false), someMember(2, "root", 0, true, false)
	in := someMember
	for name, c := range map[string]struct {
		members []store.Member
		people  []posix.Entry
		want    []rosterChange
	}{
		"nothing to do": {[]store.Member{service, root, in(3, "ann", 66016, false, false)}, []posix.Entry{entry(3, "ann", 66016, true)}, nil},
		"new":           {[]store.Member{service, root}, []posix.Entry{entry(3, "ann", 66016, true)}, []rosterChange{{"member made", in(3, "ann", 66016, false, false)}}},
		"never active":  {[]store.Member{service, root}, []posix.Entry{entry(3, "ann", 66016, false)}, nil},
		"no member":     {[]store.Member{service, root}, []posix.Entry{{ID: "eve", Name: "bc_person_aaaaaaaaae", UID: 66020}}, nil},
		"an administrator stays one, under a new name": {[]store.Member{service, root, in(3, "anne", 66016, true, false)}, []posix.Entry{entry(3, "ann", 66016, true)},
			[]rosterChange{{"member changed", in(3, "ann", 66016, true, false)}}},
		"gets a user": {[]store.Member{service, root, in(3, "ann", -1, false, false)}, []posix.Entry{entry(3, "ann", 66016, true)},
			[]rosterChange{{"member changed", in(3, "ann", 66016, false, false)}}},
		"not active any more": {[]store.Member{service, root, in(3, "ann", 66016, false, false)}, []posix.Entry{entry(3, "ann", 66016, false)},
			[]rosterChange{{"member removed", in(3, "ann", 66016, false, true)}}},
		"came back": {[]store.Member{service, root, in(3, "ann", 66016, false, true)}, []posix.Entry{entry(3, "ann", 66016, true)},
			[]rosterChange{{"member came back", in(3, "ann", 66016, false, false)}}},
		"in no entry any more": {[]store.Member{service, root, in(3, "ann", 66016, true, false)}, nil,
			[]rosterChange{{"member removed: no person of this host any more", in(3, "ann", -1, true, true)}}},
		"who was made by other means stays": {[]store.Member{service, root, in(3, "ops", 1000, true, false)}, nil, nil},
		// A user is one member's at most: it is taken from one before another gets it.
		"another member of the same person": {[]store.Member{service, root, in(3, "ann", 66016, false, false)}, []posix.Entry{entry(4, "ann", 66016, true)},
			[]rosterChange{{"member removed: no person of this host any more", in(3, "ann", -1, false, true)}, {"member made", in(4, "ann", 66016, false, false)}}},
		"two swap": {[]store.Member{service, root, in(3, "ann", 66017, false, false), in(4, "bob", 66016, false, false)}, []posix.Entry{entry(3, "ann", 66016, true), entry(4, "bob", 66017, true)},
			[]rosterChange{{"member's user taken away", in(3, "ann", -1, false, true)}, {"member's user taken away", in(4, "bob", -1, false, true)},
				{"member came back", in(3, "ann", 66016, false, false)}, {"member came back", in(4, "bob", 66017, false, false)}}},
		"root was removed": {[]store.Member{service, in(2, "root", 0, false, true)}, nil, []rosterChange{{"member made an administrator: root", root}}},
	} {
		got, err := rosterChanges(c.members, posix.Registry{Range: posix.DefaultRange, People: c.people})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(rosterChange{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// Who is given root's member would be an administrator, and root nobody.
	if got, err := rosterChanges([]store.Member{service, root}, posix.Registry{Range: posix.DefaultRange, People: []posix.Entry{entry(2, "ann", 66016, true)}}); err == nil {
		t.Errorf("a person becomes root's member: %+v", got)
	}
	got, err := rosterChanges([]store.Member{service}, posix.Registry{Range: posix.DefaultRange})
	if err != nil || len(got) != 1 || got[0].member.UID == nil || *got[0].member.UID != 0 || !got[0].member.Administrator {
		t.Errorf("root is made no administrator: %+v %v", got, err)
	}
}

func TestChanged(t *testing.T) {
	ann := posix.Entry{ID: "ann", Member: "m", Name: "a", UID: 1, GID: 1, Groups: []uint32{5, 6}, Active: true}
	with := func(f func(*posix.Entry)) posix.Entry {
		e := ann
		e.Groups = slices.Clone(ann.Groups)
		f(&e)
		return e
	}
	for name, c := range map[string]struct {
		before, after []posix.Entry
		want          []change
	}{
		"same":       {[]posix.Entry{ann}, []posix.Entry{ann}, nil},
		"came":       {nil, []posix.Entry{ann}, []change{{"m", "a", false}}},
		"gone":       {[]posix.Entry{ann}, nil, []change{{"m", "a", true}}},
		"joined":     {[]posix.Entry{ann}, []posix.Entry{with(func(e *posix.Entry) { e.Groups = append(e.Groups, 7) })}, []change{{"m", "a", false}}},
		"left":       {[]posix.Entry{ann}, []posix.Entry{with(func(e *posix.Entry) { e.Groups = e.Groups[:1] })}, []change{{"m", "a", true}}},
		"exchanged":  {[]posix.Entry{ann}, []posix.Entry{with(func(e *posix.Entry) { e.Groups[0] = 7 })}, []change{{"m", "a", true}}},
		"not active": {[]posix.Entry{ann}, []posix.Entry{with(func(e *posix.Entry) { e.Active, e.Groups = false, nil })}, []change{{"m", "a", true}}},
		"another":    {[]posix.Entry{ann}, []posix.Entry{with(func(e *posix.Entry) { e.Member = "n" })}, []change{{"m", "a", true}}},
	} {
		if got := changed(posix.Registry{People: c.before}, posix.Registry{People: c.after}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestFindPeople: a host is shared where a registry names this user as the service; one that
// cannot be used is no reason to go on as if there were none.
func TestFindPeople(t *testing.T) {
	at := filepath.Join(t.TempDir(), "people.json")
	find := func() (*people, error) { return findPeople(&Config{Registry: at, Helper: "/nonexistent"}) }
	if p, err := find(); p != nil || err != nil {
		t.Errorf("without a registry: %v %v", p, err)
	}
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("{", 0o644)
	if p, err := find(); p != nil || err == nil {
		t.Errorf("with a registry that is none: %v %v", p, err)
	}
	r := posix.Registry{Version: 1, Range: posix.DefaultRange, Workspace: "/srv/workspace", Service: 700, Shared: 701}
	if uid := uint32(os.Geteuid()); uid != 0 {
		r.Service = uid
	}
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	write(string(text), 0o666)
	if p, err := find(); p != nil || err == nil {
		t.Errorf("with a registry that everybody may change: %v %v", p, err)
	}
	write(string(text), 0o644)
	p, err := find()
	switch {
	case os.Geteuid() == 0 && (p != nil || err == nil):
		t.Errorf("root serves a shared host: %v %v", p, err)
	case os.Geteuid() != 0 && (p == nil || err != nil):
		t.Errorf("the service does not serve: %v %v", p, err)
	}
	if os.Geteuid() != 0 {
		r.Service++
		text, _ := r.Encode()
		write(string(text), 0o644)
		if p, err := find(); p != nil || err != nil {
			t.Errorf("another user's registry: %v %v", p, err)
		}
	}
}
