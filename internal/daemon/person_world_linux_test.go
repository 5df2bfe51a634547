package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bourn/internal/posix"
	"bourn/internal/run/runtest"
	"bourn/internal/store/storetest"

	"golang.org/x/sys/unix"
)

// People of the world that a test makes. No host has these numbers.
const (
	worldFirst = 88000
	serviceUID = worldFirst
	sharedGID  = worldFirst + 1
	annUID     = worldFirst + 16
	bobUID     = worldFirst + 17
	salesGID   = worldFirst + 18

	annName = "bc_person_aaaaaaaaaa"
	bobName = "bc_person_bbbbbbbbbb"

	annMember = "00000000-0000-4000-8000-00000000000a"
	bobMember = "00000000-0000-4000-8000-00000000000b"

	worldPrefix    = "/mnt"
	worldWorkspace = "/mnt/workspace"
	worldHome      = worldWorkspace + "/.bourn"
	worldHelper    = worldPrefix + "/" + HelperName
	annHome        = worldWorkspace + "/private/people/ann"
	bobHome        = worldWorkspace + "/private/people/bob"
	annWork        = annHome + "/src" // what her agent may write, as bobWork is what his may
	bobWork        = bobHome + "/src"
	salesDir       = worldWorkspace + "/circles/sales"
	worldRole      = worldPrefix + "/role" // this test binary
)

const (
	worldVariable    = "BOURN_TEST_SHARED_HOST"
	programsVariable = "BOURN_TEST_SHARED_PROGRAMS"
)

// worldPeople are two people in a circle.
func worldPeople() posix.Registry {
	return posix.Registry{
		Version: 1, Range: posix.Range{First: worldFirst, Last: worldFirst + 999}, Workspace: worldWorkspace, Service: serviceUID, Shared: sharedGID,
		People: []posix.Entry{
			{ID: "ann", Member: annMember, Name: annName, UID: annUID, GID: annUID, Groups: []uint32{sharedGID, salesGID}, Active: true},
			{ID: "bob", Member: bobMember, Name: bobName, UID: bobUID, GID: bobUID, Groups: []uint32{sharedGID, salesGID}, Active: true},
		},
		Circles: []posix.CircleEntry{{ID: "sales", Name: "bc_circle_ssssssssss", GID: salesGID}},
		Revoked: []posix.Revocation{},
	}
}

// onSharedHost runs f as root in mount, process and IPC namespaces of its own, in which /etc,
// /run, /mnt and /tmp are empty file systems in memory, without nosuid, and there are two people.
// It calls the test anew in a child, so f runs there.
func onSharedHost[T testing.TB](t T, f func(t T)) {
	t.Helper()
	if outside := os.Getenv(worldVariable); outside != "" {
		enterWorld(t, outside)
		f(t)
		return
	}
	if testing.Short() {
		t.Skip("it drives the programs, in which the race detector sees nothing")
	}
	runtest.Need(t, "root", os.Getuid() == 0)
	storetest.Need(t)
	programs := worldPrograms(t)
	outside, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=8m"}
	if _, bench := any(t).(*testing.B); bench {
		args = []string{"-test.run=^$", "-test.bench=^" + t.Name() + "$", "-test.benchtime=1x"}
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), worldVariable+"="+outside, programsVariable+"="+programs)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte(t.Name())) {
		t.Fatalf("the test did not run:\n%s", out)
	}
	if b, bench := any(t).(*testing.B); bench {
		// What it measured there is reported here: NAME N, then pairs of a value and its unit.
		_, line, _ := strings.Cut(string(out), "\n"+t.Name())
		line, _, _ = strings.Cut(line, "\n")
		words := strings.Fields(line)
		for i := 2; i+1 < len(words); i += 2 {
			value, err := strconv.ParseFloat(words[i], 64)
			must(t, err)
			if words[i+1] != "ns/op" {
				b.ReportMetric(value, words[i+1])
			}
		}
		return
	}
	t.Logf("\n%s", out)
}

// worldBuilt are programs that are built for the world alone, once for the test process.
var worldBuilt = sync.OnceValues(func() (all map[string][]byte, err error) {
	dir, err := os.MkdirTemp("", "bourn-shared-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all = map[string][]byte{}
	for name, what := range map[string][]string{"helper": {"-s -w", "bourn/cmd/bourn-posix-helper"}, "another": {"-s -w -X main.version=another", "bourn/cmd/bourn"}} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", what[0], "-o", filepath.Join(dir, name), what[1])
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		if all[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// worldPrograms returns a directory with bourn, bournd and the helper as they are shipped, and a
// bourn of another version.
func worldPrograms(t testing.TB) string {
	t.Helper()
	built, err := worldBuilt()
	must(t, err)
	dir := t.TempDir()
	for name, program := range built {
		must(t, os.WriteFile(filepath.Join(dir, name), program, 0o600))
	}
	must(t, os.Symlink(runtest.Binary(t), filepath.Join(dir, "bourn")))
	must(t, os.Symlink(runtest.Daemon(t), filepath.Join(dir, "bournd")))
	return dir
}

// enterWorld makes the world. Nothing is mounted before the namespaces are known to be others,
// and nothing that is mounted can be seen from outside.
func enterWorld(t testing.TB, outside string) {
	t.Helper()
	if inside, err := os.Readlink("/proc/thread-self/ns/mnt"); err != nil || inside == outside || os.Getpid() != 1 {
		t.Fatalf("this is no world of its own: %s %s, process %d: %v", inside, outside, os.Getpid(), err)
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	must(t, err)
	if bytes.Contains(mounts, []byte(" shared:")) || bytes.Contains(mounts, []byte(" master:")) {
		t.Fatalf("mounts would be seen outside:\n%s", mounts)
	}
	must(t, unix.Mount("proc", "/proc", "proc", 0, ""))
	files := map[string][]byte{}
	for at, from := range map[string]string{worldRole: "/proc/self/exe", worldHelper: os.Getenv(programsVariable) + "/helper",
		worldPrefix + "/bin/bourn": os.Getenv(programsVariable) + "/bourn", worldPrefix + "/bin/bournd": os.Getenv(programsVariable) + "/bournd",
		worldPrefix + "/another": os.Getenv(programsVariable) + "/another", "/etc/ld.so.cache": "/etc/ld.so.cache", "/etc/nsswitch.conf": "/etc/nsswitch.conf"} {
		data, err := os.ReadFile(from)
		if !strings.HasPrefix(at, "/etc/") {
			must(t, err)
		}
		files[at] = data
	}
	for at, mode := range map[string]string{"/etc": "755", "/run": "755", worldPrefix: "755", "/tmp": "1777", "/dev/shm": "1777"} {
		must(t, unix.Mount("world", at, "tmpfs", 0, "mode="+mode))
	}
	unix.Umask(0o022)
	files["/etc/passwd"] = fmt.Appendf(nil, "root:x:0:0:root:/root:/bin/sh\nbourn:x:%d:%d::%s:/usr/sbin/nologin\n%s:x:%d:%d::%s:/usr/sbin/nologin\n%s:x:%d:%d::%s:/usr/sbin/nologin\n",
		serviceUID, serviceUID, worldHome, annName, annUID, annUID, annHome, bobName, bobUID, bobUID, bobHome)
	files["/etc/group"] = fmt.Appendf(nil, "root:x:0:\nbourn:x:%d:\nbc_shared:x:%d:\nbc_circle_ssssssssss:x:%d:%s,%s\n", serviceUID, sharedGID, salesGID, annName, bobName)
	files["/etc/hosts"] = []byte("127.0.0.1 localhost\n::1 localhost\n")
	for at, data := range files {
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		put(t, at, data, 0, 0, 0o755)
	}
	put(t, worldHelper, files[worldHelper], 0, serviceUID, 0o4750)
	must(t, os.Mkdir("/etc/bourn", 0o755))
	setPeople(t, worldPeople())
	directory(t, "/run/bourn", serviceUID, serviceUID, 0o755, false)
	for _, dir := range []string{worldWorkspace, worldWorkspace + "/private", worldWorkspace + "/private/people", worldWorkspace + "/circles", worldWorkspace + "/shared"} {
		directory(t, dir, 0, 0, 0o711, false)
	}
	directory(t, annHome, 0, annUID, 0o2770, true)
	directory(t, bobHome, 0, bobUID, 0o2770, true)
	directory(t, annWork, annUID, annUID, 0o700, false)
	directory(t, bobWork, bobUID, bobUID, 0o777, false)
	directory(t, salesDir, 0, salesGID, 0o2770, true)
	directory(t, worldWorkspace+"/shared/public", serviceUID, sharedGID, 0o2775, true)
	directory(t, worldWorkspace+"/skills", serviceUID, serviceUID, 0o755, true)
	directory(t, worldHome, serviceUID, serviceUID, 0o700, true)
	putProfile(t, "builder", fmt.Sprintf("filesystem: {write: [~/src, %s], read: [%s, %s]}\n", salesDir, bobHome, bobWork))
}

// directory makes a directory; a root of the workspace is a mount of its own.
func directory(t testing.TB, at string, uid, gid int, mode uint32, root bool) {
	t.Helper()
	must(t, os.Mkdir(at, 0o700))
	must(t, os.Chown(at, uid, gid))
	must(t, unix.Chmod(at, mode))
	if root {
		must(t, unix.Mount(at, at, "", unix.MS_BIND, ""))
	}
}

// put puts a file there, in place of what stands there.
func put(t testing.TB, name string, data []byte, uid, gid int, mode uint32) {
	t.Helper()
	new := name + ".new"
	must(t, os.WriteFile(new, data, 0o600))
	must(t, os.Chown(new, uid, gid))
	must(t, unix.Chmod(new, mode))
	must(t, os.Rename(new, name))
}

func setPeople(t testing.TB, r posix.Registry) {
	t.Helper()
	data, err := r.Encode()
	must(t, err)
	put(t, posix.RegistryPath, data, 0, 0, 0o644)
}

// putProfile gives the host an agent.
func putProfile(t testing.TB, name, rest string) {
	t.Helper()
	for _, dir := range []string{worldHome + "/agents", worldHome + "/agents/" + name} {
		if err := os.Mkdir(dir, 0o700); !errors.Is(err, os.ErrExist) {
			must(t, err)
			must(t, os.Chown(dir, serviceUID, serviceUID))
		}
	}
	put(t, worldHome+"/agents/"+name+"/profile.yaml", []byte("version: 1\nagent: "+name+"\ntools: {rules: [{tool: \"*\", policy: allow}]}\n"+rest), serviceUID, serviceUID, 0o600)
}

// credentialOf is that of a process of a user and their groups.
func credentialOf(uid int, groups ...uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), Groups: groups}, Pdeathsig: syscall.SIGKILL}
}

// A sharedPlane is the control plane of a shared host.
type sharedPlane struct {
	t    testing.TB
	cmd  *exec.Cmd
	http string
	said *said
	stop func() error
}

// serveShared starts the control plane as the service, and waits until it answers.
func serveShared(t testing.TB) *sharedPlane { return serveSharedAs(t, false) }

// serveSharedAs is serveShared through another program, which with root changes the user itself.
func serveSharedAs(t testing.TB, root bool, through ...string) *sharedPlane {
	t.Helper()
	argv := append(slices.Clone(through), worldPrefix+"/bin/bournd", "serve", "--listen", "localhost:0", "--json")
	p := &sharedPlane{t: t, said: &said{}, cmd: exec.Command(argv[0], argv[1:]...)}
	p.cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + worldHome, "BOURN_HOME=" + worldHome, "LANG=C"}
	p.cmd.Dir, p.cmd.Stderr, p.cmd.SysProcAttr = "/", p.said, credentialOf(serviceUID, sharedGID)
	if root {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	p.stop = sync.OnceValue(func() error {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
		defer late.Stop()
		return p.cmd.Wait()
	})
	t.Cleanup(func() {
		if err := p.stop(); err != nil && !strings.Contains(err.Error(), "killed") {
			t.Errorf("the control plane: %v\n%s", err, p.said)
		}
		if t.Failed() {
			said := p.said.String()
			t.Logf("the control plane said at last:\n%s", said[max(0, len(said)-4000):])
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var started struct {
		HTTP string `json:"http"`
	}
	if err != nil || json.Unmarshal(line, &started) != nil || started.HTTP == "" {
		t.Fatalf("it does not serve: %v %s\n%s", err, line, p.said)
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // it ends with the process
	p.http = started.HTTP
	return p
}

func init() { roles["asking"] = asAsking }

// asAsking asks at the local socket: what it is told is method, path and body, in lines.
func asAsking() int {
	parts := strings.SplitN(os.Getenv(saidVariable), "\n", 3)
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", DefaultSharedSocket)
	}}}
	r, err := http.NewRequest(parts[0], "http://bourn"+parts[1], strings.NewReader(parts[2]))
	if err != nil {
		return 3
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		fmt.Println("0", err)
		return 0
	}
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body))
	return 0
}

// askAs asks at the local socket as a user.
func askAs(t testing.TB, uid int, method, path, body string) (status int, answer string) {
	t.Helper()
	cmd := exec.Command(worldRole)
	cmd.Env = []string{roleVariable + "=asking", saidVariable + "=" + method + "\n" + path + "\n" + body}
	cmd.Dir, cmd.SysProcAttr = "/", credentialOf(uid)
	out, err := cmd.Output()
	if ended := new(exec.ExitError); errors.As(err, &ended) && ended.ProcessState.ExitCode() < 0 {
		return 0, "all that the user runs is being ended" // and so was who asked
	}
	must(t, err)
	number, answer, _ := strings.Cut(string(out), " ")
	status, err = strconv.Atoi(number)
	must(t, err)
	return status, answer
}

// A caller calls tools with an agent token.
type caller struct {
	t     testing.TB
	url   string
	token string
}

// caller makes a token of a person's for an agent.
func (p *sharedPlane) caller(uid int, agent, dir string) caller {
	p.t.Helper()
	status, answer := askAs(p.t, uid, "POST", "/v1/agent-tokens", fmt.Sprintf(`{"name":"t","agent":%q,"dir":%q,"expires":%q}`, agent, dir, time.Now().Add(time.Hour).Format(time.RFC3339)))
	var made struct {
		Token string `json:"token"`
	}
	if status/100 != 2 || json.Unmarshal([]byte(answer), &made) != nil {
		p.t.Fatalf("user %d gets no token: %d %s\n%s", uid, status, answer, p.said)
	}
	return caller{p.t, p.http + "/mcp", made.Token}
}

// call calls a tool, and returns what it says and whether that is no error.
func (c caller) call(tool string, arguments any) (text string, ok bool) {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}})
	must(c.t, err)
	r, err := http.NewRequestWithContext(c.t.Context(), "POST", c.url, bytes.NewReader(body))
	must(c.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error(), false
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		return fmt.Sprint(resp.StatusCode, " ", string(said), err), false
	}
	for line := range strings.Lines(string(said)) {
		line = strings.TrimPrefix(line, "data: ")
		var m struct {
			Result *struct {
				Content []struct {
					Text string `json:"text"`
				} `json:"content"`
				IsError bool `json:"isError"`
			} `json:"result"`
		}
		if json.Unmarshal([]byte(line), &m) == nil && m.Result != nil && len(m.Result.Content) > 0 {
			return m.Result.Content[0].Text, !m.Result.IsError
		}
	}
	return string(said), false
}

// does fails the test unless a call succeeds and says something.
func (c caller) does(says, tool string, arguments any) string {
	c.t.Helper()
	text, ok := c.call(tool, arguments)
	if !ok || !strings.Contains(text, says) {
		c.t.Errorf("%s %v: %v %s, want %q", tool, arguments, ok, text, says)
	}
	return text
}

// refused fails the test unless a call is refused, for one of some reasons.
func (c caller) refused(tool string, arguments any, says ...string) {
	c.t.Helper()
	text, ok := c.call(tool, arguments)
	if ok || !slices.ContainsFunc(says, func(s string) bool { return strings.Contains(text, s) }) {
		c.t.Errorf("%s %v: %v %s, want an error with one of %q", tool, arguments, ok, text, says)
	}
}

type args map[string]any

func shell(command string) args { return args{"command": command} }

// processesOf are the processes of a user, but for those that have ended.
func processesOf(t testing.TB, uid int) (all []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		status, readErr := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil || readErr != nil {
			continue
		}
		if statusLine(status, "Uid", 0) == strconv.Itoa(uid) && !strings.HasPrefix(statusLine(status, "State", 0), "Z") {
			all = append(all, pid)
		}
	}
	return all
}

// statusLine returns a word of a line of a status file.
func statusLine(status []byte, name string, word int) string {
	for line := range strings.Lines(string(status)) {
		if rest, is := strings.CutPrefix(line, name+":"); is {
			if words := strings.Fields(rest); len(words) > word {
				return words[word]
			}
		}
	}
	return ""
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
