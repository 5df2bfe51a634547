// Package landlock seals the calling thread with Landlock, the kernel's unprivileged
// access control for paths (landlock(7), Documentation/userspace-api/landlock.rst).
//
// # What it upholds
//
// After [Restrict] the calling thread, and every process and thread that it starts, for
// ever and across exec:
//
//   - reaches through the file system only what a [Rule] grants, for every right that
//     the running kernel knows, not only those that some rule mentions;
//   - cannot mount, unmount or pivot_root, and cannot ptrace a process outside its seal
//     (both come with any ruleset);
//   - from ABI 6 on, cannot connect to an abstract unix socket whose listener is outside
//     the seal, nor signal a process outside of it;
//   - with [Options].TCP, binds and connects TCP only to the ports listed.
//
// Access is judged when a path is opened, by inode: a rule follows its directory when
// that is renamed, and also holds through other mounts of the same directory.
//
// # What it does not
//
//   - Descriptors that are open already keep what they can do.
//   - stat, chmod, chown, utime, setxattr, chdir and access are not mediated at all:
//     the mounts must be read-only where that matters.
//   - Pathname unix sockets can be connected to wherever they are, below ABI 9.
//   - Exec stops neither interpreters nor the dynamic loader nor memfd: it is no
//     boundary by itself, a noexec mount is a better one.
//   - Rules only add up: what a rule grants on a directory cannot be taken back below it.
//   - UDP, multipath TCP and TCP fast open escape Options.TCP. A network namespace of
//     its own is what keeps the network, so that TCP is off by default.
//   - Other threads of the process stay as they were. That is on purpose: a supervisor
//     seals one thread and forks from it.
//
// # Needs
//
// Linux 5.13 with Landlock enabled, 6.12 for the scopes. no_new_privs must be set on the
// thread beforehand; mounts must be made beforehand. At most 16 seals can be nested.
package landlock

import "errors"

// ErrAbsent says that the kernel has no Landlock, or has it disabled since boot.
var ErrAbsent = errors.New("the kernel has no Landlock")

// ABI returns the version of Landlock that the running kernel offers, at least 1. An
// error that is [ErrAbsent] is conclusive: there is none. With any other error it could
// not be told.
func ABI() (int, error) {
	return abi()
}

// A Rule grants access to what is at and below a path.
type Rule struct {
	// Path is opened without following a symbolic link in its last component, and is an
	// error when it is missing or is such a link. It should be a resolved path.
	Path string
	// Access is what is granted. Rights that do not apply to a file are left out when
	// Path is not a directory, and so are rights that the kernel does not handle. Zero
	// and unknown rights are errors.
	Access Access
}

// An Open file is a descriptor whose file the sealed process may open again, by its name
// in /proc/self/fd, with the given access. Files that were opened elsewhere lie below no
// rule's path.
type Open struct {
	FD     int
	Access Access
}

// Options say what to restrict besides paths. The zero value is the usual one.
type Options struct {
	// TCP restricts TCP to the ports that it lists, which needs ABI 4. nil leaves the
	// network alone.
	TCP *Ports
	// Open grants access to files that are open already; directories and what has no
	// file, such as pipes, are passed over.
	Open []Open

	maxABI int // for tests: act as a kernel that knows no more than this; 0 is no limit
}

// Ports are TCP ports, on any address. An empty list permits none.
type Ports struct {
	Bind    []uint16
	Connect []uint16
}

// A Result says what was installed.
type Result struct {
	ABI    int    `json:"abi"`    // version that decided what is handled
	FS     Access `json:"fs"`     // rights that are refused unless a rule grants them
	Scopes Scope  `json:"scopes"` // what else is confined to the seal
	TCP    bool   `json:"tcp"`    // TCP ports are restricted
	Rules  int    `json:"rules"`  // path rules that granted something
}

// A Ruleset is made and not yet in force. It holds a descriptor until it is.
type Ruleset struct {
	ruleset
}

// Make opens the paths of the rules and makes a ruleset of them. It handles every right
// and scope that both this package and the running kernel know. It can be called while
// the thread still has the capabilities that opening the paths may need. A missing path
// gives an error that names it and that is [io/fs.ErrNotExist]; without Landlock the
// error is [ErrAbsent].
func Make(rules []Rule, opt Options) (*Ruleset, error) {
	return makeRuleset(rules, opt)
}

// Restrict seals the calling thread and returns what was installed. The ruleset is used
// up, also on an error, on which nothing was restricted. On success the goroutine stays
// locked to its thread, so that the thread is never given to other goroutines; to seal
// what is executed, fork from that goroutine. The caller must have locked the goroutine
// to its thread before it set no_new_privs on it.
func (r *Ruleset) Restrict() (Result, error) {
	return r.restrict()
}

// Restrict makes a ruleset and seals the calling thread with it.
func Restrict(rules []Rule, opt Options) (Result, error) {
	r, err := Make(rules, opt)
	if err != nil {
		return Result{}, err
	}
	return r.Restrict()
}
