package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/launch"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox"
	"bourn/internal/sandbox/survey"
)

// A run by root may become another user: run_as. $BOURN_HOME stays root's, with profiles,
// records and keys; the home inside is the user's, and whatever Bourn reads or makes in that
// user's files it does with the user's own rights, since a symlink there is theirs to put. A
// path that root names is bound as it is named: its modes hold, the directories above it do
// not matter.

// runAs finds out whom the run becomes, and takes that user's home for the person's. It does
// nothing where nobody is named.
func (p *Prepared) runAs() error {
	text, from := p.Options.RunAs, "flag"
	if p.Profile != nil && p.Profile.RunAs != "" {
		if text != "" && text != p.Profile.RunAs {
			return bourn.WithHint(fmt.Errorf("%w: --run-as %s and run_as: %s of the profile contradict each other", bourn.ErrInvalid, bourn.Printable(text), p.Profile.RunAs),
				"leave out the flag, or change the profile: "+p.home.ProfilePath(p.Profile.Agent))
		}
		text, from = p.Profile.RunAs, "profile"
	}
	if text == "" {
		return nil
	}
	u, err := findAccount(text)
	if err != nil {
		return err
	}
	if err := mayBecome(u, os.Getuid(), os.Geteuid()); err != nil {
		return err
	}
	p.account, p.accountFrom = u, from
	if os.Geteuid() == 0 {
		p.home = p.home.becoming(u)
	}
	return nil
}

// user puts whom the run becomes into the request.
func (p *Prepared) user() {
	if p.account == nil {
		return
	}
	p.Request.User, p.Request.UserFrom = &p.account.User, p.accountFrom
	if p.home.Starter != "" {
		p.Request.Homes = append(p.Request.Homes, p.home.Starter)
	}
}

// asUser calls f, which looks at the user's files or makes some, with that user's rights.
func (p *Prepared) asUser(f func() error) error {
	if p.home.user != nil { // these read $BOURN_HOME, and f asks for them
		p.others()
		if _, err := p.believed(); err != nil {
			return err
		}
	}
	return p.home.asUser(f)
}

func (h *Home) asUser(f func() error) error {
	var said error
	err := h.as(func() { said = f() })
	return errors.Join(err, said)
}

// gather asks the host for its facts.
func (p *Prepared) gather(opt sandbox.Options) error {
	r, err := p.home.reacher()
	if err != nil {
		return err
	}
	if r != nil {
		defer r.close()
		opt.Judge, opt.Reach = r.judge, r.ask
	}
	return sandbox.Gather(p.Request, opt)
}

// mayBecome refuses whom the starter of a run may not name.
func mayBecome(u *account, uid, euid int) error {
	switch {
	case u.UID == 0:
		return bourn.WithHint(fmt.Errorf("%w: cannot run as %s: it is root", bourn.ErrInvalid, u), "leave run_as out: a run by root is root's, without any capability")
	case uid != euid:
		return bourn.WithHint(fmt.Errorf("%w: cannot run as %s: bourn itself is set-user-ID", bourn.ErrDenied, u), "take the bit away: chmod u-s, and start bourn as root")
	case euid != 0 && u.UID != euid:
		return bourn.WithHint(fmt.Errorf("%w: cannot run as %s: only root may run an agent as another user", bourn.ErrDenied, u), "start it as root, or as "+u.Name+", or leave run_as out")
	}
	return nil
}

// becoming returns a home whose person is u. What the starter's environment says of the
// starter's own files is not the user's.
func (h *Home) becoming(u *account) *Home {
	own := map[string]string{"HOME": u.Home, "USER": u.Name, "LOGNAME": u.Name, "SHELL": u.Shell}
	to := *h
	to.user, to.Starter, to.Person = u, h.Person, u.Home
	to.Environ = nil
	for _, kv := range h.Environ {
		name, value, _ := strings.Cut(kv, "=")
		if _, set := own[name]; !set && !(placed(name) && h.Person != "/" && policy.Under(filepath.Clean(value), h.Person)) {
			to.Environ = append(to.Environ, kv)
		}
	}
	for _, name := range []string{"HOME", "USER", "LOGNAME", "SHELL"} {
		if own[name] != "" {
			to.Environ = append(to.Environ, name+"="+own[name])
		}
	}
	return &to
}

// placed reports whether a variable says where a tool has its files.
func placed(name string) bool {
	if strings.HasPrefix(name, "XDG_") {
		return true
	}
	for _, row := range toolchainEnv {
		if row.name == name {
			return true
		}
	}
	return slices.ContainsFunc(profile.Presets(), func(p profile.Preset) bool {
		return slices.ContainsFunc(p.Homes, func(v profile.HomeVar) bool { return v.Name == name })
	})
}

// of returns the home that ~ of a profile means. An agent whose user is not to be found
// cannot run, and nothing of it is known.
func (h *Home) of(prof *profile.Profile) *Home {
	if prof.RunAs == "" || os.Geteuid() != 0 || h.user != nil && h.user.is(prof.RunAs) {
		return h
	}
	u, err := findAccount(prof.RunAs)
	if err != nil {
		return h
	}
	return h.becoming(u)
}

// ofUser is as of, for a name that a person has given just now.
func (h *Home) ofUser(text string) (*Home, error) {
	if text == "" {
		return h, nil
	}
	u, err := findAccount(text)
	if err == nil {
		err = mayBecome(u, os.Getuid(), os.Geteuid())
	}
	if err != nil || os.Geteuid() != 0 {
		return h, err
	}
	return h.becoming(u), nil
}

// as calls f with the rights of the user that runs become, where it is another than the
// starter. F must not start goroutines, nor need anything of $BOURN_HOME.
func (h *Home) as(f func()) error {
	if h.user == nil {
		f()
		return nil
	}
	return launch.As(&h.user.User, f)
}

// A reacher asks what the user that a run becomes can get at by itself.
type reacher struct {
	asked chan reachable
	ended chan error
}

type reachable struct {
	path   string
	read   bool
	answer chan bool
}

// reacher returns nil where the run becomes nobody else.
func (h *Home) reacher() (*reacher, error) {
	if h.user == nil {
		return nil, nil
	}
	r := &reacher{make(chan reachable), make(chan error, 1)}
	ready := make(chan struct{})
	go func() {
		r.ended <- h.as(func() {
			close(ready)
			for q := range r.asked {
				q.answer <- reach(q.path, q.read)
			}
		})
	}()
	select {
	case <-ready:
		return r, nil
	case err := <-r.ended:
		return nil, err
	}
}

// reach reports whether the calling thread gets to a path, and with read may read the file.
func reach(path string, read bool) bool {
	if !read {
		_, err := os.Lstat(path)
		return err == nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return err == nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

func (r *reacher) ask(path string, read bool) bool {
	q := reachable{path, read, make(chan bool)}
	r.asked <- q
	return <-q.answer
}

// close ends the thread that answers.
func (r *reacher) close() {
	close(r.asked)
	<-r.ended
}

// judge returns why a grant is not the user's to have, or "". What a preset grants, and what
// a symlink leads to, nobody has named: the user must get there without root's help.
func (r *reacher) judge(g policy.Grant) string {
	if !g.Exists || !strings.HasPrefix(g.From, "preset:") && len(g.Links) == 0 || r.ask(g.Real, false) {
		return ""
	}
	return "the user of run_as cannot get there"
}

// ownHome sees to it that the agent's home is the user's whom the run becomes, or root's. An
// empty one of root's is given away; nothing else is, since all below it would have to go
// along. The caller holds the agent's lock.
func (h *Home) ownHome(name bourn.AgentName) error {
	if os.Geteuid() != 0 {
		return nil
	}
	at, want, whose := h.HomePath(name), 0, "root"
	if h.user != nil {
		want, whose = h.user.UID, h.user.Name
	}
	o, err := survey.Stat(at)
	if err != nil || o.Type != survey.Dir || int(o.Uid) == want {
		return err
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	if len(entries) == 0 && o.Uid == 0 {
		return os.Lchown(at, h.user.UID, h.user.GID)
	}
	return bourn.WithHint(fmt.Errorf("%w: the home of agent %q belongs to another user (%d) than the run's, %s", bourn.ErrConflict, string(name), o.Uid, whose),
		fmt.Sprintf("look at what it holds, then: chown -Rh %s: %s", whose, shellQuote(at)))
}
