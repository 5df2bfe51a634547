package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run"
	"bourn/internal/run/runtest"
)

// evaluates is a command that does a task by evaluating it.
var evaluates = []string{"--", "sh", "-c", `eval "$1"`, "sh", "{job}"}

// fields are a tool's arguments.
type fields map[string]any

func (f fields) String() string {
	text, err := json.Marshal(map[string]any(f))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// job has a task done by a subagent and returns the answer.
func (c *toolClient) job(task string, more ...fields) string {
	c.t.Helper()
	return c.call("spawn_subagent", oneJob(task, more...).String())
}

func oneJob(task string, more ...fields) fields {
	f := fields{"task": task}
	for _, m := range more {
		for k, v := range m {
			f[k] = v
		}
	}
	return f
}

// create makes an agent that evaluates its tasks.
func create(t *testing.T, u *runtest.User, name string, flags ...string) {
	t.Helper()
	succeeds(t, u, append(append([]string{"agent", "create", name}, flags...), evaluates...)...)
}

// profileOf adds lines to an agent's profile.
func profileOf(t *testing.T, u *runtest.User, name, lines string) {
	t.Helper()
	at := filepath.Join(u.Home, ".bourn/agents", name, "profile.yaml")
	u.Write(at, u.Read(at)+lines)
}

func lacks(t *testing.T, out string, not ...string) {
	t.Helper()
	for _, text := range not {
		if strings.Contains(out, text) {
			t.Errorf("it says %q:\n%s", text, out)
		}
	}
}

// TestSubagent: a child has a part of what its caller has, and everything that is closed to
// the caller is closed to it.
func TestSubagent(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		for _, name := range []string{"a.txt", ".env", "sub/b.txt", "sub/key.pem", "lib/c.txt"} {
			u.Mkdir(filepath.Dir(u.Path(name)))
			u.Write(name, "holds "+name+"\n")
		}
		create(t, u, "mur", "--write", ".", "--deny", ".env")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		out := c.job("echo done; echo wrong >&2; cat a.txt .env; echo x >made; exit 3")
		says(t, out, "done\n", "holds a.txt", "stderr:\nwrong", ".env: Permission denied", "(exit status 3, run 2")
		lacks(t, out, "holds .env")
		if u.Read("made") != "x\n" {
			t.Error("it did not write where it works")
		}

		// Below its root it writes, the rest it reads.
		out = c.job("pwd; cat b.txt ../a.txt; echo x >here; echo x >../there", fields{"root": "sub"})
		says(t, out, u.Path("sub")+"\n", "holds sub/b.txt", "holds a.txt", "Read-only file system")
		u.Read("sub/here")

		// What is taken away is not there, what is denied is closed.
		out = c.job("cat sub/b.txt sub/key.pem a.txt lib/c.txt; echo x >sub/here", fields{"read": []string{"sub"}, "write": []string{}, "deny": []string{"**/*.pem"}})
		says(t, out, "holds sub/b.txt", "a.txt: No such file", "c.txt: No such file", "key.pem: Permission denied", "sub/here: Read-only file system")
		lacks(t, out, "holds a.txt", "holds sub/key.pem", "holds lib/c.txt")

		// More than the caller has is refused, and nothing is started.
		for says, more := range map[string]fields{
			"a subagent has no more than its parent": {"write": []string{"/var/tmp/bourn-none"}},
			"not granted":                            {"hosts": []string{"example.com"}},
			"the parent does not have it":            {"env": []string{"SECRET"}},
			"nothing of":                             {"root": "lib", "read": []string{"../sub"}, "write": []string{}},
			"not_found":                              {"root": "nowhere"},
			"not a directory":                        {"root": "a.txt"},
		} {
			if out := c.job("echo started >>started", more); !strings.Contains(out, says) || strings.Contains(out, "exit status") {
				t.Errorf("%v: %s", more, out)
			}
		}
		if _, err := os.Lstat(u.Path("started")); err == nil {
			t.Error("what was refused was started")
		}
		whoIsWho(t, u, c)
		c.leaves()
		within(t, "the log has the child", func() bool {
			log := strings.ReplaceAll(succeeds(t, u, "audit", "tail", "--json", "--agent", "mur", "-n", "1000"), " ", "")
			return strings.Contains(log, `"what":"spawn_subagent"`) && strings.Contains(log, `"child":"2`) && strings.Contains(log, `"status":3`) && strings.Contains(log, `"parent":"2`)
		})
	})
}

// whoIsWho has a child say who it is, and its tools be limited, and those of its own child.
func whoIsWho(t *testing.T, u *runtest.User, c *toolClient) {
	t.Helper()
	who := c.call("whoami", "{}")
	parent := strings.TrimSuffix(strings.Fields(who[strings.Index(who, "run "):])[1], ",")
	out := c.job("bourn whoami", fields{"tools": []string{"files_*", "spawn_subagent"}})
	says(t, out, "works for run "+parent, "tools: among files_*, spawn_subagent")
	tools := fields{"tools": []string{"files_*", "spawn_subagent", "whoami"}}
	out = c.job(mcpClient+`ask tools/list '{}'; call files_read '{"path":"a.txt"}'; call shell_exec '{"command":"echo ran"}'; call whoami '{}'`, tools)
	says(t, out, "holds a.txt", "denied (tool_not_delegated)", `"name":"spawn_subagent"`, "works for run "+parent)
	lacks(t, out, `"name":"shell_exec"`, "ran\\n")

	// The child of a child has what was left to both.
	inner := mcpClient + `ask tools/list '{}'; call files_read '{"path":"` + u.Path("a.txt") + `"}'; call shell_exec '{"command":"echo ran"}'; cat ` + u.Path("a.txt") + `; echo x >../up`
	u.Write("inner", oneJob(inner, fields{"root": u.Path("sub")}).String())
	wider := oneJob(inner, fields{"tools": []string{"shell_exec"}})
	u.Write("wider", wider.String())
	out = c.job(mcpClient+`call spawn_subagent "$(cat inner)"; call spawn_subagent "$(cat wider)"`, tools)
	says(t, out, "holds a.txt", "tool_not_delegated", "up: Read-only file system", "tool shell_exec: not among the parent's")
	lacks(t, out, "ran\\n")
	if list := succeeds(t, u, "agent", "perm", "list-paths", "mur"); strings.Contains(list, "subagent") {
		t.Errorf("it shows a child:\n%s", list)
	}
}

// TestSubagentTasks: a task reaches the child as it was given.
func TestSubagentTasks(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		succeeds(t, u, "agent", "create", "word", "--write", ".", "--", "sh", "-c", `printf %s "$1" >got; printf %s "$2" >also; wc -c </dev/stdin`, "sh", "{job}", "a{job}")
		succeeds(t, u, "agent", "create", "input", "--write", ".", "--", "sh", "-c", `cat >got; echo $# >also`, "sh")
		long := strings.Repeat("0123456789", 10<<10)
		for _, agent := range []string{"word", "input"} {
			c := toolServer(t, u, "mcp", "serve", "--agent", agent)
			for _, task := range []string{"plain", "two\nlines\n\n", `"double" 'single' \back $HOME $(id) ` + "`id`", "{job} and {job}", long, "ü\x01\x7f", " "} {
				if out := c.job(task); !strings.Contains(out, "exit status 0") {
					t.Fatalf("%s: %s", agent, out)
				}
				if got := u.Read("got"); got != task {
					t.Errorf("%s: %.100q came as %.100q (%d bytes)", agent, task, got, len(got))
				}
			}
			if agent == "word" && u.Read("also") != "a{job}" {
				t.Errorf("a part of a word was replaced: %q", u.Read("also"))
			}
			c.job("-rf --option")
			if got := u.Read("got"); strings.TrimPrefix(got, " ") != "-rf --option" || agent == "word" == strings.HasPrefix(got, "-") {
				t.Errorf("%s: %q", agent, got)
			}
			c.mustSay("NUL", "spawn_subagent", `{"task":"a\u0000b"}`)
			c.leaves()
		}
	})
}

// TestSubagentOutput: the end of a long output is answered, and the whole is in a file that
// the caller reads; a stream that nobody reads fills no memory.
func TestSubagentOutput(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		create(t, u, "mur", "--write", ".")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		out := c.job("seq 1 100000; seq 5 >&2; echo last")
		says(t, out, "bytes before this are left out", "\n100000\nlast\n", "stderr:\n1\n2\n", "the whole is in ")
		lacks(t, out, "\n50000\n")
		if len(out) > 80<<10 {
			t.Errorf("%d bytes", len(out))
		}
		at := out[strings.Index(out, "the whole is in ")+len("the whole is in "):]
		at, _, _ = strings.Cut(at, ")")
		c.mustSay("100001 588900", "shell_exec", `{"command":"wc -l -c `+at+`| tr -s ' ' | sed 's/^ //'"}`)
		if strings.Contains(c.job("yes | head -c 60000000; echo end"), "end") {
			c.mustSay("33554432", "shell_exec", `{"command":"wc -c ~/artifacts/subagents/*.out"}`)
		} else {
			t.Error("a long output")
		}
		c.send(7, "tools/call", fmt.Sprintf(`{"name":"spawn_subagent","arguments":%s,"_meta":{"progressToken":"mine"}}`, oneJob("echo first; sleep 1; echo second")))
		if told := c.next(); !strings.Contains(told, `"notifications/progress"`) || !strings.Contains(told, "has started") {
			t.Errorf("%s", told)
		}
		for told := ""; !strings.Contains(told, `"id":7`); told = c.next() {
		}
		c.leaves()
	})
}

// TestSubagentOfNobody: a run without an agent hands work to its own command, and to nobody
// else; below it there are three levels.
func TestSubagentOfNobody(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Write(".env", "secret")
		u.Write("deep", oneJob(mcpClient+`echo level; call spawn_subagent "$(cat deep)"`).String())
		c := toolServer(t, u, "run", "-q", "--deny", ".env", "--", "sh", "-c", `[ -z "$1" ] && exec /run/bourn/bourn mcp serve; [ "$1" = "{job}" ] && exec /run/bourn/bourn mcp serve; eval "$1"`, "sh", "{job}")
		out := c.job("cat .env; seq 1 50000; bourn whoami | head -2")
		says(t, out, ".env: Permission denied", "50000\n", "works for run", "a run without an agent has no place for it")
		lacks(t, out, "secret")
		says(t, c.job("true", fields{"agent": "rev"}), "denied (not_delegated)", "a run without a profile")
		out = c.call("spawn_subagent", u.Read("deep"))
		says(t, out, "denied (too_many_subagents)", "3 levels below the first one")
		if n := strings.Count(out, "level\\"); strings.Count(out, "level") != 4 { // and the refusal has the word
			t.Errorf("%d, %d levels:\n%s", strings.Count(out, "level"), n, out)
		}
		c.leaves()
	})
}

// TestSubagentByHTTP: a client over HTTP has subagents, which end with its request.
func TestSubagentByHTTP(t *testing.T) {
	controlledHTTP(t, func(t *testing.T, u *runtest.User, base string) {
		create(t, u, "mur", "--write", ".")
		token := newToken(t, u, "mur")
		body := func(task string) string {
			return fields{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": fields{"name": "spawn_subagent", "arguments": oneJob(task)}}.String()
		}
		if status, got := post(t, t.Context(), base+"/mcp", token, body("echo done")); status != 200 || !strings.Contains(got, "done") {
			t.Errorf("%d %s", status, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); post(nil, ctx, base+"/mcp", token, body(holding("9873301"))) }()
		allHeld(t, "9873301")
		cancel()
		<-done
		noneHeld(t, u, "9873301")
		go post(nil, t.Context(), base+"/mcp", token, body(holding("9873302")))
		allHeld(t, "9873302")
		succeeds(t, u, "serve", "--stop")
		noneHeld(t, u, "9873302")
	})
}

// TestSubagentRunAs: a child of a run that root starts as a user is that user, and finds its
// long output.
func TestSubagentRunAs(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		if u.UID != 0 {
			return
		}
		if err := os.Chown(u.Work, runtest.Nobody, runtest.Nobody); err != nil {
			t.Fatal(err)
		}
		create(t, u, "mur", "--run-as", fmt.Sprint(runtest.Nobody), "--write", ".")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		says(t, c.job("seq 1 20000; echo x >made; id -u; stat -c %u made"), "\n65534\n65534\n(exit status 0", "the whole is in ")
		c.mustSay("65534 108906", "shell_exec", `{"command":"stat -c '%u %s' ~/artifacts/subagents/*.out"}`)
		c.leaves()
	})
}

// TestParallelJobs: none is started unless all may be, and one that fails ends no other.
func TestParallelJobs(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Mkdir(u.Path("sub"))
		create(t, u, "mur", "--write", ".")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		jobs := func(parallel int, all ...fields) string {
			t.Helper()
			return c.call("parallel_jobs", fields{"tasks": all, "parallel": parallel}.String())
		}
		out := jobs(3, oneJob("echo one; exit 1"), oneJob("kill -9 $$"), oneJob("no-such-command-here"), oneJob("pwd", fields{"root": "sub"}))
		says(t, out, "task 1:\none\n(exit status 1,", "task 2:\n(ended by signal 9,", "task 3:\nstderr:", "(exit status 127,", "task 4:\n"+u.Path("sub")+"\n(exit status 0,")
		out = jobs(2, oneJob("touch started"), oneJob("touch started", fields{"write": []string{"/usr"}}))
		says(t, out, "denied", "task 2: ", "none of the 2 was started")
		out = jobs(2, oneJob("touch started"), oneJob("touch started", fields{"root": "none"}))
		says(t, out, "not_found")
		if _, err := os.Lstat(u.Path("started")); err == nil {
			t.Error("one was started where another could not be")
		}

		// Eight at once, and no more.
		meet := `mkdir -p meet; : >meet/$PPID.$$.$(cat /proc/sys/kernel/random/uuid); i=0; while [ $(ls meet | wc -l) -lt 8 ] && [ $i -lt 500 ]; do i=$((i+1)); sleep 0.02; done; ls meet | wc -l`
		var eight []fields
		for range 8 {
			eight = append(eight, oneJob(meet))
		}
		if out := jobs(8, eight...); strings.Count(out, "\n8\n(exit status 0") != 8 {
			t.Errorf("not at once:\n%s", out)
		}
		c.send(20, "tools/call", fields{"name": "parallel_jobs", "arguments": fields{"tasks": eight, "parallel": 8}}.String())
		// (they meet at once: the directory is full)
		for got := ""; !strings.Contains(got, `"id":20`); got = c.next() {
		}
		u.Write("hold", "")
		var held []fields
		for range 7 {
			held = append(held, oneJob("while [ -e hold ]; do sleep 0.05; done; echo let go"))
		}
		c.send(21, "tools/call", fields{"name": "parallel_jobs", "arguments": fields{"tasks": held, "parallel": 7}}.String())
		within(t, "seven run", func() bool { return strings.Count(liveRuns(t, u, "mur"), "parent") >= 7 })
		c.send(22, "tools/call", fields{"name": "parallel_jobs", "arguments": fields{"tasks": []fields{oneJob("true"), oneJob("true")}}}.String())
		says(t, toolText(t, c.next()), "denied (too_many_subagents)", "8 are the most")
		if err := os.Remove(u.Path("hold")); err != nil {
			t.Fatal(err)
		}
		if got := toolText(t, c.next()); strings.Count(got, "let go") != 7 {
			t.Errorf("%s", got)
		}
		// 64 in a run's life: 27 were planned by now.
		for {
			out = c.job("true")
			if strings.Contains(out, "64 are the most") {
				break
			}
			says(t, out, "exit status 0")
			if t.Failed() {
				break
			}
		}
		c.leaves()
	})
}

// liveRuns are the records of an agent's runs, as text.
func liveRuns(t *testing.T, u *runtest.User, agent string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(u.Home, ".bourn/agents", agent, "runs/2*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, at := range all {
		var r run.Record
		if data, err := os.ReadFile(at); err == nil && json.Unmarshal(data, &r) == nil && r.Live() && r.Parent != "" {
			out.WriteString("parent\n")
		}
	}
	return out.String()
}
