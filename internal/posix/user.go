package posix

import "syscall"

// AsUser returns what starts a process as a user, in one group and a session of its own. It
// needs root; exec.Cmd takes it.
func AsUser(uid, gid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
}
