package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A table is a set of commands that are measured against each other.
type table struct {
	name     string
	title    string
	base     string // the command that ratios and differences are taken against
	rounds   int    // at most so many rounds; 0 is no limit
	commands []command
	targets  []target
	skipped  []string // peers that this machine does not have, and why
	special  func(b *bench, rounds int) ([]row, error)
	cells    []cell   // columns without a number
	broken   []string // seals of Bourn's that do not hold
	bytes    int64    // what is moved: then a rate is printed
}

// A command is one row of a table.
type command struct {
	name string
	args []string // args[0] is an absolute path
	dir  string   // "" is the project
	// refused is a command that must fail, and would succeed without the seal.
	refused []string
	allowed []string // a command that must succeed, where refused alone would prove little
	timed   bool     // it prints its own wall time, see timeWork
	env     []string // beside the bench's own
	peer    bool     // not Bourn's: where it fails, the others go on
}

// A target is what the project promises of one command. Zero fields promise
// nothing.
type target struct {
	command  string
	maxMS    float64 // median wall time
	ratio    float64 // median of the ratios to the command against
	extraMS  float64 // median of the differences to the command against
	against  string
	memoryMB float64
}

// A sample is one run of one command.
type sample struct {
	wall time.Duration
	cpu  time.Duration // user and system, waited-for descendants included
	rss  int64         // KiB, the peak of the largest process
}

var errInterrupted = errors.New("interrupted")

// measure runs the table: each command once to see that it works, the warm-up,
// then the rounds.
func (t *table) measure(b *bench, warmup, rounds int) (tableResult, error) {
	result := tableResult{Name: t.name, Title: t.title, Base: t.base, Skipped: t.skipped, Cells: t.cells, Bytes: t.bytes}
	if t.special != nil {
		rows, err := t.special(b, rounds)
		result.Rows, result.Skipped, result.Cells, result.Broken = rows, t.skipped, t.cells, t.broken
		t.judge(&result, nil)
		return result, err
	}
	if t.rounds > 0 {
		rounds = min(rounds, t.rounds)
	}
	commands := t.working(b, &result)
	samples := map[string][]sample{}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection in the timed part
	result.Floor = procValue(os.Getpid(), "status", "VmHWM")
	for round := range warmup + rounds {
		for _, i := range rand.Perm(len(commands)) {
			if b.interrupted.Load() {
				return result, errInterrupted
			}
			if result.without(commands[i].name) {
				continue
			}
			s, err := b.once(commands[i])
			for try := 1; err != nil && commands[i].peer && try < tries; try++ {
				result.Notes = append(result.Notes, cell{commands[i].name, "repeated", fmt.Sprintf("in round %d: %v", round, err)})
				s, err = b.once(commands[i])
			}
			if err != nil && commands[i].peer {
				result.Cells = append(result.Cells, cell{commands[i].name, "fails", fmt.Sprintf("%d times in round %d: %v", tries, round, err)})
				continue
			}
			if err != nil {
				return result, fmt.Errorf("cannot run %s in round %d: %w", commands[i].name, round, err)
			}
			if round >= warmup {
				samples[commands[i].name] = append(samples[commands[i].name], s)
			}
		}
	}
	for _, c := range commands {
		if result.without(c.name) {
			continue
		}
		result.Rows = append(result.Rows, summarise(c.name, samples[c.name], samples[t.base]))
	}
	t.judge(&result, samples)
	return result, nil
}

// tries is how often a peer may be started for one number: what breaks off now and then
// is noted, not left out.
const tries = 3

// working returns the commands that run here and keep what they promise; the
// others go to result, each with its reason.
func (t *table) working(b *bench, result *tableResult) []command {
	var commands []command
	for _, c := range t.commands {
		out, err := b.try(c, c.args)
		if c.peer {
			if without := b.checkPeer(c, out, err); without != nil {
				result.Cells = append(result.Cells, *without)
				continue
			}
			commands = append(commands, c)
			continue
		}
		if err != nil {
			result.Skipped = append(result.Skipped, fmt.Sprintf("%s: %v%s", c.name, err, firstLine(out)))
			continue
		}
		if c.refused != nil {
			if _, err := b.try(c, c.refused); err == nil {
				result.Broken = append(result.Broken, fmt.Sprintf("%s: not refused: %s", c.name, b.tail(c.refused)))
				continue
			}
		}
		commands = append(commands, c)
	}
	return commands
}

// checkPeer returns what stands for a peer that does not run, or does not do what the
// table asks of it: a time for less work is none.
func (b *bench) checkPeer(c command, out []byte, err error) *cell {
	if err != nil {
		return &cell{c.name, "fails", err.Error() + firstLine(out)}
	}
	if c.allowed != nil {
		if out, err := b.try(c, c.allowed); err != nil {
			return &cell{c.name, "fails", fmt.Sprintf("refuses what it should allow, %s: %v%s", b.tail(c.allowed), err, firstLine(out))}
		}
	}
	if c.refused != nil {
		if _, err := b.try(c, c.refused); err == nil {
			return &cell{c.name, "not kept", "not refused: " + b.tail(c.refused)}
		}
	}
	return nil
}

// tail is the end of a command line, where it says what it is about.
func (b *bench) tail(args []string) string {
	return strings.ReplaceAll(strings.Join(args[len(args)-2:], " "), b.dir+"/", "")
}

// once runs c with its streams at /dev/null and returns what it took.
func (b *bench) once(c command) (sample, error) {
	out := b.null
	if c.timed {
		r, w, err := os.Pipe()
		if err != nil {
			return sample{}, err
		}
		defer r.Close()
		defer w.Close()
		b.answer, out = r, w
	}
	said, err := os.Create(filepath.Join(b.dir, "stderr")) // a pipe might fill
	if err != nil {
		return sample{}, err
	}
	defer said.Close()
	attr := &os.ProcAttr{Dir: b.dirOf(c), Env: b.envOf(c), Files: []*os.File{b.null, out, said}}
	start := time.Now()
	process, err := os.StartProcess(c.args[0], c.args, attr)
	if err != nil {
		return sample{}, err
	}
	insist := time.AfterFunc(patience, func() { _ = process.Kill() })
	defer insist.Stop()
	state, err := process.Wait()
	wall := time.Since(start)
	if err != nil {
		return sample{}, err
	}
	if !state.Success() {
		text, _ := os.ReadFile(said.Name())
		return sample{}, fmt.Errorf("%s%s", state, firstLine(text))
	}
	if c.timed {
		line := make([]byte, 64) // a pipe holds more
		n, err := b.answer.Read(line)
		if err != nil {
			return sample{}, err
		}
		if wall, err = time.ParseDuration(strings.TrimSpace(string(line[:n]))); err != nil {
			return sample{}, err
		}
	}
	return sample{wall: wall, cpu: state.UserTime() + state.SystemTime(), rss: maxRSS(state)}, nil
}

// timedMode is the first argument of this program as the timer of work.
const timedMode = "timed-work"

// timedRuns is how often the timer does the work.
const timedRuns = 5

// timeWork does the work of args and prints the median of how long it took.
func timeWork(args []string) error {
	var took []float64
	for range timedRuns {
		start := time.Now()
		if err := exec.Command(args[0], args[1:]...).Run(); err != nil {
			return err
		}
		took = append(took, float64(time.Since(start)))
	}
	_, err := fmt.Println(time.Duration(median(took)))
	return err
}

// patience is how long a command may take before it counts as hung.
const patience = 2 * time.Minute

func (b *bench) envOf(c command) []string { return slices.Concat(b.env, c.env) }

// try runs args as c would be, and returns what they printed.
func (b *bench) try(c command, args []string) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = b.dirOf(c), b.envOf(c), time.Second
	return cmd.CombinedOutput()
}

func (b *bench) dirOf(c command) string {
	if c.dir != "" {
		return c.dir
	}
	return b.project
}

// maxRSS returns the peak resident set in KiB.
func maxRSS(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return int64(usage.Maxrss)
}

func firstLine(out []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	if len(line) == 0 {
		return ""
	}
	return " (" + string(line) + ")"
}
