package cli

import (
	"fmt"
	"strconv"
	"strings"

	"bourn/internal/posix"
	"bourn/internal/run"
)

// What keeps people of one host apart besides their users: settings of the kernel and mounts.

// protections are settings of the kernel and what each keeps from happening (proc_sys_fs(5)).
var protections = []struct {
	name  string
	least int
	keeps string
}{
	{"protected_symlinks", 1, "following a link that somebody else put into a shared directory"},
	{"protected_hardlinks", 1, "linking to a file that one cannot write"},
	{"protected_fifos", 1, "writing to a fifo that somebody else put there"},
	{"protected_regular", 1, "writing to a file that somebody else put there"},
}

func protectedFiles(read func(string) ([]byte, error)) run.Check {
	c := run.Check{Name: "protected files", State: run.Healthy}
	var have, set, why []string
	for _, s := range protections {
		text, err := read("/proc/sys/fs/" + s.name)
		n, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
		switch {
		case err != nil || err2 != nil:
			have, c.State = append(have, s.name+" cannot be read"), run.Untold
		case n < s.least:
			set, why = append(set, fmt.Sprintf("fs.%s=%d", s.name, s.least)), append(why, s.keeps)
		}
		if err == nil && err2 == nil {
			have = append(have, fmt.Sprintf("%s = %d", s.name, n))
		}
	}
	c.Detail = strings.Join(have, ", ")
	if len(set) > 0 {
		c.State, c.Detail, c.Mend = run.Unhealthy, c.Detail+": nothing keeps anybody from "+strings.Join(why, ", or "), "sysctl -w "+strings.Join(set, " ")
	}
	return c
}

// procCheck looks at how the process file system is mounted. With hidepid the control plane,
// which is not root, cannot see who asks it, unless its group is excepted (proc(5)).
func procCheck(read func(string) ([]byte, error), s service) run.Check {
	c := run.Check{Name: "/proc", State: run.Untold}
	text, err := read("/proc/self/mountinfo")
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	options := ""
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && fields[4] == "/proc" {
			options = fields[len(fields)-1] // the last mount hides those before
		}
	}
	hides, gid := "", ""
	for option := range strings.SplitSeq(options, ",") {
		if v, ok := strings.CutPrefix(option, "hidepid="); ok && v != "0" && v != "off" {
			hides = v
		}
		if v, ok := strings.CutPrefix(option, "gid="); ok {
			gid = v
		}
	}
	switch own := strconv.FormatUint(uint64(s.gid), 10); {
	case hides == "":
		c.State = run.Healthy
		c.Detail = "users of the host see each other's command lines; what runs sealed sees its own"
		if s.known {
			c.Detail += fmt.Sprintf("; mount -o remount,hidepid=2,gid=%s /proc hides them", own)
		}
	case !s.known:
		c.Detail = "mounted with hidepid=" + hides + "; who the service is, is not known"
	case gid != own:
		c.State, c.Detail = run.Unhealthy, "mounted with hidepid="+hides+": the control plane does not see who asks it, and refuses them"
		c.Mend = "mount -o remount,hidepid=" + hides + ",gid=" + own + " /proc, and the same in /etc/fstab"
	default:
		c.State, c.Detail = run.Healthy, "mounted with hidepid="+hides+", but for the service's group"
	}
	return c
}

// stickyCheck looks at a directory that everybody writes in: nobody may remove or rename what
// is somebody else's.
func stickyCheck(at string) run.Check {
	c := run.Check{Name: at, State: run.Healthy, Detail: "shared, and sticky: nobody removes what is somebody else's; a seal has its own"}
	f, err := posix.Look(at)
	switch {
	case err != nil:
		c.State, c.Detail = run.Untold, sentence(err)
	case f.Mode&0o022 != 0 && f.Mode&0o1000 == 0 || f.UID != 0 || f.Kind != "directory":
		c.State, c.Detail = run.Unhealthy, fmt.Sprintf("is %s of %d with mode %04o, and must be root's and sticky", f.Kind, f.UID, f.Mode)
		c.Mend = "chown 0 " + at + " && chmod 1777 " + at
	}
	return c
}
