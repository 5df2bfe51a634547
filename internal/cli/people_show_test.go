package cli

import (
	"slices"
	"testing"

	"bourn/internal/posix"
)

// A person is ready when the helper knows them with all of their circles, and what was
// revoked is said.
func TestShownPerson(t *testing.T) {
	s, err := posix.NewState(posix.DefaultRange)
	if err != nil {
		t.Fatal(err)
	}
	ann, err := s.AddPerson("ann", "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"board", "sales"} {
		if _, err := s.AddCircle(id); err != nil {
			t.Fatal(err)
		}
		if err := s.Join(id, ann.ID); err != nil {
			t.Fatal(err)
		}
	}
	const shared = 66001
	board, sales := s.Circles[0], s.Circles[1]
	entry := posix.Entry{ID: ann.ID, Name: ann.User(), UID: ann.UID, GID: ann.UID, Groups: []uint32{shared, board.GID, sales.GID}, Active: true}
	with := func(e posix.Entry, revoked ...posix.Revocation) *posix.Registry {
		return &posix.Registry{Workspace: posix.DefaultWorkspace, People: []posix.Entry{e}, Revoked: revoked}
	}
	fewer, none, other := entry, entry, entry
	fewer.Groups = []uint32{shared, board.GID}
	none.Active, none.Groups = false, []uint32{}
	other.UID++
	for _, tt := range []struct {
		name    string
		r       *posix.Registry
		state   string
		circles []string
	}{
		{"nothing is known", nil, "not ready: bourn people sync", []string{"board", "sales"}},
		{"nobody is known", &posix.Registry{}, "not ready: bourn people sync", []string{"board", "sales"}},
		{"as they should be", with(entry), "ready", []string{"board", "sales"}},
		{"a circle is missing", with(fewer), "not ready: bourn people sync", []string{"board", "sales"}},
		{"with another number", with(other), "not ready: bourn people sync", []string{"board", "sales"}},
		{"a circle was revoked", with(fewer, posix.Revocation{Person: ann.User(), Circle: sales.Group()}), "ready", []string{"board"}},
		{"everything was revoked", with(none, posix.Revocation{Person: ann.User()}), "revoked", []string{"board", "sales"}},
		{"somebody else was revoked", with(entry, posix.Revocation{Person: "bc_person_qg3dpwh42l"}), "ready", []string{"board", "sales"}},
	} {
		l := shownPerson(s, tt.r, ann)
		if l.state() != tt.state || !slices.Equal(l.Circles, tt.circles) || len(l.Circles)+len(l.RevokedCircles) != 2 || (l.Home != "") != l.Ready {
			t.Errorf("%s: %q, %+v", tt.name, l.state(), l)
		}
	}
}
