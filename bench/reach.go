package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// reachMode is the first argument of this program as the one that tries, inside a
// sandbox, what a probe names:
//
//	reach KIND TARGET
//
// It ends with status 0 when it got there, as far as it can tell.
const reachMode = "reach"

var attempts = map[string]func(target string) error{
	"read":     readSecret,
	"write":    func(name string) error { return os.WriteFile(name, []byte("x"), 0o600) },
	"unix":     func(name string) error { return connect("unix", name, false) },
	"tcp":      func(addr string) error { return connect("tcp", addr, false) },
	"mptcp":    func(addr string) error { return connect("tcp", addr, true) },
	"udp":      sendTo,
	"umount":   uncover,
	"host":     otherHost,
	"fd":       readDescriptor,
	"env":      hasEnv,
	"filter":   isUnfiltered,
	"landlock": isUnruled,
}

func tryReach(args []string) error {
	if len(args) != 2 || attempts[args[0]] == nil {
		return errors.New("usage: reach KIND TARGET")
	}
	return attempts[args[0]](args[1])
}

const secretText = "secret\n"

func readSecret(name string) error {
	data, err := os.ReadFile(name)
	if err == nil && string(data) != secretText {
		err = errors.New("it is another file")
	}
	return err
}

const mountNamespace = "/proc/self/ns/mnt"

// uncover takes away what covers a file, where it may, and reads it. The target is the
// file and the mount namespace of the caller: in that it unmounts nothing.
func uncover(target string) error {
	name, callers, ok := strings.Cut(target, " ")
	if own, err := os.Readlink(mountNamespace); ok && err == nil && own != callers {
		_ = syscall.Unmount(name, syscall.MNT_DETACH) // refused or not, what counts is the file
	}
	return readSecret(name)
}

func connect(network, addr string, multipath bool) error {
	d := net.Dialer{Timeout: 2 * time.Second}
	d.SetMultipathTCP(multipath)
	c, err := d.Dial(network, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	return greeted(c, "done")
}

// greeted waits for the server's word: a broker may take a connection and not pass it
// on, or pass it on to another server.
func greeted(c net.Conn, want string) error {
	fmt.Fprintln(c, "connect")
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && answer != want+"\n" {
		err = fmt.Errorf("%q came", answer)
	}
	return err
}

// otherHost goes straight, and by the proxy where there is one.
func otherHost(addr string) error {
	err := errors.New("not tried")
	for _, proxy := range []bool{false, true} {
		if proxy && os.Getenv("HTTP_PROXY") == "" {
			break
		}
		var c net.Conn
		if c, err = reach(addr, proxy); err != nil {
			continue
		}
		err = greeted(c, otherWord)
		c.Close()
		if err == nil {
			break
		}
	}
	return err
}

// otherWord is what the other host answers.
const otherWord = "other"

func serveOther(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(c, otherWord)
		c.Close()
	}
}

func sendTo(addr string) error {
	c, err := net.Dial("udp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

// inheritedFD is the descriptor that the bench leaves open.
const inheritedFD = 9

func readDescriptor(string) error {
	data := make([]byte, len(secretText))
	n, err := syscall.Pread(inheritedFD, data, 0)
	if err == nil && string(data[:n]) != secretText {
		err = errors.New("it is another file")
	}
	return err
}

func hasEnv(name string) error {
	if os.Getenv(name) == "" {
		return errors.New("it is not set")
	}
	return nil
}

// isUnfiltered succeeds where no filter of system calls is on, see proc_pid_status(5).
func isUnfiltered(string) error {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil && !strings.Contains(string(status), "\nSeccomp:\t0\n") {
		err = errors.New("there is a filter")
	}
	return err
}

const landlockLayers = 16 // of rules on one another, see landlock(7)

// isUnruled succeeds where no Landlock rules are on this thread: then there is room for
// as many layers as the kernel has. It must be the last thing that the process does.
func isUnruled(string) error {
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	handled := uint64(landlockMakeFifo)
	ruleset, _, errno := syscall.RawSyscall(sysLandlockCreateRuleset, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if errno != 0 {
		return errno
	}
	for layer := range landlockLayers {
		if _, _, errno := syscall.RawSyscall(sysLandlockRestrictSelf, ruleset, 0, 0); errno != 0 {
			return fmt.Errorf("layer %d: %w", layer, errno)
		}
	}
	return nil
}

const (
	prSetNoNewPrivs          = 38 // prctl(2)
	sysLandlockCreateRuleset = 444
	sysLandlockRestrictSelf  = 446
	landlockMakeFifo         = 1 << 10
)

// A probe is one thing that a sandbox should keep from its command.
type probe struct {
	kind  string
	title string // "… reached"
	deny  bool   // with a denied file
	port  bool   // with a way out to one host
}

var probes = []probe{
	{kind: "read", title: "a file elsewhere in the home directory is read"},
	{kind: "write", title: "a file elsewhere in the home directory is written"},
	{kind: "unix", title: "a Unix socket of the host is connected to"},
	{kind: "tcp", title: "a TCP port of the host's loopback is connected to"},
	{kind: "mptcp", title: "the same with MPTCP"},
	{kind: "udp", title: "a datagram reaches the host's loopback"},
	{kind: "fd", title: "a file left open by the caller is read"},
	{kind: "env", title: "a variable of the caller's environment is seen"},
	{kind: "filter", title: "every system call goes unfiltered"},
	{kind: "landlock", title: "no Landlock rules are on"},
	{kind: "host", title: "with the loopback granted, another address is reached on the same port", port: true},
	{kind: "denied", title: "a denied file is read", deny: true},
	{kind: "link", title: "a denied file is read by a hard link made before", deny: true},
	{kind: "umount", title: "a denied file is read once its cover is unmounted", deny: true},
}

const tokenName = "BENCH_TOKEN"

// A scene is what the probes are aimed at.
type scene struct {
	home     string // what the programs take for the home directory
	dir      string // in it, writable
	timer    string // this program, in dir
	secret   string // in home, outside dir
	denied   string // in dir
	link     string // in dir, the same file
	outside  string // not there: what a probe writes
	socket   string
	tcp, udp string
	other    string // tcp's port on another address; "" where the machine has none
	heard    net.PacketConn
}

func (b *bench) newScene() (*scene, error) {
	// Not below /tmp, which many replace: where people keep what is theirs.
	at, err := os.MkdirTemp(b.peers, "scene.")
	if err != nil {
		return nil, err
	}
	b.remove = append(b.remove, at)
	s := &scene{home: at, dir: filepath.Join(at, "project"), secret: filepath.Join(at, "secret"), outside: filepath.Join(at, "written"), socket: filepath.Join(at, "socket")}
	if err := os.WriteFile(s.secret, []byte(secretText), 0o600); err != nil {
		return nil, err
	}
	s.timer, s.denied, s.link = filepath.Join(s.dir, "probe"), filepath.Join(s.dir, "denied"), filepath.Join(s.dir, "link")
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := copyProgram(s.timer, self); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.denied, []byte(secretText), 0o644); err != nil {
		return nil, err
	}
	if err := os.Link(s.denied, s.link); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		return nil, err
	}
	go serveAll(l)
	if s.heard, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.udp = s.heard.LocalAddr().String()
	if s.tcp, err = netServer(); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(s.tcp)
	own := ownAddress()
	if own == "" {
		return s, nil
	}
	s.other = net.JoinHostPort(own, port)
	other, err := net.Listen("tcp", s.other)
	if err != nil {
		return nil, err
	}
	go serveOther(other)
	return s, nil
}

// ownAddress returns an address of this machine that is not loopback's, or "".
func ownAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return ""
}

func (s *scene) target(kind string) (try, target string) {
	switch kind {
	case "read":
		return kind, s.secret
	case "write":
		return kind, s.outside
	case "unix":
		return kind, s.socket
	case "tcp", "mptcp":
		return kind, s.tcp
	case "udp":
		return kind, s.udp
	case "host":
		return kind, s.other
	case "denied":
		return "read", s.denied
	case "link":
		return "read", s.link
	case "umount":
		own, err := os.Readlink(mountNamespace)
		if err != nil {
			return kind, ""
		}
		return kind, s.denied + " " + own
	}
	return kind, tokenName
}

// reachTable runs the probes: what a column says is what happened.
func reachTable(b *bench) (*table, error) {
	s, err := b.newScene()
	if err != nil {
		return nil, err
	}
	t := &table{name: reachName, title: "what the same profiles leave within reach, tried"}
	t.special = func(b *bench, _ int) ([]row, error) {
		var rows []row
		for _, p := range append([]peer{{name: outside, run: unsealed}}, peers...) {
			r := row{Name: p.name, Rounds: 1, Reached: map[string]string{}}
			for _, probe := range probes {
				verdict, without := s.probe(b, p, probe)
				if without != nil && !probe.deny && !probe.port {
					t.cells = append(t.cells, *without)
					break
				}
				r.Reached[probe.kind] = verdict
				if p.name == bournName && verdict == reached {
					t.broken = append(t.broken, p.name+": "+probe.title)
				}
			}
			if len(r.Reached) > 0 {
				rows = append(rows, r)
			}
		}
		return rows, nil
	}
	return t, nil
}

// unsealed is the control: a probe that does not get there without a sandbox proves nothing.
func unsealed(_ *bench, _ string, _ ask, cmd []string) (command, error) {
	return command{args: cmd}, nil
}

const (
	reached = "reached"
	refused = "refused"
)

func (s *scene) probe(b *bench, p peer, probe probe) (string, *cell) {
	a := ask{write: s.dir}
	if probe.deny {
		a.deny = []string{s.denied}
	}
	if probe.port {
		_, a.port, _ = net.SplitHostPort(s.tcp)
	}
	try, target := s.target(probe.kind)
	if target == "" {
		return "not tried", nil
	}
	var c command
	var without *cell
	if p.name == outside {
		c, _ = unsealed(b, "", a, []string{s.timer, reachMode, try, target})
		c.dir = s.dir
	} else if c, without = b.askPeer(p, a, []string{s.timer, reachMode, try, target}); without != nil {
		return without.Cell, without
	}
	got, err := s.run(b, c)
	switch {
	case err != nil:
		return "fails", &cell{p.name, "fails", err.Error()}
	case got && s.confirm(probe.kind):
		return reached, nil
	}
	return refused, nil
}

// run reports whether c ended well, with a file and a variable that it should not get.
func (s *scene) run(b *bench, c command) (bool, error) {
	open, err := os.Open(s.secret)
	if err != nil {
		return false, err
	}
	defer open.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Env = b.dirOf(c), append(b.envOf(c), tokenName+"=x", "HOME="+s.home)
	cmd.ExtraFiles = make([]*os.File, inheritedFD-2)
	cmd.ExtraFiles[inheritedFD-3] = open
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || !strings.Contains(string(out), "bench: ")) {
		return false, fmt.Errorf("the probe did not run: %w%s", err, firstLine(out)) // its own refusals begin so
	}
	return err == nil, nil
}

// confirm asks the host whether what the probe did has happened here: in a root of its
// own a command may write and send what nobody sees.
func (s *scene) confirm(kind string) bool {
	switch kind {
	case "write":
		err := os.Remove(s.outside)
		return err == nil
	case "udp":
		if err := s.heard.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			return false
		}
		_, _, err := s.heard.ReadFrom(make([]byte, 1))
		return err == nil
	}
	return true
}
