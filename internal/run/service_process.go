package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bourn/internal/launch"
)

// proc is a path below a process's directory in /proc.
func proc(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// parent returns the parent of a process: field 4 of its stat (proc_pid_stat(5)).
func parent(pid int) (int, error) {
	data, err := os.ReadFile(proc(pid, "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 2 {
		return 0, fmt.Errorf("cannot read the parent of process %d", pid)
	}
	return strconv.Atoi(fields[1])
}

// below reports whether a run's process belongs to a keeper: the keeper starts bourn run,
// which is recorded itself when it runs unsealed, and that starts pid 1.
func below(pid, keeper int) bool {
	for range 2 {
		up, err := parent(pid)
		if err != nil {
			return false
		}
		if up == keeper {
			return true
		}
		pid = up
	}
	return false
}

// orphan reports whether a sealed run has lost the process that sees to it from outside:
// it is about to end.
func orphan(pid int) bool {
	if name := argv0(pid); name != launch.Role && name != "" { // "" has given its memory back
		return false
	}
	up, err := parent(pid)
	return err != nil || !sameProgram(pid, up)
}

// signal sends a signal to the process that started at a time and has a pid. It is sent
// through a descriptor of the process where the system has such, so that it cannot reach
// another one that has the pid by then.
func signal(pid int, start uint64, sig os.Signal) error {
	return signalIf(pid, sig, func() bool {
		now, err := startTime(pid)
		return err == nil && now == start
	})
}

func signalIf(pid int, sig os.Signal, is func() bool) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer p.Release()
	if !is() {
		return os.ErrProcessDone
	}
	return p.Signal(sig)
}

// terminate asks a run to end, so that its command gets TERM: the signal goes to the
// process that sees to it from outside.
func terminate(r Record) error {
	if argv0(r.Pid) != launch.Role {
		return signal(r.Pid, r.StartTime, launch.Terminate) // unsealed: the record names bourn run itself
	}
	outer, err := parent(r.Pid)
	if err != nil {
		return err
	}
	return signalIf(outer, launch.Terminate, func() bool {
		// A run whose launcher has ended has another parent for the moment until it is gone.
		now, err := parent(r.Pid)
		return err == nil && now == outer && r.Live() && sameProgram(r.Pid, outer)
	})
}

// kill ends a run. The kernel ends what is inside with its pid 1; of a run that is not
// sealed only what is still below it is found.
func kill(r Record) error {
	if argv0(r.Pid) == launch.Role {
		return signal(r.Pid, r.StartTime, os.Kill)
	}
	return killTree(r.Pid, r.StartTime)
}

// killTree kills a process and what is below it.
func killTree(pid int, start uint64) error {
	if now, err := startTime(pid); err != nil || now != start {
		return os.ErrProcessDone
	}
	all := children(pid)
	err := signal(pid, start, os.Kill)
	for _, c := range all {
		if start, startErr := startTime(c); startErr == nil {
			err = errors.Join(err, ignoreDone(killTree(c, start)))
		}
	}
	return err
}

func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// children returns the children of a process (proc_tid_children(5)).
func children(pid int) []int {
	var all []int
	lists, _ := filepath.Glob(proc(pid, "task/*/children"))
	for _, at := range lists {
		data, _ := os.ReadFile(at)
		for _, f := range strings.Fields(string(data)) {
			if c, err := strconv.Atoi(f); err == nil {
				all = append(all, c)
			}
		}
	}
	return all
}

// executed reports whether a run's command has taken the place of bourn's own process. Until
// its execve it borrows its parent's memory, and so its name.
func executed(outer int) bool {
	own := argv0(outer)
	for _, c := range children(outer) {
		for _, p := range append(children(c), c) {
			if name := argv0(p); name != "" && name != own && name != launch.Role {
				return true
			}
		}
	}
	return false
}

func argv0(pid int) string {
	data, _ := os.ReadFile(proc(pid, "cmdline"))
	name, _, _ := strings.Cut(string(data), "\x00")
	return name
}

// sameProgram reports whether two processes execute the same file.
func sameProgram(a, b int) bool {
	x, errX := os.Stat(proc(a, "exe"))
	y, errY := os.Stat(proc(b, "exe"))
	return errX == nil && errY == nil && os.SameFile(x, y)
}
