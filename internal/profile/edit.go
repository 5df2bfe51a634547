package profile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"bourn"
	"bourn/internal/policy"
)

// A List names a list of paths or hosts that edits know.
type List string

// Lists, by the keys that hold them.
const (
	ReadList     List = "filesystem.read"
	WriteList    List = "filesystem.write"
	DenyList     List = "filesystem.deny"
	SpawnDirList List = "processes.spawn_dirs"
	HostList     List = "network.hosts"
	DenyHostList List = "network.deny"
	UnixList     List = "network.unix"
	ToolList     List = "tools.rules" // edited by SetTool and RemoveTool
)

// Add returns src with text as the last entry of the list. An entry that the list has
// already changes nothing: the same text is returned and changed is false. The first of
// HostList sets network.mode to restricted where the profile names no mode. What cannot
// be parsed before or after is not edited; the error is ErrInvalid.
func Add(name string, src []byte, list List, text string) (out []byte, changed bool, err error) {
	return add(name, src, list, text, false)
}

// AddPlaceholder is Add for a path of DenyList that is to have a placeholder. An entry that
// denies the path without one is not changed.
func AddPlaceholder(name string, src []byte, text string) (out []byte, changed bool, err error) {
	return add(name, src, DenyList, text, true)
}

func add(name string, src []byte, list List, text string, placeholder bool) (out []byte, changed bool, err error) {
	e, err := newEdit(name, src, list, text)
	if err != nil {
		return nil, false, fmt.Errorf("cannot add %q to %s: %w", text, list, err)
	}
	e.placeholder = placeholder
	if e.index() >= 0 {
		return src, false, nil
	}
	e.add()
	out, err = e.finish(append(e.texts(), text))
	if err != nil {
		return nil, false, fmt.Errorf("cannot add %q to %s: %w", text, list, err)
	}
	return out, true, nil
}

// Remove returns src without text in the list. Paths are compared clean, and hosts by what
// they name. The error is ErrNotFound where the list does not have it, and ErrInvalid as
// for Add.
func Remove(name string, src []byte, list List, text string) ([]byte, error) {
	e, err := newEdit(name, src, list, text)
	if err != nil {
		return nil, fmt.Errorf("cannot remove %q from %s: %w", text, list, err)
	}
	i := e.index()
	if i < 0 {
		return nil, fmt.Errorf("cannot remove %q from %s: %w", text, list, bourn.ErrNotFound)
	}
	e.remove(i)
	out, err := e.finish(slices.Delete(e.texts(), i, i+1))
	if err != nil {
		return nil, fmt.Errorf("cannot remove %q from %s: %w", text, list, err)
	}
	return out, nil
}

// An edit is a change of one list of a source, collected as splices of its text.
//
// What Add had to make must be recognised by Remove, so each thing that can be missing
// is made in a form of its own:
//
//	the list was             Add writes                       Remove of the last entry leaves
//	[]                       [x]        right after the [     []
//	a key without a value    key: [ x ]                       the key without a value
//	absent, block mapping    key:⏎ - x                        nothing
//	absent, flow mapping     {…, key: [ x ]}                  nothing
//
//	its parent was           Add writes
//	{}                       {key: [ x ]} right after the {
//	a key without a value    parent: { key: [ x ] }
//	absent, block mapping    parent:⏎ key:⏎ - x
//	absent, flow mapping     {…, parent: { key: [ x ] }}
//
// No two rows meet: a flow mapping never holds a key without a value (schema.go refuses
// it), so the spaces inside brackets mean one thing in a block mapping and another in a
// flow mapping. A list that a person wrote in one of these forms is taken out in the
// same way; what that leaves is equal, and a comment keeps its key.
//
// Hosts need a mode. Where none is named, Add writes mode: restricted directly before the
// key hosts that it makes, and Remove takes both out together. A mode that is there already is
// never directly before a key that Add makes: where the mode is the last key, hosts go
// before it. Where there is a key hosts and no mode, nothing is added.
type edit struct {
	*source
	profile     *Profile
	root        *node
	list        List
	parent, key string
	given       string    // the entry: a path, a pattern or a host
	placeholder bool      // the entry is a deny with a placeholder
	rule        *ToolRule // the entry is a rule for tools
	splices     []splice
}

// A splice replaces the text from start to end.
type splice struct {
	start, end int
	text       string
}

func newEdit(name string, src []byte, list List, text string) (*edit, error) {
	if err := checkEntry(list, text); err != nil {
		return nil, err
	}
	s, problems := newSource(name, src)
	if problems != nil {
		return nil, problems.join()
	}
	p, problems := parse(s, "")
	if problems != nil {
		return nil, problems.join()
	}
	tree, problems := s.tree()
	if problems != nil {
		return nil, problems.join()
	}
	root, bad := layout(s, tree)
	if bad != nil {
		return nil, *bad
	}
	e := &edit{source: s, profile: p, root: root, list: list, given: text}
	e.parent, e.key, _ = strings.Cut(string(list), ".")
	return e, nil
}

func checkEntry(list List, text string) error {
	var bad string
	switch {
	case list.ofHosts():
		_, err := policy.ParseHost(text)
		return err
	case !utf8.ValidString(text):
		bad = "the path is not UTF-8, and a profile cannot hold it"
	case list == DenyList:
		bad = checkDeny(text)
	case list == ToolList:
		bad = checkTool(text)
	case slices.Contains([]List{ReadList, WriteList, SpawnDirList, UnixList}, list):
		bad = checkPath(text)
	default:
		bad = fmt.Sprintf("there is no list %q", list)
	}
	if bad != "" {
		return fmt.Errorf("%w: %s", bourn.ErrInvalid, bad)
	}
	return nil
}

func (l List) ofHosts() bool { return l == HostList || l == DenyHostList }

// texts returns the entries of the list as they are written.
func (e *edit) texts() []string { return e.profile.texts(e.list) }

func (p *Profile) texts(list List) []string {
	var texts []string
	for _, path := range map[List][]Path{
		ReadList: p.Filesystem.Read, WriteList: p.Filesystem.Write, SpawnDirList: p.Processes.SpawnDirs, UnixList: p.Network.Unix,
	}[list] {
		texts = append(texts, path.Text)
	}
	for _, host := range map[List][]Host{HostList: p.Network.Hosts, DenyHostList: p.Network.Deny}[list] {
		texts = append(texts, host.Text)
	}
	if list == DenyList {
		for _, deny := range p.Filesystem.Deny {
			texts = append(texts, deny.Text)
		}
	}
	if list == ToolList {
		for _, rule := range p.Tools.Rules {
			texts = append(texts, rule.Tool)
		}
	}
	return texts
}

// index returns the place of the entry in the list, or -1.
func (e *edit) index() int {
	return slices.IndexFunc(e.texts(), func(text string) bool { return e.list.same(text, e.given) })
}

// same reports whether two entries of a list mean the same.
func (l List) same(a, b string) bool {
	if l == ToolList {
		return a == b
	}
	if !l.ofHosts() {
		return clean(a) == clean(b)
	}
	x, errX := policy.ParseHost(a)
	y, errY := policy.ParseHost(b)
	return errX == nil && errY == nil && x == y
}

func (e *edit) splice(start, end int, text string) {
	e.splices = append(e.splices, splice{start, end, text})
}

// finish returns the edited text, after reading it again and finding the list as
// expected and everything else unchanged.
func (e *edit) finish(want []string) ([]byte, error) {
	out := []byte(e.apply())
	p, err := Parse(e.name, out)
	if err != nil {
		return nil, fmt.Errorf("the profile would not be valid: %w", err)
	}
	same := reflect.DeepEqual(e.profile.without(e.list), p.without(e.list))
	if !same || !slices.Equal(p.texts(e.list), want) {
		return nil, errForm
	}
	return out, nil
}

// apply returns the text with the splices, which do not overlap, carried out.
func (e *edit) apply() string {
	slices.SortStableFunc(e.splices, func(a, b splice) int { return a.start - b.start })
	var b strings.Builder
	at := 0
	for _, s := range e.splices {
		b.WriteString(e.text[at:s.start])
		b.WriteString(s.text)
		at = s.end
	}
	b.WriteString(e.text[at:])
	return b.String()
}

// without returns the profile for comparison: no positions, and one list left out.
func (p *Profile) without(list List) Profile {
	q := *p
	q.Filesystem = Filesystem{Read: unplaced(p.Filesystem.Read), Write: unplaced(p.Filesystem.Write)}
	for _, deny := range p.Filesystem.Deny {
		deny.Pos = Pos{}
		q.Filesystem.Deny = append(q.Filesystem.Deny, deny)
	}
	q.Processes.SpawnDirs = unplaced(p.Processes.SpawnDirs)
	q.Network = Network{Mode: p.Network.Mode, Unix: unplaced(p.Network.Unix),
		Hosts: unplacedHosts(p.Network.Hosts), Deny: unplacedHosts(p.Network.Deny)}
	q.Env.Set = slices.Clone(p.Env.Set)
	for i := range q.Env.Set {
		q.Env.Set[i].Pos = Pos{}
	}
	q.Tools.Rules = unplacedRules(p.Tools.Rules)
	q.Context.Roots = unplaced(p.Context.Roots)
	switch list {
	case ReadList:
		q.Filesystem.Read = nil
	case WriteList:
		q.Filesystem.Write = nil
	case DenyList:
		q.Filesystem.Deny = nil
	case SpawnDirList:
		q.Processes.SpawnDirs = nil
	case HostList:
		q.Network.Hosts = nil
		if q.Network.Mode == NetworkRestricted {
			q.Network.Mode = NetworkNone // the same without hosts
		}
	case DenyHostList:
		q.Network.Deny = nil
	case UnixList:
		q.Network.Unix = nil
	case ToolList:
		q.Tools.Rules = nil
	}
	return q
}

func unplacedHosts(hosts []Host) []Host {
	var out []Host
	for _, h := range hosts {
		out = append(out, Host{Text: h.Text, Host: h.Host})
	}
	return out
}

func unplaced(paths []Path) []Path {
	var out []Path
	for _, p := range paths {
		out = append(out, Path{Text: p.Text})
	}
	return out
}
