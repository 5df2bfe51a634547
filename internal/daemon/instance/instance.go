package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bourn"
)

// Names in $BOURN_HOME.
const (
	LockName = "bournd.lock" // held by a control plane while it runs; its pid
	LogName  = "bournd.log"  // of one in the background
)

// programName is the control plane's program.
const programName = "bournd"

// An Instance is a control plane that runs. Close lets go of it.
type Instance struct {
	Pid    int
	handle *os.File
}

// Find returns the control plane of a home, and nil where none runs.
func Find(home string) (*Instance, error) { return find(home) }

// Held reports whether some process holds the home, also one that Find cannot see.
func Held(home string) (bool, error) { return held(filepath.Join(home, LockName)) }

// Hold keeps control planes from a home while something else works on its database, until
// release. One that runs is ErrConflict.
func Hold(home string) (release func(), err error) { return hold(filepath.Join(home, LockName)) }

// Runs reports whether the instance executes the file at path as it is now: a program
// that was installed anew since is another.
func (i *Instance) Runs(path string) bool { return i.runs(path) }

// Stop asks the control plane to end, kills it when it has not within grace, and returns
// when it has ended.
func (i *Instance) Stop(grace time.Duration) (killed bool, err error) { return i.stop(grace) }

// Ended reports whether the control plane has ended, or does within a time.
func (i *Instance) Ended(within time.Duration) bool { return i.ended(within) }

// Close lets go of the process, which runs on.
func (i *Instance) Close() error { return i.handle.Close() }

// Execute replaces this process by a program. It returns only where that cannot be.
func Execute(program string, argv, environ []string) error {
	return fmt.Errorf("cannot execute %s: %w", program, execute(program, argv, environ))
}

// Inherited returns a descriptor that was handed to this process, which its children do
// not get.
func Inherited(fd int) *os.File { return inherited(fd) }

// Program returns the path of bournd: beside the program at self, or else in path, a
// list as in PATH. Links are resolved. One that another user could replace is ErrDenied.
func Program(self, path string) (string, error) { return program(programName, self, path) }

// Command returns the path of bourn: beside the control plane's program at self, and
// nowhere else.
func Command(self string) (string, error) { return program("bourn", self, "") }

func program(name, self, path string) (string, error) {
	for _, dir := range append([]string{filepath.Dir(self)}, filepath.SplitList(path)...) {
		at := filepath.Join(dir, name)
		if !filepath.IsAbs(at) {
			continue // what lies in the working directory is nobody's
		}
		real, err := filepath.EvalSymlinks(at)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				continue
			}
			return "", fmt.Errorf("cannot find %s: %w", name, err)
		}
		if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		return real, Trusted(real)
	}
	return "", bourn.WithHint(fmt.Errorf("%w: there is no %s beside %s, nor in PATH", bourn.ErrNotFound, name, self),
		"install both programs into one directory, as make install does")
}

// Trusted returns ErrDenied if another user than root and this one can replace the program
// at a path without links.
func Trusted(program string) error {
	why, err := Replaceable(program)
	if err != nil || why == "" {
		return err
	}
	return bourn.WithHint(fmt.Errorf("%w: %s is not executed: %s", bourn.ErrDenied, program, why),
		"install it in a directory of root's or your own, or take that directory out of PATH")
}

// Replaceable says how another user than root and this one can replace the file or
// directory at a path without links, and "" if none can. A group that may write is its
// owner's choice.
func Replaceable(path string) (why string, err error) {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return "", fmt.Errorf("cannot look at %s: %w", at, err)
		}
		owner, known := ownerOf(info)
		switch {
		case known && owner != 0 && owner != os.Geteuid():
			return fmt.Sprintf("%s belongs to uid %d", at, owner), nil
		case info.Mode()&0o002 != 0 && (!info.IsDir() || info.Mode()&fs.ModeSticky == 0):
			return at + " can be written by everyone", nil
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
	}
}
