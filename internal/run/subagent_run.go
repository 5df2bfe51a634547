package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"bourn"
	"bourn/internal/launch"
	"bourn/internal/worker"
)

// A subagent is a planned run that does a job.
type subagent struct {
	*Prepared
	job   worker.Job
	root  *os.File // held, so that its number is no other directory's meanwhile
	stdin bool     // the command reads the task from its standard input
	to    *artifacts
}

// Drop lets go what the plan holds.
func (s *subagent) Drop() { s.root.Close() }

// Run starts the run and returns when it has ended with everything that it started.
func (s *subagent) Run(ctx context.Context, started func(), out func(worker.Stream, []byte)) (worker.Ended, error) {
	defer s.root.Close()
	// Once more, since it was planned: the directory has to stand where it did.
	now, err := s.job.Root.Open()
	if err != nil {
		return worker.Ended{}, err
	}
	now.Close()
	s.origin.end = ctx.Done()
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
			files = append(files, r, w)
		}
		return r, w
	}
	streams, writes := Streams{}, []*os.File{}
	var all sync.WaitGroup
	spills := []*spill{{to: s.to, name: s.origin.run + ".out"}, {to: s.to, name: s.origin.run + ".err"}}
	for i, to := range []**os.File{&streams.Out, &streams.Err} {
		r, w := pipe()
		*to, writes = w, append(writes, w)
		all.Go(func() { drain(r, spills[i], func(b []byte) { out(worker.Stream(i+1), b) }) })
	}
	if s.stdin {
		r, w := pipe()
		streams.In, writes = r, append(writes, r)
		all.Go(func() { feed(w, s.job.Work.Task) })
	}
	var outcome Outcome
	if err == nil {
		outcome, err = s.Prepared.Run(streams, func(Report) { started() }, false)
	}
	for _, f := range writes { // what reads from them reads to the end, what writes stops
		f.Close()
	}
	all.Wait()
	ended := s.ended(outcome, spills)
	switch {
	case err != nil && ctx.Err() != nil:
		return ended, worker.ErrEnded
	case errors.Is(err, launch.ErrCommandNotFound), errors.Is(err, launch.ErrCommandNotExecutable):
		return ended, bourn.WithHint(fmt.Errorf("%w: %w", bourn.ErrInvalid, err), "the command is the profile's: ask a person")
	case err != nil:
		return ended, err
	case outcome.Ended:
		return ended, worker.ErrEnded
	}
	return ended, nil
}

// drain hands on what a stream says, until its other end is closed.
func drain(r *os.File, keep *spill, out func([]byte)) {
	if r == nil {
		return
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		keep.add(buf[:n])
		if n > 0 {
			out(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// feed writes a task, and closes what it writes to. Whoever does not read it has it all the
// same: it goes when the run has ended.
func feed(w *os.File, task string) {
	if w == nil {
		return
	}
	_, _ = io.WriteString(w, task)
	w.Close()
}

const (
	maxWhole = 32 << 20 // bytes of a stream that are kept in a file
	maxLines = 20       // refusals, and notes, of a child that its caller is told
)

// ended is what a caller is told of a run's end.
func (s *subagent) ended(o Outcome, spills []*spill) worker.Ended {
	e := worker.Ended{Status: o.Status, TimedOut: o.TimedOut}
	if o.Signal != 0 {
		e.Signal = fmt.Sprintf("signal %d", o.Signal)
	}
	for _, k := range spills {
		if k.file != nil {
			k.file.Close()
			e.Files = append(e.Files, k.path)
		}
		if k.note != "" {
			e.Notes = append(e.Notes, k.note)
		}
	}
	for i, r := range o.Refusals {
		if i == maxLines {
			e.Refusals = append(e.Refusals, fmt.Sprintf("and %d more", len(o.Refusals)-i+o.NotKept))
			break
		}
		e.Refusals = append(e.Refusals, bourn.Printable(fmt.Sprintf("%s %s: %s", r.Operation, r.Target, r.Reason)))
	}
	for i, n := range o.Notes {
		if i == maxLines {
			e.Notes = append(e.Notes, fmt.Sprintf("and %d more", len(o.Notes)-i))
			break
		}
		e.Notes = append(e.Notes, bourn.Printable(n))
	}
	return e
}

// A spill keeps a stream in a file once it is longer than what is answered.
type spill struct {
	to   *artifacts
	name string
	path string
	file *os.File
	held []byte
	size int
	full bool // nothing more is kept
	note string
}

func (k *spill) add(b []byte) {
	if k.full || len(b) == 0 {
		return
	}
	if k.file == nil {
		if len(k.held)+len(b) <= worker.Tail {
			k.held = append(k.held, b...)
			return
		}
		b = append(k.held, b...)
		k.held = nil
		if !k.create() {
			return
		}
	}
	if over := k.size + len(b) - maxWhole; over > 0 {
		b = b[:len(b)-over]
		k.stop(fmt.Sprintf("%s has the first %d bytes: no more is kept", k.path, maxWhole))
	}
	n, err := k.file.Write(b)
	k.size += n
	if err != nil {
		k.stop(fmt.Sprintf("%s is not whole: %v", k.path, err))
	}
}

func (k *spill) create() bool {
	if k.to == nil {
		k.stop("the rest of a long output is not kept: a run without an agent has no place for it")
		return false
	}
	var err error
	if k.file, k.path, err = k.to.create(k.name); err != nil {
		k.stop(fmt.Sprintf("the rest of a long output is not kept: %v", err))
		return false
	}
	return true
}

func (k *spill) stop(note string) { k.full, k.note = true, bourn.Printable(note) }
