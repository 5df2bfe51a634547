package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A call is what the role caller does to itself before it executes a program.
type call struct {
	Path        string
	Argv, Env   []string
	Close       []int
	Move        map[int]int // descriptors, to other numbers
	Limits      map[int]uint64
	Ignore      []int // signals
	Block       bool  // all signals
	NoNewPrivs  bool
	Umask       int
	Personality uintptr
	Timer       bool // an alarm in an hour
	Keyring     bool // a session keyring of its own
	Group       bool // lead a process group
	Session     bool // lead a session
	NonBlock    bool // descriptors 0 to 2
	Dir         string
	Lie         int // a system call that does nothing and says it did; 0 is none
}

// fatal ends a role with a status that the helper never has.
func fatal(what string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what, err)
		os.Exit(121)
	}
}

// caller is the role of who starts the helper.
func caller() {
	runtime.LockOSThread()
	var c call
	fatal("spec", json.Unmarshal([]byte(os.Args[1]), &c))
	// Descriptors that the runtime has opened are closed on exec.
	for from, to := range c.Move {
		fatal("dup", unix.Dup3(from, to, 0))
		fatal("close", unix.Close(from))
	}
	if c.Dir != "" {
		fatal("chdir", unix.Chdir(c.Dir))
	}
	unix.Umask(c.Umask)
	for _, s := range c.Ignore {
		signal.Ignore(syscall.Signal(s))
	}
	if c.NoNewPrivs {
		fatal("prctl", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	}
	if c.Personality != 0 {
		_, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, c.Personality, 0, 0)
		if errno != 0 {
			fatal("personality", errno)
		}
	}
	if c.Timer {
		_, err := unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval{Value: unix.Timeval{Sec: 3600}})
		fatal("setitimer", err)
	}
	if c.Keyring {
		_, err := unix.KeyctlJoinSessionKeyring("service")
		fatal("keyctl", err)
	}
	if c.Group {
		fatal("setpgid", unix.Setpgid(0, 0))
	}
	if c.Session {
		_, err := unix.Setsid()
		fatal("setsid", err)
	}
	if c.NonBlock {
		for fd := range 3 {
			fatal("nonblock", unix.SetNonblock(fd, true))
		}
	}
	path, err := syscall.BytePtrFromString(c.Path)
	fatal("path", err)
	argv, err := syscall.SlicePtrFromStrings(c.Argv)
	fatal("argv", err)
	env, err := syscall.SlicePtrFromStrings(c.Env)
	fatal("env", err)
	for _, fd := range c.Close {
		fatal("close", unix.Close(fd))
	}
	for resource, value := range c.Limits {
		fatal("limit", unix.Prlimit(0, resource, &unix.Rlimit{Cur: value, Max: value}, nil))
	}
	if c.Block {
		var all unix.Sigset_t
		for i := range all.Val {
			all.Val[i] = ^all.Val[i]
		}
		fatal("block", unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil))
	}
	if c.Lie != 0 {
		fatal("filter", lie(uint32(c.Lie)))
	}
	_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	fatal("cannot execute:", errno)
}

// lie installs a filter that answers a system call with success, in the kernel's place (seccomp(2)). Root may.
func lie(call uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number, first in struct seccomp_data
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// A state is what the stand-in for bourn sees of itself.
type state struct {
	Argv, Env   []string
	Cwd         string
	Status      map[string]string // /proc/self/status
	Umask       int
	Limits      map[int]unix.Rlimit
	Open        map[int]string // descriptors
	Personality int
	Timer       bool
	Keyring     string // the session keyring, as keyctl(2) describes it
	Leads       bool   // its session
	Terminal    bool
	OOM         string
	Tried       map[string]string // what it was told to try, and what became of it
}

// A probe is what the stand-in is told to do: a line on its socket.
type probe struct {
	Pid    int  // whom to reach
	Shadow bool // read what only root reads
}

// standIn is the role of bourn.
func standIn() {
	runtime.LockOSThread()
	s := state{Argv: os.Args, Env: os.Environ(), Status: map[string]string{}, Limits: map[int]unix.Rlimit{}, Open: map[int]string{}, Tried: map[string]string{}}
	s.Cwd, _ = os.Getwd()
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		s.Status[name] = strings.Join(strings.Fields(value), " ")
	}
	s.Umask = unix.Umask(0)
	for _, l := range limits {
		var is unix.Rlimit
		_ = unix.Prlimit(0, l.resource, nil, &is)
		s.Limits[l.resource] = is
	}
	entries, _ := filepath.Glob("/proc/self/fd/*")
	for _, e := range entries {
		fd, _ := strconv.Atoi(filepath.Base(e))
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue // the stand-in's own
		}
		if to, err := os.Readlink(e); err == nil {
			kind, _, _ := strings.Cut(to, ":")
			s.Open[fd] = kind
		}
	}
	personality, _, _ := unix.RawSyscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0)
	s.Personality = int(personality)
	timer, _ := unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval{})
	s.Timer = timer.Value != unix.Timeval{}
	s.Keyring, _ = unix.KeyctlString(unix.KEYCTL_DESCRIBE, unix.KEY_SPEC_SESSION_KEYRING)
	session, _ := unix.Getsid(0)
	s.Leads = session == os.Getpid()
	tty, err := os.Open("/dev/tty")
	s.Terminal = err == nil
	tty.Close()
	oom, _ := os.ReadFile("/proc/self/oom_score_adj")
	s.OOM = strings.TrimSpace(string(oom))
	var p probe
	if line, err := bufio.NewReader(os.Stdin).ReadBytes('\n'); err == nil && json.Unmarshal(line, &p) == nil {
		s.try(p)
	}
	fatal("answer", json.NewEncoder(os.Stdout).Encode(s))
	os.Exit(0)
}

// try does what a person may not do to another.
func (s *state) try(p probe) {
	note := func(what string, err error) {
		s.Tried[what] = "done"
		if err != nil {
			s.Tried[what] = err.Error()
		}
	}
	opening := func(name string) error {
		file, err := os.Open(name)
		if err == nil {
			_, err = file.Read(make([]byte, 1))
			file.Close()
		}
		return err
	}
	if p.Pid != 0 {
		note("signal", unix.Kill(p.Pid, unix.SIGTERM))
		note("trace", unix.PtraceAttach(p.Pid))
		for _, name := range []string{"environ", "mem", "maps", "syscall", "fd/0", "cwd/x", "root/etc"} {
			note(name, opening(fmt.Sprintf("/proc/%d/%s", p.Pid, name)))
		}
	}
	if p.Shadow {
		note("secret", opening("/mnt/secret"))
		note("private", opening(homes+"bob/diary"))
		_, err := os.ReadDir(homes + "bob")
		note("list", err)
	}
}

// ready says on descriptor 1 that a role runs.
func ready() {
	_, err := unix.Write(1, []byte{1})
	fatal("ready", err)
}

// hold is the role of a process that does nothing, in a session of its own where its argument says so.
func hold() {
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	if len(os.Args) > 1 && os.Args[1] == "apart" {
		_, err := unix.Setsid()
		fatal("setsid", err)
	}
	ready()
	if len(os.Args) > 1 && os.Args[1] == "stopped" {
		fatal("stop", unix.Kill(os.Getpid(), unix.SIGSTOP))
	}
	for {
		_, _ = unix.Poll(nil, -1)
	}
}

// spin is the role of a process that ends everything else that its uid may end, over and over.
func spin() {
	ready()
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0)
	}
}

// lockThread keeps the goroutine on its thread, which ends with it.
func lockThread() { runtime.LockOSThread() }
