// Package launch starts a sealed run and sees it through: it forks a child into
// namespaces of its own, hands it the plan over a descriptor, and the child builds its
// root, seals the thread that will become the command, and executes it.
//
//	bourn run (parent, outside)            child (pid 1 inside, not sealed)      command
//	──────────────────────────            ─────────────────────────────────     ───────
//	  start, with a socketpair ──────────→ assert that it is alone
//	  plan ──────────────────────────────→ build the root, enter it
//	  ←───── ready (gate listener, pty) ── or failed (step, error)
//	  report ────────────────────────────→ write /run/bourn/report.json, root read-only
//	                                       seal one thread: rlimits, capabilities,
//	                                       no_new_privs, Landlock, seccomp; try it
//	  ←──────────────────────────── sealed
//	  record on disk
//	  go ────────────────────────────────→ fork and execute from that thread ──→ runs
//	  signal, continue ──────────────────→ delivered to the command
//	  ←─────────────── stopped, notices ── reaps; renews masks that the host detached
//	  ←──────────────────────────── exited and ends: the kernel kills what is left
//
// # What it upholds
//
// The command's first instruction runs sealed, or nothing runs. Whichever process is
// killed, the others end: the child dies with its parent (PR_SET_PDEATHSIG, and the end
// of the control socket), everything inside dies with the child (pid_namespaces(7)).
// Descriptors above 2 do not reach the command. A child role started by hand changes
// nothing.
//
// # What it does not
//
// A denied file that the host replaces can be read for the milliseconds until its mask
// is renewed.
//
// # Needs
//
// Linux 5.13 with user namespaces, Landlock and seccomp. Elsewhere [Run] is an error
// that wraps bourn.ErrWeakHost and names the step that could not be done.
package launch

import (
	"net"
	"os"

	"bourn/internal/policy"
)

// Role is the name (argv[0]) of the child process; main dispatches it before flags.
const Role = "bourn-seal"

// A Config says what to run and who is told. Plan and Program are required; a nil
// standard stream is /dev/null.
type Config struct {
	Plan    *policy.Plan
	Program string // the bourn program, canonical: it is shown inside
	Stdin   *os.File
	Stdout  *os.File
	Stderr  *os.File

	// Report returns what /run/bourn/report.json will hold; pid is the child's. It is
	// called while the child builds its root.
	Report func(pid int) ([]byte, error)
	// Sealed is called when the seal holds, before the command's first instruction. An
	// error ends the run.
	Sealed func(pid int, landlockABI int) error
	// Network serves what plan.Listen lists, in that order: listeners that stand in the
	// run's network namespace, nil for one that this host cannot have (no IPv6). It is called before the command's first instruction, and
	// owns and closes them. Nil closes them.
	Network func([]*os.File) error
	// Gate serves one connection to /run/bourn/gate.sock; it owns and closes it. Nil
	// closes every connection.
	Gate func(net.Conn)
	// Notice is told what happened to a mask while the run went on; nil discards it.
	Notice func(Notice)
	// Accessed is told of paths that the command named and that look refused inside; each
	// once for an operation, and an empty one when there are more than are told apart. It makes every call that takes a path slower. Nil watches
	// nothing.
	Accessed func(op policy.Operation, path string)
	// Child is one that Spawn has started with the same streams; nil starts one.
	Child *Child
	// Aside is a command beside the one that a person started: what signals bourn gets is
	// not passed on to it, and ends it only with bourn.
	Aside bool
	// Steady is a command that others wait for and no person stops: where it is stopped, as by
	// a program that it has started, it is continued.
	Steady bool
	// End ends the command when it is closed, as limits.time does: TERM, and KILL when it has
	// had its time. Nil never does.
	End <-chan struct{}
	// Probe seals and ends without executing anything.
	Probe bool
}

// A Notice is one thing that happened to a denied or guarded path during the run.
type Notice struct {
	Path  string
	Item  int
	Error string // "" when the mask was put in place
}

// A Result says how the command ended.
type Result struct {
	Status   int  // its exit status, when it exited
	Signal   int  // the signal that ended it, else 0
	TimedOut bool // limits.time ended it
	Ended    bool // Config.End did
}

// Spawn starts a child that waits for its order, so that it can get ready while the run
// is being planned. It never fails by itself: Run returns its error. A child that is not
// handed to Run must be discarded.
func Spawn(stdin, stdout, stderr *os.File) *Child { return spawn(stdin, stdout, stderr, false, nil) }

// Discard ends a child that is not needed.
func (c *Child) Discard() { c.discard() }

// Run starts the command and returns when it and everything it started has ended. An
// error means that the command was not executed: it wraps bourn.ErrWeakHost when the
// host cannot keep the seal, [ErrCommandNotFound] or [ErrCommandNotExecutable] when the
// seal held and the command could not be executed in it.
func Run(c Config) (Result, error) { return run(c) }

// Init is the child role. It never returns.
func Init() { initRole() }

// CloseInherited marks every descriptor above standard error close-on-exec: what bourn's
// own parent left open must not reach a command. It is called once, at the start.
func CloseInherited() { closeInherited() }

// SocketPair returns two connected ends: one to speak on, one to be a command's stream.
func SocketPair() (net.Conn, *os.File, error) { return socketPair() }
