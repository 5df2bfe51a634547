// Command bourn-posix-helper becomes a person and acts as that person, for Bourn's control plane. It is
// setuid root and decides nothing: the registry, which is root's, says who can be become. README.md says
// what it takes over from its caller, and what it does not.
package main

import (
	"errors"
	"math"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"bourn"
	"bourn/internal/posix"
)

func init() {
	// Bounding set, keyring and signal mask belong to a thread, and execveat takes those of the one that
	// calls it.
	runtime.LockOSThread()
}

func main() {
	// What GOGC and GOMEMLIMIT of the caller have set. Nothing here lives long enough to be collected, and
	// a collector that starts no thread cannot start one while another thread executes bourn.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(math.MaxInt64)
	if err := serve(os.Args); err != nil {
		os.Exit(explain(err))
	}
}

// serve carries one request out. Of the verb actor it returns only with an error.
//
// The order is the boundary. Nothing before judged takes effect beyond this process; nothing after
// become has a privilege left that a mistake could use.
func serve(args []string) error {
	// First: an empty argument vector or a malformed word ends here (CVE-2021-4034).
	request, err := posix.ParseRequest(args)
	if err != nil {
		return err
	}
	// Before anything that only root can do, so that the reason is said, not its consequence.
	if err := checkPrivilege(); err != nil {
		return err
	}
	// Who the service is, the registry says; so it is read before the caller is judged by it.
	registry, read, err := readRegistry()
	if err != nil {
		return err
	}
	judged, err := judge(request, registry, uint32(unix.Getuid()))
	if err != nil {
		return err
	}
	os.Clearenv()
	if err := unix.Chdir("/"); err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot enter /: %v", err)
	}
	if err := checkDescriptors(judged.service); err != nil {
		return err
	}
	if err := closeInherited(); err != nil {
		return err
	}
	// Limits before the work as root: a caller's file size or processor time must not end it halfway.
	if err := settle(); err != nil {
		return err
	}
	perform, err := prepare(judged)
	if err != nil {
		return err
	}
	if err := become(judged); err != nil {
		return err
	}
	if !judged.kills() {
		if err := stillSo(judged, read); err != nil {
			return err
		}
	}
	return perform()
}

// prepare does what a verb needs root for, and returns the rest of it, which is done as the person.
func prepare(o order) (perform func() error, err error) {
	switch o.Verb {
	case posix.VerbActor:
		return prepareActor(o)
	case posix.VerbDial:
		return prepareDial(o)
	case posix.VerbKill:
		return prepareKill(o)
	case posix.VerbRevoke:
		return prepareRevoke(o)
	}
	return nil, refuse(posix.OperationFailed, "unknown verb %q", o.Verb)
}

// explain writes why a request was refused, and returns the exit status for it.
func explain(err error) int {
	text := "bourn-posix-helper: " + bourn.Printable(err.Error()) + "\n"
	if hint := bourn.HintOf(err); hint != "" {
		text += "hint: " + bourn.Printable(hint) + "\n"
	}
	_, _ = unix.Write(2, []byte(text)) // the status says it too
	refusal := new(posix.Refusal)
	if errors.As(err, &refusal) {
		return refusal.Reason.ExitStatus()
	}
	return 1
}
