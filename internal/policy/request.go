package policy

import (
	"time"

	"bourn"
)

// A Request is everything that a run asks for, with the host's facts about each
// path attached. It is the input of [Compile] and holds no open descriptor.
type Request struct {
	Agent   string // the agent's name, "" for a run without one
	Command []string
	Cwd     string // where the command starts, canonical
	CwdName string // the same as the person spelled it ($PWD), "" when equal

	Home      string // the person's home directory; it keeps its path inside
	AgentHome string // what stands there; "" means an empty one in memory
	// WholeHome lets Home itself be granted, as a shared host's own seal of a person does.
	WholeHome bool
	BournDir  string // $BOURN_HOME, canonical
	Program   string // the bourn program itself, canonical

	Grants []Grant
	Denies []Deny
	Blocks []Block  // of the host's hard blocks what is no deny
	System []Place  // system paths and toolchains of this host, each existing
	Etc    []Place  // the named entries of /etc that exist
	Homes  []string // home directories, which no grant may cover
	// HomeAliases are the same through second mounts.
	HomeAliases []string
	// Guarded lists the write-protected places inside write grants.
	Guarded []Guarded
	// Inner lists what lies inside grants and may not be granted with them.
	Inner     []Inner
	BournMade bool     // $BOURN_HOME exists
	BournPins []string // the directories between a grant and it
	// Unsearched lists directories in write grants that were not looked through.
	Unsearched []string
	// Hollow lists directories of git's for repositories of submodules in which there is none.
	Hollow  []string
	Sockets []string // bound unix sockets by path (/proc/net/unix)

	Network    NetworkMode // "" is NetworkNone
	Hosts      []HostWish
	HostDenies []HostWish
	Unix       []Grant // of KindUnix
	Direct     bool    // programs that ignore proxy variables reach what is granted, too
	Hostname   string

	Tools     []ToolWish // what the profile says of governed tools
	ToolsOnly bool       // governed tools alone have the grants
	// ToolsAmong are the only governed tools that a subagent has, see [ToolAmong]; nil is all.
	ToolsAmong []string

	Records     Records // what governed tools do with the company's records
	RecordsFrom string  // who said so: profile, flag or subagent

	Nested   bool // programs may make user, pid and network namespaces
	Exec     ExecMode
	Env      []EnvVar
	Limits   Limits
	Advisory bool   // fail_closed_on_sandbox_error is false
	GitUser  string // lines for /etc/gitconfig that carry the person's name and address
	Files    []File // further files of the run's own in /etc
	FilesOf  string // whose item they are: preset:NAME
	Root     bool   // root starts it; a run that keeps uid 0 is not bound by RLIMIT_NPROC
	User     *User  // whom the command is to be, nil for whoever starts it
	UserFrom string // who said so: profile or flag

	above []*Plan // of a subagent: those of the runs that it works for, the first one first
}

// A Place is what the host says of one path.
type Place struct {
	Path     string // as declared, absolute
	Real     string // the path without symlinks; of a missing path, as far as it exists
	Exists   bool
	Dir      bool
	Program  bool // shown because a program that is run stands there
	Special  bool // a fifo, socket or device
	Socket   bool
	Symlink  bool   // the last component itself is a symlink
	Made     bool   // a placeholder that another run made, and removes when none needs it
	Ancestor string // the nearest existing ancestor of Real, when it is missing
	Object   Object
	Nlink    uint64
	Links    []Link // the symlinks followed on the way, in order
	Err      string // why the host could not say
}

// An Object identifies a file system object across renames: device, inode and, where
// the file system keeps it, the time of birth (statx(2)), which an inode that is used
// again does not share.
type Object struct {
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	Born int64  `json:"born,omitempty"`
}

// A Link is a symlink that was followed.
type Link struct{ At, Target string }

// A Grant asks for a path to be readable, writable or executable.
type Grant struct {
	Kind Kind // KindRead, KindWrite, KindSpawnDir or KindUnix
	From string
	// Fresh says that the path was given for this run alone and is resolved now. A
	// grant from a profile stores its real path; one that resolves elsewhere is dropped.
	Fresh bool
	// Foul names a followed symlink that lies under a write grant of some agent.
	Foul string
	// Linked says that the path is the git directory of a repository and this the entry in
	// it of the linked worktree that the run works in: what belongs to the main checkout and
	// to other worktrees stays read-only.
	Linked string
	// Gives says of a socket what whoever speaks to it gets, "" for nothing known.
	Gives string
	Place
}

// A HostWish asks for a host to be reachable, or not to be.
type HostWish struct {
	Host
	From    string
	Private bool // as in HostRule
	// Refused says why this host's policy does not let it be granted, or is "".
	Refused string
	Own     bool // it is an address of this host's, on the port of Bourn's control plane
}

// A Deny asks for a path, or for everything that a pattern matches, to be closed.
type Deny struct {
	Pattern string
	From    string
	Style   Style
	Glob    bool
	// Placeholder asks for an object to stand where nothing does: a path that cannot be made.
	Placeholder bool
	Place               // of a literal path
	Matches     []Place // of a pattern
	Dirs        []string
	// More lists further names of the same objects, each with the reason why it is one.
	More []Alias
	// Blind lists directories that could not be searched for what is denied: they are
	// closed, since their owner could open them inside.
	Blind []Place
	// Unsearched is a denied directory whose files' other hard links are not known.
	Unsearched bool
	// Through lists symlinks that a pattern would have to pass, and did not.
	Through []string
	// Operations are those of the hard block that the deny carries out, Reason what it says,
	// and Pins the directories that must keep their names with it, outermost first.
	Operations []bourn.Operation
	Reason     string
	Pins       []string
}

// An Alias is another path by which a denied object can be reached.
type Alias struct {
	Place
	Why string
}

// A Style says what stands in the place of a denied directory.
type Style string

const (
	// StyleNone refuses everything: mode 000.
	StyleNone Style = ""
	// StyleEmpty shows an empty directory that cannot be written.
	StyleEmpty Style = "empty"
)

// A Guarded place is writable by nobody inside, since it runs code on the host later.
type Guarded struct {
	Place
	Name   Object   // what stands at the path itself, be it a symlink
	Hidden bool     // it may have other names in directories that cannot be searched
	Link   bool     // only the name is looked after: it is a symlink to a config directory, or missing
	Quiet  bool     // the host replaces it in its ordinary work: the run's end says nothing of it
	Pins   []string // the directories that must keep their names with it, outermost first
	Reason string
}

// An Inner place lies inside a grant and is closed, or for Write only read-only.
type Inner struct {
	Place
	Pins   []string // as for Guarded
	Name   Object
	Reason string
	Write  bool
}

// An ExecMode says what may be executed.
type ExecMode string

const (
	ExecAny       ExecMode = "any"       // system paths, every grant, TMPDIR
	ExecAllowlist ExecMode = "allowlist" // system paths and spawn dirs
	ExecNone      ExecMode = "none"      // system paths
)

// An EnvVar is one variable of the built environment.
type EnvVar struct {
	Name, Value string
	From        string // "" for those that every run has
	Missing     bool   // asked for, and not set outside
}

// Limits bound a run; zero means no limit.
type Limits struct {
	Memory    int64 // bytes
	Processes int
	OpenFiles int
	Time      time.Duration
}
