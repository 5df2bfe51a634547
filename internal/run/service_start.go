package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/launch"
	"bourn/internal/policy"
)

// A keeper finds its pipes at these descriptors.
const (
	ordersFD = 3 // the word that service.json is there
	statusFD = 4 // one keeperStatus
)

// theWord lets a keeper begin.
const theWord = "go\n"

// A keeperStatus is what a keeper says of its first start, as JSON.
type keeperStatus struct {
	Header string  `json:"header,omitempty"` // the first line of the run
	Run    string  `json:"run,omitempty"`    // "" when the start failed
	Failed *Ending `json:"failed,omitempty"`
	From   int64   `json:"from,omitempty"` // where the text of a failed start stands in the log
	To     int64   `json:"to,omitempty"`
}

// A Started agent runs in the background, or its start failed.
type Started struct {
	Service
	Header  string // the run's first line, which says what holds
	Dropped int    // grants that are not kept
	Failed  *Ending
	Log     []byte // what was said of a start that failed
}

// Start starts an agent in the background, with a command instead of its profile's or
// with none for that, and with what Options.Proposal has. It returns when the seal holds, or when the first start has failed,
// which is no error: Failed says how. An agent that is in the background is ErrConflict.
func (h *Home) Start(name bourn.AgentName, command []string, proposal string) (Started, error) {
	if err := h.CanStart(name, command); err != nil {
		return Started{}, err
	}
	unlock, err := h.lockService(name)
	if err != nil {
		return Started{}, err
	}
	c, err := h.commission(name, command, proposal)
	unlock()
	if err != nil {
		return Started{}, err
	}
	return c.wait()
}

// CanStart returns the error of a start that could not begin, whether or not the agent
// runs: without a usable profile, a command or this host's hard blocks there is none.
func (h *Home) CanStart(name bourn.AgentName, command []string) error {
	p, _, err := h.Profile(name)
	if err != nil {
		return err
	}
	if len(command) == 0 && len(p.Command) == 0 {
		return bourn.WithHint(fmt.Errorf("%w: the profile names no command, and none is given", bourn.ErrInvalid),
			"bourn agent start "+string(name)+" -- COMMAND, or a line in "+h.ProfilePath(name)+": command: [PROGRAM, ARGUMENT]")
	}
	_, err = h.Published()
	return err
}

// A commission is a keeper that has been started.
type commission struct {
	home    *Home
	service Service
	cmd     *exec.Cmd
	status  *os.File
}

// commission starts a keeper. The caller holds the service's lock.
func (h *Home) commission(name bourn.AgentName, command []string, proposal string) (*commission, error) {
	s, err := h.serviceLocked(name)
	if err != nil {
		return nil, err
	}
	if s != nil {
		return nil, bourn.WithHint(fmt.Errorf("%w: agent %q is in the background already (process %d)", bourn.ErrConflict, name, s.Pid),
			"bourn agent restart "+string(name)+", or bourn agent logs "+string(name))
	}
	log, err := rotateLog(h.logDir(name))
	if err != nil {
		return nil, fmt.Errorf("cannot write the log of agent %q: %w", name, err)
	}
	defer log.Close()
	orders, word, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	defer word.Close()
	status, says, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer says.Close()
	cmd := exec.Command(h.Program, "agent", "keep", string(name))
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = h.Environ, log, log, []*os.File{orders, says}
	launch.Detach(cmd)
	c := &commission{home: h, cmd: cmd, status: status}
	if err = cmd.Start(); err == nil {
		if err = c.install(name, command, proposal); err == nil {
			_, err = word.WriteString(theWord)
		}
		if err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = os.Remove(h.servicePath(name))
		}
	}
	if err != nil {
		status.Close()
		return nil, fmt.Errorf("cannot start agent %q in the background: %w", name, err)
	}
	return c, nil
}

// install writes service.json for a keeper that waits for the word.
func (c *commission) install(name bourn.AgentName, command []string, proposal string) error {
	r, err := newRecord("", name, c.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if command == nil {
		command = []string{}
	}
	c.service = Service{Version: serviceVersion, Agent: name, Pid: r.Pid, StartTime: r.StartTime, BootID: r.BootID,
		Command: command, Proposal: proposal, Since: c.home.now().UTC(), Phase: PhaseStarting}
	return c.home.writeService(c.service)
}

// wait waits for what the keeper says of its first start.
func (c *commission) wait() (Started, error) {
	defer c.status.Close()
	out := Started{Service: c.service}
	var st keeperStatus
	err := json.NewDecoder(c.status).Decode(&st)
	if err == nil && st.Failed == nil {
		out.Header, out.Run, out.Phase = st.Header, st.Run, PhaseRunning
		out.Dropped = c.home.dropped(c.service.Agent, st.Run)
		return out, c.cmd.Process.Release()
	}
	_ = c.cmd.Wait() // its end is what was said, or that it was killed
	_, cleanErr := c.home.Service(c.service.Agent)
	if err != nil {
		return out, bourn.WithHint(fmt.Errorf("%w: agent %q did not start: its keeper was ended", bourn.ErrUnavailable, c.service.Agent),
			"bourn agent logs "+string(c.service.Agent))
	}
	out.Failed = st.Failed
	out.Log, _ = readPart(c.home.LogPath(c.service.Agent), st.From, st.To)
	return out, cleanErr
}

// maxSaidOfStart bounds what is said of a start that failed.
const maxSaidOfStart = 16 << 10

func readPart(path string, from, to int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, from, min(to-from, maxSaidOfStart)))
}

// dropped counts the grants of a run that are not kept, as its record has them.
func (h *Home) dropped(name bourn.AgentName, id string) int {
	if id == "" || strings.ContainsRune(id, os.PathSeparator) {
		return 0
	}
	r, err := readRecord(filepath.Join(h.runsDir(name), id+".json"))
	if err != nil {
		return 0 // it is a count to hint at, and the report has it
	}
	n := 0
	for _, it := range r.Items {
		switch it.Kind {
		case policy.KindRead, policy.KindWrite, policy.KindSpawnDir, policy.KindEnv, policy.KindHost, policy.KindUnix:
			if it.Fate == policy.Dropped {
				n++
			}
		case policy.KindDeny, policy.KindProtect, policy.KindTool, policy.KindRecords, policy.KindDoor, policy.KindLimit, policy.KindDefault:
		}
	}
	return n
}

// errNotStarted is the error of a keeper that a person has typed.
func errNotStarted() error {
	return bourn.WithHint(fmt.Errorf("%w: this command is started by bourn agent start only", bourn.ErrDenied), "bourn agent start NAME")
}

// commissioned waits for the word, and returns the service that names this process. A
// process that no start has begun is refused: its descriptors are none, or no file names it.
func (h *Home) commissioned(name bourn.AgentName, orders, status *os.File) (Service, error) {
	refused := errNotStarted()
	for _, f := range []*os.File{orders, status} {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
			return Service{}, refused
		}
	}
	word, err := io.ReadAll(io.LimitReader(orders, int64(len(theWord))))
	if err != nil || string(word) != theWord {
		return Service{}, errors.Join(refused, err)
	}
	s, err := h.readService(name)
	switch {
	case err != nil:
		return Service{}, err
	case s == nil || s.Pid != os.Getpid() || !s.live() || s.Agent != name:
		return Service{}, refused
	}
	return *s, nil
}
