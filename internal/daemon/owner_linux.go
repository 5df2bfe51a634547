package daemon

import (
	"fmt"
	"os"
	"runtime"

	"bourn"

	"golang.org/x/sys/unix"
)

// AsOwner calls f with the file access of the user who has a directory, where this process is
// root: what f makes there is that user's, and no link leads it further than that user comes
// (setfsuid(2)). The access is this thread's; f starts no goroutine that opens files.
func AsOwner(dir string, f func() error) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("cannot look at %s: %w", dir, err)
	}
	if os.Geteuid() != 0 || st.Uid == 0 {
		return f()
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%w: %s is no directory", bourn.ErrInvalid, dir)
	}
	runtime.LockOSThread()
	become := func(uid, gid int) error {
		_, _ = unix.SetfsgidRetGid(gid) // they return what was before
		_, _ = unix.SetfsuidRetUid(uid)
		hasUID, _ := unix.SetfsuidRetUid(-1)
		hasGID, _ := unix.SetfsgidRetGid(-1)
		if hasUID != uid || hasGID != gid {
			return fmt.Errorf("%w: cannot take the file access of user %d", bourn.ErrInternal, uid)
		}
		return nil
	}
	err := become(int(st.Uid), int(st.Gid))
	if err == nil {
		err = f()
	}
	if back := become(0, os.Getegid()); back != nil {
		return back // the thread ends with its goroutine: it is not unlocked
	}
	runtime.UnlockOSThread()
	return err
}
