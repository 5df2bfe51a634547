package bourn_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"bourn/internal/run/runtest"
	"bourn/internal/store/storetest"

	"github.com/google/go-cmp/cmp"
)

// The transcripts of the pages, the blocks that begin with ```console, are executed and
// compared. A page has a home and projects of its own, and its blocks go on from each
// other, beginning in ~/app:
//
//	$ COMMAND          what is typed, for sh. cd stays; $? is the status of the last one.
//	                   After a command that ends in "-- sh" it is typed into that shell,
//	                   until exit or the end of the block.
//	text               what is printed, on standard output and standard error together
//	…                  alone: any lines; in a line: any text
//
// Home directories, hashes, dates and run ids may differ. A comment before a block says
// what it needs:
//
//	<!-- not run: REASON -->                    it is shown and not executed
//	<!-- a host without user namespaces -->     it is executed in a namespace that allows none
//	<!-- a host with PostgreSQL -->             the page's users have accounts, and their
//	                                            control plane ends with the page
//	<!-- as root -->                            it is executed by root alone

// pages returns the pages that are tested.
func pages(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"README.md", "CONTRIBUTING.md"}, docs...)
}

// A block is a fenced block of a page.
type block struct {
	line   int    // of its fence, from 1
	lang   string // what stands behind the fence
	note   string // the text of a comment right before it
	text   string
	notRun string // why it is not executed
	weak   bool   // it needs a host without user namespaces
	serves bool   // it needs a host with PostgreSQL
	root   bool   // it needs root
}

var comment = regexp.MustCompile(`^<!-- (.*) -->$`)

// blocks returns the fenced blocks of a page.
func blocks(t *testing.T, page string) []block {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []block
	var b *block
	note := ""
	for i, line := range strings.Split(string(data), "\n") {
		lang, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && b == nil:
			b = &block{line: i + 1, lang: lang, note: note}
			note = ""
		case fence:
			b.read(t, page)
			all = append(all, *b)
			b = nil
		case b != nil:
			b.text += line + "\n"
		case comment.MatchString(line):
			note = comment.FindStringSubmatch(line)[1]
		case line != "":
			note = ""
		}
	}
	if b != nil {
		t.Fatalf("%s:%d: the block does not end", page, b.line)
	}
	return all
}

// read reads the comment before a transcript.
func (b *block) read(t *testing.T, page string) {
	if b.lang != "console" || b.note == "" {
		return
	}
	reason, notRun := strings.CutPrefix(b.note, "not run: ")
	switch {
	case notRun && reason != "":
		b.notRun = reason
	case b.note == "a host without user namespaces":
		b.weak = true
	case b.note == "a host with PostgreSQL":
		b.serves = true
	case b.note == "as root":
		b.root = true
	default:
		t.Errorf("%s:%d: the comment %q says nothing that is known", page, b.line, b.note)
	}
}

// A step is one command of a transcript and what it prints.
type step struct {
	command string
	want    string
	inner   []step // of the shell that it starts
	opens   string // what that shell's command prints before the first step
}

var startsShell = regexp.MustCompile(`^bourn run .*-- sh$`)

// steps reads a transcript.
func steps(t *testing.T, page string, b block) []step {
	t.Helper()
	var all []step
	for line := range strings.Lines(b.text) {
		command, typed := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ ")
		last := len(all) - 1
		switch {
		case !typed && last < 0:
			t.Fatalf("%s:%d: a transcript begins with a command", page, b.line)
		case !typed:
			all[last].want += line
		default:
			all = append(all, step{command: command})
		}
	}
	var out []step
	for i := 0; i < len(all); i++ {
		s := all[i]
		if startsShell.MatchString(s.command) {
			end := slices.IndexFunc(all[i:], func(s step) bool { return s.command == "exit" })
			if end < 0 {
				end = len(all) - 1 - i
			}
			s.opens, s.want = s.want, ""
			s.inner = all[i+1 : i+end+1]
			i += end
		}
		out = append(out, s)
	}
	return out
}

// A world is where the transcripts of one page are executed.
type world struct {
	*runtest.User
	dir    string // the working directory
	status int    // of the last command
}

// newWorld makes a home with two projects, a library, a key, and a stand-in for claude,
// which prints the files that its prompt names.
func newWorld(t *testing.T, u *runtest.User) *world {
	t.Helper()
	home := func(rel string) string { return filepath.Join(u.Home, rel) }
	u.Env = []string{"HOME=" + u.Home, "USER=dev", "LANG=C.UTF-8",
		"PATH=" + filepath.Dir(runtest.Binary(t)) + ":" + home(".local/bin") + ":/usr/local/bin:/usr/bin:/bin"}
	u.Write(home(".gitconfig"), "[user]\n\tname = Dev\n\temail = dev@example.com\n[init]\n\tdefaultBranch = main\n")
	u.Write(home(".ssh/id_ed25519"), "key\n")
	u.Write(home(".npmrc"), "registry=https://packages.example.com/\n")
	u.Write(home("src/lib/limits.txt"), "width 80\n")
	claude := u.Write(home(".local/bin/claude"), "#!/bin/sh\nfor word in $2; do case $word in /*|'~'*) eval \"cat $word\";; esac; done\n")
	if err := os.Chmod(claude, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, project := range []string{"app", "hello"} {
		u.Write(home(project+"/.env"), "TOKEN=secret\n")
		u.Write(home(project+"/hello.sh"), "echo hello\n")
		u.Write(home(project+"/Makefile"), "test:\n\t@sh hello.sh\n")
	}
	w := &world{User: u, dir: home("app")}
	w.sh("for p in app hello; do cd ~/$p && git init -q && echo .env >.gitignore && git add . && git commit -qm hello; done", false)
	t.Cleanup(func() {
		w.sh("for a in ~/.bourn/agents/*/; do bourn agent stop --all --grace 0s $(basename $a); done", false)
	})
	return w
}

// limit is how long one command of a transcript may take.
const limit = 30 * time.Second

// weakHost runs a command where no user namespace can be made.
const weakHost = `exec unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec sh -c "$1"' sh "$LINE"`

// sh executes a line and returns what it prints.
func (w *world) sh(line string, weak bool, input ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if strings.Contains(line, "$?") {
		line = fmt.Sprintf("(exit %d); %s", w.status, line)
	}
	script := line
	if weak {
		script = weakHost
	}
	cmd := w.Command(ctx, "sh", "-c", script)
	cmd.Dir = w.dir
	cmd.Env = append(slices.Clone(w.Env), "LINE="+line)
	cmd.Stdin = strings.NewReader(strings.Join(input, ""))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	w.status = w.Wait(cmd).Status
	return out.String()
}

// between is printed between the steps of a shell in a transcript.
const between = "\x1e"

var logs = regexp.MustCompile(`^bourn agent logs `)

// do executes a step and returns it with what it prints, as the page would have it.
func (w *world) do(s step, weak bool) step {
	got := s
	if dir, cd := strings.CutPrefix(s.command, "cd "); cd {
		dir, _, _ = strings.Cut(dir, " ")
		w.dir = filepath.Join(w.Home, strings.TrimPrefix(dir, "~"))
		got.want = ""
		return got
	}
	if s.opens == "" && len(s.inner) == 0 {
		got.want = w.mapped(w.sh(s.command, weak))
		for end := time.Now().Add(limit); logs.MatchString(s.command) && !matches(s.want, got.want) && time.Now().Before(end); {
			got.want = w.mapped(w.sh(s.command, weak)) // what it says is on its way
		}
		return got
	}
	input := "printf '\\036'; "
	for _, in := range s.inner {
		input += in.command + "\nprintf '\\036'; "
	}
	input = strings.Replace(input, "exit\nprintf '\\036'; ", "printf '\\036'; exit\n", 1)
	parts := strings.Split(w.mapped(w.sh(s.command, weak, input+"\n")), between)
	got.opens, got.inner = parts[0], nil
	for i, in := range s.inner {
		in.want = "(the shell has ended)\n"
		if i+1 < len(parts) {
			in.want = parts[i+1]
		}
		got.inner = append(got.inner, in)
	}
	if n := len(s.inner); n+1 < len(parts) {
		got.inner[n-1].want += parts[n+1] // what is said when the run has ended
	}
	return got
}

// mapped gives a text the names that the pages have.
func (w *world) mapped(text string) string {
	return strings.ReplaceAll(text, w.Home, "/home/dev")
}

// varying are texts that differ from run to run.
var varying = []struct {
	form *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{8}T\d{6}\.\d{3}-[0-9a-f]{8}`), "RUN"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?`), "DATE"},
	{regexp.MustCompile(`\b[0-9a-f]{7,40}\b`), "HASH"},
}

func settled(text string) string {
	for _, v := range varying {
		text = v.form.ReplaceAllString(text, v.as)
	}
	return text
}

// matches reports whether a text is what a page says that it is.
func matches(want, got string) bool {
	var form strings.Builder
	for line := range strings.Lines(settled(want)) {
		if line == "…\n" {
			form.WriteString(`(?:.*\n)*`)
			continue
		}
		form.WriteString(strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(line, "\n")), "…", ".*") + `\n`)
	}
	return regexp.MustCompile(`^` + form.String() + `$`).MatchString(settled(got))
}

// check compares a step with what came of it.
func check(t *testing.T, page string, b block, want, got step) {
	t.Helper()
	compare := func(command, want, got string) {
		t.Helper()
		if !matches(want, got) {
			t.Errorf("%s:%d: $ %s\n%s\nit printed\n%s", page, b.line, command, cmp.Diff(want, got), got)
		}
	}
	compare(want.command, want.want+want.opens, got.want+got.opens)
	for i := range want.inner {
		compare(want.inner[i].command, want.inner[i].want, got.inner[i].want)
	}
}

// TestTranscripts executes what the pages show.
func TestTranscripts(t *testing.T) {
	seals := runtest.NewUser(t, os.Getuid()).Bourn("run", "--", "true").Status == 0
	t.Run("seals", func(t *testing.T) { runtest.Need(t, "userns", seals) })
	run, notRun := 0, 0
	defer func() { t.Logf("%d transcripts are executed, %d are not", run, notRun) }()
	for _, page := range pages(t) {
		var all []block
		for _, b := range blocks(t, page) {
			if b.lang == "console" && b.notRun != "" {
				notRun++
				t.Logf("not run: %s:%d: %s", page, b.line, b.notRun)
			} else if b.lang == "console" {
				all = append(all, b)
			}
		}
		run += len(all)
		if slices.ContainsFunc(all, func(b block) bool { return b.root }) {
			t.Run(page+" as root", func(t *testing.T) { runtest.Need(t, "root", os.Getuid() == 0) })
		}
		if len(all) == 0 || !seals {
			continue
		}
		serves := slices.ContainsFunc(all, func(b block) bool { return b.serves })
		users := runtest.Users
		if serves {
			users = runtest.Accounts
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			if serves {
				storetest.Need(t)
			}
			users(t, func(t *testing.T, u *runtest.User) {
				for _, program := range []string{"git", "curl", "unshare"} {
					runtest.Need(t, program, u.Do("sh", "-c", "command -v "+program).Status == 0)
				}
				w := newWorld(t, u)
				if serves {
					u.Env = append(u.Env, "BOURN_DATABASE_USER=nobody")
					u.Serves()
				}
				for _, b := range all {
					if b.root && u.UID != 0 {
						continue
					}
					for _, s := range steps(t, page, b) {
						check(t, page, b, s, w.do(s, b.weak))
					}
				}
			})
		})
	}
}

// TestTranscriptsAreRead shows that the comparison refuses what differs.
func TestTranscriptsAreRead(t *testing.T) {
	tests := []struct {
		want, got string
		match     bool
	}{
		{"a\n", "a\n", true},
		{"a\n", "b\n", false},
		{"a\n", "a\nb\n", false},
		{"a\n…\n", "a\nb\nc\n", true},
		{"…\nc\n", "c\n", true},
		{"at … end\n", "at the very end\n", true},
		{"at … end\n", "at the\nend\n", false},
		{"", "a\n", false},
		{"6bb8539 hello\n", "71363ba hello\n", true},
		{"6bb8539 hello\n", "71363ba other\n", false},
		{"since 2026-01-01 10:00\n", "since 2027-12-31 23:59\n", true},
	}
	for _, tt := range tests {
		if got := matches(tt.want, tt.got); got != tt.match {
			t.Errorf("matches(%q, %q) = %t", tt.want, tt.got, got)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^):]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	inSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks keeps the links between the pages whole.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			name, part, _ := strings.Cut(m[1], "#")
			at := page
			if name != "" {
				at = filepath.Join(filepath.Dir(page), name)
			}
			text, err := os.ReadFile(at)
			switch {
			case err != nil:
				t.Errorf("%s: a link leads nowhere: %v", page, err)
			case part != "" && !slices.Contains(slugs(string(text)), part):
				t.Errorf("%s: %s has no heading %q", page, at, part)
			}
		}
	}
}

// slugs are the names of a page's headings in links.
func slugs(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(inSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}
