package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// memory starts each command, waits until what it sealed has printed a line, and
// reads what the processes hold. The commands sleep and are then ended.
func (b *bench) memory(t *table, commands []command, rounds int) ([]row, error) {
	var rows []row
	for _, c := range commands {
		var peak, now, all []float64
		for range rounds {
			if b.interrupted.Load() {
				return rows, errInterrupted
			}
			held, err := b.hold(c)
			if err != nil {
				if c.peer {
					t.cells = append(t.cells, cell{c.name, "fails", err.Error()})
				} else {
					t.skipped = append(t.skipped, fmt.Sprintf("%s: %v", c.name, err))
				}
				break
			}
			peak, now, all = append(peak, held.peak), append(now, held.now), append(all, held.all)
		}
		if len(peak) > 0 {
			rows = append(rows, row{Name: c.name, Rounds: len(peak), RSS: median(peak), Resident: median(now), Tree: median(all)})
		}
	}
	return rows, nil
}

// sleeping is the command that is held. It is known by its name and time.
func sleeping(b *bench) []string {
	return []string{b.path("sh"), "-c", "echo ready; exec sleep 20.125"}
}

// held is memory in MB: the parent's peak and present resident set, and the
// proportional share of all that was started but the sleeping command.
type held struct{ peak, now, all float64 }

func (b *bench) hold(c command) (held, error) {
	// What leaves its parent comes to this process, and is counted and ended too.
	if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return held{}, errno
	}
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Env = b.dirOf(c), b.envOf(c)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return held{}, err
	}
	if err := cmd.Start(); err != nil {
		return held{}, err
	}
	before := map[int]bool{}
	for _, p := range descendants(os.Getpid()) {
		before[p] = p != cmd.Process.Pid
	}
	defer end(cmd, before)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		return held{}, fmt.Errorf("did not start: printed %q (%v)", line, err)
	}
	pid := cmd.Process.Pid
	others, err := besideSleeper(before)
	if err != nil {
		return held{}, err
	}
	h := held{peak: procValue(pid, "status", "VmHWM"), now: procValue(pid, "status", "VmRSS")}
	for _, p := range others {
		h.all += procValue(p, "smaps_rollup", "Pss")
	}
	return h, nil
}

const prSetChildSubreaper = 36 // prctl(2)

// besideSleeper waits until the shell has become the sleeping command, and returns the
// processes that run beside it for its sake.
func besideSleeper(before map[int]bool) ([]int, error) {
	for range 1000 {
		var others []int
		found := false
		for _, p := range descendants(os.Getpid()) {
			args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
			switch {
			case err != nil || before[p]:
			case string(args) == "sleep\x0020.125\x00":
				found = true
			default:
				others = append(others, p)
			}
		}
		if found {
			return others, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, fmt.Errorf("the command does not sleep")
}

// end asks the command to stop and insists after five seconds, then on what it left.
func end(cmd *exec.Cmd, before map[int]bool) {
	cmd.Process.Signal(os.Interrupt)
	insist := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
	defer insist.Stop()
	cmd.Wait()
	for _, p := range descendants(os.Getpid()) {
		if before[p] {
			continue
		}
		if left, err := os.FindProcess(p); err == nil {
			_ = left.Kill()
			_, _ = left.Wait() // the grandchildren that came to this process; others fail here
		}
	}
}

// procValue returns the first line `key: N kB` of a file in /proc/pid, in MB.
func procValue(pid int, file, key string) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == key+":" {
			kb, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				return 0
			}
			return kb / 1024
		}
	}
	return 0
}

// descendants returns the processes below pid.
func descendants(pid int) []int {
	children := map[int][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	for _, name := range stats {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (comm) state ppid …, and comm may hold anything: see proc(5).
		text := string(data)
		fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
		child, err1 := strconv.Atoi(strings.Split(name, "/")[2])
		if len(fields) < 2 || err1 != nil {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	var found []int
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		found = append(found, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return found
}
