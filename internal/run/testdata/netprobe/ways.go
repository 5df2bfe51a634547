package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// proxy returns the address of the proxy that the environment names.
func proxy() string {
	u, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return ""
	}
	return u.Host
}

func dial(network, at string) (net.Conn, error) {
	c, err := net.DialTimeout(network, at, patience)
	if err == nil {
		err = c.SetDeadline(time.Now().Add(patience))
	}
	return c, err
}

// greet reads where a connection arrived, and says a.Say.
func greet(c io.ReadWriter, r *bufio.Reader, a Attempt) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	if a.Say == "" {
		return strings.TrimSpace(line), nil
	}
	if _, err := io.WriteString(c, a.Say+"\n"); err != nil {
		return "", err
	}
	echo, err := r.ReadString('\n')
	if err == nil && strings.TrimSpace(echo) != a.Say {
		err = fmt.Errorf("the echo is %q", echo)
	}
	return strings.TrimSpace(line), err
}

// tunnel asks the proxy for a connection.
func tunnel(a Attempt) (net.Conn, *bufio.Reader, error) {
	c, err := dial("tcp", proxy())
	if err != nil {
		return nil, nil, err
	}
	at := a.Host + ":" + a.Port
	if strings.Contains(a.Host, ":") && a.Host[0] != '[' {
		at = "[" + a.Host + "]:" + a.Port
	}
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", at, at); err != nil {
		return nil, nil, err
	}
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, &http.Request{Method: "CONNECT"})
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		c.Close()
		return nil, nil, fmt.Errorf("%d %s", resp.StatusCode, strings.TrimSpace(string(text)))
	}
	return c, r, nil
}

func connectProxy(a Attempt) (string, error) {
	c, r, err := tunnel(a)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return greet(c, r, a)
}

func socks(a Attempt) (string, error) {
	c, err := dial("tcp", proxy())
	if err != nil {
		return "", err
	}
	defer c.Close()
	port, err := strconv.Atoi(a.Port)
	if err != nil {
		return "", err
	}
	request := []byte{5, 1, 0, 3, byte(len(a.Host))}
	request = append(request, a.Host...)
	if ip := net.ParseIP(a.Host); ip != nil && ip.To4() != nil && !strings.Contains(a.Host, ":") {
		request = append([]byte{5, 1, 0, 1}, ip.To4()...)
	} else if ip != nil {
		request = append([]byte{5, 1, 0, 4}, ip.To16()...)
	}
	request = append(request, byte(port>>8), byte(port))
	if _, err := c.Write(append([]byte{5, 1, 0}, request...)); err != nil {
		return "", err
	}
	var answer [12]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return "", err
	}
	if answer[3] != 0 {
		return "", fmt.Errorf("socks %d", answer[3])
	}
	return greet(c, bufio.NewReader(c), a)
}

func direct(a Attempt) (string, error) {
	c, err := dial("tcp", net.JoinHostPort(a.Host, a.Port))
	if err != nil {
		return "", err
	}
	defer c.Close()
	return greet(c, bufio.NewReader(c), a)
}

// plainGet sends a request for an http URL to the proxy. Say is the Host header.
func plainGet(a Attempt) (string, error) {
	c, err := dial("tcp", proxy())
	if err != nil {
		return "", err
	}
	defer c.Close()
	host := a.Say
	if host == "" {
		host = a.Host
	}
	if _, err := fmt.Fprintf(c, "GET http://%s:%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", a.Host, a.Port, host); err != nil {
		return "", err
	}
	return readBody(c)
}

func readBody(c net.Conn) (string, error) {
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 500))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%d %s", resp.StatusCode, strings.TrimSpace(string(text)))
	}
	return strings.TrimSpace(string(text)), err
}

func dns(a Attempt) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, a.Host)
	return fmt.Sprint(addrs), err
}

// rawDNS asks the name server that stands at a.Host for the name a.Say by UDP, and for
// the type that a.Port says.
func rawDNS(a Attempt) (string, error) {
	kind, err := strconv.Atoi(a.Port)
	if err != nil {
		return "", err
	}
	name, err := dnsmessage.NewName(a.Say)
	if err != nil {
		return "", err
	}
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.Type(kind), Class: dnsmessage.ClassINET}}}
	packed, err := q.Pack()
	if err != nil {
		return "", err
	}
	c, err := dial("udp", net.JoinHostPort(a.Host, "53"))
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(silence)); err != nil {
		return "", err
	}
	if _, err := c.Write(packed); err != nil {
		return "", err
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		return "", err
	}
	var m dnsmessage.Message
	if err := m.Unpack(buf[:n]); err != nil {
		return "", err
	}
	return fmt.Sprintf("%v with %d answers", m.RCode, len(m.Answers)), nil
}

// silence is how long something is waited for that should not come.
const silence = time.Second

func udp(a Attempt) (string, error) {
	c, err := dial("udp", net.JoinHostPort(a.Host, a.Port))
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(silence)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return "", err
	}
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

func mptcp(a Attempt) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return throughFD(fd, a, func(to unix.Sockaddr) error { return unix.Connect(fd, to) })
}

// fastOpen sends its first bytes with the SYN (tcp(7), MSG_FASTOPEN).
func fastOpen(a Attempt) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return throughFD(fd, a, func(to unix.Sockaddr) error {
		return unix.Sendto(fd, []byte(a.Say+"\n"), unix.MSG_FASTOPEN|unix.MSG_NOSIGNAL, to)
	})
}

func throughFD(fd int, a Attempt, begin func(unix.Sockaddr) error) (string, error) {
	addrs, err := net.LookupHost(a.Host)
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(a.Port)
	if err != nil {
		return "", err
	}
	to := &unix.SockaddrInet4{Port: port}
	copy(to.Addr[:], net.ParseIP(addrs[0]).To4())
	wait := unix.NsecToTimeval(int64(patience))
	if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait), begin(to)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(os.NewFile(uintptr(must(unix.Dup(fd))), "socket")).ReadString('\n')
	return strings.TrimSpace(line), err
}

func must(n int, err error) int {
	check(err)
	return n
}

// tlsDirect makes a TLS connection directly, and tlsProxy through the proxy; a.Say is the
// server name that it asks for, "-" for none.
func tlsDirect(a Attempt) (string, error) {
	c, err := dial("tcp", net.JoinHostPort(a.Host, a.Port))
	if err != nil {
		return "", err
	}
	return tlsGet(c, a)
}

func tlsProxy(a Attempt) (string, error) {
	c, _, err := tunnel(a)
	if err != nil {
		return "", err
	}
	return tlsGet(c, a)
}

func tlsGet(c net.Conn, a Attempt) (string, error) {
	defer c.Close()
	config := &tls.Config{ServerName: a.Say, InsecureSkipVerify: true} // the name is what is tried
	if a.Say == "-" {
		config.ServerName = ""
	}
	t := tls.Client(c, config)
	if _, err := fmt.Fprintf(t, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", a.Host); err != nil {
		return "", err
	}
	return readBody(t)
}

// listen listens on an address of the run's own and connects to it, to port 0 on one that
// is free.
func listen(a Attempt) (string, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(a.Host, a.Port))
	if err != nil {
		return "", err
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			fmt.Fprintf(c, "at own\n")
			c.Close()
		}
	}()
	host := a.Host
	if a.Say != "" {
		host = a.Say
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c, err := dial("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return "", err
	}
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

// smuggle sends two requests over one connection to the proxy: one that is granted and
// then a.Say, with its line ends written as \r\n.
func smuggle(a Attempt) (string, error) {
	c, err := dial("tcp", proxy())
	if err != nil {
		return "", err
	}
	defer c.Close()
	second := strings.ReplaceAll(a.Say, `\r\n`, "\r\n")
	if _, err := fmt.Fprintf(c, "GET http://%s:%s/ HTTP/1.1\r\nHost: %s\r\n\r\n%s", a.Host, a.Port, a.Host, second); err != nil {
		return "", err
	}
	r := bufio.NewReader(c)
	first, err := http.ReadResponse(r, nil)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(io.Discard, first.Body); err != nil {
		return "", err
	}
	then, err := http.ReadResponse(r, nil)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(then.Body, 500))
	return fmt.Sprintf("%d then %d %s", first.StatusCode, then.StatusCode, strings.TrimSpace(string(text))), err
}
