package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// newSecret returns 32 random bytes, in letters that no URL and no connection string treats
// specially.
func newSecret() string {
	secret := make([]byte, 32)
	rand.Read(secret)
	return base64.RawURLEncoding.EncodeToString(secret)
}

// hashOf is what is kept of a token: as many bits as it has need no salt and no slow hash.
func hashOf(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}

// looksLike reports whether s has the form of a token with that prefix.
func looksLike(s, prefix string) bool {
	secret, ok := strings.CutPrefix(s, prefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(secret)
	return ok && err == nil && len(raw) == 32
}
