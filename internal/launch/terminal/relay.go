// Package terminal relays between the person's terminal and the pty of a run.
//
// An agent that shares the person's terminal can leave a process behind that reads
// what the person types next, or types for them. So a run has a pty of its own, whose
// slave lies in the sandbox; its master is here, outside, and a Relay carries bytes,
// modes and window sizes between the two, as script(1) and sudo(8) do.
//
// # What it upholds
//
//   - The run never holds a descriptor of the person's terminal, and nothing is read
//     from that terminal before Start's foreground check or after Close.
//   - Reading never blocks in read(2): a byte typed after Suspend or Close stays in the
//     terminal for the shell.
//   - The modes found when the terminal was taken are put back bit for bit.
//   - Only the foreground process group reads or sets modes (tcgetpgrp(3)), so that a
//     run started with & is not stopped by SIGTTIN or SIGTTOU and disturbs nobody.
//   - What the agent prints arrives unchanged and in order; a slow terminal slows the
//     agent, and an agent that does not read holds up neither its output nor Close.
//
// # What it does not
//
//   - A relay killed by SIGKILL leaves the terminal raw; so does any program. stty sane
//     repairs it.
//   - What was typed for the agent and not read by it when it ends is lost: up to 1 KiB
//     here, and what the kernel holds for the pty.
//   - While bourn runs in the background the terminal processes output once more, so
//     lines end in CR CR LF.
//   - What the agent prints is not filtered: a terminal acts on its escape sequences.
//   - A terminal that is not the controlling terminal of bourn's session is only
//     written to: who else reads it cannot be known.
//
// # Needs
//
// Linux or macOS; on the latter it is compiled and has not been run. A terminal that
// is not reachable as /dev/tty is written in pieces after poll(2), each of which fits
// what Linux then guarantees; elsewhere such a write may block.
package terminal

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Config says what a Relay connects. The files stay the caller's to close: the relay
// works on descriptors of its own.
type Config struct {
	// Outer is the person's terminal: input is read from it and modes are set on it.
	Outer *os.File
	// Output is the terminal on which the agent's output appears; nil means Outer.
	Output *os.File
	// Master is the master side of the run's pty. It becomes non-blocking.
	Master *os.File
	// Lazy leaves the terminal alone until Take. It is for a run in a pipeline, where
	// another program may be the one that reads: bourn run -- git log | less.
	Lazy bool
}

// A Relay connects the person's terminal with the pty of a run. Its methods may be
// called from several goroutines; after Close all but Close and Hangup return an error
// that is os.ErrClosed.
//
//	      Start, Take, Resume, or found
//	      to be in the foreground
//	away ──────────────────────────────▶ held
//	 ▲ ▲                                 │  │
//	 │ └──── no longer the foreground ───┘  │ Suspend
//	 │                                      ▼
//	 └───────────── Resume ─────────── suspended
//
//	any ── the terminal hangs up ──▶ hung
type Relay struct {
	calls  chan func() // run by the loop, one for each byte in the wake pipe
	done   chan struct{}
	hangup chan struct{}
	wakeR  *os.File
	wakeW  *os.File
	err    error // of putting the modes back; read after done

	tty, output, master, wake int
	controls                  bool // tty is the session's controlling terminal
	ownOutput                 bool // output is non-blocking without anybody noticing

	// Of the loop alone from here on.
	state   state
	wanted  bool         // the terminal is to be held whenever in the foreground
	altered bool         // saved and raw are set, and saved is to be put back
	saved   unix.Termios // as found when the terminal was taken
	raw     unix.Termios // as the terminal was left by taking it
	in      []byte       // typed, not yet written to the master
	out     []byte       // printed, not yet written to output
	inBuf   [1 << 10]byte
	outBuf  [16 << 10]byte
	gone    bool // nobody has the slave open; looked at again after each pause
	closing bool
	discard bool
	budget  int // bytes that a drain may still read
}

type state int

const (
	away      state = iota // input and modes are another's; output is copied
	held                   // raw, input and output are copied
	suspended              // nothing is copied
	hung                   // the terminal is no more; output is read and dropped
)

const (
	// pause is the time between two looks at what nothing announces: a shell that
	// brings a running job to the foreground sends no signal, nor does a slave that
	// is opened again.
	pause = 200 * time.Millisecond
	// drainLimit is above what a pty holds (8 KiB of flip buffers, 4 KiB of line
	// discipline, Linux drivers/tty/pty.c and n_tty.c), so that a drain shows all that
	// was printed before it, and ends although a process prints on.
	drainLimit = 64 << 10
	// suspendPatience is how long Suspend waits for a terminal that takes no output.
	// What it did not take is shown after Resume.
	suspendPatience = 250 * time.Millisecond
	// surePiece is what a blocking terminal takes at once when poll(2) says it can be
	// written: a pty accepts a whole buffer page, a serial line has all but 256 bytes
	// of its 4 KiB free (Linux drivers/tty/n_tty.c, n_tty_poll).
	surePiece = 1 << 10
)

// Start copies window size and modes from the person's terminal to the run's pty and
// begins to relay. It must be called before the agent starts, so that the agent finds
// them. In the background the modes are not copied, since they are what the shell
// edits its own line with: the pty keeps the kernel's defaults.
func Start(c Config) (*Relay, error) {
	if c.Output == nil {
		c.Output = c.Outer
	}
	r := &Relay{
		calls:  make(chan func()),
		done:   make(chan struct{}),
		hangup: make(chan struct{}),
		tty:    -1, output: -1, master: -1, wake: -1,
		wanted: !c.Lazy,
	}
	if err := r.open(c); err != nil {
		r.closeAll()
		return nil, fmt.Errorf("cannot relay the terminal: %w", err)
	}
	if err := r.prepare(); err != nil {
		err = errors.Join(err, r.release())
		r.closeAll()
		return nil, fmt.Errorf("cannot relay the terminal: %w", err)
	}
	go r.loop()
	return r, nil
}

// Take holds the terminal from now on whenever bourn is in the foreground. Only a Lazy
// relay needs it, when the agent turns out to read from its terminal.
func (r *Relay) Take() error {
	return r.call(func() error {
		r.wanted = true
		return r.take()
	})
}

// Suspend shows what the agent has printed, stops copying and puts the person's modes
// back. It must precede every stop of bourn itself.
func (r *Relay) Suspend() error {
	return r.call(r.suspend)
}

// Resume copies again after a stop. In the foreground it takes the terminal, whose
// modes are saved anew; in the background it waits until bourn is in the foreground.
// It is right after every SIGCONT, also without a Suspend before the stop.
func (r *Relay) Resume() error {
	return r.call(r.resume)
}

// Resize gives the run's pty the window size of the person's terminal; the kernel then
// sends SIGWINCH inside.
func (r *Relay) Resize() error {
	return r.call(r.resize)
}

// Hangup is closed when the person's terminal is gone. The relay then reads no input
// and drops what the agent prints, so that an agent which is told to end is not held
// up by its last words.
func (r *Relay) Hangup() <-chan struct{} {
	return r.hangup
}

// Discard drops what the agent has printed and the terminal has not taken: Close waits
// for the terminal no longer. It is for when bourn itself is told to end.
func (r *Relay) Discard() error {
	return r.call(func() error {
		r.discard = true
		return nil
	})
}

// Close shows what the agent has printed up to now, puts the person's modes back and
// returns when nothing is read or written any more. It is called when the run is over;
// a process that still has the slave open does not hold it up, a terminal that takes no
// output does, until Discard. A second Close returns what the first did.
func (r *Relay) Close() error {
	// The only error is that the relay is closed already.
	_ = r.call(func() error {
		if r.state == suspended {
			r.state = away
		}
		r.closing, r.wanted, r.in, r.budget = true, false, nil, drainLimit
		return nil
	})
	<-r.done
	return r.err
}

// call has the loop run f and returns what f does.
func (r *Relay) call(f func() error) error {
	if _, err := r.wakeW.Write([]byte{0}); err != nil {
		return os.ErrClosed
	}
	var err error
	ran := make(chan struct{})
	select {
	case r.calls <- func() { defer close(ran); err = f() }:
		<-ran
		return err
	case <-r.done:
		return os.ErrClosed
	}
}

func (r *Relay) open(c Config) (err error) {
	if r.tty, r.controls, err = openTerminal(c.Outer); err != nil {
		return err
	}
	if r.output, r.ownOutput, err = openTerminal(c.Output); err != nil {
		return err
	}
	if r.master, err = duplicate(c.Master); err != nil {
		return err
	}
	if err := unix.SetNonblock(r.master, true); err != nil {
		return err
	}
	if r.wakeR, r.wakeW, err = os.Pipe(); err != nil {
		return err
	}
	r.wake, err = duplicate(r.wakeR)
	return err
}

// openTerminal returns a descriptor for the terminal f and whether it is the
// controlling terminal. That one is opened anew: O_NONBLOCK belongs to the open file,
// which f shares with the shell.
func openTerminal(f *os.File) (fd int, controlling bool, err error) {
	if fd, err = duplicate(f); err != nil {
		return -1, false, err
	}
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil {
		return fd, false, nil
	}
	own, err := unix.Open(controllingTerminal, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		// A root without /dev: input is then read after poll(2), as output is written.
		return fd, true, nil
	}
	unix.Close(fd)
	return own, true, nil
}

// duplicate does not call Fd, which may change whether f blocks.
func duplicate(f *os.File) (fd int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd = -1
	cerr := conn.Control(func(d uintptr) {
		fd, err = unix.FcntlInt(d, unix.F_DUPFD_CLOEXEC, 0)
	})
	return fd, errors.Join(cerr, err)
}

func (r *Relay) closeAll() {
	for _, fd := range []int{r.tty, r.output, r.master, r.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	// The writing end first, so that a late call finds it closed, not broken.
	if r.wakeW != nil {
		r.wakeW.Close()
		r.wakeR.Close()
	}
}

// prepare makes the run's pty like the person's terminal, then takes the latter.
func (r *Relay) prepare() error {
	modes, err := readModes(r.tty)
	if err != nil {
		return fmt.Errorf("cannot read its modes: %w", err)
	}
	if r.foreground() {
		if err := setModes(r.master, modes); err != nil {
			return fmt.Errorf("cannot set modes of the run's pty: %w", err)
		}
	}
	if err := r.resize(); err != nil {
		return err
	}
	return r.take()
}

// foreground reports whether bourn may read from the terminal and set its modes without
// being stopped.
func (r *Relay) foreground() bool {
	if !r.controls {
		return false
	}
	group, err := unix.IoctlGetInt(r.tty, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func (r *Relay) resize() error {
	size, err := unix.IoctlGetWinsize(r.tty, unix.TIOCGWINSZ)
	if err != nil {
		return fmt.Errorf("cannot read window size: %w", err)
	}
	if err := unix.IoctlSetWinsize(r.master, unix.TIOCSWINSZ, size); err != nil {
		return fmt.Errorf("cannot set window size of the run's pty: %w", err)
	}
	return nil
}

// take makes the terminal raw if bourn is in the foreground and wants it.
func (r *Relay) take() error {
	if r.state == suspended || r.state == hung {
		return nil
	}
	r.state = away
	if !r.wanted || !r.foreground() {
		return nil
	}
	found, err := readModes(r.tty)
	if err != nil {
		return fmt.Errorf("cannot read modes of the terminal: %w", err)
	}
	// After a stop that nobody announced, the shell may give back the modes that it
	// found: those are the relay's, not the person's.
	if !r.altered || *found != r.raw {
		raw := rawModes(*found)
		// Now rather than after output has drained: output is processed when written,
		// so there is nothing to wait for, and a terminal that takes no output would
		// hold us up. Flushing would lose what the person typed ahead.
		if err := setModes(r.tty, &raw); err != nil {
			return fmt.Errorf("cannot set modes of the terminal: %w", err)
		}
		r.saved, r.raw, r.altered = *found, raw, true
		// As the kernel keeps them, which may differ from what it was told.
		if kept, err := readModes(r.tty); err == nil {
			r.raw = *kept
		}
	}
	r.state = held
	return nil
}

// release puts the person's modes back. In the background they are the shell's by now.
func (r *Relay) release() error {
	if !r.altered || r.state == hung || !r.foreground() {
		return nil
	}
	// Now, for the reasons given in take.
	if err := setModes(r.tty, &r.saved); err != nil {
		return fmt.Errorf("cannot restore modes of the terminal: %w", err)
	}
	r.altered = false
	return nil
}

// rawModes is cfmakeraw(3). Output is not processed, as the run's pty has done that.
func rawModes(t unix.Termios) unix.Termios {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN] = 1
	t.Cc[unix.VTIME] = 0
	return t
}

func (r *Relay) suspend() error {
	if r.state == suspended || r.state == hung {
		return nil
	}
	// Before the modes change, because output that is processed twice is garbled, and
	// before the shell prints its prompt.
	r.budget = drainLimit
	for end := time.Now().Add(suspendPatience); !r.drained() && time.Now().Before(end); {
		fds := []unix.PollFd{{Fd: int32(r.output), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(fds, 1+int(time.Until(end).Milliseconds())); n > 0 {
			r.writeOutput()
		}
	}
	if r.state == hung {
		return nil
	}
	err := r.release()
	r.state = suspended
	return err
}

func (r *Relay) resume() error {
	if r.state == hung {
		return nil
	}
	r.state = away
	// SIGWINCH goes to the foreground group only, so one may have been missed.
	return errors.Join(r.resize(), r.take())
}

func (r *Relay) hangUp() {
	if r.state != hung {
		r.state, r.in, r.out = hung, nil, nil
		close(r.hangup)
	}
}

// Indices into the descriptors that the loop polls, in the order in which the kernel
// looks: the terminal before the master, so that a byte typed after the agent has ended
// is never seen without that end.
const (
	pollWake = iota
	pollTerminal
	pollMaster
	pollOutput
)

func (r *Relay) loop() {
	defer close(r.done)
	for !r.closing || !r.discard && !r.drained() {
		fds, timeout := r.waitFor()
		n, err := unix.Poll(fds[:], timeout)
		if err != nil {
			continue // EINTR, by a signal to bourn
		}
		if fds[pollWake].Revents != 0 {
			r.answer()
			continue // with what the call changed
		}
		if n == 0 {
			r.gone = false
		}
		if r.state == away && r.wanted && r.take() != nil {
			r.hangUp()
		}
		// The master first: if the agent is gone, what is typed is the shell's.
		if fds[pollMaster].Revents != 0 {
			r.writeInput()
			r.copyOutput()
		}
		if e := fds[pollTerminal].Revents; e&^unix.POLLIN != 0 {
			r.hangUp()
		} else if e != 0 && r.state == held && !r.gone {
			r.readInput()
		}
		if fds[pollOutput].Revents != 0 {
			r.writeOutput()
		}
	}
	r.err = r.release()
	r.closeAll()
}

// waitFor returns what to poll for, and for how long. A descriptor of which nothing is
// wanted is left out, for poll(2) reports a hang-up whether asked or not.
func (r *Relay) waitFor() (fds [4]unix.PollFd, timeout int) {
	for i := range fds {
		fds[i].Fd = -1
	}
	want := func(i, fd int, events int16) {
		fds[i].Fd, fds[i].Events = int32(fd), fds[i].Events|events
	}
	want(pollWake, r.wake, unix.POLLIN)
	copying := r.state != suspended && !r.closing
	if r.state != hung {
		want(pollTerminal, r.tty, 0)
	}
	if r.state == held && copying && !r.gone && len(r.in) == 0 {
		want(pollTerminal, r.tty, unix.POLLIN)
	}
	if copying && !r.gone && len(r.out) == 0 {
		want(pollMaster, r.master, unix.POLLIN)
	}
	if copying && !r.gone && len(r.in) > 0 {
		want(pollMaster, r.master, unix.POLLOUT)
	}
	if r.state != suspended && len(r.out) > 0 {
		want(pollOutput, r.output, unix.POLLOUT)
	}
	if copying && (r.gone || r.state == away && r.wanted && r.controls) {
		return fds, int(pause.Milliseconds())
	}
	return fds, -1
}

// answer runs one call. The caller has written its byte and so is about to send it.
func (r *Relay) answer() {
	var b [1]byte
	if n, _ := unix.Read(r.wake, b[:]); n == 1 {
		(<-r.calls)()
	}
}

func (r *Relay) readInput() {
	// The group may have changed since poll, and a read from the background stops us.
	if !r.foreground() {
		r.state = away
		return
	}
	n, err := unix.Read(r.tty, r.inBuf[:])
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
	case err != nil || n == 0:
		r.hangUp()
	default:
		r.in = r.inBuf[:n]
		r.writeInput()
	}
}

func (r *Relay) writeInput() {
	if len(r.in) == 0 {
		return
	}
	n, err := unix.Write(r.master, r.in)
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
	case err != nil:
		r.gone = true
	default:
		r.in = r.in[n:]
	}
}

// copyOutput copies what is there and the terminal takes, but not for ever, since input
// and calls wait meanwhile.
func (r *Relay) copyOutput() {
	for range 16 {
		if len(r.out) > 0 || r.readOutput() == 0 || !r.ownOutput {
			return
		}
		r.writeOutput()
	}
}

// readOutput reads what the agent printed into out, which must be empty, and returns
// how much that is. The kernel completes pending output before it says that there is
// none (Linux drivers/tty/n_tty.c, n_tty_read), so none means none.
func (r *Relay) readOutput() int {
	n, err := unix.Read(r.master, r.outBuf[:])
	switch {
	case err == unix.EINTR:
		return r.readOutput()
	case err == unix.EAGAIN:
		return 0
	case err != nil || n == 0:
		r.gone = true
		return 0
	}
	if r.state != hung {
		r.out = r.outBuf[:n]
	}
	return n
}

func (r *Relay) writeOutput() {
	piece := r.out
	if !r.ownOutput {
		piece = piece[:min(len(piece), surePiece)]
	}
	if len(piece) == 0 {
		return
	}
	n, err := unix.Write(r.output, piece)
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
	case err != nil:
		r.hangUp()
	default:
		r.out = r.out[n:]
	}
}

// drained reports whether all that the agent has printed has been written, or budget is
// used up. It reads but does not write.
func (r *Relay) drained() bool {
	for len(r.out) == 0 {
		if r.budget <= 0 {
			return true
		}
		n := r.readOutput()
		if n == 0 {
			return true
		}
		r.budget -= n
	}
	return false
}
