package launch

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long a command has between TERM and KILL when its time is over, or it is to
// end.
const grace = 10 * time.Second

// attend sees to a command that runs.
func (p *parent) attend(signals <-chan os.Signal) error {
	var over <-chan time.Time
	if limit := p.config.Plan.Limits.Time; limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		over = t.C
	}
	end := p.config.End
	var hangup <-chan struct{}
	if p.relay != nil {
		hangup = p.relay.Hangup()
	}
	for {
		select {
		case sig := <-signals:
			p.forward(sig)
		case <-hangup:
			hangup = nil
			p.tell(kindGroup, unix.SIGHUP)
			p.tell(kindContinue, unix.SIGCONT)
		case <-over:
			if p.cutShort() {
				p.child.kill()
				over = nil
				continue
			}
			p.result.TimedOut = true
			over = p.askToEnd()
		case <-end:
			end = nil
			if !p.cutShort() {
				p.result.Ended = true
				over = p.askToEnd()
			}
		case r := <-p.messages:
			if done, err := p.hear(r); done || err != nil {
				if err != nil && p.cutShort() {
					p.result.Signal, err = int(unix.SIGKILL), nil
				}
				return err
			}
		}
	}
}

// cutShort reports whether the command was asked to end.
func (p *parent) cutShort() bool { return p.result.TimedOut || p.result.Ended }

// askToEnd asks the command to end, and returns what says when its time for that is over.
func (p *parent) askToEnd() <-chan time.Time {
	p.tell(kindGroup, unix.SIGTERM)
	p.tell(kindContinue, unix.SIGCONT)
	return time.After(grace)
}
