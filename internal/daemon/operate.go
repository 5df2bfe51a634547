package daemon

import (
	"os"
	"path/filepath"

	"bourn/internal/store"
)

// URLLogin returns the roles' ways to a server that others run, for a home to whose
// secrets `bourn db migrate` has written their passwords.
func URLLogin(home, url string) (store.Login, error) { return urlLogin(home, url) }

// ClusterUser is the name of the OS user who has the private cluster of a home, "" where
// there is none.
func ClusterUser(home string) string { return ownerName(ClusterDir(home)) }

// HeadFile is where the log's newest checkpoint is kept outside the database.
func HeadFile(home string) string { return filepath.Join(home, "log-head.json") }

// IdentityFile is where the public key is that the log is signed with.
func IdentityFile(home string) string { return filepath.Join(home, "identity.pub") }

// ReplaceFile writes a file beside its place, settles it and moves it there.
func ReplaceFile(at string, data []byte, mode os.FileMode) error { return replaceFile(at, data, mode) }
