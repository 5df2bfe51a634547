package main

import (
	"strings"

	"golang.org/x/sys/unix"

	"bourn"
	"bourn/internal/posix"
)

// needed are the capabilities without which nobody can be become.
var needed = []struct {
	capability int
	name       string
}{
	{unix.CAP_SETUID, "CAP_SETUID"},
	{unix.CAP_SETGID, "CAP_SETGID"},
	{unix.CAP_SETPCAP, "CAP_SETPCAP"},
}

// checkPrivilege refuses to go on without being root as setuid makes a process root: with the
// capabilities, and with the rules that take them away again when the uid changes.
func checkPrivilege() error {
	if unix.Geteuid() != 0 {
		why, hint := whyNotRoot()
		return bourn.WithHint(refuse(posix.RuntimeUnavailable, "it does not run as root: %s", why), hint)
	}
	bits, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
	if err != nil || bits != 0 {
		return refuse(posix.RuntimeUnavailable, "the caller's securebits are %#x, which keep capabilities over a change of the uid", bits)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot read the capabilities: %v", err)
	}
	for _, n := range needed {
		if sets[n.capability/32].Effective&(1<<(n.capability%32)) == 0 {
			return bourn.WithHint(refuse(posix.RuntimeUnavailable, "root lacks %s here", n.name),
				"the bounding set of the service or of its container must hold it")
		}
	}
	return nil
}

// whyNotRoot returns why the setuid bit had no effect, and the mend.
func whyNotRoot() (why, hint string) {
	const exe = "/proc/self/exe"
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && set == 1 {
		return "the caller has no_new_privs, so the kernel ignores the setuid bit",
			"of a systemd unit, take NoNewPrivileges= off, and the settings that imply it (systemd.exec(5))"
	}
	var st unix.Stat_t
	if err := unix.Stat(exe, &st); err == nil && (st.Uid != 0 && !inUserNamespace() || st.Mode&unix.S_ISUID == 0) {
		return "its file is not setuid root", "install it with mode 4750, owner root and the service's group"
	}
	// statfs(2) gives the options of the mount that the file was reached through.
	var fs unix.Statfs_t
	if err := unix.Statfs(exe, &fs); err == nil && fs.Flags&unix.ST_NOSUID != 0 {
		return "it stands on a file system that is mounted nosuid", "mount it without nosuid, or install Bourn elsewhere"
	}
	if status, err := readProc("/proc/self/status"); err == nil {
		if pid := statusField(status, "TracerPid"); pid != "" && pid != "0" {
			return "it is being traced by process " + pid, "the kernel starts no setuid program under a tracer"
		}
	}
	return "the kernel ignored the setuid bit, as in a user namespace that does not know root", "start the service outside of one"
}

// inUserNamespace reports whether uids here are not those of the machine, so that root may look like nobody.
func inUserNamespace() bool {
	identity, err := readProc("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(identity)), " ") != "0 0 4294967295"
}

// statusField returns the value of a line of a status file, or "" (proc_pid_status(5)).
func statusField(status []byte, name string) string {
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
