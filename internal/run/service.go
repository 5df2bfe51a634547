package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bourn"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// An agent in the background has a keeper: a bourn process of a session of its own that
// starts the runs, writes what they say to the log, and with service: true in the profile
// starts the next one when a run has ended.
//
//	bourn agent start          keeper                                bourn run
//	─────────────────          ──────                                ─────────
//	lock, rotate the log
//	start it ────────────────→ wait for the word
//	service.json, go ────────→ is service.json mine?
//	unlock                     start the run, bound to this thread ─→ seal
//	                           ←─────────────────────────── report ── sealed
//	←──── sealed (first line)                                         … ends
//	      or failed (status)   wait 1 s … 60 s, start again, or end
//
// The phases of service.json, which the keeper writes alone once it has the word:
//
//	starting ──sealed──→ running ──ended──→ waiting ──time is over──→ starting
//	    └─────────────────┴──signal or deletion──┴──→ stopping ──→ (no file)
//
// The file is believed only while the keeper it names is in the process table: the same
// boot, pid and start, as [Record.Live] has it. A keeper that is killed takes its run along
// (PR_SET_PDEATHSIG), and the next command about the agent removes the file.

// serviceVersion is the version of service.json.
const serviceVersion = 1

// A Phase is where a keeper is.
type Phase string

// Phases, in the order in which they come.
const (
	PhaseStarting Phase = "starting" // a run is being sealed
	PhaseRunning  Phase = "running"
	PhaseWaiting  Phase = "waiting" // the run has ended, and the next start has a time
	PhaseStopping Phase = "stopping"
)

// A Service is an agent's keeper as service.json has it.
type Service struct {
	Version   int             `json:"version"`
	Agent     bourn.AgentName `json:"agent"`
	Pid       int             `json:"pid"`
	StartTime uint64          `json:"start_time"` // in clock ticks since boot
	BootID    string          `json:"boot_id"`
	Command   []string        `json:"command"`            // instead of the profile's; empty for that
	Proposal  string          `json:"proposal,omitempty"` // as Options has it
	Since     time.Time       `json:"since"`
	Restarts  int             `json:"restarts"`
	Phase     Phase           `json:"phase"`
	Run       string          `json:"run,omitempty"`   // that lives, or lived last
	Ended     *Ending         `json:"ended,omitempty"` // how the last run ended
	Next      *time.Time      `json:"next,omitempty"`  // of the next start, while waiting
}

// An Ending is how a run ended: its command's own end, or that of bourn run.
type Ending struct {
	Status int       `json:"status"`
	Signal int       `json:"signal,omitempty"`
	At     time.Time `json:"at"`
}

func (e Ending) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d", e.Signal)
	}
	return fmt.Sprintf("status %d", e.Status)
}

// ExitStatus is the status with which a command that stands for the run exits.
func (e Ending) ExitStatus() int {
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Status
}

func (h *Home) servicePath(name bourn.AgentName) string {
	return filepath.Join(h.agent(name), "service.json")
}

// lockService takes the lock under which a service begins and stale files go. No process
// holds it while a run goes on. An agent that is not there is ErrNotFound.
func (h *Home) lockService(name bourn.AgentName) (unlock func(), err error) {
	unlock, err = lockedfile.MutexAt(filepath.Join(h.agent(name), ".service.lock")).Lock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, h.noProfile(name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock agent %q: %w", name, err)
	}
	return unlock, nil
}

// Service returns what keeps an agent in the background, or nil. What killed keepers have
// left is removed.
func (h *Home) Service(name bourn.AgentName) (*Service, error) {
	s, err := h.readService(name)
	if s == nil || err != nil || s.live() {
		return s, err
	}
	unlock, err := h.lockService(name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return h.serviceLocked(name)
}

// serviceLocked is Service for a caller that holds the lock: only then is a file that was
// stale a moment ago known to be the same.
func (h *Home) serviceLocked(name bourn.AgentName) (*Service, error) {
	s, err := h.readService(name)
	if err != nil || s != nil && s.live() {
		return s, err
	}
	left, _ := filepath.Glob(filepath.Join(h.agent(name), ".service.json.*"))
	if s != nil {
		left = append(left, h.servicePath(name))
	}
	for _, at := range left {
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot remove what a killed process has left: %w", err)
		}
	}
	return nil, nil
}

// readService reads service.json, whether it is stale or not; nil for none.
func (h *Home) readService(name bourn.AgentName) (*Service, error) {
	var s Service
	err := readJSON(h.servicePath(name), &s, &s.Version, serviceVersion)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot tell whether agent %q runs in the background: service.json: %w", name, err),
			"remove "+h.servicePath(name)+" if it does not")
	}
	return &s, nil
}

func (h *Home) writeService(s Service) error { return writeJSON(h.servicePath(s.Agent), s) }

func (s Service) live() bool {
	return Record{Pid: s.Pid, StartTime: s.StartTime, BootID: s.BootID}.Live()
}

// canDeleteService is ErrConflict for an agent that has a keeper, also while no run of it
// lives.
func (h *Home) canDeleteService(name bourn.AgentName) error {
	s, err := h.Service(name)
	if err != nil || s == nil {
		return err
	}
	return bourn.WithHint(fmt.Errorf("%w: agent %q is running in the background (process %d)", bourn.ErrConflict, name, s.Pid),
		"bourn agent stop "+string(name))
}

// States of an agent.
const (
	Starting   = "starting"
	Running    = "running"
	Restarting = "restarting" // a run has ended, and the next start is waited for
	Stopping   = "stopping"
	Stopped    = "stopped"
	Unknown    = "unknown"
)

// An Activity says what an agent does now.
type Activity struct {
	State    string     `json:"state"`
	How      string     `json:"how,omitempty"`      // "background" or "by hand"
	Since    *time.Time `json:"since,omitempty"`    // the background's start, or the newest run's
	ByHand   int        `json:"by_hand"`            // live runs that a person has started
	Pid      int        `json:"pid,omitempty"`      // of the keeper
	Restarts int        `json:"restarts,omitempty"` // by the keeper
	Ended    *Ending    `json:"ended,omitempty"`    // the last run of the keeper
	Next     *time.Time `json:"next,omitempty"`     // start
}

// Activity says what an agent does now. With an error its state is Unknown.
func (h *Home) Activity(name bourn.AgentName) (Activity, error) {
	unknown := Activity{State: Unknown}
	s, err := h.Service(name)
	if err != nil {
		return unknown, err
	}
	live, unreadable, err := h.Live(name)
	if err != nil {
		return unknown, err
	}
	a := Activity{State: Stopped}
	if s != nil {
		a = s.activity()
	}
	for _, r := range live {
		if slices.ContainsFunc(live, func(o Record) bool { return o.Run == r.Parent }) {
			continue // it runs as long as that does
		}
		if s != nil && below(r.Pid, s.Pid) {
			continue
		}
		if s != nil && (orphan(r.Pid) || !r.Live()) {
			continue // it has lost its keeper just now
		}
		if a.ByHand++; s == nil && a.ByHand == 1 {
			a.State, a.How, a.Since = Running, "by hand", runTime(r.Run)
		}
	}
	if a.State == Stopped && unreadable != nil {
		return unknown, nil
	}
	return a, nil
}

func (s Service) activity() Activity {
	a := Activity{How: "background", Since: &s.Since, Pid: s.Pid, Restarts: s.Restarts, Ended: s.Ended, Next: s.Next}
	switch s.Phase {
	case PhaseStarting:
		a.State = Starting
		if s.Restarts > 0 {
			a.State = Restarting
		}
	case PhaseRunning:
		a.State = Running
	case PhaseWaiting:
		a.State = Restarting
	case PhaseStopping:
		a.State = Stopping
	}
	return a
}

// runTime is the time that a run's id begins with.
func runTime(id string) *time.Time {
	if len(id) < len(runTimeLayout) {
		return nil
	}
	t, err := time.ParseInLocation(runTimeLayout, id[:len(runTimeLayout)], time.UTC)
	if err != nil {
		return nil
	}
	return &t
}

// runTimeLayout is how newRunID writes the time.
const runTimeLayout = "20060102T150405.000"
