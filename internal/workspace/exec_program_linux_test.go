package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/review"

	"golang.org/x/sys/unix"
)

// putProgram writes a file that may be executed.
func putProgram(t testing.TB, at, text string) {
	t.Helper()
	put(t, at, text)
	if err := os.Chmod(at, 0o755); err != nil {
		t.Fatal(err)
	}
}

// copyOf copies a program.
func copyOf(t testing.TB, program, at string) {
	t.Helper()
	found, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	putProgram(t, at, content(t, found))
}

// What is blocked is swapped in, again and again, for what is not while it is executed. A
// program that is blocked never runs. A script's interpreter has its path alone: one that is
// blocked is ended, and never answered for.
func TestExecSwapped(t *testing.T) {
	tries := 300
	if testing.Short() && slower > 1 {
		t.Skip("it is about other processes, in which the race detector sees nothing")
	}
	if testing.Short() {
		tries = 50
	}
	for _, kind := range []string{"program", "script"} {
		for _, what := range []string{"link", "file", "directory"} {
			t.Run(kind+"/"+what, func(t *testing.T) {
				dir := tempDir(t)
				canary := dir + "/canary"
				good, evil := dir+"/good/p", dir+"/evil/p"
				if kind == "program" {
					copyOf(t, "true", good)
					copyOf(t, "touch", evil)
				} else {
					putProgram(t, good, "#!/bin/sh\n")
					putProgram(t, evil, "#!/bin/sh\n>"+canary+"\n")
				}
				path, a, b := dir+"/p", dir+"/p", dir+"/q"
				switch what {
				case "link":
					link(t, good, a)
					link(t, evil, b)
				case "file":
					if err := os.Rename(good, a); err != nil {
						t.Fatal(err)
					}
					link(t, evil, b)
				case "directory":
					path, a, b = good, dir+"/good", dir+"/q"
					link(t, dir+"/evil", b)
				}
				o := newOwner(t, dir, rule("evil", "prefix", dir+"/evil", "execute"))
				stop := swapping(t, a, b)
				results, ran := map[string]int{}, 0
				for i := 0; i < tries || i < 20*tries && results[blocked+"evil"] == 0; i++ {
					err := o.ask(Request{Verb: Exec, Argv: []string{path, canary}}, nil)
					results[reasonOf(err)]++
					if os.Remove(canary) != nil {
						continue
					}
					ran++
					if kind == "program" || reasonOf(err) != "changed_meanwhile" {
						t.Fatalf("it ran, and the answer is %q", reasonOf(err))
					}
				}
				n := stop()
				if n == 0 || results[blocked+"evil"] == 0 {
					t.Errorf("%d swaps: %v", n, results)
				}
				t.Logf("%d swaps, %d ran and were ended: %v", n, ran, results)
			})
		}
	}
}

// A script that is swapped once, between its judging and its start, or while it runs.
func TestExecScriptSwappedOnce(t *testing.T) {
	for name, swap := range map[string]func(dir string) error{
		"the file":            func(dir string) error { return os.Rename(dir+"/other", dir+"/d/p") },
		"its text":            func(dir string) error { return os.WriteFile(dir+"/d/p", []byte("#!/bin/sh\n:\n"), 0o755) },
		"its mode":            func(dir string) error { return os.Chmod(dir+"/d/p", 0o700) },
		"it goes":             func(dir string) error { return os.Remove(dir + "/d/p") },
		"its directory":       func(dir string) error { return os.Rename(dir+"/d", dir+"/e") },
		"and that comes back": func(dir string) error { return orElse(os.Rename(dir+"/d", dir+"/e"), os.Rename(dir+"/e", dir+"/d")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			putProgram(t, dir+"/d/p", "#!/bin/sh\n>"+dir+"/begun; sleep 60\n")
			putProgram(t, dir+"/other", "#!/bin/sh\n")
			w := &work{actor: &Actor{Cwd: dir, Env: []string{"PATH=/usr/bin:/bin"}}, rules: mustCompile(t, dir, rule("x", "exact", dir+"/x", "execute")), request: Request{Verb: Exec}}
			w.actor.family.adopt(false)
			at, err := w.resolve(dir, unix.O_DIRECTORY)
			if err != nil {
				t.Fatal(err)
			}
			defer at.Close()
			pr := &program{argv: []string{"d/p"}, dir: at, env: w.actor.Env}
			defer pr.close()
			if err := w.pin(t.Context(), pr); err != nil {
				t.Fatal(err)
			}
			if err := pr.check(); err != nil {
				t.Fatal(err)
			}
			if err := swap(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := w.run(t.Context(), pr, nil); reasonOf(err) != "changed_meanwhile" {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(dir + "/begun"); err == nil {
				t.Error("it was started")
			}
		})
	}
	// While it runs: the call is ended, with what it had started.
	dir := tempDir(t)
	putProgram(t, dir+"/p", "#!/bin/sh\nmv p q; cp q p; sleep 61 & sleep 61\n")
	o := newOwner(t, dir, rule("x", "exact", dir+"/x", "execute"))
	o.refused(Request{Verb: Exec, Argv: []string{"./p"}}, "changed_meanwhile")
	if n := named(o, "sleep\x0061\x00"); n > 0 {
		t.Errorf("%d are left", n)
	}
}

func orElse(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Where rules are, programs and scripts get what they get without: their names, arguments and
// what is beside them, and no descriptor more.
func TestExecPinned(t *testing.T) {
	dir := tempDir(t)
	putProgram(t, dir+"/app/run", "#!/bin/sh -e\necho \"${0#"+dir+"}|$#|$1|$-\"; cat \"$(dirname \"$0\")/beside\"; ls /proc/$$/fd | wc -l\n")
	put(t, dir+"/app/beside", "beside\n")
	putProgram(t, dir+"/twice", "#!"+dir+"/app/run x y\n")
	link(t, "app/run", dir+"/alias")
	link(t, "/usr/bin/env", dir+"/envlink")
	copyOf(t, "env", dir+"/bin/mine")
	listing := map[string]string{} // without rules, by command
	for _, blocks := range [][]string{nil, {rule("x", "exact", dir+"/x", "execute")}} {
		t.Run(fmt.Sprintf("%d rules", len(blocks)), func(t *testing.T) {
			o := newOwner(t, dir, blocks...)
			real := "/app/run"
			for _, c := range []struct {
				argv []string
				out  string
			}{
				{[]string{"app/run", "a b"}, real + "|1|a b|e\nbeside\n"},
				{[]string{dir + "/app/run"}, real + "|0||e\nbeside\n"},
				{[]string{"./twice", "z"}, real + "|3|x y|e\nbeside\n"},
				{[]string{"sh", "-c", "echo $0 $1; readlink /proc/$$/exe", "a", "b"}, "a b\n"},
			} {
				e := o.run(Request{Argv: c.argv})
				if !strings.HasPrefix(string(e.Stdout), c.out) || e.Status != 0 {
					t.Errorf("%q: %q %q, want %q", c.argv, e.Stdout, e.Stderr, c.out)
				}
			}
			for _, c := range [][]string{{"/bin/ls", "/proc/self/fd"}, {"ls", "/proc/self/fd"}, {"./envlink", "ls", "/proc/self/fd"}, {"./bin/mine", "ls", "/proc/self/fd"}} {
				e := o.run(Request{Argv: c})
				if before, ok := listing[c[0]]; ok && before != string(e.Stdout) || len(e.Stdout) < len("0\n1\n2\n3\n") {
					t.Errorf("%q has the descriptors %q %q, and without rules %q", c, e.Stdout, e.Stderr, before)
				}
				listing[c[0]] = string(e.Stdout)
			}
			e := o.run(Request{Argv: []string{"./bin/mine", "-i", "sh", "-c", "tr '\\0' ' ' </proc/$PPID/cmdline >/dev/null; echo $0"}})
			if string(e.Stdout) != "sh\n" {
				t.Errorf("%q", e.Stdout)
			}
		})
	}
}

// An interpreter is judged as what it is, however it is named.
func TestExecJudgesTheInterpreter(t *testing.T) {
	dir := tempDir(t)
	copyOf(t, "sh", dir+"/evil/sh")
	link(t, dir+"/evil/sh", dir+"/alias")
	putProgram(t, dir+"/script", "#! "+dir+"/alias\n>canary\n")
	putProgram(t, dir+"/relative", "#!./alias\n>canary\n")
	putProgram(t, dir+"/bare", "#!near\n>canary\n") // from the directory, and not by PATH
	link(t, dir+"/evil/sh", dir+"/near")
	copyOf(t, "true", dir+"/bin/near")
	putProgram(t, dir+"/second", "#!"+dir+"/script\n")
	putProgram(t, dir+"/byname", "#!/usr/bin/env alias\n>canary\n")
	putProgram(t, dir+"/loop", "#!"+dir+"/loop\n")
	putProgram(t, dir+"/nothing", "#!\n")
	putProgram(t, dir+"/gone", "#!/no/such/interpreter\n")
	o := newOwnerOf(t, &Actor{Cwd: dir, Env: []string{"PATH=" + dir + "/bin:/usr/bin:/bin:" + dir}}, rule("evil", "prefix", dir+"/evil", "execute"))
	for _, script := range []string{"script", "relative", "bare", "second", "byname"} {
		o.refused(Request{Verb: Exec, Argv: []string{"./" + script}}, blocked+"evil")
	}
	o.refused(Request{Verb: Exec, Argv: []string{"./loop"}}, "not_found")
	o.refused(Request{Verb: Exec, Argv: []string{"./nothing"}}, "operation_failed")
	o.refused(Request{Verb: Exec, Argv: []string{"./gone"}}, "not_found")
	if _, err := os.Stat(dir + "/canary"); err == nil {
		t.Error("it ran")
	}
}

// The first line is read as the kernel reads it.
func TestFirstLine(t *testing.T) {
	dir := tempDir(t)
	echo := dir + "/echo"
	// It prints its arguments and not its own name, which the kernel takes from the line.
	putProgram(t, echo, "#!/bin/sh\nfor a; do printf '%s|' \"$a\"; done\n")
	long := func(n int) string { return strings.Repeat("x", n) }
	for i, line := range []string{
		"", " ", "\t", " " + echo, echo, echo + " ", echo + " a", echo + "\ta\t", echo + "  a  b ", echo + " a\x00b", echo + "\x00 a",
		echo + " " + long(300), long(300), " " + long(254), strings.Repeat(" ", 300), strings.Repeat(" ", 254) + echo, echo + "\r", echo + " a\r",
	} {
		for _, end := range []string{"\n", "\nmore\n", ""} {
			at := dir + "/s" + strconv.Itoa(i) + strconv.Itoa(len(end))
			putProgram(t, at, "#!"+line+end)
			out, err := exec.Command(at).Output()
			var head [lineSize]byte
			copy(head[:], "#!"+line+end)
			words, script := firstLine(head)
			if !script {
				t.Errorf("%q is no script", line)
			}
			if err != nil {
				if len(words) > 0 && words[0] == echo {
					t.Errorf("%.60q %q: %.60q, and the kernel: %v", line, end, words, err)
				}
				continue
			}
			want := strings.Split(strings.TrimSuffix(string(out), at+"|"), "|")
			if len(words) == 0 || words[0] != echo || !slices.Equal(append(slices.Clone(words[1:]), ""), want) {
				t.Errorf("%.60q %q: %.60q, and the kernel %.60q", line, end, words, want)
			}
		}
	}
}

// The programs that a text names are judged by what they are, wherever they are found.
func TestExecJudgesNames(t *testing.T) {
	dir, home := tempDir(t), tempDir(t)
	putProgram(t, dir+"/evil/evil.sh", "#!/bin/sh\n>"+dir+"/canary\n")
	put(t, dir+"/evil/data", "x")
	link(t, "evil/evil.sh", dir+"/link")
	link(t, dir+"/evil/evil.sh", home+"/mine")
	put(t, dir+"/sub/text", "")
	link(t, dir+"/evil", dir+"/sub/d")
	o := newOwnerOf(t, &Actor{Cwd: dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + home}}, rule("evil", "prefix", dir+"/evil", "execute"))
	path := []string{"PATH=" + dir + "/evil:/usr/bin:/bin"}
	for _, r := range []Request{
		{Command: "evil.sh", Env: path}, {Command: "true; env evil.sh", Env: path}, {Command: "sh -c 'evil.sh'", Env: path},
		{Command: "x=1 \"evil\".sh | cat", Env: path}, {Command: "timeout 5 evil.sh", Env: path}, {Command: "echo $(evil.sh)", Env: path},
		{Command: "./link"}, {Command: "cat /dev/null && ./link"}, {Command: "d/evil.sh", Cwd: "sub"},
		{Command: "link", Env: []string{"PATH=.:/bin"}}, {Command: "link", Env: []string{"PATH=:/bin"}}, {Command: "evil.sh", Env: []string{"PATH=sub/d"}},
		{Command: "~/mine"}, {Command: "find . -exec ./link {} \\;"}, {Command: "echo x | xargs ./link"},
		{Command: "/proc/self/root" + dir + "/link"},
		{Argv: []string{"env", "evil.sh"}, Env: path}, {Argv: []string{"sh", "-c", "evil.sh"}, Env: path}, {Argv: []string{"nice", "./link"}},
	} {
		r.Verb = Exec
		if err := o.ask(r, nil); !strings.HasPrefix(reasonOf(err), blocked+"evil") {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if _, err := os.Stat(dir + "/canary"); err == nil {
		t.Error("it ran")
	}
	for _, command := range []string{
		"true", "no-such-program || true", "f() { :; }; f", "cat evil/data", "echo evil.sh ./link", "x=./link; true", "test -x ./link", "./sub || true", "cd sub && ls d",
	} {
		if e := o.run(Request{Command: command}); e.Status != 0 {
			t.Errorf("%s: %+v %q", command, e, e.Stderr)
		}
	}
}

// Variables that make programs execute something else are asked about where rules about
// commands are, and so refused here.
func TestExecVariables(t *testing.T) {
	dir := tempDir(t)
	o := newOwner(t, dir, `{"id":"push","type":"command","match":"prefix","pattern":"git push","operations":["execute"]}`)
	alias := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=alias.p", "GIT_CONFIG_VALUE_0=push"}
	r := Request{Tool: "shell_exec", Verb: Exec, Argv: []string{"git", "p"}, Env: alias}
	action, err := r.Action()
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(action.Command.Env) != "[GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0]" {
		t.Errorf("%q", action.Command.Env)
	}
	// Whatever the owner says.
	for _, r := range []Request{r, {Tool: r.Tool, Verb: Exec, Command: "git p", Env: alias}} {
		action, err := r.Action()
		if err != nil {
			t.Fatal(err)
		}
		if v := review.Judge(action, o.rules); v.Outcome != bourn.Ask {
			t.Errorf("%+v", v)
		}
		if err := o.Do(t.Context(), r, Review{bourn.Allow, action.Digest(), o.rules.Digest()}, nil, nil); reasonOf(err) != "command_unclear" {
			t.Errorf("%v", err)
		}
	}
	o.run(Request{Command: "true", Env: []string{"CI=1", "GIT_TRACE=1"}})
	free := newOwner(t, dir)
	free.run(Request{Command: "true", Env: alias})
	// What was mistaken for a name may be a value, and errors are logged.
	if err := free.ask(Request{Verb: Exec, Command: "true", Env: []string{"hunter2 x=1"}}, nil); reasonOf(err) != "invalid_env" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

func BenchmarkExecTrueRuled(b *testing.B) {
	dir := tempDir(b)
	o := newOwner(b, dir, rule("x", "prefix", filepath.Join(dir, "x"), "execute"))
	p50(b, func() { o.must(Request{Verb: Exec, Argv: []string{"/bin/true"}}, nil) })
}
