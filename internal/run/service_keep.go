package run

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	ossignal "os/signal"
	"time"

	"bourn"
	"bourn/internal/launch"
)

// Between the end of a run and the next start a keeper waits: the first pause, doubled up
// to the longest, and the first again after a run that lived long enough to be settled.
const (
	firstPause   = time.Second
	longestPause = 60 * time.Second
	settled      = 60 * time.Second
)

// deletedGrace is how long a run has to end when its agent was deleted.
const deletedGrace = 10 * time.Second

// keepTick is how often a keeper looks whether its agent is still there.
const keepTick = time.Second

// pumpGrace is how long a keeper waits for the rest of what an ended run has said. Only
// a run that is not sealed can leave something behind that holds it open.
const pumpGrace = time.Second

// nextPause is the pause after a run that lived for a time, when the pause before was last
// or 0 for none.
func nextPause(last, lived time.Duration) time.Duration {
	if last == 0 || lived >= settled {
		return firstPause
	}
	return min(2*last, longestPause)
}

// A keeper sees to an agent in the background.
type keeper struct {
	home       *Home
	service    Service
	log        *keptLog
	status     *os.File // until the first start has been told
	signals    chan os.Signal
	tick       <-chan time.Time
	dir        os.FileInfo // the agent's directory as it was
	supervised bool        // the profile says service: true
	ran        bool        // a command was executed
	stopping   bool
	pause      time.Duration
	failed     keeperStatus // of the last run, for a start that it ended
}

// Keep is the keeper's whole life. It must be called on the main thread, with which its
// runs end. In a process that [Home.Start] has not started it is an error, and nothing is
// done.
func (h *Home) Keep(name bourn.AgentName) error {
	orders, status := os.NewFile(ordersFD, "orders"), os.NewFile(statusFD, "status")
	if orders == nil || status == nil {
		return errNotStarted()
	}
	s, err := h.commissioned(name, orders, status)
	if err != nil {
		return err
	}
	orders.Close()
	k := &keeper{home: h, service: s, status: status, signals: make(chan os.Signal, 8)}
	ossignal.Notify(k.signals, launch.Terminate, launch.EndNow)
	if k.dir, err = os.Lstat(h.agent(name)); err != nil {
		return err
	}
	if k.log, err = newKeptLog(h.logDir(name), maxLog); err != nil {
		return err
	}
	defer k.log.close()
	t := time.NewTicker(keepTick)
	defer t.Stop()
	k.tick = t.C
	k.loop()
	return k.leave()
}

func (k *keeper) loop() {
	for {
		k.log.say("start %d, at %s", k.service.Restarts+1, time.Now().Format(time.DateTime))
		from, start := k.log.length(), time.Now()
		end := k.run()
		k.service.Ended = &end
		k.failed = keeperStatus{Failed: &end, From: from, To: k.log.length()}
		if !k.again() {
			k.log.say("the run ended with %s", end)
			return
		}
		k.pause = nextPause(k.pause, time.Since(start))
		k.log.say("the run ended with %s; the next start is in %s", end, k.pause)
		if !k.wait() {
			return
		}
	}
}

// again reports whether there is to be another run. A profile that cannot be used leaves
// it at what was known: bourn run says what is wrong with it, at every start.
func (k *keeper) again() bool {
	if k.stopping || !k.ran || k.deleted() {
		return false
	}
	if p, _, err := k.home.Profile(k.service.Agent); err == nil {
		k.supervised = p.Service
	}
	return k.supervised
}

// wait waits for the next start. It reports whether there is to be one.
func (k *keeper) wait() bool {
	next := k.home.now().Add(k.pause).UTC()
	k.service.Next = &next
	k.phase(PhaseWaiting)
	timer := time.NewTimer(k.pause)
	defer timer.Stop()
	for {
		select {
		case <-k.signals:
			k.stopping = true
			return false
		case <-k.tick:
			if k.deleted() {
				return false
			}
		case <-timer.C:
			k.service.Next = nil
			k.service.Restarts++
			k.phase(PhaseStarting)
			return !k.deleted()
		}
	}
}

// phase writes down where the keeper is. What cannot be written is said in the log alone:
// an agent goes on when its disk is full.
func (k *keeper) phase(p Phase) {
	k.service.Phase = p
	if k.deleted() {
		return
	}
	if err := k.home.writeService(k.service); err != nil {
		k.log.say("cannot write service.json: %v", err)
	}
}

// deleted reports whether the agent's directory is not what it was.
func (k *keeper) deleted() bool {
	now, err := os.Lstat(k.home.agent(k.service.Agent))
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(k.dir, now)
}

// leave removes service.json, if it is this keeper's.
func (k *keeper) leave() error {
	s, err := k.home.readService(k.service.Agent)
	if err != nil || s == nil || s.Pid != k.service.Pid || s.StartTime != k.service.StartTime {
		return err
	}
	k.log.say("stopped at %s", time.Now().Format(time.DateTime))
	err = os.Remove(k.home.servicePath(k.service.Agent))
	// After the file, so that whoever was waiting finds the agent stopped.
	k.tell(k.failed)
	return err
}

// tell says what came of the first start, once.
func (k *keeper) tell(s keeperStatus) {
	if k.status == nil {
		return
	}
	_ = json.NewEncoder(k.status).Encode(s) // whoever waited may have gone
	k.status.Close()
	k.status = nil
}

// A keptRun is a run while it goes on.
type keptRun struct {
	cmd    *exec.Cmd
	start  uint64        // of bourn run, in clock ticks
	out    *os.File      // what it says
	line   chan string   // the first line of that
	sealed chan string   // its id, when the seal holds; closed
	pumped chan struct{} // closed when all was said
	exited chan struct{}
}

// run starts a run and returns when it has ended.
func (k *keeper) run() Ending {
	r, err := k.start()
	if err != nil {
		k.log.say("cannot start a run: %v", err)
		return Ending{Status: 125, At: k.home.now().UTC()} // as bourn run that could not start
	}
	defer r.out.Close()
	sealed := r.sealed
	var grace, look <-chan time.Time
	holds, since := keeperStatus{}, time.Time{}
	for {
		select {
		case id, ok := <-sealed:
			sealed = nil
			if ok {
				holds, since = keeperStatus{Header: <-r.line, Run: id}, time.Now()
				look = time.After(0)
				k.holds(id)
			}
		case <-look:
			look = nil
			if executed(r.cmd.Process.Pid) || time.Since(since) > executeTime {
				k.runs(holds)
			} else {
				look = time.After(executeTick)
			}
		case sig := <-k.signals:
			k.end(r, sig)
		case <-k.tick:
			if !k.stopping && k.deleted() {
				k.end(r, launch.Terminate)
				grace = time.After(deletedGrace)
			}
		case <-grace:
			k.end(r, launch.EndNow)
		case <-r.exited:
			select {
			case <-r.pumped:
			case <-time.After(pumpGrace):
			}
			e := launch.Ended(r.cmd.ProcessState)
			if look != nil && (e.Signal != 0 || e.Status < 125 || e.Status > 127) {
				k.runs(holds) // and has ended
			}
			return Ending{Status: e.Status, Signal: e.Signal, At: k.home.now().UTC()}
		}
	}
}

// A seal holds before the command is executed, and that may still fail. So a start is told
// of it when the command is seen, or when the time is over.
const (
	executeTime = 2 * time.Second
	executeTick = 2 * time.Millisecond
)

// runs notes that a run's command was executed.
func (k *keeper) runs(s keeperStatus) {
	k.ran = true
	k.tell(s)
}

// holds notes that the seal of a run holds.
func (k *keeper) holds(id string) {
	k.service.Run = id
	if k.stopping {
		k.phase(PhaseStopping)
	} else {
		k.phase(PhaseRunning)
	}
}

// end asks a run to end, or ends it.
func (k *keeper) end(r *keptRun, sig os.Signal) {
	if !k.stopping {
		k.stopping = true
		k.phase(PhaseStopping)
	}
	if sig == os.Signal(launch.EndNow) {
		_ = killTree(r.cmd.Process.Pid, r.start) // it may have ended already
		return
	}
	_ = r.cmd.Process.Signal(launch.Terminate)
}

// start starts bourn run, bound to this thread. Its report comes over a pipe, when the
// seal holds.
func (k *keeper) start() (*keptRun, error) {
	if p, _, err := k.home.Profile(k.service.Agent); err == nil {
		k.supervised = p.Service
	}
	out, says, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer says.Close()
	report, reports, err := os.Pipe()
	if err != nil {
		out.Close()
		return nil, err
	}
	defer reports.Close()
	args := []string{"run", "--agent", string(k.service.Agent), "--report", "/dev/fd/3"}
	if k.service.Proposal != "" {
		args = append(args, "--proposal", k.service.Proposal)
	}
	if len(k.service.Command) > 0 {
		args = append(append(args, "--"), k.service.Command...)
	}
	r := &keptRun{cmd: exec.Command(k.home.Program, args...), out: out, line: make(chan string, 1), sealed: make(chan string, 1),
		pumped: make(chan struct{}), exited: make(chan struct{})}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr, r.cmd.ExtraFiles = k.home.Environ, says, says, []*os.File{reports}
	if err = launch.Bind(r.cmd); err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		out.Close()
		report.Close()
		return nil, err
	}
	r.start, _ = startTime(r.cmd.Process.Pid) // it is not waited for yet, so the pid is its own
	go r.pump(k.log)
	go r.hear(report)
	go func() {
		_ = r.cmd.Wait()
		close(r.exited)
	}()
	return r, nil
}

// pump moves what a run says to the log.
func (r *keptRun) pump(log *keptLog) {
	h := head{to: log, line: r.line}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.out.Read(buf)
		_, _ = h.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if !h.done {
		r.line <- string(h.text)
	}
	close(r.pumped)
}

// hear waits for the report of a run and hands over its id.
func (r *keptRun) hear(report *os.File) {
	defer report.Close()
	defer close(r.sealed)
	var rep struct {
		Run string `json:"run"`
	}
	if json.NewDecoder(report).Decode(&rep) == nil {
		r.sealed <- rep.Run
	}
}
