package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"bourn/internal/posix"
	"bourn/internal/run/runtest"
)

func TestActor(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		s := asking{call: call{Env: []string{"SECRET=1", "PATH=/tmp"}}}.ask(t, "actor", ann, "builder").acted(t)
		checkState(t, s, annUID, "ann", ann)
		if diff := cmp.Diff([]string{"bourn", "person-actor", "--agent", "builder"}, s.Argv); diff != "" {
			t.Error(diff)
		}
		s = asking{uid: -1}.ask(t, "actor", bob).acted(t)
		checkState(t, s, bobUID, "bob", bob)
		if diff := cmp.Diff([]string{"bourn", "person-actor"}, s.Argv); diff != "" {
			t.Error(diff)
		}
	})
}

// checkState holds everything about the actor's process against what it must be, whoever called.
func checkState(t testing.TB, s state, uid int, id, name string) {
	t.Helper()
	four := strings.TrimSpace(strings.Repeat(fmt.Sprint(uid)+" ", 4))
	none := strings.Repeat("0", 16)
	want := map[string]string{
		"Uid": four, "Gid": four, "Groups": fmt.Sprintf("%d %d", sharedGID, salesGID), "NoNewPrivs": "1", "SigBlk": none, "SigIgn": none,
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
	}
	for field := range s.Status {
		if _, wanted := want[field]; !wanted {
			delete(s.Status, field)
		}
	}
	if diff := cmp.Diff(want, s.Status); diff != "" {
		t.Errorf("status: %s", diff)
	}
	home := homes + id
	shell := "/bin/sh"
	if _, err := os.Stat("/bin/bash"); err == nil {
		shell = "/bin/bash"
	}
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + home, "USER=" + name, "LOGNAME=" + name,
		"SHELL=" + shell, "BOURN_HOME=" + home + "/.bourn",
	}
	if diff := cmp.Diff(env, s.Env); diff != "" {
		t.Errorf("environment: %s", diff)
	}
	if diff := cmp.Diff(map[int]string{0: "socket", 1: "socket", 2: "pipe"}, s.Open); diff != "" {
		t.Errorf("descriptors: %s", diff)
	}
	for _, l := range limits {
		is := s.Limits[l.resource]
		if is.Max < l.hard && is.Max >= l.least && !capable(t, unix.CAP_SYS_RESOURCE) {
			l.hard, l.soft = is.Max, min(l.soft, is.Max)
		}
		if l.resource == unix.RLIMIT_NOFILE {
			l.soft = is.Cur // Go's runtime raises the soft one to the hard one
		}
		if is.Cur != l.soft || is.Max != l.hard {
			t.Errorf("limit of %s: %d and %d, want %d and %d", l.name, is.Cur, is.Max, l.soft, l.hard)
		}
	}
	if s.Cwd != home || s.Umask != 0o007 || s.Personality != 0 || s.Timer || !s.Leads || s.Terminal || strings.HasPrefix(s.OOM, "-") {
		t.Errorf("directory %q, umask %04o, personality %#x, timer %v, leads its session %v, terminal %v, oom_score_adj %q",
			s.Cwd, s.Umask, s.Personality, s.Timer, s.Leads, s.Terminal, s.OOM)
	}
}

// TestInherited has callers that leave everything behind that a caller can leave.
func TestInherited(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		write(t, "/mnt/secret", []byte("root only"), 0, 0, 0o600)
		secret, err := os.Open("/mnt/secret")
		must(t, err)
		must(t, unix.Mkfifo("/mnt/fifo", 0o666))
		mayRaise := capable(t, unix.CAP_SYS_RESOURCE)
		if mayRaise {
			must(t, os.WriteFile("/proc/self/oom_score_adj", []byte("-500"), 0))
		}
		var moved [2]int
		must(t, unix.Pipe2(moved[:], unix.O_CLOEXEC))
		poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		must(t, err)
		for name, a := range map[string]asking{
			"environment": {call: call{Env: []string{
				"LD_PRELOAD=/mnt/x.so", "LD_LIBRARY_PATH=/mnt", "GODEBUG=execerrdot=0", "GOTRACEBACK=crash", "GOGC=1", "GOMEMLIMIT=1", "GOMAXPROCS=1",
				"TZ=:/mnt/fifo", "BASH_ENV=/mnt/x", "HOME=/", "BOURN_HOME=/mnt", "=", "x", "",
			}}},
			"signals": {call: call{
				Block: true, Ignore: []int{int(unix.SIGHUP), int(unix.SIGINT), int(unix.SIGCHLD), int(unix.SIGPIPE), int(unix.SIGURG)},
			}},
			"descriptors": {extra: []*os.File{secret, os.NewFile(uintptr(moved[0]), "r"), os.NewFile(uintptr(moved[1]), "w"), os.NewFile(uintptr(poll), "epoll")},
				call: call{Move: map[int]int{3: 9, 4: 900}}},
			"non-blocking":  {call: call{NonBlock: true, Env: []string{"GOMEMLIMIT=1", "GOGC=1"}}},
			"umask":         {call: call{Umask: 0o777}},
			"personality":   {call: call{Personality: 0x0020000}}, // UNAME26: not among those that a setuid program loses
			"timer":         {call: call{Timer: true}},
			"session":       {call: call{Session: true}},
			"directory":     {call: call{Dir: "/etc/bourn"}},
			"other groups":  {groups: []int{serviceUID, 0, 4, salesGID + 100}},
			"root's groups": {uid: -1},
		} {
			t.Run(name, func(t *testing.T) { checkState(t, a.ask(t, "actor", ann).acted(t), annUID, "ann", ann) })
		}
		t.Run("keyring", func(t *testing.T) {
			if _, err := unix.KeyctlJoinSessionKeyring("test"); err != nil {
				runtest.Need(t, "keyrings", false)
			}
			// The stand-in itself as the caller's program: what the caller has.
			a := asking{call: call{Keyring: true, Path: rolePath, Argv: []string{"bourn"}}, uid: annUID, say: "{}\n"}
			had := a.ask(t).acted(t)
			has := asking{call: call{Keyring: true}}.ask(t, "actor", ann).acted(t)
			if !strings.HasSuffix(had.Keyring, ";service") || has.Keyring == "" || strings.HasSuffix(has.Keyring, ";service") {
				t.Errorf("the service's keyring is %q, the actor's %q", had.Keyring, has.Keyring)
			}
		})
		t.Run("limits", func(t *testing.T) {
			for resource, value := range map[int]uint64{
				unix.RLIMIT_FSIZE: 0, unix.RLIMIT_CPU: 1, unix.RLIMIT_NOFILE: 20, unix.RLIMIT_STACK: 512 << 10, unix.RLIMIT_NPROC: 1,
			} {
				got := asking{call: call{Limits: map[int]uint64{resource: value}}}.ask(t, "actor", ann)
				if mayRaise {
					checkState(t, got.acted(t), annUID, "ann", ann)
				} else {
					got.refused(t, posix.RuntimeUnavailable, "cannot limit")
				}
			}
		})
		t.Run("process group", func(t *testing.T) {
			asking{call: call{Group: true}}.ask(t, "actor", ann).refused(t, posix.RuntimeUnavailable, "leads a process group")
		})
		// Too little to run on ends it, whatever way, before anybody is become.
		for name, a := range map[string]asking{
			"3 files":       {call: call{Limits: map[int]uint64{unix.RLIMIT_NOFILE: 3}}},
			"no memory":     {call: call{Limits: map[int]uint64{unix.RLIMIT_AS: 1 << 20}}},
			"little memory": {call: call{Limits: map[int]uint64{unix.RLIMIT_AS: 200 << 20}}},
			"no data":       {call: call{Limits: map[int]uint64{unix.RLIMIT_DATA: 64 << 10}}},
		} {
			t.Run(name, func(t *testing.T) {
				if got := a.ask(t, "actor", ann); got.state == nil && got.status == 0 {
					t.Errorf("it says that it acted: %+v", got)
				} else if got.state != nil {
					checkState(t, *got.state, annUID, "ann", ann)
				}
			})
		}
	})
}

// capable reports whether this process has a capability.
func capable(t testing.TB, capability int) bool {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	must(t, unix.Capget(&header, &sets[0]))
	return sets[capability/32].Effective&(1<<(capability%32)) != 0
}

func TestArguments(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		long := strings.Repeat("a", 100000)
		for _, argv := range [][]string{
			{}, {"h"}, {"h", "actor"}, {"h", "actor", ann, "builder", "x"}, {"h", "", ""}, {"h", "-h", "-h"}, {"actor", ann},
			{"h", "actor", long}, {"h", long, ann}, {"h", "actor", ann, long}, {long, "actor", "root"}, {"h", "ACTOR", ann}, {"h", "sh", ann},
			{"h", "actor", "root"}, {"h", "actor", "0"}, {"h", "actor", "-1"}, {"h", "actor", "4294967295"}, {"h", "actor", fmt.Sprint(annUID)}, {"h", "actor", "#0"},
			{"h", "actor", "../x"}, {"h", "actor", ""}, {"h", "actor", "bc_person_"}, {"h", "actor", strings.ToUpper(ann)}, {"h", "actor", "bc_person_AAAAAAAAAA"},
			{"h", "actor", ann + "\n"}, {"h", "actor", ann + " "}, {"h", "actor", " " + ann}, {"h", "actor", sales}, {"h", "actor", "bc_person_ааааааaaaa"},
			{"h", "actor", ann, ""}, {"h", "actor", ann, "../x"}, {"h", "actor", ann, "--agent"}, {"h", "actor", ann, "A"},
			{"h", "kill", ann, "x"}, {"h", "dial", ann, "x"}, {"h", "revoke", ann, bob}, {"h", "revoke", ann, ""},
		} {
			asking{call: call{Argv: argv}}.ask(t).refused(t, posix.OperationFailed, "")
		}
		asking{}.ask(t, "actor", "bc_person_nnnnnnnnnn").refused(t, posix.IdentityMissing, "nobody is")
		asking{}.ask(t, "actor", gone).refused(t, posix.PermissionDenied, "is not active")
		asking{}.ask(t, "dial", gone).refused(t, posix.PermissionDenied, "is not active")
		asking{}.ask(t, "revoke", ann, "bc_circle_nnnnnnnnnn").refused(t, posix.NotFound, "no such person or circle")
	})
}

// TestCaller has others than the service ask.
func TestCaller(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		others := map[string]asking{
			"a person": {uid: annUID}, "nobody": {uid: 65534}, "a person in root's group": {uid: bobUID, groups: []int{0, salesGID}},
		}
		for name, a := range others {
			// Mode 4750: not a line of the helper runs.
			if got := a.ask(t, "actor", ann); got.status != 121 || !strings.Contains(got.text, "permission denied") || got.state != nil {
				t.Errorf("%s: %+v", name, got)
			}
		}
		must(t, unix.Chmod(helperPath, 0o4755))
		for _, a := range others {
			for _, verb := range []string{"actor", "dial", "kill", "revoke"} {
				a.ask(t, verb, ann).refused(t, posix.PermissionDenied, "may not ask")
			}
		}
		// Who has only the service's group can run it, and is refused.
		must(t, unix.Chmod(helperPath, 0o4750))
		asking{uid: annUID, groups: []int{serviceUID}}.ask(t, "actor", ann).refused(t, posix.PermissionDenied, "may not ask")
		asking{groups: []int{serviceUID, annUID}}.ask(t, "actor", ann).acted(t)
	})
}

// TestNotRoot has the setuid bit ignored, in each way that a host does that.
func TestNotRoot(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		asking{call: call{NoNewPrivs: true}}.ask(t, "actor", ann).refused(t, posix.RuntimeUnavailable, "no_new_privs")
		must(t, unix.Chmod(helperPath, 0o750))
		asking{}.ask(t, "actor", ann).refused(t, posix.RuntimeUnavailable, "not setuid root")
		must(t, os.Chown(helperPath, bobUID, serviceUID))
		must(t, unix.Chmod(helperPath, 0o4750))
		asking{}.ask(t, "actor", ann).refused(t, posix.RuntimeUnavailable, "not setuid root")
		must(t, os.Chown(helperPath, 0, serviceUID))
		must(t, unix.Chmod(helperPath, 0o4750))
		asking{}.ask(t, "actor", ann).acted(t)
		inNamespace(t, "-Ur", "cannot use the registry") // root there, and nobody here
		inNamespace(t, "-U", "it does not run as root: the kernel ignored the setuid bit")
		must(t, unix.Mount("", "/mnt", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID, ""))
		asking{}.ask(t, "actor", ann).refused(t, posix.RuntimeUnavailable, "nosuid")
	})
}

// TestLies has a filter answer in place of the kernel that something was done.
func TestLies(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		other := start(t, bobUID, "hold")
		for name, number := range map[string]int{
			"setresuid": unix.SYS_SETRESUID, "setresgid": unix.SYS_SETRESGID, "setgroups": unix.SYS_SETGROUPS, "prctl": unix.SYS_PRCTL,
			"setuid": unix.SYS_SETUID, "setreuid": unix.SYS_SETREUID,
		} {
			for _, verb := range []string{"actor", "kill"} {
				if name == "setgroups" && verb == "kill" {
					continue // root's, in this test, and the order's are both none
				}
				t.Run(name+" "+verb, func(t *testing.T) {
					asking{uid: -1, call: call{Lie: number}}.ask(t, verb, ann).refused(t, posix.RuntimeUnavailable, "cannot become the person")
				})
			}
		}
		if ended(other) {
			t.Error("what was still root has ended another's process")
		}
	})
}

// inNamespace has the service start the helper in a user namespace of its own.
func inNamespace(t testing.TB, flag, words string) {
	t.Helper()
	unshare, err := exec.LookPath("unshare")
	if err == nil {
		probe := exec.Command(unshare, flag, "/bin/true")
		probe.SysProcAttr = &syscall.SysProcAttr{Credential: credential(0, nil)}
		err = probe.Run()
	}
	if err != nil {
		runtest.Need(t, "userns", false)
	}
	asking{call: call{Path: unshare, Argv: []string{"unshare", flag, helperPath, "actor", ann}}}.ask(t).refused(t, posix.RuntimeUnavailable, words)
}

func TestDescriptors(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		for fd := range 3 {
			a := asking{call: call{Close: []int{fd}}}
			got := a.ask(t, "actor", ann)
			if fd == 2 {
				got.text = "operation_failed: " // there is nowhere to say it
			}
			got.refused(t, posix.OperationFailed, "")
		}
		open := func(name string) *os.File {
			file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
			must(t, err)
			t.Cleanup(func() { file.Close() })
			return file
		}
		pair := func(kind int) *os.File {
			fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
			must(t, err)
			t.Cleanup(func() { unix.Close(fds[0]) })
			return os.NewFile(uintptr(fds[1]), "socket")
		}
		client, server := connected(t)
		r, w, err := os.Pipe()
		must(t, err)
		for name, test := range map[string]struct {
			files map[int]*os.File
			words string
		}{
			"null":          {map[int]*os.File{0: open("/dev/null")}, "descriptor 0"},
			"a file":        {map[int]*os.File{0: open("/mnt/file")}, "descriptor 0"},
			"a pipe":        {map[int]*os.File{0: r}, "descriptor 0"},
			"datagrams":     {map[int]*os.File{0: pair(unix.SOCK_DGRAM)}, "no stream socket"},
			"packets":       {map[int]*os.File{0: pair(unix.SOCK_SEQPACKET)}, "no stream socket"},
			"a client":      {map[int]*os.File{0: client, 1: client}, "socketpair is needed"},
			"a server":      {map[int]*os.File{0: server, 1: server}, "socketpair is needed"},
			"another 1":     {map[int]*os.File{1: pair(unix.SOCK_STREAM)}, "descriptor 1"},
			"1 is the pipe": {map[int]*os.File{1: w}, "descriptor 1"},
		} {
			t.Run(name, func(t *testing.T) {
				asking{files: test.files}.ask(t, "actor", ann).refused(t, posix.OperationFailed, test.words)
			})
		}
		for name, file := range map[string]*os.File{"a file": open("/mnt/errors"), "the reading end": r, "null": open("/dev/null")} {
			t.Run("2 is "+name, func(t *testing.T) {
				got := asking{files: map[int]*os.File{2: file}}.ask(t, "actor", ann)
				got.text = "operation_failed: "
				got.refused(t, posix.OperationFailed, "")
			})
		}
		t.Run("another's socketpair", func(t *testing.T) {
			asking{socket: pairOf(bobUID)}.ask(t, "actor", ann).refused(t, posix.OperationFailed, "made by somebody else")
			asking{socket: pairOf(serviceUID)}.ask(t, "actor", ann).acted(t)
		})
	})
}

// connected returns both ends of a connection that has a name.
func connected(t testing.TB) (client, server *os.File) {
	t.Helper()
	listening, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Bind(listening, &unix.SockaddrUnix{Name: "/mnt/named"}))
	must(t, unix.Listen(listening, 1))
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Connect(c, &unix.SockaddrUnix{Name: "/mnt/named"}))
	s, _, err := unix.Accept4(listening, unix.SOCK_CLOEXEC)
	must(t, err)
	return os.NewFile(uintptr(c), "client"), os.NewFile(uintptr(s), "server")
}

// pairOf returns what makes a socketpair as another user.
func pairOf(uid int) func() ([2]int, error) {
	return func() (pair [2]int, err error) {
		// The system call itself, so that only this thread changes; it changes back before anybody else uses it.
		as := func(uid int) syscall.Errno {
			_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
			return errno
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			lockThread()
			if errno := as(uid); errno != 0 {
				err = errno
				return
			}
			pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		}()
		<-done
		return pair, err
	}
}

// TestNotInstalled runs the helper as it comes from the compiler, as an ordinary user too.
func TestNotInstalled(t *testing.T) {
	helper := built(t)
	for _, args := range [][]string{{"actor", ann}, {"dial", ann}, {"kill", ann}, {"revoke", ann}} {
		cmd := exec.Command(helper, args...)
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: runtest.OrdinaryUID, Gid: runtest.OrdinaryUID}}
		}
		out, _ := cmd.CombinedOutput()
		got := answer{status: cmd.ProcessState.ExitCode(), text: string(out)}
		got.refused(t, posix.RuntimeUnavailable, "it does not run as root: its file is not setuid root")
		if !strings.Contains(got.text, "\nhint: install it with mode 4750") {
			t.Errorf("no hint: %q", got.text)
		}
	}
	for _, args := range [][]string{nil, {"actor"}, {"actor", "root"}, {"kill", ann, "x"}} {
		cmd := exec.Command(helper, args...)
		out, _ := cmd.CombinedOutput()
		answer{status: cmd.ProcessState.ExitCode(), text: string(out)}.refused(t, posix.OperationFailed, "")
	}
}

func TestHasBecome(t *testing.T) {
	o := order{Request: posix.Request{Verb: posix.VerbActor}, uid: 7, gid: 8, groups: []uint32{11, 10}, shield: 9}
	good := map[string]string{
		"Uid": "7\t7\t7\t7", "Gid": "8\t8\t8\t8", "Groups": "10 11 ", "NoNewPrivs": "1",
		"CapInh": strings.Repeat("0", 16), "CapPrm": strings.Repeat("0", 16), "CapEff": strings.Repeat("0", 16),
		"CapAmb": strings.Repeat("0", 16), "CapBnd": strings.Repeat("0", 16),
	}
	status := func(fields map[string]string) []byte {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			fmt.Fprintf(&b, "%s:\t%s\n", name, fields[name])
		}
		return []byte(b.String())
	}
	if err := hasBecome(status(good), o, true); err != nil {
		t.Error(err)
	}
	for field, value := range map[string]string{
		"Uid": "7\t7\t0\t7", "Gid": "8\t0\t8\t8", "Groups": "10 11 12", "NoNewPrivs": "0", "CapInh": "0000000000000001", "CapPrm": "0000000000000001",
		"CapEff": "0000000000000001", "CapAmb": "0000000000000001", "CapBnd": "0000000000000001",
	} {
		bad := maps.Clone(good)
		bad[field] = value
		if err := hasBecome(status(bad), o, true); err == nil {
			t.Errorf("%s %q passed", field, value)
		}
		delete(bad, field)
		if err := hasBecome(status(bad), o, true); err == nil {
			t.Errorf("without %s it passed", field)
		}
	}
	o.Verb, good["Uid"] = posix.VerbKill, "9\t7\t9\t7"
	if err := hasBecome(status(good), o, true); err != nil {
		t.Error(err)
	}
}
