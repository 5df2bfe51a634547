package daemon

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bourn"
	"bourn/internal/audit"
)

// An identity is the host's key, which signs the log and the published boundaries.
//
//	identity.key     the key itself
//	identity.pub     its public half, for others to verify by
//	keys/NAME.pub    public keys that signed before it, or that sign for another control
//	                 plane on the same database: what they signed verifies
//
// Who replaces identity.key has the old public key put into keys/ at the next start, and
// the log says so. It does not prove that whoever replaced it was allowed to.
type identity struct {
	key    ed25519.PrivateKey
	public ed25519.PublicKey
	older  []ed25519.PublicKey
	// replaced is the name of the key that was there until now, where there was another.
	replaced string
}

// loadIdentity reads the host's key, and makes it where there is none.
func loadIdentity(home string) (id identity, err error) {
	if id.key, err = loadKey(home); err != nil {
		return id, err
	}
	id.public = id.key.Public().(ed25519.PublicKey)
	if id.replaced, err = retire(home, id.public); err != nil {
		return id, fmt.Errorf("cannot keep the key that the host had before: %w", err)
	}
	id.older, err = olderKeys(home)
	return id, err
}

// maxKeys is how many older keys are read.
const maxKeys = 100

// retire puts identity.pub into keys/ if it is another key's, and writes it anew.
func retire(home string, public ed25519.PublicKey) (replaced string, err error) {
	at := filepath.Join(home, "identity.pub")
	old, err := readPublic(at)
	if err == nil && old.Equal(public) {
		return "", nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bourn.ErrInvalid) {
		return "", err
	}
	if err == nil {
		replaced = audit.KeyName(old)
		if err := os.Mkdir(filepath.Join(home, "keys"), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		if err := writePublic(filepath.Join(home, "keys", replaced+".pub"), old); err != nil {
			return "", err
		}
	}
	return replaced, writePublic(at, public)
}

// olderKeys reads keys/. What is no key there is an error: something would not verify.
func olderKeys(home string) (all []ed25519.PublicKey, err error) {
	found, err := filepath.Glob(filepath.Join(home, "keys", "*.pub"))
	if err != nil || len(found) > maxKeys {
		return nil, fmt.Errorf("%w: more than %d keys in keys/", bourn.ErrInvalid, maxKeys)
	}
	for _, at := range found {
		key, err := readPublic(at)
		if err != nil {
			return nil, bourn.WithHint(fmt.Errorf("cannot read an older key of the host's: %w", err), "remove "+at+", or put the key there again")
		}
		all = append(all, key)
	}
	return all, nil
}

func readPublic(at string) (ed25519.PublicKey, error) {
	text, err := os.ReadFile(at)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%w: %s holds no key", bourn.ErrInvalid, at)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	key, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: %s holds no Ed25519 key", bourn.ErrInvalid, at)
	}
	return key, nil
}

func writePublic(at string, key ed25519.PublicKey) error {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return err
	}
	return replaceFile(at, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644)
}

// loadKey reads identity.key, and makes it where there is none.
func loadKey(home string) (ed25519.PrivateKey, error) {
	at := filepath.Join(home, "identity.key")
	info, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return makeIdentity(home)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the host's key: %w", err)
	}
	if foreign(at) {
		return nil, bourn.WithHint(fmt.Errorf("%w: the host's key %s is another user's", bourn.ErrDenied, at), "remove it: a new one is made")
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, bourn.WithHint(fmt.Errorf("%w: the host's key %s can be read by others", bourn.ErrDenied, at),
			"if nobody has, chmod 600 it; else remove it: a new one is made, and the log's older signatures are of the old one")
	}
	text, err := os.ReadFile(at)
	if err != nil {
		return nil, fmt.Errorf("cannot read the host's key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%w: %s holds no key", bourn.ErrInvalid, at)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: %s holds no Ed25519 key", bourn.ErrInvalid, at)
	}
	return key, nil
}

func makeIdentity(home string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := replaceFile(filepath.Join(home, "identity.key"), text, 0o600); err != nil {
		return nil, fmt.Errorf("cannot make the host's key: %w", err)
	}
	return key, nil
}

// replaceFile writes a file beside its place, settles it and moves it there.
func replaceFile(at string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(at), "."+filepath.Base(at)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it has been moved, or is of no use
	defer f.Close()
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), at); err != nil {
		return err
	}
	return settleDir(filepath.Dir(at))
}

// settleDir settles a directory's entries: after a crash the new name is there.
func settleDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
