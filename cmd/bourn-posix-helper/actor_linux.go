package main

import (
	"os"
	"path"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"bourn/internal/posix"
)

// program is the path of bourn. Packages fix it: -ldflags '-X main.program=/usr/bin/bourn'. "" is
// ../../bin/bourn from the directory that the helper stands in.
var program string

// shells are looked for in this order; the last is what every system has.
var shells = []string{"/bin/bash", "/bin/sh"}

// prepareActor opens bourn while this is root, so that what was checked is what is executed.
func prepareActor(o order) (func() error, error) {
	name := program
	if name == "" {
		// The kernel names what it executed; a caller can neither choose nor move it.
		self, err := os.Readlink("/proc/self/exe")
		if err != nil {
			return nil, refuse(posix.RuntimeUnavailable, "cannot tell where it stands: %v", err)
		}
		name = path.Join(path.Dir(self), "../../bin/bourn")
	}
	dir, err := openDirectory(path.Dir(name), true)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := openFile(dir, name, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	return func() error { return execute(o, fd) }, nil
}

// execute enters the private directory, as the person, and executes bourn.
func execute(o order, fd int) error {
	if err := unix.Chdir(o.home); err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot enter the private directory of %s: %v", o.Person, err)
	}
	shell := shells[len(shells)-1]
	for _, s := range shells {
		if unix.Access(s, unix.X_OK) == nil {
			shell = s
			break
		}
	}
	argv, err := syscall.SlicePtrFromStrings(o.argv())
	if err != nil {
		return refuse(posix.OperationFailed, "%v", err)
	}
	environment, err := syscall.SlicePtrFromStrings(o.environment(shell))
	if err != nil {
		return refuse(posix.OperationFailed, "%v", err)
	}
	// As the person, whose keyring it is then.
	if err := newKeyring(); err != nil {
		return err
	}
	if err := limitSignals(); err != nil {
		return err
	}
	if err := resetSignals(); err != nil {
		return err
	}
	var empty [1]byte
	_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(&empty)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&environment[0])), unix.AT_EMPTY_PATH, 0)
	return refuse(posix.RuntimeUnavailable, "cannot execute bourn: %v", errno)
}
