package posix

import (
	"path"

	"golang.org/x/sys/unix"
)

// ignoresSUID reports whether the mount of a path has nosuid. The directory is asked: what
// stands there may be nothing that can be followed.
func ignoresSUID(name string) (bool, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path.Dir(name), &st)
	return st.Flags&unix.ST_NOSUID != 0, err
}
