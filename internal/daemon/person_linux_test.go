package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/posix"
	"bourn/internal/review"
	"bourn/internal/workspace"

	"golang.org/x/sys/unix"
)

// TestSharedHost: each person's agents are that person and nobody else, whatever the agent's
// profile says; circles are shared; the service itself can read none of it.
func TestSharedHost(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		p := serveShared(t)
		ann, bob := p.caller(annUID, "builder", annWork), p.caller(bobUID, "builder", bobWork)
		ann.does("", "files_write", args{"path": annWork + "/note", "content": "of ann\n"})
		bob.does("", "files_write", args{"path": bobWork + "/note", "content": "of bob\n"})
		ann.does("of ann", "files_read", args{"path": "note"})
		if text, err := os.ReadFile(annWork + "/note"); err != nil || string(text) != "of ann\n" {
			t.Errorf("ann's file is not where it was written: %q %v", text, err)
		}
		ann.does(fmt.Sprint(annUID), "shell_exec", shell("id -u"))
		if !inGroup(t, bobUID, salesGID) {
			t.Error("bob's actor is not in the circle")
		}
		ann.does("", "files_write", args{"path": salesDir + "/plan", "content": "of sales\n"})
		bob.does("of sales", "files_read", args{"path": salesDir + "/plan"})
		bob.does("", "shell_exec", shell("echo more >> "+salesDir+"/plan"))

		// The profile grants bob's home to read, and every way there is tried.
		no := []string{"denied", "not_found", "Permission denied", "No such file", "unavailable", "nonexistent", "not permitted"}
		ann.refused("files_read", args{"path": bobWork + "/note"}, no...)
		ann.refused("files_list", args{"path": bobHome}, no...)
		ann.refused("files_list", args{"path": bobWork}, no...)
		ann.refused("files_write", args{"path": bobWork + "/mine", "content": "x"}, no...)
		ann.does("", "shell_exec", shell("ln -s "+bobWork+"/note lead; ln -s "+bobWork+"/note "+salesDir+"/lead"))
		ann.refused("files_read", args{"path": "lead"}, no...)
		ann.refused("files_read", args{"path": salesDir + "/lead"}, no...)
		for _, command := range []string{"cat " + bobWork + "/note", "ls " + bobHome, "echo x > " + bobWork + "/mine", "cat lead", "ln " + salesDir + "/plan kept"} {
			ann.does("failed", "shell_exec", shell("("+command+") && echo it is possible || echo failed"))
		}
		if _, err := os.Stat(bobWork + "/mine"); err == nil {
			t.Error("ann's agent wrote to bob's home")
		}
		// Another's processes are neither there to signal nor to trace.
		go bob.call("shell_exec", shell("exec sleep 98765"))
		var sleeps int
		until(t, 20*time.Second, "bob's command runs", func() bool { sleeps = running(t, bobUID, "98765"); return sleeps != 0 })
		ann.does("failed", "shell_exec", shell(fmt.Sprintf("kill -9 %d || cat /proc/%d/environ || echo failed", sleeps, sleeps)))
		if out, err := as(annUID, "kill", "-9", strconv.Itoa(sleeps)); err == nil {
			t.Errorf("ann may signal bob's process: %s", out)
		}
		if running(t, bobUID, "98765") == 0 {
			t.Error("bob's command has ended")
		}
		for _, command := range [][]string{{"cat", annWork + "/note"}, {"ls", annHome}, {"cat", salesDir + "/plan"}, {"ls", annHome + "/.bourn"}} {
			if out, err := as(serviceUID, command...); err == nil {
				t.Errorf("the service itself may %v: %s", command, out)
			}
		}
		checkRunsLogged(t)
		if said := p.said.String(); strings.Contains(said, "level=WARN") || strings.Contains(said, "level=ERROR") {
			t.Errorf("all was well, and the control plane said\n%s", said)
		}
	})
}

// as runs a command as a user with no groups but their own.
func as(uid int, command ...string) (string, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.SysProcAttr = "/", credentialOf(uid)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// running returns a process of a user whose command line holds a word, or 0.
func running(t testing.TB, uid int, word string) int {
	for _, pid := range processesOf(t, uid) {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(line), word) {
			return pid
		}
	}
	return 0
}

// inGroup reports whether a process of a user is in a group.
func inGroup(t testing.TB, uid, gid int) bool {
	t.Helper()
	return slices.ContainsFunc(processesOf(t, uid), func(pid int) bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for i := range 8 {
			if statusLine(status, "Groups", i) == strconv.Itoa(gid) {
				return true
			}
		}
		return false
	})
}

// logged returns the entries of the log of a kind, as root sees it.
func logged(t testing.TB, kind string) (all []map[string]any) {
	t.Helper()
	status, answer := askAs(t, 0, "GET", "/v1/log?kind="+kind, "")
	var lines api.LogLines
	if status != 200 || json.Unmarshal([]byte(answer), &lines) != nil {
		t.Fatalf("root reads no log: %d %s", status, answer)
	}
	for _, l := range lines.Lines {
		var e map[string]any
		must(t, json.Unmarshal(l.Entry, &e))
		all = append(all, e)
	}
	return all
}

// checkRunsLogged: the control plane has each run in its log, with the person, and the person's
// own record of it has the same id.
func checkRunsLogged(t *testing.T) {
	t.Helper()
	all := logged(t, "run")
	for _, id := range []string{"ann", "bob"} {
		i := slices.IndexFunc(all, func(e map[string]any) bool { return e["who"] == "person:"+id && e["what"] == "run started" })
		if i < 0 {
			t.Errorf("no run of %s's is in the log: %v", id, all)
			continue
		}
		if _, err := os.Stat(fmt.Sprintf("%s/private/people/%s/.bourn/agents/builder/runs/%s.json", worldWorkspace, id, all[i]["run"])); err != nil {
			t.Errorf("the run has another id for its person: %v", err)
		}
	}
}

// TestSharedHostLeaving: who leaves a circle has nothing of it from then on, whatever was
// prepared while they were in, and nobody else notices.
func TestSharedHostLeaving(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		p := serveShared(t)
		ann, bob := p.caller(annUID, "builder", annWork), p.caller(bobUID, "builder", bobWork)
		bob.does("", "files_write", args{"path": salesDir + "/plan", "content": "of sales\n"})
		ann.does("of sales", "shell_exec", shell("ln -s "+salesDir+"/plan soft; mkdir "+salesDir+"/d; ln "+salesDir+"/plan "+salesDir+"/d/hard; cat soft "+salesDir+"/d/hard"))
		go ann.call("shell_exec", shell("exec 3< "+salesDir+"/plan; exec sleep 98765"))
		until(t, 20*time.Second, "ann's command runs", func() bool { return running(t, annUID, "98765") != 0 })
		before, bobBefore := processesOf(t, annUID), processesOf(t, bobUID)

		r := worldPeople()
		r.People[0].Groups = []uint32{sharedGID}
		setPeople(t, r)
		until(t, 10*time.Second, "what ann ran while she was in the circle has ended", func() bool {
			return !slices.ContainsFunc(processesOf(t, annUID), func(pid int) bool { return slices.Contains(before, pid) })
		})
		no := []string{"denied", "not_found", "Permission denied", "No such file"}
		for _, at := range []string{salesDir + "/plan", "soft", salesDir + "/d/hard"} {
			ann.refused("files_read", args{"path": at}, no...)
			ann.does("failed", "shell_exec", shell("cat "+at+" || echo failed"))
		}
		if inGroup(t, annUID, salesGID) || !inGroup(t, annUID, sharedGID) {
			t.Error("ann's actor has not the groups that she has")
		}
		bob.does("of sales", "files_read", args{"path": salesDir + "/plan"})
		if now := processesOf(t, bobUID); !slices.Equal(now, bobBefore) {
			t.Errorf("bob's actor started anew: %v, before %v", now, bobBefore)
		}

		// Back in: the next call has it. Not active: no call has anything.
		setPeople(t, worldPeople())
		until(t, 10*time.Second, "ann is in the circle again", func() bool {
			text, _ := ann.call("files_read", args{"path": salesDir + "/plan"})
			return strings.Contains(text, "of sales")
		})
		r = worldPeople()
		r.People[0].Active, r.People[0].Groups = false, []uint32{}
		setPeople(t, r)
		until(t, 10*time.Second, "nothing of ann's runs", func() bool { return len(processesOf(t, annUID)) == 0 })
		ann.refused("files_read", args{"path": annWork + "/soft"}, "bearer", "permission_denied", "not active")
		until(t, 10*time.Second, "ann is no member", func() bool { status, _ := askAs(t, annUID, "GET", "/v1/boundaries", ""); return status == 403 })
		bob.does("of sales", "files_read", args{"path": salesDir + "/plan"})
		if !slices.ContainsFunc(logged(t, "change"), func(e map[string]any) bool { return e["what"] == "member removed" && e["target"] == "ann" }) {
			t.Error("the log does not have that ann was removed")
		}
	})
}

// TestSharedHostRules: root is an administrator by the shared socket, and what it blocks holds
// for persons' actors, in the actor and in its seal.
func TestSharedHostRules(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		p := serveShared(t)
		ann := p.caller(annUID, "builder", annWork)
		ann.does("", "files_write", args{"path": "secret", "content": "x"})
		put(t, "/tmp/blocks.json", []byte(`{"version":1,"hardBlocks":[{"id":"no","type":"path","pattern":"`+annWork+`/secret","match":"exact","operations":["read"]}]}`), 0, 0, 0o644)
		set := func(env ...string) (string, error) {
			cmd := exec.Command(worldPrefix+"/bin/bourn", "boundaries", "set", "/tmp/blocks.json", "--after", "0")
			cmd.Env, cmd.Dir = append([]string{"HOME=/run/root", "PATH=/usr/bin:/bin"}, env...), "/"
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		must(t, os.Mkdir("/run/root", 0o700))
		must(t, os.Chmod("/run/bourn", 0o777)) // anybody could have put a socket there
		if out, err := set(); err == nil || !strings.Contains(out, "no control plane runs") {
			t.Errorf("a socket is asked that anybody can have made: %v %s", err, out)
		}
		must(t, os.Chmod("/run/bourn", 0o755))
		if out, err := set(); err != nil {
			t.Fatalf("root sets no hard blocks: %v %s", err, out)
		}
		ann.refused("files_read", args{"path": "secret"}, "hard block")
		status, answer := askAs(t, annUID, "PUT", "/v1/boundaries", `{"document":{"version":1,"hardBlocks":[]},"after":1}`)
		if status != 403 {
			t.Errorf("ann sets hard blocks: %d %s", status, answer)
		}
		// A new actor has them in its seal.
		r := worldPeople()
		r.People[0].Groups = []uint32{sharedGID}
		setPeople(t, r)
		until(t, 10*time.Second, "ann's actor has ended", func() bool { return len(processesOf(t, annUID)) == 0 })
		ann.does("failed", "shell_exec", shell("cat "+annWork+"/sec*t || echo failed"))
		if status, _ := askAs(t, 12345, "GET", "/v1/health", ""); status != 403 {
			t.Errorf("who is no member gets %d", status)
		}
	})
}

// TestPersonBaseSeal: without an agent a person's actor has their home, their circles and what
// everybody has, and no network.
func TestPersonBaseSeal(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		w := newPeopleWork(t)
		must(t, os.WriteFile(worldWorkspace+"/shared/public/news", []byte("news"), 0o644))
		must(t, os.WriteFile(bobWork+"/note", []byte("of bob"), 0o666))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		must(t, err)
		a := w.start(worldPeople().People[0], "")
		defer a.client.Close()
		for command, works := range map[string]bool{
			"echo x > " + annHome + "/new && cat " + annHome + "/new": true,
			"echo x > " + salesDir + "/new":                           true,
			"cat " + worldWorkspace + "/shared/public/news":           true,
			"echo x > " + worldWorkspace + "/shared/public/news":      false,
			"ls " + worldWorkspace + "/skills":                        true,
			"cat " + bobWork + "/note":                                false,
			"ls " + worldHome:                                         false,
			"ls " + annHome + "/.bourn/runs":                          false,
			"cat " + posix.RegistryPath:                               false,
			"cat " + DefaultSharedSocket:                              false,
			"exec 3<>/dev/tcp/127.0.0.1/" + port:                      false,
		} {
			if status, said := w.exec(a, "bash -c '"+command+"'"); (status == 0) != works {
				t.Errorf("%s: status %d, %s; works: %v", command, status, said, works)
			}
		}
		must(t, a.client.Close())
		until(t, 10*time.Second, "nothing of ann's runs", func() bool { return len(processesOf(t, annUID)) == 0 })
	})
}

// peopleWork starts persons' actors as the control plane does, in this process, which is root.
type peopleWork struct {
	t testing.TB
	*people
}

func newPeopleWork(t testing.TB) *peopleWork {
	t.Helper()
	p := &people{helper: worldHelper, log: discard(), registry: worldPeople(), killing: map[string]chan struct{}{}}
	var err error
	p.runner, err = startRunner(p.helper)
	must(t, err)
	t.Cleanup(p.close)
	return &peopleWork{t, p}
}

// start starts an actor of a person's. An agent's profile grants the home.
func (w *peopleWork) start(person posix.Entry, agent bourn.AgentName) *personActor {
	w.t.Helper()
	return w.startGranted(person, agent, "~/src")
}

// startGranted starts an actor of a person's whose agent may write to some paths.
func (w *peopleWork) startGranted(person posix.Entry, agent bourn.AgentName, write string) *personActor {
	w.t.Helper()
	home := w.registry.Home(person)
	s := workspace.Spec{Version: worldVersion(w.t), Person: person.Name, Agent: agent, Dir: home, Run: newRunID(time.Now())}
	s.Write, s.Read = w.registry.Shown(person)
	if agent != "" {
		s.Profile = fmt.Appendf(nil, "version: 1\nagent: %s\nfilesystem: {write: [%s]}\n", agent, write)
	} else {
		s.Write = append(s.Write, home)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), hostWithin)
	defer cancel()
	a, err := w.people.start(ctx, person, s)
	if err != nil {
		w.t.Fatalf("%v; hint: %s", err, bourn.HintOf(err))
	}
	must(w.t, a.client.SetRules(review.NoRules().Encode()))
	return a
}

// do has an actor do something that was reviewed.
func (w *peopleWork) do(a *personActor, r workspace.Request, result any) error {
	return w.doFor(w.t.Context(), a, r, result)
}

func (w *peopleWork) doFor(ctx context.Context, a *personActor, r workspace.Request, result any) error {
	action, err := r.Action()
	must(w.t, err)
	return a.client.Do(ctx, r, workspace.Review{Outcome: bourn.Allow, Action: action.Digest(), Rules: review.NoRules().Digest()}, result, nil)
}

func (w *peopleWork) exec(a *personActor, command string) (int, string) {
	w.t.Helper()
	var r workspace.ExecResult
	must(w.t, w.do(a, workspace.Request{Tool: "shell_exec", Verb: workspace.Exec, Command: command}, &r))
	return r.Status, string(r.Stdout) + string(r.Stderr)
}

// TestPersonActorOf: a launcher that is told to be somebody else, or what it was not started
// for, starts nothing.
func TestPersonActorOf(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		w := newPeopleWork(t)
		ann, bob := worldPeople().People[0], worldPeople().People[1]
		home := w.registry.Home(ann)
		good := workspace.Spec{Version: worldVersion(t), Person: ann.Name, Agent: "", Dir: home, Run: newRunID(time.Now()), Write: []string{home}}
		for name, change := range map[string]func(*workspace.Spec){
			"another person":  func(s *workspace.Spec) { s.Person = bob.Name },
			"a run's path":    func(s *workspace.Spec) { s.Run = "../../x" },
			"another version": func(s *workspace.Spec) { s.Version = "another" },
			"unsigned rules":  func(s *workspace.Spec) { s.Rules = []byte(`{}`) },
		} {
			s := good
			change(&s)
			if a, err := w.people.start(t.Context(), ann, s); err == nil {
				a.client.Close()
				t.Errorf("%s: it starts", name)
			} else if bourn.CodeOf(err) == bourn.CodeInternal {
				t.Errorf("%s: %v", name, err)
			}
		}
		a, err := w.people.start(t.Context(), ann, good)
		must(t, err)
		must(t, a.client.Close())
	})
}

// TestPersonDirectory: an actor begins where it was told to or nowhere, and who asks is told what to
// do about it.
func TestPersonDirectory(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		w := newPeopleWork(t)
		ann, bob := worldPeople().People[0], worldPeople().People[1]
		home := w.registry.Home(ann)
		for dir, want := range map[string]bourn.Code{
			home + "/src/none": bourn.CodeNotFound, "/etc/passwd": bourn.CodeInvalid, "rel": bourn.CodeInvalid,
			"/etc/bourn": bourn.CodeDenied, w.registry.Home(bob): bourn.CodeDenied, home: "", home + "/src": "",
		} {
			s := workspace.Spec{Version: worldVersion(t), Person: ann.Name, Agent: "builder", Dir: dir, Run: newRunID(time.Now()),
				Profile: []byte("version: 1\nagent: builder\nfilesystem: {write: [~/src]}\n")}
			a, err := w.people.start(t.Context(), ann, s)
			if err == nil {
				if a.client.Cwd() != dir {
					t.Errorf("%s: it begins in %s", dir, a.client.Cwd())
				}
				must(t, a.client.Close())
				<-a.done
			}
			if (err != nil) != (want != "") || err != nil && (bourn.CodeOf(err) != want || bourn.HintOf(err) == "") {
				t.Errorf("%s: %v (%s), hint %q; want %q", dir, err, bourn.CodeOf(err), bourn.HintOf(err), want)
			}
		}
	})
}

// TestHelperRunnerByHand: the role does nothing for anybody but its control plane.
func TestHelperRunnerByHand(t *testing.T) {
	for name, socket := range map[string]bool{"nothing": false, "another's socket": true} {
		cmd := exec.Command("/proc/self/exe", HelperRole)
		if socket {
			// Made by this process, whose child's child it is to be.
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			must(t, err)
			unix.Close(pair[0]) // a runner would end
			self, err := os.Executable()
			must(t, err)
			cmd = exec.Command("sh", "-c", `"$0" `+HelperRole+`; exit $?`, self)
			cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(pair[1]), "socket")}
		}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "by the control plane alone") {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
}

// worldVersion is that of the programs in the world, which may be a release's.
func worldVersion(t testing.TB) string {
	t.Helper()
	out, err := exec.Command(worldPrefix+"/bin/bourn", "--version").Output()
	must(t, err)
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "bourn ")
}
