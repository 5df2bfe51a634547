package posix

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"bourn"
)

// mount makes a directory a mount of its own: a copy of itself on itself, without set-user-id
// and devices. One that is a mount already stays. All by descriptor, and the options are set
// before it can be seen (open_tree(2), mount_setattr(2), Linux 5.12).
//
// It leaves the peer group of the mount that it is a copy of; where that is shared it gets one of
// its own as it is moved there (mount_namespaces(7)). In one group with a thousand others, each
// mount, unmount and look at mountinfo in a service's namespace walks through all of them.
func (p *performer) mount(at string) error {
	parent, err := p.openParent(at, false)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	dir, _, err := openAt(parent, path.Base(at), at)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	is, err := mountRoot(dir)
	if err != nil || is {
		return err
	}
	tree, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("cannot copy the mount of %s: %w", at, err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("cannot set the options of %s: %w", at, err)
	}
	if err := unix.MoveMount(tree, "", dir, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("cannot mount %s: %w", at, err)
	}
	return nil
}

// mountRoot reports whether a directory is the root of a mount.
func mountRoot(dir int) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(dir, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return false, err
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return false, fmt.Errorf("%w: this kernel does not say what a mount is (Linux 5.8)", bourn.ErrWeakHost)
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

func unmount(opts Options, paths []string) error {
	p, err := open(opts)
	if err != nil {
		return err
	}
	defer p.close()
	for _, at := range paths {
		if err := p.unmount(at); err != nil {
			return err
		}
	}
	return nil
}

func (p *performer) unmount(at string) error {
	parent, err := p.openParent(at, false)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	err = unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", parent, path.Base(at)), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: no mount
		return fmt.Errorf("cannot unmount %s: %w", at, err)
	}
	return nil
}
