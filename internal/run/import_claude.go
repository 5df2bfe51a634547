package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox/survey"
)

// A ClaudeSettings names a settings file of Claude Code that an agent is to be made of.
type ClaudeSettings struct {
	File  string          // as typed
	Agent bourn.AgentName // "" is the name of the project's directory
	Cwd   string          // canonical
}

// An Import is an agent that a settings file would make, and what became of each rule in
// it. Every rule is in exactly one of the three lists, in the order of the file. Nothing is
// made before [Home.CreateImported].
type Import struct {
	Agent   bourn.AgentName `json:"agent"`
	Profile string          `json:"profile"` // where it stands, or would
	Project string          `json:"-"`       // what becomes writable
	Taken   []Taken         `json:"taken"`
	Default []Reasoned      `json:"default"` // what every run keeps by itself
	Not     []Reasoned      `json:"not_expressed"`
	Digest  string          `json:"digest"` // SHA-256 of the settings that were read, in hex
	Own     bool            `json:"-"`      // they are the person's own, for all projects
	Text    []byte          `json:"-"`      // of the profile
}

// Taken is a rule with the lines of the profile that keep it.
type Taken struct {
	Rule string `json:"rule"` // KEY: RULE
	Line string `json:"line"`
}

// Reasoned is a rule that adds no line, with the reason.
type Reasoned struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// maxSettings is the longest settings file that is read.
const maxSettings = 1 << 20

// claudePreset is the preset of the agents that are made.
const claudePreset = "claude-code"

// ImportClaude reads a settings file and says what agent it would make. A rule is taken only
// where Bourn keeps at least as much, and an allow never grants more than it names. Grants
// are judged as [Home.Create] does; what cannot be had is listed, but for the project
// itself, which is an error.
//
// What the kernel keeps holds for Claude Code itself as for what it starts; a settings file
// speaks of its tools. Names are compared as the file system does, where Claude Code may
// ignore case.
func (h *Home) ImportClaude(s ClaudeSettings) (*Import, error) {
	at := h.lexical(s.File, s.Cwd)
	src, err := readSettings(at)
	if err != nil {
		return nil, err
	}
	im := importer{home: h, file: jsonFile{s.File, src}, cwd: s.Cwd, seen: map[string]bool{}}
	settings, err := im.file.parse()
	if err != nil {
		return nil, err
	}
	if err := im.places(filepath.Dir(at), s.Cwd); err != nil {
		return nil, err
	}
	if im.agent, err = projectAgent(s.Agent, im.at.project); err != nil {
		return nil, err
	}
	if err := im.read(settings); err != nil {
		return nil, err
	}
	if err := im.judge(); err != nil {
		return nil, err
	}
	text, err := im.text()
	if err != nil {
		return nil, err
	}
	out := &Import{Agent: im.agent, Profile: h.ProfilePath(im.agent), Project: im.at.project, Text: text,
		Digest: digest(src), Own: h.ownSettings(at),
		Taken: []Taken{}, Default: []Reasoned{}, Not: []Reasoned{}}
	for _, c := range im.claims {
		switch c.fate {
		case importTaken:
			out.Taken = append(out.Taken, Taken{c.rule, c.say})
		case importDefault:
			out.Default = append(out.Default, Reasoned{c.rule, c.say})
		case importNot:
			out.Not = append(out.Not, Reasoned{c.rule, c.say})
		}
	}
	return out, nil
}

// ownSettings reports whether a settings file is the person's own: it is guarded wherever a
// run could write it, and no repository brings it. One to which a link leads may be.
func (h *Home) ownSettings(at string) bool {
	dir := filepath.Join(h.Person, ".claude")
	r, err := survey.Resolve(at)
	return err == nil && r.Real == at && (at == filepath.Join(dir, "settings.json") || at == filepath.Join(dir, "settings.local.json"))
}

// CanCreate returns ErrConflict if there is an agent of a name.
func (h *Home) CanCreate(name bourn.AgentName) error {
	if exists(h.agent(name)) {
		return h.taken(name)
	}
	return nil
}

// CreateImported makes the agent. One of that name is ErrConflict.
func (h *Home) CreateImported(im *Import) error {
	// First without any grant: whatever ends this in between, the agent may do nothing yet.
	if err := h.Create(NewAgent{Name: im.Agent}); err != nil {
		return err
	}
	_, err := h.edit(im.Agent, func(e *editing) error {
		e.src = im.Text
		return nil
	})
	if err != nil {
		return errors.Join(err, h.Delete(im.Agent))
	}
	return nil
}

// readSettings reads a regular file of bounded size.
func readSettings(at string) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		if os.IsNotExist(err) {
			return nil, bourn.WithHint(fmt.Errorf("%w: there is no settings file %s", bourn.ErrNotFound, bourn.Printable(at)),
				"a project's is .claude/settings.json; without one: bourn agent create NAME")
		}
		return nil, bourn.WithHint(fmt.Errorf("%w: cannot read settings: %w", bourn.ErrInvalid, err), "name a readable file of JSON, as in .claude/settings.json")
	}
	info, err := os.Stat(at) // before it is opened: a fifo would wait
	if err != nil {
		return fail(err)
	}
	if !info.Mode().IsRegular() {
		return fail(fmt.Errorf("%s is not a regular file", bourn.Printable(at)))
	}
	f, err := os.Open(at)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err != nil {
		return fail(err)
	}
	if len(src) > maxSettings {
		return fail(fmt.Errorf("%s is larger than %d bytes", bourn.Printable(at), maxSettings))
	}
	return src, nil
}

// An importer decides about the claims of one settings file.
type importer struct {
	home  *Home
	file  jsonFile
	cwd   string
	agent bourn.AgentName
	at    anchors

	claims []claim
	seen   map[string]bool // env names

	reads, writes []string // real paths; the first of writes is the project
	denies        []profile.Deny
	hosts         []policy.Host
	hostDenies    []profile.Host
	closedHosts   []string // denied or asked for, with no line for it
	lost          []lostRule
	unix          []string
	env           []profile.EnvVar
	allowRead     []claudePath // of the sandbox block
}

// A claim is one rule of the file.
type claim struct {
	rule  string
	kind  claimKind
	path  claudePath
	text  string // host, socket, variable
	block bool   // its path is one of the sandbox block

	value string // of a variable
	fate  importFate
	say   string // the lines, or the reason
}

// A claimKind is what a claim asks for, in the order in which they are judged: denies
// before what they may close.
type claimKind int

const (
	claimDenyRead claimKind = iota + 1
	claimWrite
	claimRead
	claimDenyWrite // the same, when all write grants are known
	claimDenyHost
	claimHost
	claimUnix
	claimEnv
	claimNoEnv
	claimDecided // by its text alone
)

// An importFate says in which list a claim ends.
type importFate int

const (
	importNot importFate = iota
	importTaken
	importDefault
)

func (c *claim) not(format string, args ...any) {
	c.fate, c.say = importNot, fmt.Sprintf(format, args...)
}

func (c *claim) already(format string, args ...any) {
	c.fate, c.say = importDefault, fmt.Sprintf(format, args...)
}

func (c *claim) take(list profile.List, entries ...string) {
	c.fate, c.say = importTaken, string(list)+": "+strings.Join(entries, ", ")
}

// places finds the project and what relative paths begin at. The settings of a person, and
// those of a host, are for every project: the working directory is meant.
func (im *importer) places(dir, cwd string) error {
	im.at = anchors{project: dir, source: dir}
	if filepath.Base(dir) == ".claude" {
		im.at = anchors{filepath.Dir(dir), filepath.Dir(dir)}
	}
	if real, err := im.home.Resolve(im.at.project, cwd); err == nil && (real == im.home.Person || dir == "/etc/claude-code") {
		im.at = anchors{project: cwd, source: dir}
	}
	g, err := im.grantable(policy.KindWrite, im.at.project, nil)
	if err != nil {
		return bourn.WithHint(fmt.Errorf("%w; it is the project of %s, and would be writable", err, bourn.Printable(im.file.name)),
			"keep the file in the .claude directory of a project, or cd into the project that settings for all of them are imported for")
	}
	if im.at.source == im.at.project {
		im.at.source = g.Real
	}
	im.at.project = g.Real
	im.writes = []string{g.Real}
	return nil
}

// projectAgent returns the name that was given, or one made of the project's.
func projectAgent(given bourn.AgentName, project string) (bourn.AgentName, error) {
	if given != "" {
		return given, nil
	}
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, strings.ToLower(filepath.Base(project)))
	agent, err := bourn.ParseAgentName(strings.Trim(name, "-_"))
	if err != nil {
		return "", bourn.WithHint(fmt.Errorf("%w: no agent can be named after the directory %s", bourn.ErrInvalid, bourn.Printable(project)), "name one: --agent NAME")
	}
	return agent, nil
}

func (im *importer) grantable(kind policy.Kind, at string, denies []profile.Deny) (policy.Grant, error) {
	return im.home.grantable(wish{agent: im.agent, kind: kind, typed: at, cwd: im.cwd, denies: denies, writes: im.writes, making: true})
}

// text returns the profile.
func (im *importer) text() ([]byte, error) {
	draft := profile.Draft{Agent: im.agent, Command: im.preset().Commands[:1], Presets: []string{claudePreset}, Write: im.writes, Read: im.reads}
	for _, d := range im.denies {
		draft.Deny = append(draft.Deny, d.Text)
	}
	text, err := profile.Template(draft)
	add := func(list profile.List, entry string) {
		if err == nil {
			text, _, err = profile.Add("profile.yaml", text, list, entry)
		}
	}
	for _, h := range im.hosts {
		add(profile.HostList, h.String())
	}
	for _, d := range im.hostDenies {
		add(profile.DenyHostList, d.Host.String())
	}
	for _, at := range im.unix {
		add(profile.UnixList, at)
	}
	if err != nil {
		return nil, err
	}
	text = withEnv(text, im.env)
	_, err = profile.ParseFor(im.agent, "profile.yaml", text)
	return text, err
}

// plainReason is an error as a reason: without the name of its code and on one line.
func plainReason(err error) string {
	text := err.Error()
	for _, code := range []error{bourn.ErrInvalid, bourn.ErrDenied, bourn.ErrNotFound, bourn.ErrConflict} {
		text = strings.TrimPrefix(text, code.Error()+": ")
	}
	text = strings.ReplaceAll(text, "\n", "; ")
	return cmp.Or(text, "it cannot be granted")
}
