package posix

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"bourn"
)

// A Host is what a machine has: the facts that [Plan] needs, read by [ReadHost].
type Host struct {
	Users   []User
	Groups  []Group
	SubUIDs []SubID
	SubGIDs []SubID
	// Defs are the ranges of login.defs(5).
	Defs      []Def
	Workspace string
	// Dirs are the directories of the workspace that exist, by path.
	Dirs map[string]Dir
	// Mounts are the mount points. nil: not looked at, and no mounts are planned.
	Mounts map[string]bool
	// Owners are the numbers in the range that own something in a circle's directory, by path.
	Owners map[string][]uint32
	// Running are the groups of running processes, by uid in the range.
	Running map[uint32][]uint32
	// Registry is the helper's registry as it is; its zero value where there is none, or none that
	// is valid: then Spoilt says why.
	Registry Registry
	Spoilt   string
}

// A User is a line of passwd(5), with what shadow(5) says of it.
type User struct {
	Name     string
	UID, GID uint32
	Home     string
	Shell    string
	Shadowed bool // passwd says x: shadow has the password
	Locked   bool // no password opens it
	Expired  bool // the account has ended: ssh keys do not open it either
}

// A Group is a line of group(5).
type Group struct {
	Name    string
	GID     uint32
	Members []string
}

// A SubID is a line of subuid(5) or subgid(5).
type SubID struct {
	Owner        string
	Start, Count uint32
}

func (s SubID) numbers() Range { return Range{s.Start, s.Start + s.Count - 1} }

// A Def is a range that login.defs(5) gives to somebody.
type Def struct {
	Name string // UID, GID, SYS_UID, …
	Range
}

// A Dir is what stands at the path of a directory.
type Dir struct {
	UID, GID uint32
	Mode     uint32 // permissions, set-user-id, set-group-id and sticky, as in chmod(2)
	Kind     string // "directory", or what else it is
}

// entries calls f with the fields of each line that is an entry: not empty, no comment, and not one
// of NIS (a line that begins with + or -).
func entries(data []byte, least int, f func(fields []string) error) error {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if strings.TrimSpace(line) == "" || strings.ContainsAny(line[:1], "#+-") {
			continue
		}
		fields := strings.Split(line, ":")
		err := error(nil)
		if len(fields) < least || fields[0] == "" {
			err = fmt.Errorf("%w entry: must have %d fields separated by colons, the first not empty", bourn.ErrInvalid, least)
		} else {
			err = f(fields)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", bourn.ErrInvalid, err)
	}
	return nil
}

func number(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w number %q: must be 0 to 4294967295", bourn.ErrInvalid, s)
	}
	return uint32(n), nil
}

// ParsePasswd reads passwd(5). A line that is none is ErrInvalid with its number: what cannot
// be read could hold any number. Lines of NIS are left out.
func ParsePasswd(data []byte) ([]User, error) {
	var users []User
	err := entries(data, 7, func(f []string) error {
		uid, err := number(f[2])
		if err != nil {
			return err
		}
		gid, err := number(f[3])
		if err != nil {
			return err
		}
		locked := strings.HasPrefix(f[1], "*") || strings.HasPrefix(f[1], "!")
		users = append(users, User{Name: f[0], UID: uid, GID: gid, Home: f[5], Shell: f[6], Shadowed: f[1] == "x", Locked: locked, Expired: locked})
		return nil
	})
	return users, err
}

// ParseGroup reads group(5); errors are those of ParsePasswd.
func ParseGroup(data []byte) ([]Group, error) {
	var groups []Group
	err := entries(data, 4, func(f []string) error {
		gid, err := number(f[2])
		if err != nil {
			return err
		}
		groups = append(groups, Group{f[0], gid, members(f[3])})
		return nil
	})
	return groups, err
}

// members returns the names in a list separated by commas.
func members(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// ParseSubIDs reads subuid(5) or subgid(5); errors are those of ParsePasswd.
func ParseSubIDs(data []byte) ([]SubID, error) {
	var ids []SubID
	err := entries(data, 3, func(f []string) error {
		start, err := number(f[1])
		if err != nil {
			return err
		}
		count, err := number(f[2])
		if err != nil {
			return err
		}
		if uint64(start)+uint64(count) > 1<<32 {
			return fmt.Errorf("%w range: %d numbers from %d on are more than there are", bourn.ErrInvalid, count, start)
		}
		if count > 0 {
			ids = append(ids, SubID{f[0], start, count})
		}
		return nil
	})
	return ids, err
}

// applyShadow sets what shadow(5) says of users. A user without a line there has no password
// that opens anything (pam_unix(8)), and is expired only with one.
func applyShadow(users []User, data []byte) error {
	lines := map[string][]string{}
	if err := entries(data, 9, func(f []string) error { lines[f[0]] = f; return nil }); err != nil {
		return err
	}
	for i, u := range users {
		f, there := lines[u.Name]
		if !there {
			users[i].Locked, users[i].Expired = u.Locked || u.Shadowed, false
			continue
		}
		if u.Shadowed {
			users[i].Locked = strings.HasPrefix(f[1], "!") || strings.HasPrefix(f[1], "*")
		}
		// Only day 1 is taken for the end: 0 means never to some programs (shadow(5)).
		users[i].Expired = f[7] == "1"
	}
	return nil
}

// defaultDefs is what shadow's programs take where login.defs says nothing (login.defs(5)).
var defaultDefs = map[string]uint32{
	"UID_MIN": 1000, "UID_MAX": 60000, "GID_MIN": 1000, "GID_MAX": 60000,
	"SYS_UID_MIN": 101, "SYS_UID_MAX": 999, "SYS_GID_MIN": 101, "SYS_GID_MAX": 999,
	"SUB_UID_MIN": 100000, "SUB_UID_MAX": 600100000, "SUB_GID_MIN": 100000, "SUB_GID_MAX": 600100000,
}

// ParseLoginDefs reads the ranges of login.defs(5), with shadow's defaults for what is not
// set. A number that is none, or a range that ends before it begins, is ErrInvalid.
func ParseLoginDefs(data []byte) ([]Def, error) {
	set := map[string]uint32{}
	for k, v := range defaultDefs {
		set[k] = v
	}
	for n, line := range strings.Split(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if _, known := defaultDefs[fields[0]]; !known {
			continue
		}
		v, err := strconv.ParseUint(fields[1], 0, 32) // as strtoul(3) with base 0
		if err != nil {
			return nil, fmt.Errorf("line %d: %w number %q", n+1, bourn.ErrInvalid, fields[1])
		}
		set[fields[0]] = uint32(v)
	}
	var defs []Def
	for _, name := range []string{"SYS_UID", "UID", "SUB_UID", "SYS_GID", "GID", "SUB_GID"} {
		d := Def{name, Range{set[name+"_MIN"], set[name+"_MAX"]}}
		if d.First > d.Last {
			return nil, fmt.Errorf("%w range %s: it ends before it begins", bourn.ErrInvalid, name)
		}
		defs = append(defs, d)
	}
	return defs, nil
}

// parseMounts returns the mount points of a mountinfo file (proc_pid_mountinfo(5)), which
// writes blanks and backslashes as octal numbers.
func parseMounts(data []byte) (map[string]bool, error) {
	points := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 7 {
			return nil, fmt.Errorf("%w line of mounts: %q", bourn.ErrInvalid, line)
		}
		points[unoctal(fields[4])] = true
	}
	return points, nil
}

func unoctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// credentials returns the real uid and all groups that a status file names (proc_pid_status(5)).
func credentials(status []byte) (uid uint32, gids []uint32) {
	for line := range strings.Lines(string(status)) {
		key, values, _ := strings.Cut(line, ":")
		if key != "Uid" && key != "Gid" && key != "Groups" {
			continue
		}
		for i, v := range strings.Fields(values) {
			n, err := number(v)
			switch {
			case err != nil:
			case key != "Uid":
				gids = append(gids, n)
			case i == 0:
				uid = n
			}
		}
	}
	return uid, gids
}
