package run

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"testing"
)

// The key that is written by hand must be the one that everybody else reads.
func TestIdentityIsStandard(t *testing.T) {
	key, pub, err := newIdentity()
	if err != nil {
		t.Fatal(err)
	}
	private, _ := pem.Decode(key)
	parsed, err := x509.ParsePKCS8PrivateKey(private.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	public, _ := pem.Decode(pub)
	other, err := x509.ParsePKIXPublicKey(public.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if !parsed.(ed25519.PrivateKey).Public().(ed25519.PublicKey).Equal(other) {
		t.Error("the two halves do not belong together")
	}
}
