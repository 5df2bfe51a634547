package workspace

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bourn"
)

// Git is started so that it can start no other program (startAlone), however its configuration
// is changed meanwhile. What follows keeps it from trying, so that it goes on.
//
// gitSafe switches off, whatever a repository's configuration says, everything by which
// status or diff execute a program. Filters are switched off by name, see filters.
var gitSafe = [][2]string{
	{"core.fsmonitor", "false"},
	{"core.hooksPath", "/dev/null"},
	{"core.untrackedCache", "false"},
	{"core.sshCommand", "false"},
	{"core.askPass", "false"},
	{"core.gitProxy", "false"},
	{"diff.external", ""},
	{"diff.submodule", "short"}, // else git runs in each, with its own configuration
	{"status.submoduleSummary", "false"},
	{"submodule.recurse", "false"},
	{"protocol.allow", "never"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
}

// gitEnv is what git gets besides, and in the place of, the actor's own variables of git's.
// A blob that is missing is not fetched: fetching executes what a remote's configuration says.
var gitEnv = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0",
	"GIT_ASKPASS=false", "GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_SSH_COMMAND=false", "GIT_TRACE2=0", "GIT_TRACE2_EVENT=0", "GIT_TRACE2_PERF=0", "LC_ALL=C",
}

const (
	gitTimeout = 2 * time.Minute
	maxFilters = 500
	maxDenied  = 500
)

// gitArguments are what git is asked for.
var gitArguments = map[string][]string{
	"status":        {"status", "--porcelain=v2", "--branch", "--untracked-files=normal", "--ignore-submodules=dirty", "--no-ahead-behind"},
	"diff":          {"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short"},
	"diff --staged": {"diff", "--staged", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short"},
}

// gitNames are the same asked for the paths alone.
var gitNames = map[string][]string{
	"status":        {"status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty"},
	"diff":          {"diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--no-relative"},
	"diff --staged": {"diff", "--staged", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--no-relative"},
}

// git runs status or diff on a directory, with nothing of the repository's executed. Changes
// of paths that may not be read are left out and counted.
func (w *work) git(ctx context.Context) (any, error) {
	arguments, known := gitArguments[w.request.Command]
	if !known {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_git", Text: fmt.Sprintf("git is asked for its status or diff, and not for %q", bourn.Printable(w.request.Command)), Hint: "shell_exec runs git with other arguments"}
	}
	p, err := w.root()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	g, err := w.newGit(ctx, p)
	if err != nil {
		return nil, err
	}
	var denied []string
	if w.ruled() {
		if denied, err = g.denied(gitNames[w.request.Command]); err != nil {
			return nil, err
		}
	}
	arguments = append(append([]string{}, arguments...), "--", ".")
	for _, at := range denied {
		arguments = append(arguments, ":(top,exclude,literal)"+at)
	}
	r, err := g.run(arguments...)
	if err != nil {
		return nil, err
	}
	if err := g.unchanged(); err != nil {
		return nil, err
	}
	r.Denied = len(denied)
	return r, nil
}

// A git is git in a directory.
type git struct {
	w   *work
	ctx context.Context
	dir *place
	env []string
	top string // the work tree
	at  string // the program

	judged []identity // of what says where git reads
}

func (w *work) newGit(ctx context.Context, dir *place) (*git, error) {
	g := &git{w: w, ctx: ctx, dir: dir}
	for _, v := range w.actor.Env {
		if !strings.HasPrefix(v, "GIT_") {
			g.env = append(g.env, v)
		}
	}
	g.env = append(g.env, gitEnv...)
	var err error
	if g.at, err = w.programPath("git", g.env, dir); err != nil {
		return nil, err
	}
	filters, err := g.filters()
	if err != nil {
		return nil, err
	}
	g.configure(append(append([][2]string{}, gitSafe...), filters...))
	if err := g.workTree(); err != nil {
		return nil, err
	}
	return g, g.judgeRepository()
}

// configure sets configuration that comes before every file's: by variables, since a name may
// hold an equals sign.
func (g *git) configure(pairs [][2]string) {
	g.env = append(g.env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(pairs)))
	for i, p := range pairs {
		n := strconv.Itoa(i)
		g.env = append(g.env, "GIT_CONFIG_KEY_"+n+"="+p[0], "GIT_CONFIG_VALUE_"+n+"="+p[1])
	}
}

// run runs git without a pager.
func (g *git) run(arguments ...string) (*ExecResult, error) {
	timeout := g.w.request.Timeout
	if timeout <= 0 || timeout > gitTimeout {
		timeout = gitTimeout
	}
	argv := append([]string{"git", "--no-pager", "--no-optional-locks"}, arguments...)
	return g.w.run(g.ctx, &program{path: g.at, argv: argv, env: g.env, dir: g.dir, alone: true, timeout: timeout}, nil)
}

// filters returns what switches off every filter that is configured: git runs them on files
// that look changed, for status already (gitattributes(5)).
func (g *git) filters() ([][2]string, error) {
	r, err := g.run("config", "-z", "--name-only", "--get-regexp", `^filter\.`)
	if err != nil {
		return nil, err
	}
	if r.Status > 1 || r.LeftOut > 0 {
		return nil, g.failed(r)
	}
	var off [][2]string
	seen := map[string]bool{}
	for key := range bytes.SplitSeq(r.Stdout, []byte{0}) {
		name, ok := filterOf(string(key))
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		off = append(off, [2]string{name + ".clean", ""}, [2]string{name + ".smudge", ""}, [2]string{name + ".process", ""}, [2]string{name + ".required", "false"})
	}
	if len(seen) > maxFilters {
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_git", Text: "the repository has too many filters to switch them all off"}
	}
	return off, nil
}

// filterOf is the part of a key that names a filter, as in filter.lfs.
func filterOf(key string) (string, bool) {
	last := strings.LastIndexByte(key, '.')
	if last < len("filter.") {
		return "", false
	}
	return key[:last], strings.HasPrefix(key, "filter.")
}

// workTree finds the work tree, which is to hold the directory: the configuration may name
// any other.
func (g *git) workTree() error {
	r, err := g.run("rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if r.Status != 0 {
		return g.failed(r)
	}
	g.top = strings.TrimSuffix(string(r.Stdout), "\n")
	if rel, err := filepath.Rel(g.top, g.dir.at); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return &Problem{Code: bourn.CodeInvalid, Reason: "invalid_git", Text: fmt.Sprintf("the work tree of the repository is elsewhere: %q", bourn.Printable(g.top))}
	}
	return nil
}

func (g *git) failed(r *ExecResult) error {
	text := strings.TrimSpace(string(r.Stderr))
	if text == "" {
		text = "git ended with " + strconv.Itoa(r.Status)
	}
	return &Problem{Code: bourn.CodeInvalid, Reason: "invalid_git", Text: bourn.Printable(text)}
}

// denied returns the changed paths, from the work tree's top, that the rules do not let read.
func (g *git) denied(names []string) ([]string, error) {
	r, err := g.run(append(append([]string{}, names...), "--", ".")...)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Status != 0:
		return nil, g.failed(r)
	case r.LeftOut > 0:
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "too_large", Text: "too many paths have changed to judge them all", Hint: "name a directory further down"}
	}
	var all []string
	for name := range strings.SplitSeq(string(r.Stdout), "\x00") {
		if names[0] == "status" && len(name) > 3 {
			name = name[3:]
		}
		if name == "" {
			continue
		}
		at := filepath.Join(g.top, name)
		if g.w.opened(at, at, bourn.Read) != nil {
			all = append(all, strings.TrimSuffix(name, "/"))
		}
	}
	if len(all) > maxDenied {
		return nil, &Problem{Code: bourn.CodeDenied, Reason: "too_large", Text: "too many of the changed paths may not be read"}
	}
	return all, nil
}
