package posix

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bourn"
)

func TestParseNames(t *testing.T) {
	for _, good := range []string{"bc_person_abcdefghij", "bc_person_2345672345", "bc_person_" + strings.Repeat("z", 21)} {
		if short, err := ParseUserName(good); err != nil || personPrefix+string(short) != good || len(good) > 31 {
			t.Errorf("%s: %q, %v", good, short, err)
		}
	}
	for _, bad := range []string{
		"", "root", "bc_person_", "bc_person_abcdefghi", "bc_person_" + strings.Repeat("z", 22), "bc_person_ABCDEFGHIJ", "bc_person_abcdefghi1",
		"bc_person_abcdefghi8", "bc_person_abcdefghi0", "bc_person_abcdefghi\n", "bc_person_abcdefghij\n", " bc_person_abcdefghij", "bc_circle_abcdefghij",
		"bc_person_abcdefghi=", "bc_person_../../etc", "bc_person_abcdefghi\x00", "bc_person_abcdefghié",
	} {
		if _, err := ParseUserName(bad); bourn.CodeOf(err) != bourn.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ParseGroupName("bc_person_abcdefghij"); bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Error(err)
	}
}

// The digest is fixed: names must not change between versions.
func TestDigest(t *testing.T) {
	// printf ann | sha256sum | xxd -r -p | base32 | tr A-Z a-z
	if got := digest("ann")[:16]; got != "jgiv4dl5jnac4max" {
		t.Errorf("%s", got)
	}
}

func TestShortIDLengthens(t *testing.T) {
	d := strings.Repeat("abcdefghijklmnop", 4)
	given := map[ShortID]bool{}
	for n := minShort; n <= maxShort; n++ {
		short, err := shortID(d, func(s ShortID) bool { return given[s] })
		if err != nil || len(short) != n || !strings.HasPrefix(d, string(short)) {
			t.Fatalf("%d: %q, %v", n, short, err)
		}
		given[short] = true
	}
	if _, err := shortID(d, func(s ShortID) bool { return given[s] }); bourn.CodeOf(err) != bourn.CodeConflict {
		t.Error(err)
	}
}

// A name in a state that begins like another id's is lengthened, and the first keeps its own.
func TestCollision(t *testing.T) {
	s := newState(t)
	s.Tombstones = append(s.Tombstones, Tombstone{KindPerson, "ann", ShortID(digest("ann")[:10]), s.Range.Last})
	name, _, err := s.next(KindPerson, "ann")
	if err == nil {
		t.Fatalf("a number after the last: %q", name)
	}
	s.Tombstones[0].Number--
	name, n, err := s.next(KindPerson, "ann")
	if err != nil || string(name) != digest("ann")[:11] || n != s.Range.Last {
		t.Errorf("%q, %d, %v", name, n, err)
	}
}

func FuzzParseUserName(f *testing.F) {
	f.Add("bc_person_abcdefghij")
	f.Add("bc_person_abcdefghij\n")
	f.Fuzz(func(t *testing.T, s string) {
		short, err := ParseUserName(s)
		if err == nil && (personPrefix+string(short) != s || strings.Trim(string(short), "abcdefghijklmnopqrstuvwxyz234567") != "") {
			t.Errorf("%q: %q", s, short)
		}
	})
}

func TestIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "id")
		if checkID(s) == nil && (strings.ContainsAny(s, "/\x00:, \n%\"") || s == "." || s == ".." || s == "") {
			t.Fatalf("%q", s)
		}
	})
	for _, bad := range []string{"", ".", "..", ".a", "a/b", "A", "a b", strings.Repeat("a", 65), "a:b", "-a"} {
		if checkID(bad) == nil {
			t.Errorf("%q", bad)
		}
	}
}
