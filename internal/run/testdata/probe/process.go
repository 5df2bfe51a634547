package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// daemon starts processes that try to outlive everything: each in a session of its
// own, with its parent gone, deaf to what can be ignored. Then it does what is said:
// exit, or wait.
func daemon(a []string) {
	for range 3 {
		mid := exec.Command("/proc/self/exe", "stay", "fork")
		mid.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := mid.Run(); err != nil {
			fmt.Println("cannot leave a process behind:", err)
			os.Exit(98)
		}
	}
	fmt.Println("left")
	if a[0] == "wait" {
		rest()
	}
}

// rest waits for ever; an empty select would end the program, since nothing could wake it.
func rest() {
	for {
		_ = unix.Pause()
	}
}

func stay(a []string) {
	signal.Ignore(unix.SIGHUP, unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	if len(a) > 0 && a[0] == "fork" {
		last := exec.Command("/proc/self/exe", "stay")
		last.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := last.Start(); err != nil {
			os.Exit(98)
		}
		os.Exit(0)
	}
	rest()
}

func status(a []string) {
	n, _ := strconv.Atoi(a[0])
	os.Exit(n)
}

// signals says which signals are ignored or blocked: a command must start as it would
// without bourn.
func signals([]string) {
	data, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, "SigIgn") || strings.HasPrefix(line, "SigBlk") {
			fmt.Println(strings.Join(strings.Fields(line), " "))
		}
	}
}

// catch prints each signal that comes, and ends with status 42 after the one named.
func catch(a []string) {
	n, _ := strconv.Atoi(a[0])
	c := make(chan os.Signal, 16)
	signal.Notify(c, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT, unix.SIGALRM)
	fmt.Println("ready")
	for s := range c {
		fmt.Println("caught", unix.SignalName(s.(syscall.Signal)))
		if s == syscall.Signal(n) {
			os.Exit(42)
		}
	}
}

func argv(a []string) {
	sum := 0
	for _, w := range a {
		sum += len(w)
	}
	fmt.Println(len(a), sum)
}

func size([]string) {
	for fd := range 3 {
		ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			fmt.Println(ws.Row, ws.Col)
			return
		}
	}
	fmt.Println("no terminal")
}

func spin([]string) { fmt.Println("ready"); rest() }

// thief leaves a process that reads the terminal by every way there is, and says on
// its own file what it got.
func thief(a []string) {
	if len(a) > 1 {
		c := exec.Command("/proc/self/exe", "thief", a[0])
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			fmt.Println("cannot leave a thief:", err)
			os.Exit(98)
		}
		fmt.Println("thief started")
		return
	}
	signal.Ignore(unix.SIGHUP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGTERM, unix.SIGINT)
	log, err := os.OpenFile(a[0], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		os.Exit(98)
	}
	snatch := func(name string, f *os.File) {
		buf := make([]byte, 256)
		for {
			n, err := f.Read(buf)
			if n > 0 {
				fmt.Fprintf(log, "%s got %q\n", name, buf[:n])
			}
			if err != nil {
				return
			}
		}
	}
	go snatch("stdin", os.Stdin)
	go snatch("stdout", os.Stdout)
	if f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		go snatch("/dev/tty", f)
	}
	rest()
}

// snoop tries to type into every terminal that it can name.
func snoop([]string) {
	for i := range 64 {
		said := answer("write /dev/pts/" + strconv.Itoa(i) + " INJECTED")
		if strings.HasPrefix(said, "ok") {
			fmt.Println("wrote /dev/pts/", i)
		}
	}
	fmt.Println("tiocsti", answer("tiocsti /dev/tty"))
}

// A roleReport says what a child role that was started by hand did.
type roleReport struct {
	Status  int
	Signal  int
	Err     string
	Changed bool   // the mount table or the root is another than before
	Before  string // the mount table, when it changed
	After   string
}

// role starts a program as a child role by hand, with a descriptor 3 of the given
// kind. It refuses to do that in the mount namespace of the machine.
//
//	MODE: none, null, dir, pipe, tcp, named, pair, pair-data, pair-order, then any of
//	      +user +mnt +pid: namespaces that are made for the role
//	HOST is the machine's mount namespace, as the caller knows it.
func role(a []string) {
	mode, bin, host := a[0], a[1], a[2]
	if mine, err := os.Readlink("/proc/self/ns/mnt"); err != nil || mine == host || host == "" {
		fmt.Println("this is the machine's own mount namespace:", mine, host, err)
		os.Exit(97)
	}
	words := strings.Split(mode, "+")
	three, feed := descriptor(words[0])
	var stderr bytes.Buffer
	files := []*os.File{nil, nil, nil}
	r, w, err := os.Pipe()
	if err != nil {
		os.Exit(98)
	}
	files[2] = w
	if three != nil {
		files = append(files, three)
	}
	attr := &syscall.SysProcAttr{Cloneflags: flagsOf(words[1:])}
	if attr.Cloneflags&unix.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	before := mounts()
	p, err := os.StartProcess(bin, []string{"bourn-seal"}, &os.ProcAttr{Dir: "/", Files: files, Sys: attr, Env: []string{"GODEBUG="}})
	if err != nil {
		fmt.Println("cannot start the role:", err)
		os.Exit(96)
	}
	w.Close()
	if three != nil {
		three.Close()
	}
	if feed != nil {
		feed()
	}
	hung := time.AfterFunc(3*time.Second, func() { _ = p.Kill() })
	defer hung.Stop()
	_, _ = io.Copy(&stderr, r)
	state, err := p.Wait()
	if err != nil {
		os.Exit(95)
	}
	after := mounts()
	ws := state.Sys().(syscall.WaitStatus)
	rep := roleReport{Status: ws.ExitStatus(), Err: stderr.String(), Changed: before != after}
	if ws.Signaled() {
		rep.Signal = int(ws.Signal())
	}
	if rep.Changed {
		rep.Before, rep.After = before, after
	}
	_ = json.NewEncoder(os.Stdout).Encode(rep)
}

// mounts describes the mount namespace and the root.
func mounts() string {
	data, err := os.ReadFile("/proc/self/mountinfo")
	var st unix.Stat_t
	if err2 := unix.Stat("/", &st); err2 != nil || err != nil {
		return fmt.Sprint("gone: ", err, err2)
	}
	return fmt.Sprintf("%d:%d\n%s", st.Dev, st.Ino, data)
}

// descriptor makes the role's descriptor 3, and what is to be done once it runs.
func descriptor(kind string) (*os.File, func()) {
	switch kind {
	case "null":
		f, _ := os.OpenFile("/dev/null", os.O_RDWR, 0)
		return f, nil
	case "dir":
		f, _ := os.Open("/")
		return f, nil
	case "pipe":
		r, w, _ := os.Pipe()
		return r, func() { w.Write([]byte(frame(order))); w.Close() }
	case "tcp":
		fd, _ := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		return os.NewFile(uintptr(fd), "tcp"), nil
	case "named":
		l, _ := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		_ = unix.Bind(l, &unix.SockaddrUnix{Name: "@bourn-probe-" + strconv.Itoa(os.Getpid())})
		_ = unix.Listen(l, 1)
		c, _ := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		_ = unix.Connect(c, &unix.SockaddrUnix{Name: "@bourn-probe-" + strconv.Itoa(os.Getpid())})
		s, _, _ := unix.Accept4(l, unix.SOCK_CLOEXEC)
		return os.NewFile(uintptr(c), "named"), func() { send(s, frame(order)) }
	case "dgram":
		pair, _ := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return os.NewFile(uintptr(pair[1]), "pair"), func() { send(pair[0], frame(order)) }
	case "pair":
		pair, _ := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return os.NewFile(uintptr(pair[1]), "pair"), func() { unix.Close(pair[0]) }
	case "pair-data":
		pair, _ := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return os.NewFile(uintptr(pair[1]), "pair"), func() { send(pair[0], "\x00\x00\x00\x02{}"); unix.Shutdown(pair[0], unix.SHUT_WR) }
	case "pair-order":
		pair, _ := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return os.NewFile(uintptr(pair[1]), "pair"), func() { send(pair[0], frame(order)); unix.Shutdown(pair[0], unix.SHUT_WR) }
	}
	return nil, nil
}

func send(fd int, s string) { _ = unix.Sendto(fd, []byte(s), unix.MSG_NOSIGNAL, nil) }

// order is what a parent would say for an empty plan.
const order = `{"k":"order","order":{"plan":{"Command":["/bin/true"],"Cwd":"/"},"program":"/proc/self/exe","terminal":[false,false,false]}}`

func frame(body string) string {
	n := len(body)
	return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + body
}
