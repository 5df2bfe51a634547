package run

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"bourn/internal/review"
)

// Actors of one person that start at once are each planned by what came for them: by the hard
// blocks of their own order, and for an agent by its profile.
func TestPersonOrders(t *testing.T) {
	person, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range int64(4) {
		rules, err := review.Publish(key, n+1, review.NoRules(), true)
		if err != nil {
			t.Fatal(err)
		}
		a := PersonActor{Agent: "builder", Profile: []byte("version: 1\nagent: builder\n# " + string('a'+rune(n)) + "\n"), Rules: rules,
			Key: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), Dir: person}
		all.Go(func() {
			for range 25 {
				h := &Home{Dir: filepath.Join(person, ".bourn"), Person: person, Program: program, Environ: []string{"HOME=" + person, "PATH=/usr/bin:/bin"}, logged: true}
				p, err := h.prepareAs(a)
				if err != nil {
					t.Error(err)
					return
				}
				if p.Boundaries != n+1 || p.Digest != digest(a.Profile) {
					t.Errorf("order %d is planned by the hard blocks of %d, and by its own profile: %v", n+1, p.Boundaries, p.Digest == digest(a.Profile))
					return
				}
			}
		})
	}
	all.Wait()
}
