package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox/landlock"
	"bourn/internal/sandbox/survey"
)

// A Health is the outcome of one check. The zero value is no outcome.
type Health string

const (
	Healthy   Health = "ok"
	Unhealthy Health = "not_ok"
	Untold    Health = "unknown" // it could not be told
)

// A Check is one thing that was looked at, and what to do where it is not well.
type Check struct {
	Name   string `json:"name"`
	State  Health `json:"state"`
	Detail string `json:"detail"`
	Mend   string `json:"mend"` // "" where nothing needs to be done
}

// A Checkup says what this host can keep.
type Checkup struct {
	Sealed bool    `json:"sealed"` // a run was sealed just now
	Checks []Check `json:"checks"`
}

// Checkup looks at the host, seals a run in a temporary directory, and looks at
// $BOURN_HOME. It changes nothing that it does not remove; of what runs that were killed have
// left it removes the placeholders, which stand in a person's own directories.
func (h *Home) Checkup() Checkup {
	checks := []Check{kernel()}
	checks = append(checks, userNamespaces(os.Getuid())...)
	checks = append(checks, landlockABI(), seccompFilters(), limits())
	sealed := h.sealing()
	checks = append(checks, sealed, h.directory(), h.program(), h.profiles(), h.records(), h.leftovers(), h.hardBlocks())
	return Checkup{Sealed: sealed.State == Healthy, Checks: checks}
}

// oldestKernel is the first Linux with what a seal needs: Landlock (5.13).
var oldestKernel = [2]int{5, 13}

func kernel() Check {
	c := Check{Name: "kernel"}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return c.untold(err)
	}
	c.Detail = "Linux " + strings.TrimSpace(string(release))
	var v [2]int
	if n, _ := fmt.Sscanf(string(release), "%d.%d", &v[0], &v[1]); n != 2 {
		return c.untold(errors.New("its version is not known: " + c.Detail))
	}
	if v[0] < oldestKernel[0] || v[0] == oldestKernel[0] && v[1] < oldestKernel[1] {
		return c.bad("a newer kernel: Linux 5.13 at least, 6.12 for all of it")
	}
	return c.good()
}

// sysctls are the settings that can keep a person from making user namespaces.
var sysctls = []struct {
	name, file string
	good       func(int) bool
	forRoot    bool // binds root as well
	mend       string
}{
	{"user.max_user_namespaces", "/proc/sys/user/max_user_namespaces", func(n int) bool { return n > 0 }, true,
		"sysctl -w user.max_user_namespaces=15000"},
	{"kernel.unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone", func(n int) bool { return n != 0 }, false,
		"sysctl -w kernel.unprivileged_userns_clone=1"},
	{"kernel.apparmor_restrict_unprivileged_userns", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", func(n int) bool { return n == 0 }, false,
		"an AppArmor profile that grants userns to bourn, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
}

// userNamespaces checks the settings that this kernel has. One that is not there, as most
// are not, restricts nothing.
func userNamespaces(uid int) []Check {
	var out []Check
	for i, s := range sysctls {
		c := Check{Name: "user namespaces"}
		text, err := os.ReadFile(s.file)
		if errors.Is(err, fs.ErrNotExist) {
			if i == 0 {
				out = append(out, c.because("this kernel has none").bad("a kernel with CONFIG_USER_NS"))
			}
			continue
		}
		n, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
		if err = errors.Join(err, err2); err != nil {
			out = append(out, c.untold(err))
			continue
		}
		c.Detail = fmt.Sprintf("%s = %d", s.name, n)
		switch {
		case s.good(n):
			c = c.good()
		case uid == 0 && !s.forRoot:
			c.Detail += ", which does not bind root"
			c = c.good()
		default:
			c = c.bad(s.mend)
		}
		out = append(out, c)
	}
	return out
}

// scopesABI is the Landlock version that also keeps signals and abstract sockets.
const scopesABI = 6

func landlockABI() Check {
	c := Check{Name: "Landlock"}
	abi, err := landlock.ABI()
	switch {
	case errors.Is(err, landlock.ErrAbsent):
		return c.because(err.Error()).bad("add landlock to lsm= on the kernel's command line")
	case err != nil:
		return c.untold(err)
	}
	c.Detail = fmt.Sprintf("ABI %d", abi)
	if abi < scopesABI {
		c.Detail += "; from 6 on (Linux 6.12) it also keeps signals and abstract sockets, which namespaces keep here"
	}
	return c.good()
}

func seccompFilters() Check {
	c := Check{Name: "seccomp"}
	actions, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.because("this kernel has no filters").bad("a kernel with CONFIG_SECCOMP_FILTER")
	case err != nil:
		return c.untold(err)
	case !strings.Contains(string(actions), "errno"):
		return c.because("filters cannot refuse a call: " + strings.TrimSpace(string(actions))).bad("a newer kernel")
	}
	c.Detail = "filters can refuse calls"
	return c.good()
}

// limits says how far limits reach: they are rlimits, which no host lacks.
func limits() Check {
	c := Check{Name: "limits", Detail: "for each process (rlimits), not for a run as a whole"}
	return c.good()
}

// sealing carries out the whole pipeline but for the command.
func (h *Home) sealing() Check {
	c := Check{Name: "sealing a run"}
	dir, err := os.MkdirTemp("", "bourn-doctor-")
	if err != nil {
		return c.untold(err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return c.untold(err)
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return c.untold(err)
	}
	// Records go to a home of the checkup's own: what is wrong with the person's has a
	// check of its own.
	trial := *h
	trial.Dir = filepath.Join(dir, "home")
	p, err := trial.Prepare(Options{Command: []string{"true"}, Cwd: work})
	if err == nil {
		_, err = p.Run(Streams{}, nil, true)
	}
	if err != nil {
		c.Detail = err.Error()
		return c.bad(bourn.HintOf(err))
	}
	c.Detail = "done, with " + policy.Backend
	return c.good()
}

// networkFS are file systems whose server, or whose other clients, change what is read.
var networkFS = []string{"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "9p", "ncpfs", "coda",
	"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs"}

// directory checks $BOURN_HOME: whoever can write there grants.
func (h *Home) directory() Check {
	c := Check{Name: "BOURN_HOME"}
	o, err := survey.Stat(h.Dir)
	if err != nil {
		return c.untold(err)
	}
	at := bourn.Printable(h.Dir)
	way := ownWay(h.Dir, os.Geteuid())
	switch uid := os.Getuid(); {
	case way != nil:
		return c.because(way.Error()).bad("set BOURN_HOME to a directory of your own, below directories of root's and yours")
	case o.Type == survey.Missing:
		c.Detail = at + " does not exist yet, and is made when it is needed"
		return c.good()
	case o.Type != survey.Dir:
		return c.because(at + " is a " + o.Type.String()).bad("set BOURN_HOME to a directory of your own")
	case o.Uid != uint32(uid):
		return c.because(fmt.Sprintf("%s belongs to uid %d, and you are %d", at, o.Uid, uid)).bad("set BOURN_HOME to a directory of your own")
	case o.Mode&0o077 != 0:
		return c.because(fmt.Sprintf("%s has mode %04o: others can reach into it", at, o.Mode&0o7777)).bad("chmod 0700 " + shellQuote(h.Dir))
	}
	table, err := survey.Mounts()
	if err != nil {
		return c.untold(err)
	}
	if m, ok := table.At(h.Dir); ok && slices.Contains(networkFS, m.FSType) {
		return c.because(fmt.Sprintf("%s is on a network file system (%s): locks and renames may not hold there", at, m.FSType)).
			bad("set BOURN_HOME to a directory on a local disk")
	}
	c.Detail = at + " is yours alone"
	return c.good()
}

// program checks that nobody else can replace what seals.
func (h *Home) program() Check {
	c := Check{Name: "bourn program"}
	for at := h.Program; ; at = filepath.Dir(at) {
		o, err := survey.Stat(at)
		if err != nil {
			return c.untold(err)
		}
		sticky := o.Type == survey.Dir && o.Mode&0o1000 != 0
		switch {
		case o.Uid != 0 && o.Uid != uint32(os.Getuid()):
			return c.because(fmt.Sprintf("%s belongs to uid %d, who can replace what seals your runs", bourn.Printable(at), o.Uid)).
				bad("install bourn in a directory of root's or your own")
		case o.Mode&0o002 != 0 && !sticky:
			return c.because(bourn.Printable(at) + " can be written by everyone").bad("chmod o-w " + shellQuote(at))
		}
		if at == "/" {
			break
		}
	}
	c.Detail = bourn.Printable(h.Program) + " can be replaced only by you and root"
	return c.good()
}

func (h *Home) profiles() Check {
	c := Check{Name: "profiles"}
	names, err := h.Agents()
	if err != nil {
		return c.untold(err)
	}
	for _, name := range names {
		src, err := os.ReadFile(h.ProfilePath(name))
		if err == nil {
			_, err = profile.ParseFor(name, h.ProfilePath(name), src)
		}
		if err != nil {
			return c.because(fmt.Sprintf("agent %q cannot start: %s", name, firstLine(err))).bad("bourn agent perm show " + string(name))
		}
	}
	c.Detail = plural(len(names), "agent")
	return c.good()
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// records checks that what lives can be told.
func (h *Home) records() Check {
	c := Check{Name: "records"}
	names, err := h.Agents()
	if err != nil {
		return c.untold(err)
	}
	running := 0
	for _, name := range append(names, "") {
		live, unreadable, err := h.Live(name)
		if err = errors.Join(err, unreadable); err != nil {
			return c.because(firstLine(err)).bad("when nothing runs under it, remove that record")
		}
		running += len(live)
	}
	c.Detail = plural(running, "run") + " live"
	return c.good()
}

// leftovers looks for what killed runs and an interrupted create have left.
func (h *Home) leftovers() Check {
	c := Check{Name: "leftovers"}
	killed, err := filepath.Glob(filepath.Join(h.agents(), "*", "places.json"))
	if err != nil {
		return c.untold(err)
	}
	for _, at := range killed {
		name := bourn.AgentName(filepath.Base(filepath.Dir(at)))
		live, unreadable, err := h.Live(name)
		if err = errors.Join(err, unreadable); err != nil {
			return c.untold(err)
		}
		if len(live) == 0 {
			return c.because(fmt.Sprintf("agent %q has mount points of a run that was killed", name)).bad("bourn agent list removes them")
		}
	}
	if half, _ := filepath.Glob(filepath.Join(h.agents(), ".new-*")); len(half) > 0 {
		return c.because(bourn.Printable(half[0]) + " was left by an interrupted bourn agent create").bad("rm -r " + shellQuote(half[0]))
	}
	return h.placeholdersLeft(c)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (c Check) because(detail string) Check {
	c.Detail = detail
	return c
}

func (c Check) good() Check {
	c.State = Healthy
	return c
}

func (c Check) bad(mend string) Check {
	c.State, c.Mend = Unhealthy, mend
	return c
}

func (c Check) untold(err error) Check {
	c.State, c.Detail = Untold, err.Error()
	return c
}
