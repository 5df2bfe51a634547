package nettest

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// A World is the servers of one test.
type World struct {
	CA   []byte         // PEM, of the authority that signs for every name
	Web  *http.ServeMux // on ports 80 and 443 of every address; patterns begin with the host
	t    testing.TB
	zone zone
	key  *ecdsa.PrivateKey
	ca   *x509.Certificate

	mu     sync.Mutex
	visits []Visit
	open   map[net.Conn]struct{}
	over   bool
	busy   sync.WaitGroup
}

// New starts the name server of a world. It and every server end with the test.
func New(t testing.TB) *World {
	t.Helper()
	w := &World{t: t, Web: http.NewServeMux(), open: map[net.Conn]struct{}{},
		zone: zone{names: map[string]Answers{}, asked: map[string]int{}, times: map[string]int{}}}
	c, err := net.ListenPacket("udp4", "127.0.0.1:53")
	w.must(err)
	w.busy.Go(func() { w.zone.serve(c) })
	t.Cleanup(func() {
		c.Close()
		w.mu.Lock()
		w.over = true
		for c := range w.open {
			c.Close()
		}
		w.mu.Unlock()
		w.busy.Wait()
	})
	w.authority()
	return w
}

func (w *World) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Visits returns what the servers have seen since the last call.
func (w *World) Visits() []Visit {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.visits
	w.visits = nil
	return out
}

// Open returns how many connections the servers of Serve have open.
func (w *World) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

func (w *World) see(v Visit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visits = append(w.visits, v)
}

// Listen returns a listener on a port of every address. Every accepted connection is a
// visit.
func (w *World) Listen(port string) net.Listener {
	w.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "[::]:"+port)
	w.must(err)
	w.t.Cleanup(func() { l.Close() })
	return &watched{l, w}
}

type watched struct {
	net.Listener
	w *World
}

func (l *watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.w.see(Visit{At: Local(c)})
	}
	return c, err
}

// Local returns the address that a connection was made to.
func Local(c net.Conn) netip.AddrPort {
	at, _ := netip.ParseAddrPort(c.LocalAddr().String())
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// Serve serves every connection to some ports on a goroutine of its own.
func (w *World) Serve(serve func(net.Conn), ports ...string) {
	w.t.Helper()
	for _, port := range ports {
		l := w.Listen(port)
		w.busy.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				w.mu.Lock()
				if w.over {
					c.Close()
				}
				w.open[c] = struct{}{}
				w.mu.Unlock()
				w.busy.Go(func() {
					serve(c)
					c.Close()
					w.mu.Lock()
					delete(w.open, c)
					w.mu.Unlock()
				})
			}
		})
	}
}

// Echo says where a connection arrived, "at ADDR:PORT", and then what is said to it. The
// first line is a visit.
func (w *World) Echo(c net.Conn) {
	if _, err := io.WriteString(c, "at "+Local(c).String()+"\n"); err != nil {
		return
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if line != "" {
		w.see(Visit{At: Local(c), Said: strings.TrimSpace(line)})
	}
	if _, werr := io.WriteString(c, line); err == nil && werr == nil {
		_, _ = io.Copy(c, r)
	}
}

// Hold reads until the connection ends.
func Hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// ServeWeb serves w.Web on ports 80 and 443, or on others.
func (w *World) ServeWeb(plain, secure string) {
	w.t.Helper()
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		v := Visit{Host: r.Host, Said: r.URL.Path}
		if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			a, _ := netip.ParseAddrPort(at.String())
			v.At = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		}
		if r.TLS != nil {
			v.SNI = r.TLS.ServerName
		}
		w.see(v)
		w.Web.ServeHTTP(rw, r)
	})}
	w.t.Cleanup(func() { server.Close() })
	l := w.Listen(plain)
	w.busy.Go(func() { _ = server.Serve(l) })
	s := tls.NewListener(w.Listen(secure), &tls.Config{GetCertificate: w.certificate, NextProtos: []string{"http/1.1"}})
	w.busy.Go(func() { _ = server.Serve(s) })
}

func (w *World) authority() {
	var err error
	w.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	der, err := w.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		Subject: pkix.Name{CommonName: "a world's authority"}})
	w.must(err)
	w.ca, err = x509.ParseCertificate(der)
	w.must(err)
	w.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// sign signs a certificate for the world's key.
func (w *World) sign(c *x509.Certificate) ([]byte, error) {
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent := w.ca
	if parent == nil {
		parent = c
	}
	return x509.CreateCertificate(rand.Reader, c, parent, &w.key.PublicKey, w.key)
}

// certificate is one for the name that a client asks for, or the address that it reached.
func (w *World) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{Local(hello.Conn).Addr().AsSlice()}}
	if hello.ServerName != "" {
		c.DNSNames = []string{hello.ServerName}
	}
	der, err := w.sign(c)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: w.key}, nil
}
