package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"bourn"
	"bourn/internal/policy"
)

// recordVersion is the version of a record's format.
const recordVersion = 1

// keptRecords is how many records stay on disk for each agent.
const keptRecords = 20

// A Record says what the seal of one run holds. It is written when the seal holds and
// before the command's first instruction; whether the run still lives is read from the
// process table, so that a record never claims more than is there.
type Record struct {
	Version       int             `json:"version"`
	Run           string          `json:"run"`
	Agent         bourn.AgentName `json:"agent"`
	Pid           int             `json:"pid"`        // pid 1 of the sealed run, as seen outside
	StartTime     uint64          `json:"start_time"` // its start, in clock ticks since boot (proc_pid_stat(5))
	BootID        string          `json:"boot_id"`
	Writes        []string        `json:"writes"` // what it could write, before the items so that it is read quickly
	Generation    string          `json:"generation"`
	ProfileDigest string          `json:"profile_digest"`
	Boundaries    int64           `json:"boundaries,omitempty"` // the version of the hard blocks, 0 for none
	Parent        string          `json:"parent,omitempty"`     // the run that it works for
	Sandbox       policy.Sandbox  `json:"sandbox"`
	Items         []policy.Item   `json:"items"`
	Refusals      []Refusal       `json:"refusals,omitempty"` // once the run has ended
	NotKept       int             `json:"refusals_not_kept,omitempty"`
}

func (h *Home) runsDir(name bourn.AgentName) string { return filepath.Join(h.base(name), "runs") }

// newRecord fills in what is known of the process that holds the seal.
func newRecord(runID string, agent bourn.AgentName, pid int) (Record, error) {
	start, err := startTime(pid)
	if err != nil {
		return Record{}, fmt.Errorf("cannot record the run: %w", err)
	}
	boot, err := bootID()
	if err != nil {
		return Record{}, fmt.Errorf("cannot record the run: %w", err)
	}
	return Record{Version: recordVersion, Run: runID, Agent: agent, Pid: pid, StartTime: start, BootID: boot}, nil
}

// draft writes the record beside its place; committing it is what records the run. It is
// not settled on disk: after a power loss the run is gone as well, and a start should not
// wait for a disk.
func (h *Home) draft(r Record) (*draft, error) {
	dir := h.runsDir(r.Agent)
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	at := filepath.Join(dir, r.Run+".json")
	d, err := newDraft(at, append(data, '\n'), 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			d, err = newDraft(at, append(data, '\n'), 0o600)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot record the run: %w", err)
	}
	return d, nil
}

// prune keeps the newest records. Names begin with the time, so they sort by age.
func (h *Home) prune(name bourn.AgentName) error {
	names, err := h.recordNames(name)
	if err != nil {
		return err
	}
	h.removeDrafts(name)
	for len(names) > keptRecords {
		at := filepath.Join(h.runsDir(name), names[0])
		// One that cannot be read stays: it may be that of a run that lives.
		if r, err := readHead(at); err == nil && !r.Live() {
			if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cannot remove an old record: %w", err)
			}
		}
		names = names[1:]
	}
	return nil
}

// removeDrafts removes records that were being written by runs that were killed.
func (h *Home) removeDrafts(name bourn.AgentName) {
	left, err := filepath.Glob(filepath.Join(h.runsDir(name), ".*.json.*"))
	if err != nil {
		return
	}
	for _, at := range left {
		if r, err := readHead(at); err == nil && !r.Live() {
			_ = os.Remove(at)
		}
	}
}

// recordNames returns the file names of an agent's records, oldest first.
func (h *Home) recordNames(name bourn.AgentName) ([]string, error) {
	entries, err := os.ReadDir(h.runsDir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the records of runs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

// readHead reads what says whether a record's run lives and what it could write, which
// stands before its items: a record can be large, and some are looked at in each start.
func readHead(path string) (Record, error) {
	var r Record
	f, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	if _, err := dec.Token(); err != nil {
		return r, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return r, err
		}
		var target any = new(json.RawMessage)
		switch key {
		case "pid":
			target = &r.Pid
		case "start_time":
			target = &r.StartTime
		case "boot_id":
			target = &r.BootID
		case "writes":
			return r, dec.Decode(&r.Writes)
		}
		if err := dec.Decode(target); err != nil {
			return r, err
		}
	}
	return r, fmt.Errorf("cannot read record %q: it is incomplete", path)
}

func readRecord(path string) (Record, error) {
	var r Record
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("cannot read record %q: %w", path, err)
	}
	if r.Version != recordVersion {
		return r, fmt.Errorf("cannot read record %q: version %d is not known", path, r.Version)
	}
	return r, nil
}

// Live returns the records of an agent's runs that live, newest first, and those that work
// for another run behind the others. A record that cannot be read is unreadable, not absent: it may be that of a run that lives.
func (h *Home) Live(name bourn.AgentName) (live []Record, unreadable error, err error) {
	names, err := h.recordNames(name)
	if err != nil {
		return nil, nil, err
	}
	for i := len(names) - 1; i >= 0; i-- {
		r, err := readRecord(filepath.Join(h.runsDir(name), names[i]))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			unreadable = err
		case r.Live():
			live = append(live, r)
		}
	}
	slices.SortStableFunc(live, func(a, b Record) int { return cmp.Compare(min(len(a.Parent), 1), min(len(b.Parent), 1)) })
	return live, unreadable, nil
}

// Live reports whether the process that holds the seal still runs: the same boot, the
// same pid and the same start, since a pid alone is used again.
func (r Record) Live() bool {
	boot, err := bootID()
	if err != nil || boot != r.BootID {
		return false
	}
	start, err := startTime(r.Pid)
	return err == nil && start == r.StartTime
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// startTime returns field 22 of /proc/<pid>/stat. The second field holds the program's
// name and may hold anything, so fields are counted from its closing parenthesis. A
// zombie has ended.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	i := strings.LastIndexByte(string(data), ')')
	fields := strings.Fields(string(data[i+1:]))
	if i < 0 || len(fields) < 20 {
		return 0, fmt.Errorf("cannot read the start time of process %d", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}
