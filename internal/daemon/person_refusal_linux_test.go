package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn/internal/posix"

	"golang.org/x/sys/unix"
)

// TestSharedHostRefusals: where nobody can be become the control plane starts, says why and
// what to do, and refuses every person's call: nothing is done as the service instead.
func TestSharedHostRefusals(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		good, err := os.ReadFile(worldHelper)
		must(t, err)
		const dir = worldPrefix + "/libexec"
		restore := func() {
			must(t, os.RemoveAll(worldHelper))
			put(t, worldHelper, good, 0, serviceUID, 0o4750)
		}
		var token string
		for _, c := range []struct {
			name    string
			broken  func()
			mend    func()
			through []string
			says    string
		}{
			{name: "nothing", says: ""},
			{name: "no helper", broken: func() { must(t, os.Remove(worldHelper)) }, says: "there is no helper"},
			{name: "not setuid", broken: func() { must(t, unix.Chmod(worldHelper, 0o750)) }, says: "is not setuid root"},
			{name: "not root's", broken: func() { put(t, worldHelper, good, serviceUID, serviceUID, 0o4750) }, says: "is not setuid root"},
			{name: "everybody's", broken: func() { must(t, unix.Chmod(worldHelper, 0o4755)) }, says: "others may execute"},
			{name: "another group's", broken: func() { put(t, worldHelper, good, 0, annUID, 0o4750) }, says: "may not execute the helper"},
			{name: "a link", broken: func() {
				must(t, os.Rename(worldHelper, worldPrefix+"/x"))
				must(t, os.Symlink(worldPrefix+"/x", worldHelper))
			}, says: "is not setuid root"},
			{name: "nosuid", broken: func() {
				must(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
				must(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOSUID, ""))
			}, mend: func() { must(t, unix.Unmount(dir, 0)) }, says: HelperName + " stands on a file system that is mounted nosuid"},
			{name: "anybody's directory", broken: func() { must(t, unix.Chmod(dir, 0o777)) }, mend: func() { must(t, unix.Chmod(dir, 0o755)) }, says: "others can exchange the helper"},
			{name: "no_new_privs", through: []string{"setpriv", "--no-new-privs"}, says: "under no_new_privs"},
			{name: "no capabilities", through: []string{"setpriv", "--bounding-set", "-setuid"}, says: "lacks CAP_SETUID"},
		} {
			if c.broken != nil {
				c.broken()
			}
			p := startShared(t, c.through, c.name == "no capabilities")
			if token == "" {
				token = p.caller(annUID, "builder", annWork).token
			}
			call := caller{t, p.http + "/mcp", token}
			_, health := askAs(t, 0, "GET", "/v1/health", "")
			if c.says == "" {
				call.does("", "files_write", args{"path": "note", "content": "x"})
				if !strings.Contains(health, `{"name":"people","status":"ok"}`) {
					t.Errorf("%s: %s", c.name, health)
				}
			} else {
				call.refused("files_read", args{"path": "note"}, c.says)
				if text, _ := call.call("files_read", args{"path": "note"}); !strings.Contains(text, string(posix.RuntimeUnavailable)) || !strings.Contains(text, `"hint"`) {
					t.Errorf("%s: the refusal has no reason or no hint: %s", c.name, text)
				}
				if !strings.Contains(health, `"status":"failing"`) || !strings.Contains(health, c.says) {
					t.Errorf("%s: health does not say it: %s", c.name, health)
				}
				if left := processesOf(t, annUID); len(left) > 0 {
					t.Errorf("%s: something runs as ann: %v", c.name, left)
				}
			}
			must(t, p.stop())
			if c.mend != nil {
				c.mend()
			}
			restore()
		}
	})
}

// startShared is serveShared; as root, the program that it is started through changes the user.
func startShared(t testing.TB, through []string, root bool) *sharedPlane {
	t.Helper()
	if root {
		through = append(through, "--reuid", fmt.Sprint(serviceUID), "--regid", fmt.Sprint(serviceUID), "--groups", fmt.Sprint(sharedGID))
	}
	return serveSharedAs(t, root, through...)
}

// TestSharedHostNobody: who is no person, or not known any more, and programs that were not
// installed together.
func TestSharedHostNobody(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		p := serveShared(t)
		ann := p.caller(annUID, "builder", annWork)
		root := p.caller(0, "builder", "/")
		root.refused("files_read", args{"path": "/etc/passwd"}, string(posix.IdentityMissing))
		if all := logged(t, "run"); !slices.ContainsFunc(all, func(e map[string]any) bool {
			return e["outcome"] == "denied" && e["reason"] == "the member is no person of this host"
		}) {
			t.Errorf("the refusal is not in the log: %v", all)
		}
		p.caller(annUID, "nosuch", annHome).refused("files_read", args{"path": "note"}, string(posix.NotFound))
		putProfile(t, "broken", "filesystem: {wirte: [x]}\n")
		p.caller(annUID, "broken", annHome).refused("files_read", args{"path": "note"}, "wirte")
		ann.does("", "files_write", args{"path": "note", "content": "x"})

		// The helper goes by the registry as it is, whatever the control plane has read.
		swap := func(at, from string) { // of the launcher
			data, err := os.ReadFile(from)
			must(t, err)
			put(t, at, data, 0, 0, 0o755)
		}
		program := worldPrefix + "/bin/bourn"
		must(t, os.Rename(program, program+".good"))
		swap(program, worldPrefix+"/another")
		p.caller(bobUID, "builder", bobWork).refused("files_read", args{"path": "x"}, "another version of bourn", string(posix.RuntimeUnavailable))
		must(t, os.Remove(program))
		p.caller(bobUID, "builder", bobWork).refused("files_read", args{"path": "x"}, string(posix.RuntimeUnavailable))
		must(t, os.Rename(program+".good", program))

		// A registry that cannot be used: nobody acts, and everybody does again with the next.
		put(t, posix.RegistryPath, []byte("{"), 0, 0, 0o644)
		until(t, 10*time.Second, "nothing of ann's runs", func() bool { return len(processesOf(t, annUID)) == 0 })
		ann.refused("files_read", args{"path": "note"}, string(posix.RuntimeUnavailable))
		if _, health := askAs(t, 0, "GET", "/v1/health", ""); !strings.Contains(health, "the registry of people cannot be used") {
			t.Errorf("health does not say it: %s", health)
		}
		setPeople(t, worldPeople())
		until(t, 10*time.Second, "ann's calls are served again", func() bool { _, ok := ann.call("files_read", args{"path": "note"}); return ok })

		must(t, p.stop())
		cmd := exec.Command(worldPrefix+"/bin/bournd", "serve", "--no-http")
		cmd.Env, cmd.SysProcAttr = []string{"PATH=/usr/bin:/bin", "HOME=/run", "BOURN_HOME=/run/roots"}, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "root is not the control plane of a shared host") {
			t.Errorf("root serves: %v %s", err, out)
		}
	})
}
