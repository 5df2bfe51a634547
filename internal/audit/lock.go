package audit

import (
	"errors"
	"io/fs"
	"os"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// Lock takes the lock file at path and waits for it. It makes the file for this user alone,
// whatever the umask, and closes one that was open to others: who can open a file, if only
// to read, can hold its lock and keep everybody waiting.
func Lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		err = f.Close()
	case errors.Is(err, fs.ErrExist):
		var info fs.FileInfo
		if info, err = os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(path, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	return lockedfile.MutexAt(path).Lock()
}
