package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bourn"
	"bourn/internal/posix"
	"bourn/internal/run"
)

// peopleChecks look at a host that people share, and at none else: the helper, who there is,
// and the settings that keep people apart.
func (a *app) peopleChecks(h *run.Home) []run.Check {
	_, err := os.Lstat(posix.StatePath)
	_, err2 := os.Lstat(posix.RegistryPath)
	if errors.Is(err, os.ErrNotExist) && errors.Is(err2, os.ErrNotExist) {
		return nil
	}
	registry, r := registryCheck()
	service := serviceOf(r)
	checks := append([]run.Check{registry}, a.accountChecks()...)
	checks = append(checks, helperCheck(filepath.Join(filepath.Dir(h.Program), "../libexec/bourn/bourn-posix-helper"), service))
	checks = append(checks, serviceChecks(service)...)
	checks = append(checks, protectedFiles(os.ReadFile))
	checks = append(checks, procCheck(os.ReadFile, service), stickyCheck("/tmp"), stickyCheck("/dev/shm"))
	return checks
}

// registryCheck looks at what the helper knows, and returns it.
func registryCheck() (run.Check, *posix.Registry) {
	c := run.Check{Name: "people", State: run.Healthy}
	r, err := posix.LoadRegistry(posix.RegistryPath)
	if err != nil {
		c.State, c.Detail, c.Mend = run.Unhealthy, sentence(err), "bourn people sync, as root"
		return c, nil
	}
	active := 0
	for _, e := range r.People {
		if e.Active {
			active++
		}
	}
	c.Detail = fmt.Sprintf("the helper knows %d active people and %d circles in %s", active, len(r.Circles), r.Range)
	if n := len(r.Revoked); n > 0 {
		c.State, c.Detail = run.Unhealthy, fmt.Sprintf("%s; the control plane revoked %d things that are given still", c.Detail, n)
		c.Mend = "bourn people sync --dry-run names them: remove the person, or let them leave the circle"
	}
	return c, &r
}

// accountChecks plan what bourn people sync would do.
func (a *app) accountChecks() []run.Check {
	c := run.Check{Name: "accounts", State: run.Healthy}
	p := &people{app: a}
	s, err := p.load()
	var plan synced
	if err == nil {
		p.given = given(s)
		plan, err = p.plan(s)
	}
	switch {
	case errors.Is(err, bourn.ErrDenied) && os.Geteuid() != 0:
		c.State, c.Detail, c.Mend = run.Untold, "who there is, only root can read", "bourn doctor, as root"
		return []run.Check{c}
	case err != nil:
		c.State, c.Detail, c.Mend = run.Unhealthy, sentence(err), bourn.HintOf(err)
		return []run.Check{c}
	case len(plan.Changes) > 0:
		c.State, c.Detail = run.Unhealthy, fmt.Sprintf("bourn people sync would do %d things", len(plan.Changes))
		c.Mend = "bourn people sync; with --dry-run it says what it would do"
	default:
		c.Detail = "users, groups, directories and mounts are as they should be"
	}
	checks := []run.Check{c}
	if slices.ContainsFunc(plan.Problems, blocks) && len(plan.Changes) == 0 {
		checks = nil // nothing is done because of what follows
	}
	for _, q := range plan.Problems {
		checks = append(checks, run.Check{Name: "accounts", State: run.Unhealthy, Detail: q.String(), Mend: q.Hint})
	}
	return checks
}

// A service is the user of the control plane. The zero value is not known.
type service struct {
	uid, gid uint32
	known    bool
}

func serviceOf(r *posix.Registry) service {
	if r == nil {
		return service{}
	}
	u, err := user.LookupId(strconv.FormatUint(uint64(r.Service), 10))
	if err != nil {
		return service{}
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return service{r.Service, uint32(gid), err == nil}
}

// helperMode lets the group, in which the service is alone, execute the helper as root.
const helperMode = 0o4750

// helperCheck looks at the helper. Its version it does not say.
func helperCheck(at string, s service) run.Check {
	c := run.Check{Name: "helper", State: run.Unhealthy}
	f, err := posix.Look(at)
	if err != nil {
		c.Detail, c.Mend = sentence(err), bourn.HintOf(err)
		if errors.Is(err, bourn.ErrNotFound) {
			c.Detail, c.Mend = at+" is not there", "install the package, or as root: make install"
		}
		return c
	}
	c.Detail = fmt.Sprintf("%s is of %d:%d with mode %04o", at, f.UID, f.GID, f.Mode)
	switch {
	case f.Kind != "a file":
		c.Detail, c.Mend = at+" is not a file but "+f.Kind, "install the package anew"
	case f.NoSUID:
		c.Detail, c.Mend = at+" stands on a mount with nosuid, where it becomes nobody", "mount -o remount,suid the file system of "+filepath.Dir(at)
	case !s.known:
		c.State, c.Detail, c.Mend = run.Untold, c.Detail+"; who the service is, is not known", "bourn people sync, as root"
	case f.UID != 0 || f.GID != s.gid || f.Mode != helperMode:
		c.Detail += fmt.Sprintf(", and must be of 0:%d with mode %04o", s.gid, helperMode)
		c.Mend = fmt.Sprintf("chown 0:%d %s && chmod %o %s", s.gid, at, helperMode, at)
	case f.Names > 1:
		// Who may link to it keeps this one, setuid, when another takes its place.
		c.Detail += fmt.Sprintf(", and has %d names: the others stay setuid when it is exchanged", f.Names)
		c.Mend = "find / -xdev -samefile " + at + " shows them: remove all but this one, and set fs.protected_hardlinks=1"
	default:
		c.State = run.Healthy
	}
	return c
}

const mendUnit = "systemctl cat bourn.service: take out what shared-host.md says a drop-in may not set"

// serviceChecks look at whether the control plane can start the helper.
func serviceChecks(s service) []run.Check {
	c := run.Check{Name: "service", State: run.Untold, Detail: "no control plane of user bourn runs"}
	if s.known {
		c = runningService(os.ReadFile, numbers("/proc"), s)
	}
	checks := []run.Check{c}
	if text, err := unitSettings(); err == nil {
		checks = append(checks, unitCheck(text))
	}
	return checks
}

// numbers are the names in a directory that are numbers.
func numbers(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var all []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, e.Name())
		}
	}
	return all
}

// helperRunner is the first argument of the process that executes the helper for bournd, which
// itself has no_new_privs: of the two only this one may not have it.
const helperRunner = "helper-runner"

// runningService looks at the processes of the service (proc_pid_status(5)).
func runningService(read func(string) ([]byte, error), pids []string, s service) run.Check {
	c := run.Check{Name: "service", State: run.Untold, Detail: "no control plane runs as the service", Mend: "systemctl start bourn.service"}
	uid := strconv.FormatUint(uint64(s.uid), 10)
	for _, pid := range pids {
		status, err := read("/proc/" + pid + "/status")
		line, err2 := read("/proc/" + pid + "/cmdline")
		if err != nil || err2 != nil {
			continue // it has ended
		}
		f := statusFields(status)
		args := strings.Split(string(line), "\x00")
		switch {
		case f["Uid"] != uid:
		case len(args) > 1 && args[1] == helperRunner && f["NoNewPrivs"] == "0":
			return run.Check{Name: "service", State: run.Healthy, Detail: "the control plane can start the helper (process " + pid + ")"}
		case len(args) > 1 && args[1] == helperRunner:
			return run.Check{Name: "service", State: run.Unhealthy, Detail: "process " + pid + ", which starts the helper, has no_new_privs: the helper becomes nobody for it", Mend: mendUnit}
		case f["Name"] == "bournd":
			c.Detail, c.Mend = "bournd, process "+pid+", has no process that starts the helper", "its log says why: journalctl -u bourn"
		}
	}
	return c
}

// statusFields are the fields of a status file, of each the first word or number.
func statusFields(status []byte) map[string]string {
	f := map[string]string{}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		f[key], _, _ = strings.Cut(strings.TrimSpace(value), "\t")
	}
	return f
}

// breaking are the settings of a unit that imply no_new_privs where they are not as they come,
// and how they come (systemd.exec(5)). What a running bournd has says the rest.
var breaking = map[string]string{
	"NoNewPrivileges": "no", "DynamicUser": "no", "LockPersonality": "no", "MemoryDenyWriteExecute": "no", "PrivateDevices": "no",
	"ProtectClock": "no", "ProtectHostname": "no", "ProtectKernelLogs": "no", "ProtectKernelModules": "no", "ProtectKernelTunables": "no",
	"RestrictRealtime": "no", "RestrictSUIDSGID": "no", "SystemCallFilter": "", "SystemCallArchitectures": "", "SystemCallLog": "",
}

// unitSettings asks systemd, where it runs, for the settings above.
func unitSettings() ([]byte, error) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil, err
	}
	const within = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	args := []string{"show", "bourn.service"}
	for name := range breaking {
		args = append(args, "-p", name)
	}
	return exec.CommandContext(ctx, "systemctl", args...).Output()
}

// unitCheck reads what systemctl show prints.
func unitCheck(text []byte) run.Check {
	c := run.Check{Name: "service unit", State: run.Healthy, Detail: "bourn.service lets the helper work"}
	var bad []string
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.TrimPrefix(value, "~") // a list of calls that is not set: "~" (systemd 252)
		if as, known := breaking[name]; known && value != as {
			bad = append(bad, name+"="+value)
		}
	}
	if len(bad) > 0 {
		c.State, c.Mend = run.Unhealthy, mendUnit
		c.Detail = "bourn.service has " + strings.Join(bad, ", ") + ": the helper becomes nobody for it"
	}
	return c
}
