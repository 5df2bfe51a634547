package store_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"
)

// An authority signs certificates.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var pair tls.Certificate
	pair, a.pem = a.sign(a.cert, nil)
	a.key = pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// sign makes a key and its certificate; without an issuer it is its own.
func (a *authority) sign(c *x509.Certificate, by *authority) (tls.Certificate, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (a *authority) client(name string) *tls.Certificate {
	pair, _ := a.sign(&x509.Certificate{SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a)
	return &pair
}

// TestSQLByCertificate: on a server elsewhere a role is known by its certificate, and by no other.
func TestSQLByCertificate(t *testing.T) {
	config := storetest.ClusterConfig(t)
	ca := newAuthority(t, "test")
	address := fmt.Sprintf("127.78.%d.%d", os.Getpid()/250%250, os.Getpid()%250+1)
	pair, cert := ca.sign(&x509.Certificate{SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.ParseIP(address)}, NotAfter: time.Now().Add(time.Hour)}, ca)
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "bourn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, text := range map[string][]byte{"ca.crt": ca.pem, "server.crt": cert, "server.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Own(t, config, dir)
	config.Set["listen_addresses"], config.Set["ssl"] = address, "on"
	config.Set["ssl_ca_file"], config.Set["ssl_cert_file"], config.Set["ssl_key_file"] = dir+"/ca.crt", dir+"/server.crt", dir+"/server.key"
	for _, role := range []string{"bourn_control", "bourn_member", "bourn_app"} {
		config.Ident = append(config.Ident, cluster.Ident{OS: cluster.CurrentUser(), Role: role})
	}
	config.Rules = []string{"local all bourn_control,bourn_member,bourn_app peer map=bourn", "hostssl records +bc_person 127.0.0.0/8 cert", "host records all 127.0.0.0/8 trust"}
	c, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := store.Prepare(t.Context(), func(db string) string { return c.ConnString(cluster.Admin, db) }); err != nil {
		t.Fatal(err)
	}
	ann := store.NewMemberID()
	role := store.MemberRole(ann)
	if _, err := store.AgentRoles(t.Context(), c.ConnString(cluster.Admin, "postgres"), store.AgentRoleWish{Active: []string{role, "bc_m_other"}}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), c.ConnString)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.PutMember(t.Context(), store.Member{ID: ann, Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	active, gone, err := store.MemberRoles(t.Context(), c.ConnString(cluster.Admin, "records"))
	if err != nil || len(active) != 1 || active[0] != role || len(gone) != 0 {
		t.Errorf("the members' roles: %v %v %v", active, gone, err)
	}
	all := s.NewSQLs(time.Now)
	t.Cleanup(all.Close)
	base := "postgres://" + address + ":5432/?sslrootcert=" + dir + "/ca.crt&sslmode="
	open := func(mode string, cert *tls.Certificate) (*store.SQL, error) {
		return all.Open(t.Context(), store.SQLFor{Member: ann, Role: role, Kind: store.Agent, URL: base + mode, Certificate: cert})
	}
	conn, err := open("verify-full", ca.client(role))
	if err != nil {
		t.Fatal(err)
	}
	if got := sqlRows(t, conn, "select session_user, auth.me()"); got != role+"|"+ann.String() {
		t.Errorf("it is %s", got)
	}
	if _, err := conn.Run(t.Context(), store.SQLQuery{Text: "select pg_sleep(60)", Limits: store.SQLLimits{Time: 10 * time.Millisecond}}); !errors.Is(err, bourn.ErrUnavailable) {
		t.Errorf("too long: %v", err)
	}
	for what, refused := range map[string]func() (*store.SQL, error){
		"another role's certificate":     func() (*store.SQL, error) { return open("verify-full", ca.client("bc_m_other")) },
		"another authority's":            func() (*store.SQL, error) { return open("verify-full", newAuthority(t, "other").client(role)) },
		"none":                           func() (*store.SQL, error) { return open("verify-full", nil) },
		"a server that is not looked at": func() (*store.SQL, error) { return open("require", ca.client(role)) },
		"a name that is not looked at":   func() (*store.SQL, error) { return open("verify-ca", ca.client(role)) },
		"no TLS":                         func() (*store.SQL, error) { return open("disable", ca.client(role)) },
		"TLS or not":                     func() (*store.SQL, error) { return open("prefer", ca.client(role)) },
	} {
		if c, err := refused(); err == nil {
			t.Errorf("%s: it is let in", what)
			c.End()
		} else if strings.Contains(what, "looked") && (!errors.Is(err, bourn.ErrDenied) || !strings.Contains(bourn.HintOf(err), "verify-full")) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
