package launch

import (
	"errors"
	"fmt"
	"syscall"

	"bourn"
)

var (
	// ErrCommandNotFound: no such command inside the seal (status 127, as env(1)).
	ErrCommandNotFound = errors.New("command not found inside the seal")
	// ErrCommandNotExecutable: the command was found and cannot be executed (126).
	ErrCommandNotExecutable = errors.New("command cannot be executed inside the seal")
)

// A step's error becomes a sentence and a mend. The steps are those of the child's
// list, and the first is the parent's own.
const (
	stepNamespaces = "make namespaces"
	stepAssert     = "assert that the child is alone"
	stepLoopback   = "bring up loopback"
	stepNetwork    = "make the network"
	stepGate       = "make the gate"
	stepTerminal   = "make a terminal"
	stepReport     = "write the report"
	stepLimits     = "set limits"
	stepUser       = "become the user of run_as"
	stepPrivileges = "drop privileges"
	stepLandlock   = "install Landlock"
	stepSeccomp    = "install seccomp"
	stepWatch      = "watch system calls"
	stepProbe      = "try the seal"
)

// weak returns the error for a step that this host could not do.
func weak(step string, err error) error {
	return bourn.WithHint(fmt.Errorf("%w: cannot %s: %w", bourn.ErrWeakHost, step, err), mend(step, err))
}

// mend says what a person can do about a failed step.
func mend(step string, err error) string {
	switch step {
	case stepNamespaces:
		switch {
		case errors.Is(err, syscall.ENOSPC):
			return "user namespaces are switched off or used up: sysctl -w user.max_user_namespaces=15000"
		case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
			return "user namespaces are refused here: sysctl -w kernel.unprivileged_userns_clone=1 (Debian), kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for bourn (Ubuntu); in a container, a seccomp profile that allows unshare"
		}
		return "the kernel needs user, mount, pid and network namespaces (CONFIG_USER_NS, CONFIG_NET_NS)"
	case stepUser:
		return "this root is not allowed to: it needs CAP_SETUID and CAP_SETGID, and a container must have that user's ids"
	case "make mounts private", stepLoopback:
		return "a user namespace was made but gives no capability: on Ubuntu, sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or load an AppArmor profile that grants userns to bourn"
	case "mount /proc":
		return "this container hides parts of /proc, so a fresh one may not be mounted: start the container with an unmasked /proc (docker: --security-opt systempaths=unconfined)"
	case "bind":
		if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTDIR) {
			return "something else stands there than when it was granted, or in the way of it in the agent's home: look at that path and remove what does not belong there"
		}
	case stepLandlock:
		return "the kernel must be 5.13 or newer and have Landlock switched on: add landlock to lsm= on the kernel's command line"
	case stepSeccomp:
		return "the kernel needs CONFIG_SECCOMP_FILTER"
	case stepProbe:
		return "the seal does not hold on this host; report it with the output of: bourn doctor"
	}
	if errors.Is(err, syscall.ENOSYS) {
		return "the kernel is too old: Linux 5.13 or newer is needed"
	}
	return "run: bourn doctor"
}
