package posix

import (
	"fmt"
	"slices"

	"bourn"
)

// AddPerson adds a person with a number and a name of their own and returns them. An id
// that was ever given is ErrConflict, as is a range that is used up; what is not well formed is
// ErrInvalid. After an error the state is as it was.
func (s *State) AddPerson(id, member string, emails []string, accounts []Account) (Person, error) {
	if err := s.free(KindPerson, id); err != nil {
		return Person{}, err
	}
	name, number, err := s.next(KindPerson, id)
	if err != nil {
		return Person{}, fmt.Errorf("cannot add person %q: %w", id, err)
	}
	p := Person{ID: id, Member: member, Name: name, UID: number, Emails: append([]string{}, emails...), Accounts: append([]Account{}, accounts...)}
	for i, email := range p.Emails {
		if normal, ok := normalEmail(email); ok {
			p.Emails[i] = normal
		}
	}
	if err := s.checkNew(p); err != nil {
		return p, err
	}
	s.People = append(slices.Clip(s.People), p)
	return p, nil
}

// checkNew is Check for a person who is to be added to a state that is valid, with an id, a name
// and a number that are free: adding many is not to look at all of them for each.
func (s *State) checkNew(p Person) error {
	c := checker{numbers: map[uint32]string{}, names: map[string]string{}, ids: map[string]bool{}, once: map[string]string{}, within: s.Range.people()}
	for _, q := range s.People {
		if q.Member != "" && q.Member == p.Member {
			c.unique(fmt.Sprintf("person %q", q.ID), "member", q.Member)
		}
		for _, a := range q.Accounts {
			if slices.Contains(p.Accounts, a) {
				c.unique(fmt.Sprintf("person %q", q.ID), "account", a.String())
			}
		}
	}
	c.person(p)
	return c.err
}

// AddCircle adds a circle without members; errors are those of AddPerson.
func (s *State) AddCircle(id string) (Circle, error) {
	if err := s.free(KindCircle, id); err != nil {
		return Circle{}, err
	}
	name, number, err := s.next(KindCircle, id)
	if err != nil {
		return Circle{}, fmt.Errorf("cannot add circle %q: %w", id, err)
	}
	c := Circle{ID: id, Name: name, GID: number, Members: []string{}}
	return c, s.change(func(s *State) { s.Circles = append(s.Circles, c) })
}

// Join makes a person a member of a circle; one who is a member already stays one.
func (s *State) Join(circle, person string) error {
	i, err := s.circle(circle)
	if err != nil {
		return err
	}
	p, err := s.person(person)
	if err != nil {
		return err
	}
	if s.Circles[i].Removed || s.People[p].Removed {
		return fmt.Errorf("cannot add person %q to circle %q: %w: one of them is removed", person, circle, bourn.ErrConflict)
	}
	at, found := slices.BinarySearch(s.Circles[i].Members, person)
	if found || slices.Contains(s.Circles[i].Members, person) {
		return nil
	}
	s.Circles[i].Members = slices.Insert(slices.Clone(s.Circles[i].Members), at, person)
	return nil
}

// Leave ends a person's membership in a circle; one who is no member stays none.
func (s *State) Leave(circle, person string) error {
	i, err := s.circle(circle)
	if err != nil {
		return err
	}
	if _, err := s.person(person); err != nil {
		return err
	}
	s.Circles[i].Members = without(s.Circles[i].Members, person)
	return nil
}

// RemovePerson ends a person's memberships and lets their user be locked. It cannot be
// undone: the same human comes back under another id.
func (s *State) RemovePerson(id string) error {
	i, err := s.person(id)
	if err != nil {
		return err
	}
	s.People[i].Removed = true
	for c := range s.Circles {
		s.Circles[c].Members = without(s.Circles[c].Members, id)
	}
	return nil
}

// RemoveCircle ends all memberships of a circle. Its directory stays, for root alone.
func (s *State) RemoveCircle(id string) error {
	i, err := s.circle(id)
	if err != nil {
		return err
	}
	s.Circles[i].Removed, s.Circles[i].Members = true, []string{}
	return nil
}

// Forget replaces a removed person by a tombstone, without e-mails, accounts and member.
// Somebody who is not removed is ErrConflict.
func (s *State) Forget(id string) error {
	i, err := s.person(id)
	if err != nil {
		return err
	}
	p := s.People[i]
	if !p.Removed {
		return bourn.WithHint(fmt.Errorf("cannot forget person %q: %w: they are not removed", id, bourn.ErrConflict), "remove them first")
	}
	s.People = slices.Delete(slices.Clone(s.People), i, i+1)
	s.Tombstones = append(slices.Clone(s.Tombstones), Tombstone{KindPerson, p.ID, p.Name, p.UID})
	return nil
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(append([]string{}, list...), func(o string) bool { return o == s })
}

// change applies f unless the outcome is not valid.
func (s *State) change(f func(*State)) error {
	next := *s
	next.People, next.Circles = slices.Clone(s.People), slices.Clone(s.Circles)
	f(&next)
	if err := next.Check(); err != nil {
		return err
	}
	*s = next
	return nil
}

func (s *State) person(id string) (int, error) {
	if i := slices.IndexFunc(s.People, func(p Person) bool { return p.ID == id }); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%w: person %q", bourn.ErrNotFound, bourn.Printable(id))
}

func (s *State) circle(id string) (int, error) {
	if i := slices.IndexFunc(s.Circles, func(c Circle) bool { return c.ID == id }); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%w: circle %q", bourn.ErrNotFound, bourn.Printable(id))
}

// given returns what every account was given that there is or ever was, as tombstones.
func (s *State) given() []Tombstone {
	all := slices.Clone(s.Tombstones)
	for _, p := range s.People {
		all = append(all, Tombstone{KindPerson, p.ID, p.Name, p.UID})
	}
	for _, c := range s.Circles {
		all = append(all, Tombstone{KindCircle, c.ID, c.Name, c.GID})
	}
	return all
}

// free refuses an id that was ever given.
func (s *State) free(kind Kind, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	if slices.ContainsFunc(s.given(), func(t Tombstone) bool { return t.Kind == kind && t.ID == id }) {
		return fmt.Errorf("cannot add %s %q: %w: the id was given before", kind, id, bourn.ErrConflict)
	}
	return nil
}

// next returns a name and a number that were never given.
func (s *State) next(kind Kind, id string) (ShortID, uint32, error) {
	given, number := s.given(), s.Range.people().First
	for _, t := range given {
		number = max(number, t.Number+1)
	}
	if number > s.Range.Last {
		return "", 0, bourn.WithHint(fmt.Errorf("%w: the range %s is used up", bourn.ErrConflict, s.Range), "end the range of the state file higher; numbers are never given twice")
	}
	name, err := shortID(digest(id), func(n ShortID) bool {
		return slices.ContainsFunc(given, func(t Tombstone) bool { return t.Kind == kind && t.Name == n })
	})
	return name, number, err
}
