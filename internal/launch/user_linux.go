package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"bourn"
	"bourn/internal/policy"

	"golang.org/x/sys/unix"
)

// A run by root that names another user has both in its user namespace: root, as which the
// child builds, and the user, whom only the sealed thread and what it executes become. The
// system calls are made for the calling thread alone; those of package syscall change every
// thread of the process, and so would those of package unix.

// maxMap is how long a map of ids may be: less than a page (user_namespaces(7)).
const maxMap = 4095

// idMaps returns what the files of a child's user namespace are to hold, in the order in
// which they are written. Ids are mapped to themselves. Without a user there is one uid, and
// groups cannot be set (which must be said before gid_map is written, user_namespaces(7)).
func idMaps(uid, gid int, u *policy.User) ([]mapFile, error) {
	uids, gids := []int{uid}, []int{gid}
	var files []mapFile
	if u == nil {
		files = append(files, mapFile{"setgroups", "deny"})
	} else {
		uids = append(uids, u.UID)
		gids = append(append(gids, u.GID), u.Groups...)
	}
	files = append(files, mapFile{"gid_map", idMap(gids)}, mapFile{"uid_map", idMap(uids)})
	for _, f := range files {
		if len(f.text) > maxMap {
			return nil, fmt.Errorf("%s: %w: %d groups are more than a map holds", f.name, unix.E2BIG, len(gids))
		}
	}
	return files, nil
}

type mapFile struct{ name, text string }

// idMap maps ids to themselves, neighbours in one line.
func idMap(ids []int) string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var b strings.Builder
	for len(ids) > 0 {
		n := 1
		for n < len(ids) && ids[n] == ids[0]+n {
			n++
		}
		fmt.Fprintf(&b, "%d %d %d\n", ids[0], ids[0], n)
		ids = ids[n:]
	}
	return b.String()
}

// mapIDs maps the caller's ids to themselves in a child's user namespace, and those of a
// user that it is to run as: a run by root keeps its uid or becomes that user's, and loses
// every capability when it is sealed.
func mapIDs(pid int, u *policy.User) error {
	files, err := idMaps(os.Getuid(), os.Getgid(), u)
	if err != nil {
		return fmt.Errorf("map ids: %w", err)
	}
	for _, f := range files {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, f.name), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("map ids: %s: %w", f.name, err)
		}
		_, err = unix.Write(fd, []byte(f.text))
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("map ids: %s: %w", f.name, err)
		}
	}
	return nil
}

// changeCapabilities are what the child needs besides to become a user, to give it what is
// made for it, and with --watch to look at what it names.
var changeCapabilities = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_CHOWN, unix.CAP_SYS_PTRACE}

// kernelGroups are a user's supplementary groups as the kernel takes them.
func kernelGroups(u *policy.User) []uint32 {
	out := make([]uint32, len(u.Groups))
	for i, g := range u.Groups {
		out[i] = uint32(g)
	}
	return out
}

func setGroups(groups []uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	return errnoError(errno)
}

func setIDs(call uintptr, id int) error {
	_, _, errno := unix.RawSyscall(call, uintptr(id), uintptr(id), uintptr(id))
	return errnoError(errno)
}

func errnoError(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// become makes the calling thread the user's for good: the groups first, which need a
// capability, the uid last. It is undone by nothing once the capabilities are dropped, which
// isUser asserts.
func become(u *policy.User) error {
	if u == nil {
		return nil
	}
	if err := setGroups(kernelGroups(u)); err != nil {
		return fmt.Errorf("set the groups of %s: %w", u.Name, err)
	}
	if err := setIDs(unix.SYS_SETRESGID, u.GID); err != nil {
		return fmt.Errorf("set the group of %s: %w", u.Name, err)
	}
	if err := setIDs(unix.SYS_SETRESUID, u.UID); err != nil {
		return fmt.Errorf("become %s: %w", u.Name, err)
	}
	return nil
}

// isUser returns an error unless the calling thread has exactly the user's ids and no way
// back to root's.
func isUser(u *policy.User) error {
	if u == nil {
		return nil
	}
	ruid, euid, suid := unix.Getresuid()
	rgid, egid, sgid := unix.Getresgid()
	if ruid != u.UID || euid != u.UID || suid != u.UID || rgid != u.GID || egid != u.GID || sgid != u.GID {
		return fmt.Errorf("the ids are not those of %s", u.Name)
	}
	groups, err := unix.Getgroups()
	if err != nil {
		return err
	}
	want := slices.Clone(u.Groups)
	slices.Sort(groups)
	slices.Sort(want)
	if !slices.Equal(groups, want) {
		return fmt.Errorf("the groups are not those of %s", u.Name)
	}
	for _, back := range []error{setIDs(unix.SYS_SETRESUID, 0), setIDs(unix.SYS_SETRESGID, 0), setGroups([]uint32{0})} {
		if !errors.Is(back, unix.EPERM) {
			return errors.New("there is a way back to root")
		}
	}
	return nil
}

// as works on a thread of its own, which ends with the goroutine that is never unlocked
// from it: nothing has to be changed back.
func as(u *policy.User, f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := fileUser(u); err != nil {
			done <- bourn.WithHint(fmt.Errorf("%w: cannot run as %s: %w", bourn.ErrWeakHost, u, err), mend(stepUser, err))
			return
		}
		f()
		done <- nil
	}()
	return <-done
}

// fileUser gives the calling thread the user's ids for files. With the change away from 0
// the kernel takes the capabilities that pass over modes and owners (capabilities(7)).
func fileUser(u *policy.User) error {
	if err := setGroups(kernelGroups(u)); err != nil {
		return fmt.Errorf("set its groups: %w", err)
	}
	// The answer is the id of before, whether or not it was changed: asked once more, it
	// tells (setfsuid(2)).
	for _, c := range []struct {
		call uintptr
		id   int
	}{{unix.SYS_SETFSGID, u.GID}, {unix.SYS_SETFSUID, u.UID}} {
		_, _, _ = unix.RawSyscall(c.call, uintptr(c.id), 0, 0)
		if now, _, _ := unix.RawSyscall(c.call, ^uintptr(0), 0, 0); int(now) != c.id {
			return unix.EPERM
		}
	}
	return nil
}
