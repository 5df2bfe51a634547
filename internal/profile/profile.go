// Package profile reads and edits agent profiles: the YAML file in which a person
// declares what an agent may read, write, execute and reach. It is pure: it reads
// no file, asks no host, and resolves no path.
//
// # The text
//
// A profile is one YAML document of at most 1 MiB, in a plain subset of YAML 1.2:
//
//	version: 1                       # required
//	agent: builder                   # required
//	command: [claude, -p, "{job}"]   # what runs; the first is the program
//	filesystem:
//	  read: [~/src/lib]              # paths, literally; begin with / or ~/
//	  write: [~/src/app]             # write implies read
//	  deny:                          # paths, or patterns with * ** ? [a-z] {a,b}
//	    - ~/src/app/.env
//	    - "~/src/app/**/*.pem"
//	    - path: ~/src/app/private
//	    - {path: ~/src/app/.npmrc, placeholder: true}   # it cannot be made inside either
//	network:
//	  mode: restricted               # none (default), restricted, open
//	  hosts: [api.example.com, "*.example.org:443", "localhost:5432"]
//	  deny: [internal.example.org]   # wins over hosts
//	  unix: [~/.ssh/agent.sock]      # sockets, as filesystem.read
//	processes: {mode: any, spawn_dirs: [~/src/app/target]}   # any (default), allowlist, none
//	env: {pass: [EDITOR], set: {CI: "1"}}
//	context: {instructions: true, skills: [review], roots: [~/src]}   # what is offered, all of it to read
//	commit: {requires: [verified], verify: make check}
//	limits: {memory: 2GiB, processes: 256, open_files: 4096, time: 2h}
//	tools: {only: false, rules: [{tool: "files_*", policy: allow}, {tool: shell_exec, policy: ask, tier: write}]}
//	delegate: [reviewer]           # agents that this one may hand work to
//	records: read                  # the company's records, by governed tools: read or write
//	sandbox: {fail_closed_on_sandbox_error: true, transparent_network: true}   # both true (default)
//	run_as: builder                  # a user of this host, for runs by root
//	service: true                    # in the background, it is started again when it ends
//
// Unknown and duplicate keys, wrong types, bad values and contradictions are errors,
// all of them reported at once. A key that the contract has and this version does not
// keep is an error "not supported yet" whatever its value: it is never accepted
// without effect. Anchors, aliases, merge keys, tags, directives, "? key" and text that
// goes on over several lines without quotes are errors too, and so are tabs outside
// comments and characters that end a line for some readers and not for others.
//
// Hosts are written as [policy.ParseHost] reads them, and are compared by what they name.
// With mode none or open, and with no mode at all, network.hosts is an error when it has
// entries: it would have no effect.
//
// A backslash in an entry of filesystem.deny takes the next character literally; read,
// write, spawn_dirs and unix entries have no escapes and cannot hold an asterisk.
//
// # Edits
//
// [Add] and [Remove] change the text and never re-encode it: comments, order, quoting,
// blank lines and line ends stay as they are. An Add followed by the Remove of the same
// entry gives back the same bytes; edit.go says how. The caller locks and writes.
//
// # What it does not promise
//
// That a path exists, is not protected, or can be kept by this host: that is policy's.
package profile

import (
	"time"

	"bourn"
	"bourn/internal/policy"
)

// Modes of processes; "" is never stored.
const (
	ProcessesAny       = "any"       // every grant and TMPDIR may execute
	ProcessesAllowlist = "allowlist" // system paths and spawn_dirs only
	ProcessesNone      = "none"      // system paths only
)

// Modes of network; "" is never stored.
const (
	NetworkNone       = "none"       // nothing is reachable; the default
	NetworkRestricted = "restricted" // what hosts names and deny does not
	NetworkOpen       = "open"       // the host's network as it is
)

// A Profile is what an agent's file declares, with the defaults filled in.
type Profile struct {
	Version    int
	Agent      bourn.AgentName
	Presets    []string
	Command    []string // empty where the file names none
	Filesystem Filesystem
	Network    Network
	Processes  Processes
	Env        Env
	Context    Context
	Commit     *Commit // nil where the file has no such key
	Limits     Limits
	Tools      Tools
	Records    policy.Records    // what it does with the company's records; RecordsNone where the file says nothing
	Delegate   []bourn.AgentName // those that this one may hand work to, each once and not itself
	Sandbox    Sandbox
	RunAs      string // the user that a run by root becomes, by name or uid; "" where the file names none
	Service    bool   // what was started in the background is started again when it ends
}

// Filesystem holds the paths of a profile, in the order of the file. No path is listed
// twice in one list, and none that is read or written is denied by the same text.
type Filesystem struct {
	Read, Write []Path
	Deny        []Deny
}

// Network says what may be reached. No host is listed twice in one list, and none is in
// both.
type Network struct {
	Mode    string // NetworkNone, NetworkRestricted or NetworkOpen
	ModePos Pos    // zero where the file names no mode
	Hosts   []Host // empty but with NetworkRestricted
	Deny    []Host
	Unix    []Path // sockets
}

// ModeNamed reports whether the file itself says the mode.
func (n Network) ModeNamed() bool { return n.ModePos != Pos{} }

// A Host is an entry of network.hosts or network.deny.
type Host struct {
	Text string // as the file has it
	Host policy.Host
	Pos  Pos
}

// Processes says what may be executed.
type Processes struct {
	Mode      string // ProcessesAny, ProcessesAllowlist or ProcessesNone
	SpawnDirs []Path // empty where Mode is ProcessesNone
}

// Env says what the agent's environment holds besides what Bourn puts there. No name
// is in both.
type Env struct {
	Pass []string
	Set  []EnvVar // in the order of the file
}

// An EnvVar is a variable with the value that the profile gives it.
type EnvVar struct {
	Name, Value string
	Pos         Pos
}

// Limits bound what an agent uses. Zero is no limit.
type Limits struct {
	Memory    int64 // bytes
	Processes int
	OpenFiles int
	Time      time.Duration
}

// Sandbox says how the boundary is kept, and what happens where the host cannot keep it.
type Sandbox struct {
	FailClosed bool // refuse to start; the default
	// Nested lets programs make user, pid and network namespaces, as a browser's own sandbox
	// does. It widens what they reach of the kernel.
	Nested bool
	// Quarantine moves what runs code on the host later, and appeared during a run, aside
	// when the run ends.
	Quarantine bool
	// Transparent lets programs that ignore proxy variables reach what is granted, too;
	// the default.
	Transparent bool
}

// Parse returns the profile that src declares. The name of the file is used in
// positions only. The error is ErrInvalid and has a line for each thing wrong, sorted by
// position, of the form "name:line:column: message"; columns count characters from 1.
func Parse(name string, src []byte) (*Profile, error) {
	return ParseFor("", name, src)
}

// ParseFor is Parse for the file of one agent: a profile that names another is an
// error. With agent "" any name is accepted.
func ParseFor(agent bourn.AgentName, name string, src []byte) (*Profile, error) {
	s, problems := newSource(name, src)
	if problems != nil {
		return nil, problems.join()
	}
	p, problems := parse(s, agent)
	if problems != nil {
		return nil, problems.join()
	}
	return p, nil
}

// parse reads the tree, walks it by the schema, and checks the form that edits need.
func parse(s *source, agent bourn.AgentName) (*Profile, problemList) {
	root, problems := s.tree()
	if problems != nil {
		return nil, problems
	}
	d := decoder{src: s, agent: agent, p: &Profile{
		Network:   Network{Mode: NetworkNone},
		Processes: Processes{Mode: ProcessesAny},
		Sandbox:   Sandbox{FailClosed: true, Transparent: true},
	}}
	d.form(root, 0)
	if len(d.problems) == 0 {
		if _, err := layout(s, root); err != nil {
			d.problems = append(d.problems, *err)
		}
	}
	d.fields(root, "", schema)
	d.contradictions()
	return d.p, d.problems
}
