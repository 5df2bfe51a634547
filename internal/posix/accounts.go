package posix

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bourn"
)

// databases are the contents of the four account files. A nil one does not exist.
type databases struct{ passwd, shadow, group, gshadow []byte }

// lockedPassword is what no password matches and no program takes for empty (shadow(5));
// systemd-sysusers writes the same.
const lockedPassword = "!*"

// apply returns the files with the changes of accounts in changes made; others are left
// out. A name or number that is taken is ErrConflict, one that is missing ErrNotFound; today is a day as shadow(5) counts.
func (d databases) apply(changes []Change, today int) (databases, error) {
	t := tables{
		passwd: readTable(d.passwd), shadow: readTable(d.shadow), group: readTable(d.group), gshadow: readTable(d.gshadow),
		hasShadow: d.shadow != nil, hasGshadow: d.gshadow != nil, today: strconv.Itoa(today),
	}
	for _, c := range changes {
		if err := t.apply(c); err != nil {
			return databases{}, fmt.Errorf("cannot %s: %w", c, err)
		}
	}
	next := databases{passwd: t.passwd.bytes(), group: t.group.bytes()}
	if t.hasShadow {
		next.shadow = t.shadow.bytes()
	}
	if t.hasGshadow {
		next.gshadow = t.gshadow.bytes()
	}
	return next, nil
}

// A table is a file of lines with fields, of which only changed lines are written anew.
type table struct {
	lines   []string
	changed map[int][]string
	byName  map[string]int
	numbers map[string]bool // what the third field holds
}

func readTable(data []byte) *table {
	t := &table{changed: map[int][]string{}, byName: map[string]int{}, numbers: map[string]bool{}}
	text := strings.TrimSuffix(string(data), "\n")
	if text == "" {
		return t
	}
	t.lines = strings.Split(text, "\n")
	for i, line := range t.lines {
		if line == "" || strings.ContainsAny(line[:1], "#+-") {
			continue
		}
		fields := strings.Split(line, ":")
		if _, twice := t.byName[fields[0]]; !twice {
			t.byName[fields[0]] = i
		}
		if len(fields) > 2 {
			t.numbers[fields[2]] = true
		}
	}
	return t
}

// line returns the fields of the entry, which the caller may change; nil where there is none
// with as many.
func (t *table) line(name string, fields int) []string {
	i, found := t.byName[name]
	if !found {
		return nil
	}
	if t.changed[i] == nil {
		t.changed[i] = strings.Split(t.lines[i], ":")
	}
	if len(t.changed[i]) < fields {
		return nil
	}
	return t.changed[i]
}

func (t *table) append(fields ...string) {
	t.byName[fields[0]] = len(t.lines)
	t.numbers[fields[2]] = true
	t.changed[len(t.lines)] = fields
	t.lines = append(t.lines, "")
}

// bytes returns the file. What was appended stands before the lines of NIS, which must be last
// (nsswitch.conf(5), compat mode).
func (t *table) bytes() []byte {
	lines := slices.Clone(t.lines)
	for i, fields := range t.changed {
		lines[i] = strings.Join(fields, ":")
	}
	nis := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "+") })
	if nis >= 0 {
		end := nis
		for end < len(lines) && !t.appended(end) {
			end++
		}
		lines = slices.Concat(lines[:nis], lines[end:], lines[nis:end])
	}
	if len(lines) == 0 {
		return []byte{}
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func (t *table) appended(i int) bool { return t.lines[i] == "" && t.changed[i] != nil }

// tables are the four files while they are changed.
type tables struct {
	passwd, shadow, group, gshadow *table
	hasShadow, hasGshadow          bool
	today                          string
}

func (t *tables) apply(c Change) error {
	switch c.Do {
	case CreateGroup:
		return t.createGroup(c)
	case CreateUser:
		return t.createUser(c)
	case MendUser:
		line := t.passwd.line(c.User, 7)
		if line == nil {
			return bourn.ErrNotFound
		}
		line[5], line[6] = c.Path, nologin
	case LockUser:
		return t.lock(c)
	case AddMember, RemoveMember:
		return t.member(c)
	case NarrowRegistry, WriteRegistry, Stop, MakeDirectory, MendDirectory, Reown, Mount:
	}
	return nil
}

// free refuses a name or a number that an entry has.
func (t *table) free(name string, number uint32) error {
	if _, found := t.byName[name]; found {
		return fmt.Errorf("%w: the name is taken", bourn.ErrConflict)
	}
	if t.numbers[strconv.FormatUint(uint64(number), 10)] {
		return fmt.Errorf("%w: the number is taken", bourn.ErrConflict)
	}
	return nil
}

func (t *tables) createGroup(c Change) error {
	if err := t.group.free(c.Group, c.GID); err != nil {
		return err
	}
	t.group.append(c.Group, "x", decimal(c.GID), "")
	if t.hasGshadow && t.gshadow.line(c.Group, 4) == nil {
		t.gshadow.append(c.Group, lockedPassword, "", "")
	}
	return nil
}

func (t *tables) createUser(c Change) error {
	if err := t.passwd.free(c.User, c.UID); err != nil {
		return err
	}
	password := lockedPassword
	if t.hasShadow {
		password = "x"
		if t.shadow.line(c.User, 9) == nil {
			t.shadow.append(c.User, lockedPassword, t.today, "", "", "", "", "", "")
		}
	}
	t.passwd.append(c.User, password, decimal(c.UID), decimal(c.GID), "Bourn", c.Path, nologin)
	return nil
}

// lock closes an account. The old password is not kept: nobody ever gave it one through Bourn.
func (t *tables) lock(c Change) error {
	user := t.passwd.line(c.User, 7)
	if user == nil {
		return bourn.ErrNotFound
	}
	if !t.hasShadow {
		user[1] = lockedPassword
		return nil
	}
	if t.shadow.line(c.User, 9) == nil {
		t.shadow.append(c.User, "", t.today, "", "", "", "", "", "")
	}
	shadow := t.shadow.line(c.User, 9)
	if user[1] != "x" || !strings.HasPrefix(shadow[1], "!") && !strings.HasPrefix(shadow[1], "*") {
		shadow[1] = lockedPassword
	}
	user[1] = "x"
	if c.Expire {
		shadow[7] = "1"
	}
	return nil
}

// member adds a user to a group or takes them out, of its administrators as well.
func (t *tables) member(c Change) error {
	group := t.group.line(c.Group, 4)
	if group == nil {
		return bourn.ErrNotFound
	}
	group[3] = changeList(group[3], c)
	if shadow := t.gshadow.line(c.Group, 4); t.hasGshadow && shadow != nil {
		shadow[3] = changeList(shadow[3], c)
		if c.Do == RemoveMember {
			shadow[2] = changeList(shadow[2], c)
		}
	}
	return nil
}

func changeList(list string, c Change) string {
	names := slices.DeleteFunc(members(list), func(n string) bool { return n == c.User })
	if c.Do == AddMember {
		names = append(names, c.User)
	}
	return strings.Join(names, ",")
}

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// sysusers returns what changes create, as sysusers.d(5). Every word of it has an alphabet without quotes,
// blanks and specifiers.
func sysusers(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		switch c.Do {
		case CreateGroup:
			fmt.Fprintf(&b, "g %s %d\n", c.Group, c.GID)
		case CreateUser:
			fmt.Fprintf(&b, "u %s %d:%d Bourn %s %s\n", c.User, c.UID, c.GID, c.Path, nologin)
		case AddMember:
			fmt.Fprintf(&b, "m %s %s\n", c.User, c.Group)
		case NarrowRegistry, LockUser, RemoveMember, Stop, MendUser, MakeDirectory, MendDirectory, Reown, Mount, WriteRegistry:
		}
	}
	return b.String()
}
