package launch

import "bourn/internal/policy"

// A message is one frame on the control socket: four bytes of length, big endian, and
// what codec makes of it. Which fields are used depends on the kind.
type message struct {
	Kind   kind
	Order  *order
	Data   string
	Step   string
	Detail string
	Errno  int
	Number int
	Status uint32
	Notice *Notice
}

type kind string

const (
	// parent to child
	kindOrder      kind = "order"
	kindReport     kind = "report"
	kindGo         kind = "go"
	kindSignal     kind = "signal" // to the command's process
	kindGroup      kind = "group"  // to the command's process group
	kindContinue   kind = "continue"
	kindForeground kind = "foreground" // and continue
	// child to parent
	kindReady   kind = "ready"  // carries the gate listener, with a terminal the master, and those of the network that Data marks as made
	kindFailed  kind = "failed" // a step of the seal
	kindSealed  kind = "sealed"
	kindNoExec  kind = "noexec"
	kindStarted kind = "started"
	kindStopped kind = "stopped"
	kindExited  kind = "exited"
	kindNotice  kind = "notice"
	kindAccess  kind = "access" // Step is the operation, Data the path
)

// An order is the plan and what else the child must know.
type order struct {
	Plan     *policy.Plan
	Program  string
	Terminal [3]bool // which standard streams are terminals
	// Lazy starts the command in the background of its terminal: another program of the
	// pipeline may be the one that reads. It gets the terminal when it wants to read.
	Lazy bool
	// Watch reports what looks refused.
	Watch bool
	// Outside identifies the parent's mount namespace, which must not be the child's.
	Outside policy.Object
}

func (o *order) terminal() bool { return o.Terminal[0] || o.Terminal[1] || o.Terminal[2] }
