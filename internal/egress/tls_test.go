package egress

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"math/big"
	"testing"
	"time"
)

func certificate(t *testing.T, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func roots(c tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Leaf)
	return pool
}

// echConfig makes the key of a server that decrypts greetings, and the list that tells
// clients of it, with the name that they say openly.
func echConfig(t *testing.T, outer string) (tls.EncryptedClientHelloKey, []byte) {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long := func(b, add []byte) []byte { return append(binary.BigEndian.AppendUint16(b, uint16(len(add))), add...) }
	body := []byte{outer[1], 0, 0x20} // an id; DHKEM(X25519)
	body = long(body, key.PublicKey().Bytes())
	body = long(body, []byte{0, 1, 0, 1}) // HKDF-SHA256, AES-128-GCM
	body = append(body, 64, byte(len(outer)))
	body = append(append(body, outer...), 0, 0)
	config := long([]byte{0xfe, 0x0d}, body)
	return tls.EncryptedClientHelloKey{Config: config, PrivateKey: key.Bytes()}, long(nil, config)
}
