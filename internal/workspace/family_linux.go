package workspace

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// callVariable marks what a call starts: its descendants inherit it.
const callVariable = "BOURN_CALL"

// A family is what an actor has started and what came of that. The actor adopts what its
// commands leave behind (PR_SET_CHILD_SUBREAPER), so that it can be told whose it was and
// ended with it: by its ancestors, by the call's mark in its environment, or by its session.
// What has left all three, on purpose, goes when no other call is running.
type family struct {
	// starting is held for reading while a child is forked and entered, and for writing while
	// children are told apart: none is taken for a stranger meanwhile.
	starting sync.RWMutex
	mu       sync.Mutex
	leaders  map[int]bool
	adopting bool
	sole     bool // see Actor.Sole
}

// adopt makes the process the parent of what its descendants leave behind. Sole is believed
// only where nobody else can be seen: on a host there is always somebody.
func (f *family) adopt(sole bool) {
	f.leaders = map[int]bool{}
	f.sole = sole && nobodyElse()
	if f.sole {
		// What it executes runs as the same user beside it, and would else trace it and judge in
		// its place (PR_SET_DUMPABLE(2const)); an exec makes that program traceable again.
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	f.adopting = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
}

func (f *family) start(cmd *exec.Cmd) error {
	f.starting.RLock()
	defer f.starting.RUnlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	f.mu.Lock()
	f.leaders[cmd.Process.Pid] = true
	f.mu.Unlock()
	return nil
}

// left ends what a call has left behind, its leader having been waited for.
func (f *family) left(leader int, mark string) {
	f.mu.Lock()
	delete(f.leaders, leader)
	f.mu.Unlock()
	f.sweep(leader, mark)
}

// end ends everything.
func (f *family) end() { f.sweep(0, "") }

// sweepFor is how long what was killed may take to go: longer only where the kernel itself
// is stuck with it.
const sweepFor = time.Second

func (f *family) sweep(leader int, mark string) {
	const least = 100 * time.Microsecond
	pause, killed := least, map[int]bool{}
	for until := time.Now().Add(sweepFor); time.Now().Before(until); time.Sleep(pause) {
		before := len(killed)
		if f.round(leader, mark, killed) == 0 {
			return
		}
		// What goes on starting others is not given the time to.
		if pause = min(2*pause, 20*time.Millisecond); len(killed) > before {
			pause = least
		}
	}
}

// round kills what is of a call and reaps what is dead, notes what it has killed, and returns
// how many were there.
func (f *family) round(leader int, mark string, killed map[int]bool) int {
	f.starting.Lock()
	defer f.starting.Unlock()
	f.mu.Lock()
	others := len(f.leaders)
	f.mu.Unlock()
	if f.adopting && others == 0 && !hasChildren() {
		return 0
	}
	if f.sole && others == 0 {
		return endAll()
	}
	all := processes()
	n := 0
	for _, p := range all.of(f, leader, mark) {
		if p.dead {
			if p.parent == os.Getpid() {
				_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
			}
			continue
		}
		n++
		killed[p.pid] = true
		_ = unix.Kill(p.pid, unix.SIGKILL)
	}
	return n
}

// endAll kills everything else in the pid namespace but its first process, which kill(2) leaves
// out, and reaps what is dead. It returns 1 where something is left. One step reaches all,
// so that nothing is started meanwhile.
func endAll() int {
	_ = unix.Kill(-1, unix.SIGKILL)
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // there is no child
			return 0
		case pid == 0:
			return 1
		}
	}
}

// nobodyElse reports whether nothing can be seen but this process and the namespace's first.
func nobodyElse() bool {
	all := processes()
	delete(all, 1)
	delete(all, os.Getpid())
	_, err := os.Stat("/proc/1/stat")
	return err == nil && len(all) == 0
}

// reap waits for what is dead and was adopted, while calls go on.
func (f *family) reap() {
	f.starting.Lock()
	defer f.starting.Unlock()
	for _, p := range processes() {
		if p.dead && p.parent == os.Getpid() && !f.leads(p.pid) {
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
		}
	}
}

// kill signals everything that is of a running call.
func (f *family) kill(leader int, mark string) {
	// What forks meanwhile is found in the next round, by its parent or its mark.
	for range 3 {
		_ = unix.Kill(-leader, unix.SIGKILL)
		f.starting.Lock()
		all := processes()
		n := 0
		for _, p := range append(all.of(f, leader, mark), all.below(leader)...) {
			if !p.dead {
				n++
				_ = unix.Kill(p.pid, unix.SIGKILL)
			}
		}
		f.starting.Unlock()
		if n == 0 {
			return
		}
	}
}

func (f *family) leads(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leaders[pid]
}

// hasChildren reports whether the process has any child at all.
func hasChildren() bool {
	return !errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
}

// A process is a line of /proc.
type process struct {
	pid, parent, session int
	dead                 bool
}

type processList map[int]process

// processes are all that this process can see.
func processes() processList {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make(processList, len(names))
	var buffer [512]byte
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := parseStat(pid, slurpProc("/proc/"+name+"/stat", buffer[:])); ok {
				all[pid] = p
			}
		}
	}
	return all
}

func slurpProc(at string, buffer []byte) []byte {
	fd, err := unix.Open(at, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, _ := unix.Read(fd, buffer)
	return buffer[:max(n, 0)]
}

// parseStat reads /proc/PID/stat (proc_pid_stat(5)). The name in it may hold anything.
func parseStat(pid int, line []byte) (process, bool) {
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return process{}, false
	}
	fields := strings.Fields(string(line[end+1:]))
	if len(fields) < 4 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	return process{pid, parent, session, fields[0] == "Z" || fields[0] == "X"}, err == nil && err2 == nil
}

// of are those that a call has left behind, and what is below them; with no call running,
// every child.
func (all processList) of(f *family, leader int, mark string) []process {
	self := os.Getpid()
	f.mu.Lock()
	running := len(f.leaders)
	if f.leaders[leader] {
		running--
	}
	f.mu.Unlock()
	var found []process
	for _, p := range all {
		switch {
		case p.pid == self || f.leads(p.pid):
		case p.parent == self && (running == 0 || p.dead || p.session == leader || marked(p.pid, mark)),
			p.parent != self && !f.adopting && leader != 0 && (p.session == leader || marked(p.pid, mark)):
			found = append(append(found, p), all.below(p.pid)...)
		}
	}
	return found
}

// below are the descendants of a process.
func (all processList) below(pid int) []process {
	var found []process
	for _, p := range all {
		for at, n := p.parent, 0; at > 1 && n < len(all); at, n = all[at].parent, n+1 {
			if at == pid {
				found = append(found, p)
				break
			}
		}
	}
	return found
}

// marked reports whether a process has a call's mark in its environment.
func marked(pid int, mark string) bool {
	if mark == "" {
		return false
	}
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+callVariable+"="+mark+"\x00"))
}
