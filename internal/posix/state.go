package posix

import (
	"fmt"
	"regexp"
	"strings"

	"bourn"
)

// Where the two files stand; see the package comment.
const (
	StatePath    = "/etc/bourn/identities.json"
	RegistryPath = "/etc/bourn/people.json"
)

// DatabaseSocketDir is where the database of a shared host has its socket.
const DatabaseSocketDir = "/run/bourn-db"

// RegistryLock is the file beside the registry that whoever writes the registry locks: for as
// long as reading it and writing it anew takes, and never while something else is done.
const RegistryLock = ".people.json.lock"

// stateVersion is the one version of both files that is understood.
const stateVersion = 1

// reserved is how many numbers at the beginning of a range are kept for the service's own
// accounts; people and circles begin after them.
const reserved = 16

// A Range holds the numbers that accounts get, both ends included. People and circles share
// it: a number is never a person's uid and another's gid.
type Range struct {
	First uint32 `json:"first"`
	Last  uint32 `json:"last"`
}

// DefaultRange lies between what login.defs(5) gives to users and what it gives to
// subordinate ids, on hosts that leave both as they come.
var DefaultRange = Range{66000, 99999}

func (r Range) contains(n uint32) bool { return r.First <= n && n <= r.Last }

func (r Range) overlaps(o Range) bool { return r.First <= o.Last && o.First <= r.Last }

func (r Range) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// HelperShield is the number that the helper has as real and saved uid while it ends a
// person's processes. Nobody gets it.
func (r Range) HelperShield() uint32 { return r.First + reserved - 1 }

// shield is root's for the same. It is another one: who has a number as real uid can signal
// who has it, and the service, which starts helpers, must not keep root from ending anything.
func (r Range) shield() uint32 { return r.First + reserved - 2 }

// nobodys reports whether n is a number that no account may have.
func (r Range) nobodys(n uint32) bool { return n == r.shield() || n == r.HelperShield() }

// people returns the part of the range that people and circles get.
func (r Range) people() Range { return Range{r.First + reserved, r.Last} }

// taken are the numbers that a range may not hold on any host (systemd's UIDS-GIDS.md; 65534
// is nobody, 65535 and 4294967295 are -1 in 16 and 32 bits).
var taken = []struct {
	Range
	whose string
}{
	{Range{0, 999}, "system users"},
	{Range{60001, 60577}, "systemd-homed and desktop greeters"},
	{Range{61184, 65519}, "systemd's dynamic users"},
	{Range{65534, 65535}, "nobody"},
	{Range{524288, 1879048191}, "containers of systemd-nspawn"},
	{Range{1<<31 - 1, 1<<32 - 1}, "nobody: many programs take these for negative"},
}

func (r Range) check() error {
	if r.First > r.Last || r.Last-r.First < reserved {
		return fmt.Errorf("%w range %s: it must hold more than %d numbers", bourn.ErrInvalid, r, reserved)
	}
	for _, t := range taken {
		if r.overlaps(t.Range) {
			return fmt.Errorf("%w range %s: %s belongs to %s", bourn.ErrInvalid, r, t.Range, t.whose)
		}
	}
	return nil
}

// A State says who there is. Its zero value is nobody and is not valid; see [NewState].
type State struct {
	Version    int         `json:"version"`
	Range      Range       `json:"range"`
	People     []Person    `json:"people"`
	Circles    []Circle    `json:"circles"`
	Tombstones []Tombstone `json:"tombstones"`
}

// A Person is a human with a user of the operating system.
type Person struct {
	ID string `json:"id"`
	// Member is the id of the same human in the records, or "": the one bridge between both.
	Member string  `json:"member"`
	Name   ShortID `json:"name"`
	// UID is the person's uid, and the gid of the group of the same name.
	UID      uint32    `json:"uid"`
	Emails   []string  `json:"emails"`
	Accounts []Account `json:"accounts"`
	// Removed: the account is locked and in no circle. The entry stays, or a tombstone does.
	Removed bool `json:"removed"`
}

// User returns the person's user name, which is the name of their own group as well.
func (p Person) User() string { return personPrefix + string(p.Name) }

// An Account is a sign-in account: what an issuer calls a subject (OpenID Connect Core 2).
type Account struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// String returns the account as an identifier. An issuer has no fragment (OpenID Connect
// Discovery 3), so the first # ends it.
func (a Account) String() string { return a.Issuer + "#" + a.Subject }

// A Circle is a team with a group of the operating system.
type Circle struct {
	ID      string   `json:"id"`
	Name    ShortID  `json:"name"`
	GID     uint32   `json:"gid"`
	Members []string `json:"members"` // ids of people
	Removed bool     `json:"removed"`
}

// Group returns the circle's group name.
func (c Circle) Group() string { return circlePrefix + string(c.Name) }

// A Tombstone is what stays of somebody who was forgotten: no name, id or number of theirs
// is given again.
type Tombstone struct {
	Kind   Kind    `json:"kind"`
	ID     string  `json:"id"`
	Name   ShortID `json:"name"`
	Number uint32  `json:"number"`
}

func (t Tombstone) account() string { return t.Kind.prefix() + string(t.Name) }

// NewState returns a state without people. A range that cannot be used is ErrInvalid.
func NewState(r Range) (State, error) {
	s := State{Version: stateVersion, Range: r, People: []Person{}, Circles: []Circle{}, Tombstones: []Tombstone{}}
	return s, s.Check()
}

// ParseState reads a state file's content; see the package comment. Errors are ErrInvalid
// and name the entry.
func ParseState(data []byte) (State, error) {
	var s State
	if err := decodeStrict(data, &s); err != nil {
		return State{}, err
	}
	if err := s.Check(); err != nil {
		return State{}, err
	}
	return s, nil
}

// Encode returns the content of the state's file.
func (s State) Encode() ([]byte, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	s.People, s.Circles, s.Tombstones = filled(s.People), filled(s.Circles), filled(s.Tombstones)
	for i, p := range s.People {
		s.People[i].Emails, s.People[i].Accounts = filled(p.Emails), filled(p.Accounts)
	}
	for i, c := range s.Circles {
		s.Circles[i].Members = filled(c.Members)
	}
	return encode(s)
}

// filled returns a copy of list that is written as [] where it is empty, never as null.
func filled[T any](list []T) []T { return append([]T{}, list...) }

// Check returns nil for a state in which every entry is well formed, every number lies in
// the range, and no id, name, number or account stands twice. Else it is ErrInvalid and names the entry.
func (s State) Check() error {
	if s.Version != stateVersion {
		return fmt.Errorf("%w: version %d is not known, only %d is", bourn.ErrInvalid, s.Version, stateVersion)
	}
	if err := s.Range.check(); err != nil {
		return err
	}
	n := len(s.People) + len(s.Circles) + len(s.Tombstones)
	c := checker{numbers: make(map[uint32]string, n), names: make(map[string]string, n), ids: make(map[string]bool, n), once: map[string]string{}, within: s.Range.people()}
	for _, t := range s.Tombstones {
		c.tombstone(t)
	}
	active := make(map[string]bool, len(s.People))
	for _, p := range s.People {
		c.person(p)
		active[p.ID] = !p.Removed
	}
	for _, circle := range s.Circles {
		c.circle(circle, active)
	}
	return c.err
}

// checker keeps the first thing that is wrong with a state.
type checker struct {
	within  Range
	numbers map[uint32]string
	names   map[string]string
	ids     map[string]bool
	once    map[string]string
	err     error
}

func (c *checker) wrong(entry, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w %s: %s", bourn.ErrInvalid, entry, fmt.Sprintf(format, args...))
	}
}

// account checks what people, circles and tombstones have in common.
func (c *checker) account(entry string, kind Kind, id string, name ShortID, number uint32) {
	if err := checkID(id); err != nil {
		c.wrong(entry, "%v", err)
	}
	key := string(kind) + "/" + id
	if c.ids[key] {
		c.wrong(entry, "its id stands twice")
	}
	c.ids[key] = true
	if _, err := ParseShortID(string(name)); err != nil {
		c.wrong(entry, "%v", err)
	} else if of := digest(id); !strings.HasPrefix(of, string(name)) {
		c.wrong(entry, "the name %q is not that of its id, which begins with %q", name, of[:minShort])
	}
	account := kind.prefix() + string(name)
	if other, twice := c.names[account]; twice {
		c.wrong(entry, "the name %q is that of %s", name, other)
	}
	c.names[account] = entry
	if !c.within.contains(number) {
		c.wrong(entry, "the number %d is not in %s", number, c.within)
	}
	if other, twice := c.numbers[number]; twice {
		c.wrong(entry, "the number %d is that of %s", number, other)
	}
	c.numbers[number] = entry
}

func (c *checker) tombstone(t Tombstone) {
	entry := fmt.Sprintf("tombstone %q", t.ID)
	if t.Kind.prefix() == "" {
		c.wrong(entry, "kind %q is not known", t.Kind)
	}
	c.account(entry, t.Kind, t.ID, t.Name, t.Number)
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

func (c *checker) person(p Person) {
	entry := fmt.Sprintf("person %q", p.ID)
	c.account(entry, KindPerson, p.ID, p.Name, p.UID)
	if p.Member != "" {
		if !uuid.MatchString(p.Member) {
			c.wrong(entry, "the member %q is not a lower-case uuid", p.Member)
		}
		c.unique(entry, "member", p.Member)
	}
	for i, email := range p.Emails {
		normal, ok := normalEmail(email)
		if !ok || normal != email {
			c.wrong(entry, "%q is not an e-mail address as it is kept: local@domain, the domain in lower case", email)
		}
		for _, before := range p.Emails[:i] {
			if before == email {
				c.wrong(entry, "the e-mail %q stands twice", email)
			}
		}
	}
	for _, a := range p.Accounts {
		if !plain(a.Issuer) || !plain(a.Subject) || strings.Contains(a.Issuer, "#") {
			c.wrong(entry, "the account of %q needs an issuer without # and a subject, both without blanks at their ends", a.Issuer)
		}
		c.unique(entry, "account", a.String())
	}
}

// unique refuses what binds two people to one thing.
func (c *checker) unique(entry, what, value string) {
	if other, twice := c.once[what+" "+value]; twice {
		c.wrong(entry, "the %s %q is that of %s", what, value, other)
	}
	c.once[what+" "+value] = entry
}

func (c *checker) circle(circle Circle, active map[string]bool) {
	entry := fmt.Sprintf("circle %q", circle.ID)
	c.account(entry, KindCircle, circle.ID, circle.Name, circle.GID)
	if circle.Removed && len(circle.Members) > 0 {
		c.wrong(entry, "it is removed and has members")
	}
	seen := map[string]bool{}
	for _, id := range circle.Members {
		is, known := active[id]
		switch {
		case !known:
			c.wrong(entry, "its member %q is nobody", id)
		case !is:
			c.wrong(entry, "its member %q is removed", id)
		case seen[id]:
			c.wrong(entry, "its member %q stands twice", id)
		}
		seen[id] = true
	}
}
