package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bourn"
	"bourn/internal/launch"
)

// How long it may take until what was killed is gone: the kernel ends a whole pid
// namespace, and a process that waits for a disk waits on.
const (
	endTime  = 3 * time.Second
	killTime = 10 * time.Second
)

// stopTick is how often the process table is looked at meanwhile.
const stopTick = 10 * time.Millisecond

// StopOptions say what is to be stopped.
type StopOptions struct {
	Grace time.Duration // between TERM and KILL
	All   bool          // runs that a person has started, too
}

// A StopOutcome says what a stop has ended.
type StopOutcome struct {
	Background bool // it was in the background
	ByHand     int  // runs started by hand that were ended
	Left       int  // runs started by hand that go on
	Killed     bool // the grace was not enough
}

// Stop ends an agent that is in the background, and with All every run of it. It returns
// when nothing of that is in the process table; that an agent does not run is no error.
func (h *Home) Stop(name bourn.AgentName, o StopOptions) (StopOutcome, error) {
	if _, err := os.Lstat(h.agent(name)); err != nil {
		return StopOutcome{}, h.noProfile(name, err)
	}
	keeper, err := h.Service(name)
	if err != nil {
		return StopOutcome{}, err
	}
	s := &stopper{home: h, name: name, keeper: keeper, all: o.All, since: h.idNow(), seen: map[string]*seenRun{}}
	// Before the keeper is signalled, since then no process may be left that tells what is its.
	if err := s.look(); err != nil {
		return StopOutcome{}, err
	}
	if keeper != nil {
		s.err = errors.Join(s.err, ignoreDone(signal(keeper.Pid, keeper.StartTime, launch.Terminate)))
	}
	killed, err := s.end(o.Grace)
	out := s.count()
	out.Killed = killed
	if err != nil {
		return out, err
	}
	_, err = h.Service(name) // removes the file of a keeper that was killed
	return out, err
}

// A stopper watches runs end.
type stopper struct {
	home   *Home
	name   bourn.AgentName
	keeper *Service
	all    bool
	since  string              // as a run's id: what began later is left alone
	seen   map[string]*seenRun // by the file's name
	err    error               // of a signal
}

type seenRun struct {
	Record
	byHand bool
	asked  bool // to end
	ended  bool
}

func (h *Home) idNow() string { return h.now().UTC().Format(runTimeLayout) }

// look reads the records that are new and asks the runs that are to end. A record that
// cannot be read is an error where every run is to be stopped.
func (s *stopper) look() error {
	names, err := s.home.recordNames(s.name)
	if err != nil {
		return err
	}
	for _, file := range names {
		if r := s.seen[file]; r != nil {
			r.ended = r.ended || !r.Live()
			continue
		}
		r, err := readHead(filepath.Join(s.home.runsDir(s.name), file))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil && s.all:
			return fmt.Errorf("cannot tell whether a run lives: %w", err)
		case err != nil:
			continue
		}
		r.Run = strings.TrimSuffix(file, ".json")
		run := &seenRun{Record: r, ended: !r.Live()}
		s.seen[file] = run
		run.byHand = s.keeper == nil || !below(r.Pid, s.keeper.Pid) && !orphan(r.Pid)
		if !run.ended && run.byHand && s.wanted(run) {
			run.asked = true
			s.err = errors.Join(s.err, ignoreDone(terminate(r)))
		}
	}
	return nil
}

// wanted reports whether a run is to end.
func (s *stopper) wanted(r *seenRun) bool { return !r.byHand || s.all && r.Run < s.since }

// end waits until all is still, and helps where the time is over.
func (s *stopper) end(grace time.Duration) (killed bool, err error) {
	still, err := s.wait(grace)
	if still || err != nil {
		return false, err
	}
	if s.keeper != nil {
		_ = signal(s.keeper.Pid, s.keeper.StartTime, launch.EndNow)
	}
	for _, r := range s.left() {
		if r.byHand {
			_ = kill(r.Record)
		}
	}
	if still, err = s.wait(endTime); still || err != nil {
		return true, err
	}
	if s.keeper != nil { // it does not answer
		_ = killTree(s.keeper.Pid, s.keeper.StartTime)
	}
	for _, r := range s.left() {
		_ = kill(r.Record)
	}
	if still, err = s.wait(killTime); still || err != nil {
		return true, err
	}
	return true, s.lives()
}

// wait waits until nothing is left, at most for a time.
func (s *stopper) wait(limit time.Duration) (bool, error) {
	tick := time.NewTicker(stopTick)
	defer tick.Stop()
	for end := time.Now().Add(limit); ; <-tick.C {
		kept := s.keeper == nil || !s.keeper.live() // before looking: it starts nothing more
		if err := s.look(); err != nil {
			return false, err
		}
		if kept && len(s.left()) == 0 {
			return true, nil
		}
		if time.Now().After(end) {
			return false, nil
		}
	}
}

func (s *stopper) left() []*seenRun {
	var left []*seenRun
	for _, r := range s.seen {
		if !r.ended && s.wanted(r) {
			left = append(left, r)
		}
	}
	return left
}

// lives is the error for what cannot be ended.
func (s *stopper) lives() error {
	pid := 0
	if s.keeper != nil && s.keeper.live() {
		pid = s.keeper.Pid
	}
	for _, r := range s.left() {
		pid = r.Pid
	}
	return errors.Join(bourn.WithHint(fmt.Errorf("%w: agent %q does not end: process %d still lives", bourn.ErrUnavailable, s.name, pid),
		"it may wait for a disk or the network: stop it again later"), s.err)
}

func (s *stopper) count() StopOutcome {
	out := StopOutcome{Background: s.keeper != nil}
	for _, r := range s.seen {
		switch {
		case r.asked:
			out.ByHand++
		case r.byHand && !r.ended:
			out.Left++
		}
	}
	return out
}
