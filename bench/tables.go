package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A knownTable is one that can be asked for.
type knownTable struct {
	name  string
	build func(*bench) (*table, error)
}

// tables are what is measured, in this order.
var tables = []knownTable{
	{"launch", launchTable},
	{"denies", deniesTable},
	{"scan", func(b *bench) (*table, error) { return b.scanTable("scan", true) }},
	{"git", func(b *bench) (*table, error) { return b.gitTable("git", true) }},
	{"scan-launch", func(b *bench) (*table, error) { return b.scanTable("scan-launch", false) }},
	{"git-launch", func(b *bench) (*table, error) { return b.gitTable("git-launch", false) }},
	{"watch-build", watchBuildTable},
	{"watch-git", watchGitTable},
	{"glob", globTable},
	{"net-down", netTable("net-down", "512 MB from a server on the host's loopback", "down", target{ratio: 1 / 0.45})},
	{"net-up", netTable("net-up", "512 MB to a server on the host's loopback", "up", target{ratio: 1 / 0.45})},
	{"net-connect", netTable("net-connect", "connecting to that server, and a first answer", "connect", target{extraMS: 0.4})},
	{"memory", memoryTable},
	{"review", reviewTable},
}

func tableNames(of []knownTable) []string {
	var names []string
	for _, t := range of {
		names = append(names, t.name)
	}
	return names
}

const (
	outside   = "no sandbox"
	bwrapName = "bubblewrap"
)

func launchTable(b *bench) (*table, error) {
	t := &table{name: "launch", title: "starting `true`, with the project writable and no network", base: outside}
	t.commands = []command{
		{name: outside, args: []string{b.path("true")}},
		{name: "bourn --version", args: []string{b.bourn, "--version"}},
		{name: "bourn run", args: b.bournRun(b.project, nil, b.path("true")), refused: b.bournRun(b.project, nil, b.path("cat"), b.secret)},
	}
	t.commands = append(t.commands, command{name: "bourn run, one host", args: b.bournRun(b.project, []string{"--host", "example.com"}, b.path("true"))})
	b.addFloor(t)
	b.addBwrap(t, command{name: bwrapName, args: b.bwrapRun(b.project, nil, b.path("true")), refused: b.bwrapRun(b.project, nil, b.path("cat"), b.secret)})
	t.targets = []target{
		{command: "bourn run", maxMS: 10, ratio: 2.2, against: bwrapName},
		{command: "bourn --version", maxMS: 3},
	}
	return t, nil
}

func deniesTable(b *bench) (*table, error) {
	files, err := writeDenied(filepath.Join(b.project, "denied"), 1000)
	if err != nil {
		return nil, err
	}
	name := func(n int) string { return fmt.Sprintf("bourn, %d denies", n) }
	t := &table{name: "denies", title: "starting `true` with files denied inside the project", base: name(0)}
	for _, n := range []int{0, 100, 1000} {
		c := command{name: name(n), args: b.bournRun(b.project, denyFlags(files[:n]), b.path("true"))}
		if n > 0 {
			c.refused = b.bournRun(b.project, denyFlags(files[:n]), b.path("cat"), files[n-1])
		}
		t.commands = append(t.commands, c)
	}
	for _, n := range []int{0, 100} {
		c := command{name: fmt.Sprintf("%s, %d denies", bwrapName, n), args: b.bwrapRun(b.project, files[:n], b.path("true"))}
		if n > 0 {
			// Root reads a file of mode 000; a mask that holds it off root has no content.
			c.refused = b.bwrapRun(b.project, files[:n], b.path("grep"), "-q", "secret", files[n-1])
		}
		b.addBwrap(t, c)
	}
	t.targets = []target{{command: name(1000), extraMS: 25, against: name(0)}}
	return t, nil
}

// scanTable is the work itself, or with the launch of a sandbox for it alone.
func (b *bench) scanTable(name string, timed bool) (*table, error) {
	tree, err := b.bigTree()
	if err != nil {
		return nil, err
	}
	work := []string{b.path("sh"), "-c", "find . -type f -print0 | xargs -0 grep -l needle"}
	title := fmt.Sprintf("find and grep over %d files", b.files)
	return b.inAndOut(name, title, tree, work, timed, 1.2)
}

func (b *bench) gitTable(name string, timed bool) (*table, error) {
	title := fmt.Sprintf("git status over %d files", b.files)
	git := b.path("git")
	if git == "" {
		return &table{name: name, title: title, base: outside, skipped: []string{"all of it: git is not installed"}}, nil
	}
	tree, err := b.gitTree()
	if err != nil {
		return nil, err
	}
	return b.inAndOut(name, title, tree, []string{git, "status", "--porcelain"}, timed, 1.1)
}

// inAndOut returns the table of one piece of work in tree, with and without sandboxes.
// Timed, the work is done several times in each sandbox and times itself: that is what
// the target is for, since an agent starts one sandbox and works in it.
func (b *bench) inAndOut(name, title, tree string, work []string, timed bool, ratio float64) (*table, error) {
	t := &table{name: name, title: title + ", launch included", base: outside}
	if timed {
		t.title = title + ", the work itself"
		t.targets = []target{{command: "bourn run", ratio: ratio, against: outside}}
		timer, err := os.Executable()
		if err != nil {
			return nil, err
		}
		// Where every sandbox shows it.
		at := filepath.Join(tree, ".bench-timer")
		if err := copyProgram(at, timer); err != nil {
			return nil, err
		}
		work = append([]string{at, timedMode}, work...)
	}
	t.commands = []command{
		{name: outside, dir: tree, args: work, timed: timed},
		{name: "bourn run", dir: tree, args: b.bournRun(tree, nil, work...), timed: timed},
	}
	b.addBwrap(t, command{name: bwrapName, dir: tree, args: b.bwrapRun(tree, nil, work...), timed: timed})
	return t, nil
}

// watched compares a piece of work in a seal with the same under --watch.
func (b *bench) watched(name, title, dir string, work []string) *table {
	t := &table{name: name, title: title + ", in a seal and watched, launch included", base: "bourn run"}
	t.commands = []command{
		{name: outside, dir: dir, args: work},
		{name: "bourn run", dir: dir, args: b.bournRun(dir, nil, work...)},
		{name: "bourn run --watch", dir: dir, args: b.bournRun(dir, []string{"--watch"}, work...)},
	}
	return t
}

func watchGitTable(b *bench) (*table, error) {
	title := fmt.Sprintf("git status over %d files", b.files)
	git := b.path("git")
	if git == "" {
		return &table{name: "watch-git", title: title, base: outside, skipped: []string{"all of it: git is not installed"}}, nil
	}
	tree, err := b.gitTree()
	if err != nil {
		return nil, err
	}
	return b.watched("watch-git", title, tree, []string{git, "status", "--porcelain"}), nil
}

// watchBuildTable builds a Go program again after a change; its cache lies in the project.
func watchBuildTable(b *bench) (*table, error) {
	const title = "an incremental go build"
	goProgram := b.path("go")
	if goProgram == "" {
		return &table{name: "watch-build", title: title, base: outside, skipped: []string{"all of it: go is not installed"}}, nil
	}
	dir := filepath.Join(b.dir, "program")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"go.mod":  "module program\n\ngo 1.21\n",
		"main.go": "package main\n\nimport \"net/http\"\n\nfunc main() { http.ListenAndServe(\"127.0.0.1:0\", nil) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	script := `echo "// $$" >> main.go; GOCACHE=$PWD/cache GOFLAGS=-mod=mod GOTOOLCHAIN=local exec "$0" build -o out .`
	t := b.watched("watch-build", title, dir, []string{b.path("sh"), "-c", script, goProgram})
	t.rounds = 10
	return t, nil
}

func copyProgram(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

func globTable(b *bench) (*table, error) {
	tree, err := b.bigTree()
	if err != nil {
		return nil, err
	}
	deny := []string{"--deny", filepath.Join(tree, "**", ".env")}
	with, without := "bourn, **/.env denied", "bourn, no deny"
	t := &table{name: "glob", title: fmt.Sprintf("starting `true` with a deny glob over %d files, %d of them denied", b.files, envFiles), base: without}
	t.commands = []command{
		{name: without, dir: tree, args: b.bournRun(tree, nil, b.path("true"))},
		{name: with, dir: tree, args: b.bournRun(tree, deny, b.path("true")), refused: b.bournRun(tree, deny, b.path("cat"), envFile(tree, envFiles-1))},
	}
	t.targets = []target{{command: with, maxMS: 50}}
	return t, nil
}

func memoryTable(b *bench) (*table, error) {
	t := &table{name: "memory", title: "held while a sealed command sleeps, by the parent and by all processes but the command"}
	commands := []command{{name: "bourn run", args: b.bournRun(b.project, nil, sleeping(b)...)}}
	if b.bwrap == "" {
		t.skipped = append(t.skipped, bwrapName+": bwrap is not installed")
	} else {
		commands = append(commands, command{name: bwrapName, args: b.bwrapRun(b.project, nil, sleeping(b)...)})
	}
	t.special = func(b *bench, rounds int) ([]row, error) { return b.memory(t, commands, min(rounds, 5)) }
	t.targets = []target{{command: "bourn run", memoryMB: 15}}
	return t, nil
}

// bournRun returns the command line that seals cmd with project writable.
func (b *bench) bournRun(project string, flags []string, cmd ...string) []string {
	return slices.Concat([]string{b.bourn, "run", "-q", "--write", project}, flags, []string{"--"}, cmd)
}

func denyFlags(files []string) []string {
	var flags []string
	for _, file := range files {
		flags = append(flags, "--deny", file)
	}
	return flags
}
