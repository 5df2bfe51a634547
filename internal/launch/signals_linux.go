package launch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that bourn passes on. They stay caught after the run, for the
// moment until bourn ends.
var forwarded = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGABRT, unix.SIGALRM, unix.SIGUSR1, unix.SIGUSR2}

// alsoForwarded are those that depend on the terminal. With one of the run's own, ^Z
// reaches the command as a byte, and SIGTSTP is left alone so that bourn can stop itself.
func (p *parent) alsoForwarded() []os.Signal {
	if p.outer.any() {
		return []os.Signal{unix.SIGWINCH, unix.SIGCONT}
	}
	return []os.Signal{unix.SIGTSTP}
}

// tell asks the child to signal the command. A child that is gone will be heard of.
func (p *parent) tell(k kind, sig syscall.Signal) {
	_ = p.link.send(message{Kind: k, Number: int(sig)})
}

// forward passes one signal on. What a terminal sends to a whole process group goes to
// the command's group, everything else to the command alone.
func (p *parent) forward(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	switch s {
	case unix.SIGWINCH:
		_ = p.relay.Resize()
	case unix.SIGCONT:
		// The command is not told: whoever stopped it has it continued, and a second
		// SIGCONT would undo a stop that has come meanwhile.
		_ = p.relay.Resume()
		_ = p.relay.Resize()
	case unix.SIGTSTP: // ^Z on a terminal that the run does not have
		p.tell(kindGroup, s)
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP) // returns when the shell continues bourn
		p.resume()
	case unix.SIGINT, unix.SIGQUIT, unix.SIGHUP:
		p.tell(kindGroup, s)
	case unix.SIGTERM:
		if p.relay != nil {
			_ = p.relay.Discard() // a terminal that takes no output must not hold up the end
		}
		p.tell(kindSignal, s)
	default:
		p.tell(kindSignal, s)
	}
}

// stopped follows a command that has stopped: the person's shell is to see a stopped
// job and have its terminal back.
func (p *parent) stopped(sig syscall.Signal) {
	if p.config.Steady {
		p.tell(kindContinue, unix.SIGCONT)
		return
	}
	if p.relay == nil {
		return // the signal that stopped it has reached this process as well, or was meant for it alone
	}
	if p.outer.lazy && (sig == unix.SIGTTIN || sig == unix.SIGTTOU) {
		// It wants the terminal after all.
		p.outer.lazy = false
		_ = p.relay.Take()
		p.tell(kindForeground, 0)
		return
	}
	_ = p.relay.Suspend()
	stopSelf()
	p.resume()
}

// resume takes the terminal again and lets the command go on.
func (p *parent) resume() {
	if p.relay != nil {
		_ = p.relay.Resume()
		_ = p.relay.Resize()
	}
	p.tell(kindContinue, unix.SIGCONT)
}

// stopSelf stops bourn's whole process group as ^Z does, so that a pipeline stops as
// one. In a group that no shell looks after, the kernel discards the signal and the
// command goes on, as it would outside (POSIX, orphaned process groups). It must be
// called on the main thread: that is the one which takes the signal, before kill(2)
// returns.
func stopSelf() { _ = unix.Kill(0, unix.SIGTSTP) }

// outer is the person's terminal as bourn found it.
type outer struct {
	streams [3]bool // which standard streams are terminals
	input   *os.File
	output  *os.File
	lazy    bool
	opened  *os.File
}

func (o outer) any() bool { return o.streams[0] || o.streams[1] || o.streams[2] }

func (o outer) close() {
	if o.opened != nil {
		o.opened.Close()
	}
}

// findTerminal looks at the standard streams. Input is read from stdin where that is a
// terminal, else from /dev/tty, as programs in a pipeline do.
func findTerminal(c Config) outer {
	var o outer
	files := []*os.File{c.Stdin, c.Stdout, c.Stderr}
	for i, f := range files {
		o.streams[i] = f != nil && isTerminal(f)
	}
	if !o.any() {
		return o
	}
	for _, i := range []int{1, 2, 0} {
		if o.streams[i] {
			o.output = files[i]
			break
		}
	}
	o.lazy = !(o.streams[0] && o.streams[1])
	switch {
	case o.streams[0]:
		o.input = c.Stdin
	default:
		o.input = o.output
		if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
			o.input, o.opened = tty, tty
		}
	}
	return o
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
