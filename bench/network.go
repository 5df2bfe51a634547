package main

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// netMode is the first argument of this program as the client of the network tables:
//
//	timed-net down|up|connect ADDR [proxy]
//
// It prints how long the transfer took, or the median of connecting and one echo. With
// proxy it sends CONNECT to the proxy that the environment names.
const netMode = "timed-net"

const (
	netBytes    = 512 << 20
	netConnects = 100
)

// netServer serves the clients on loopback until the bench ends: a line says what is
// wanted.
func netServer() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go serveAll(l)
	return l.Addr().String(), nil
}

func serveAll(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serveNet(c)
	}
}

func serveNet(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return
	}
	switch strings.TrimSpace(line) {
	case "down":
		_, _ = io.CopyN(c, zeros{}, netBytes)
	case "up":
		if _, err := io.CopyN(io.Discard, r, netBytes); err == nil {
			fmt.Fprintln(c, "done")
		}
	case "connect":
		fmt.Fprintln(c, "done")
	}
}

// zeros reads as zero bytes without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// netClient is the other end.
func netClient(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: timed-net down|up|connect ADDR [proxy]")
	}
	what, addr, proxy := args[0], args[1], len(args) > 2
	rounds := 1
	if what == "connect" {
		rounds = netConnects
	}
	var took []float64
	for range rounds {
		start := time.Now()
		if err := exchange(what, addr, proxy); err != nil {
			return err
		}
		took = append(took, float64(time.Since(start)))
	}
	_, err := fmt.Println(time.Duration(median(took)))
	return err
}

func exchange(what, addr string, proxy bool) error {
	c, err := reach(addr, proxy)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintln(c, what); err != nil {
		return err
	}
	switch what {
	case "down":
		n, err := io.Copy(io.Discard, c)
		if err == nil && n != netBytes {
			err = fmt.Errorf("%d bytes came", n)
		}
		return err
	case "up":
		if _, err := io.CopyN(c, zeros{}, netBytes); err != nil {
			return err
		}
	}
	answer, err := io.ReadAll(c)
	if err == nil && string(answer) != "done\n" {
		err = fmt.Errorf("%q came", answer)
	}
	return err
}

func reach(addr string, proxy bool) (net.Conn, error) {
	if !proxy {
		return net.Dial("tcp", addr)
	}
	u, err := url.Parse(os.Getenv("HTTP_PROXY"))
	if err != nil {
		return nil, err
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	auth := ""
	if u.User != nil {
		auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.String())) + "\r\n"
	}
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", addr, addr, auth)
	line := ""
	for !strings.HasSuffix(line, "\r\n\r\n") { // byte by byte: what follows is not ours to read
		var b [1]byte
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return nil, fmt.Errorf("the proxy said %q: %w", line, err)
		}
		line += string(b[:])
	}
	if status, _, _ := strings.Cut(line, "\r\n"); !strings.Contains(status, " 200") {
		return nil, fmt.Errorf("the proxy said %q", status)
	}
	return c, nil
}

// netTable compares ways to one server on the host's loopback. Each command times itself.
func netTable(name, title, what string, t target) func(*bench) (*table, error) {
	return func(b *bench) (*table, error) {
		addr, err := netServer()
		if err != nil {
			return nil, err
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		timer := filepath.Join(b.project, ".bench-net")
		if err := copyProgram(timer, self); err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(addr)
		flags := []string{"--host", "localhost:" + port}
		client := []string{timer, netMode, what, addr}
		tb := &table{name: name, title: title, base: outside}
		tb.commands = []command{
			{name: outside, args: client, timed: true},
			{name: "bourn, direct", args: b.bournRun(b.project, flags, client...), timed: true},
			{name: "bourn, CONNECT", args: b.bournRun(b.project, flags, append(client, "proxy")...), timed: true},
		}
		b.addSlirp(tb, timer, what, port)
		for _, c := range []string{"bourn, direct", "bourn, CONNECT"} {
			t.command, t.against = c, outside
			tb.targets = append(tb.targets, t)
		}
		return tb, nil
	}
}

// addSlirp adds slirp4netns, or says that it is not here.
func (b *bench) addSlirp(t *table, timer, what, port string) {
	slirp := b.path("slirp4netns")
	if slirp == "" {
		t.skipped = append(t.skipped, "slirp4netns: not installed")
		return
	}
	t.commands = append(t.commands, command{name: "slirp4netns", timed: true,
		args: []string{timer, slirpMode, slirp, timer, netMode, what, "10.0.2.2:" + port}})
}

// slirpMode is the first argument of this program as the one that starts slirp4netns.
const slirpMode = "behind-slirp"

// behindSlirp runs args[1:] in namespaces of their own, with args[0] as their network.
func behindSlirp(args []string) error {
	ready, wait, err := os.Pipe()
	if err != nil {
		return err
	}
	goOn, begin, err := os.Pipe()
	if err != nil {
		return err
	}
	client := exec.Command("unshare", append([]string{"--user", "--map-root-user", "--net", "--", "sh", "-c", `read x <&3; exec "$@"`, "sh"}, args[1:]...)...)
	client.ExtraFiles = []*os.File{goOn}
	client.Stdout, client.Stderr = os.Stdout, os.Stderr
	if err := client.Start(); err != nil {
		return err
	}
	slirp := exec.Command(args[0], "--configure", "--mtu=65520", "--ready-fd=3", strconv.Itoa(client.Process.Pid), "tap0")
	slirp.ExtraFiles = []*os.File{wait}
	for range 100 { // until the client has its namespaces
		mine, _ := os.Readlink("/proc/self/ns/net")
		its, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", client.Process.Pid))
		if its != "" && its != mine {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := slirp.Start(); err != nil {
		return err
	}
	wait.Close()
	_, _ = ready.Read(make([]byte, 1))
	fmt.Fprintln(begin, "go")
	err = client.Wait()
	_ = slirp.Process.Kill()
	_ = slirp.Wait()
	return err
}
