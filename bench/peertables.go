package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// peerTables are what -peers measures: a column for every peer, equal work for each.
var peerTables = []knownTable{
	{"launch", peerLaunch},
	{"denies-100", peerDenies(100, 20)},
	{"denies-1000", peerDenies(1000, 10)},
	{"glob", peerGlob},
	{"scan", func(b *bench) (*table, error) { return b.peerWork(b.scanWork()) }},
	{"git", func(b *bench) (*table, error) { return b.peerWork(b.gitWork()) }},
	{"net-down", peerNet("down")},
	{"net-up", peerNet("up")},
	{"memory", peerMemory},
	{"reach", reachTable},
}

// secretLine is what a denied file holds; refused and allowed look for it.
func (b *bench) greps(denied, open string) func() (refused, allowed []string) {
	grep := b.path("grep")
	return func() ([]string, []string) {
		return []string{grep, "-q", "secret", denied}, []string{grep, "-q", "secret", open}
	}
}

func (b *bench) peerTable(name, title string, rounds int) *table {
	return &table{name: name, title: title, base: bournName, rounds: rounds}
}

func peerLaunch(b *bench) (*table, error) {
	addr, err := netServer()
	if err != nil {
		return nil, err
	}
	client, err := b.timer(b.project)
	if err != nil {
		return nil, err
	}
	t := b.peerTable("launch", "starting `true`, a directory writable, no network", 0)
	true_ := b.path("true")
	t.commands = []command{{name: outside, args: []string{true_}}}
	b.columns(t, ask{write: b.project}, []string{true_}, func() ([]string, []string) {
		return []string{client, reachMode, "tcp", addr}, []string{true_}
	})
	return t, nil
}

func peerDenies(n, rounds int) func(*bench) (*table, error) {
	return func(b *bench) (*table, error) {
		dir := filepath.Join(b.dir, fmt.Sprintf("denies-%d", n))
		files, err := writeDenied(dir, n+1)
		if err != nil {
			return nil, err
		}
		t := b.peerTable(filepath.Base(dir), fmt.Sprintf("starting `true` with %d files denied in the directory", n), rounds)
		b.columns(t, ask{write: dir, deny: files[:n]}, []string{b.path("true")}, b.greps(files[n-1], files[n]))
		return t, nil
	}
}

func peerGlob(b *bench) (*table, error) {
	tree, err := b.bigTree()
	if err != nil {
		return nil, err
	}
	open := filepath.Join(treeDir(tree, 1), "open")
	if err := os.WriteFile(open, []byte("secret\n"), 0o644); err != nil {
		return nil, err
	}
	t := b.peerTable("glob", fmt.Sprintf("starting `true` with `**/.env` denied over %d files, %d of them so named", b.files, envFiles), 20)
	b.columns(t, ask{write: tree, glob: "**/.env"}, []string{b.path("true")}, b.greps(envFile(tree, envFiles-1), open))
	return t, nil
}

// work is a piece of it in a tree.
type work struct {
	name, title, tree string
	args              []string
}

func (b *bench) scanWork() (work, error) {
	tree, err := b.bigTree()
	return work{"scan", fmt.Sprintf("`find` and `grep` over %d files, the work itself", b.files), tree,
		[]string{b.path("sh"), "-c", "find d* -type f -print0 | xargs -0 grep -l needle"}}, err
}

func (b *bench) gitWork() (work, error) {
	git := b.path("git")
	if git == "" {
		return work{}, fmt.Errorf("git is not installed")
	}
	tree, err := b.gitTree()
	return work{"git", fmt.Sprintf("`git status` over %d files, the work itself", b.files), tree, []string{git, "status", "--porcelain"}}, err
}

func (b *bench) peerWork(w work, err error) (*table, error) {
	if err != nil {
		return nil, err
	}
	timer, err := b.timer(w.tree)
	if err != nil {
		return nil, err
	}
	t := b.peerTable(w.name, w.title, 15)
	args := append([]string{timer, timedMode}, w.args...)
	t.commands = []command{{name: outside, dir: w.tree, args: args}}
	b.columns(t, ask{write: w.tree}, args, nil)
	t.allTimed()
	return t, nil
}

func (t *table) allTimed() {
	for i := range t.commands {
		t.commands[i].timed = true
	}
}

// timer puts this program into dir, where every sandbox shows it.
func (b *bench) timer(dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	at := filepath.Join(dir, ".bench-timer")
	return at, copyProgram(at, self)
}

// peerNet sends a transfer through each one's way to the host's loopback: the proxy of
// those that have one.
func peerNet(what string) func(*bench) (*table, error) {
	return func(b *bench) (*table, error) {
		addr, err := netServer()
		if err != nil {
			return nil, err
		}
		client, err := b.timer(b.project)
		if err != nil {
			return nil, err
		}
		port := addr[strings.LastIndex(addr, ":")+1:]
		t := b.peerTable("net-"+what, fmt.Sprintf("%d MB %s, through its way to the host's loopback", netBytes>>20, what), 10)
		t.bytes = netBytes
		args := []string{client, netMode, what, addr}
		t.commands = []command{{name: outside, args: args}}
		b.columns(t, ask{write: b.project, port: port}, args, nil)
		for i, c := range t.commands {
			if p := peerNamed(c.name); p != nil && p.proxied {
				t.commands[i].args = append(c.args, "proxy")
			}
		}
		t.allTimed()
		return t, nil
	}
}

func peerNamed(name string) *peer {
	for i := range peers {
		if peers[i].name == name {
			return &peers[i]
		}
	}
	return nil
}

func peerMemory(b *bench) (*table, error) {
	dir := filepath.Join(b.dir, "held")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	t := b.peerTable("memory", "memory held by everything but the command, while it sleeps", 5)
	t.base = ""
	b.columns(t, ask{write: dir}, sleeping(b), nil)
	t.special = func(b *bench, rounds int) ([]row, error) { return b.memory(t, t.commands, min(rounds, 5)) }
	return t, nil
}
