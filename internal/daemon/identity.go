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
)

// loadIdentity reads the host's key, which signs the log and the published boundaries,
// and makes it where there is none. identity.pub beside it is for others to verify by.
func loadIdentity(home string) (ed25519.PrivateKey, error) {
	at := filepath.Join(home, "identity.key")
	info, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return makeIdentity(home)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the host's key: %w", err)
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
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	pub, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	// The key last: with it, both are there.
	for _, f := range []struct {
		name, kind string
		der        []byte
		mode       os.FileMode
	}{{"identity.pub", "PUBLIC KEY", pub, 0o644}, {"identity.key", "PRIVATE KEY", der, 0o600}} {
		text := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		if err := replaceFile(filepath.Join(home, f.name), text, f.mode); err != nil {
			return nil, fmt.Errorf("cannot make the host's key: %w", err)
		}
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
	return os.Rename(f.Name(), at)
}
