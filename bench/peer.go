package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// An ask is what a row wants of every column: the same of each, as far as it can be
// said there.
type ask struct {
	write string   // the directory that may be written, and where the command starts
	deny  []string // files in it that must not be read
	glob  string   // a pattern below write of such files, as in **/.env
	port  string   // the port of the host's loopback that must be reached
}

// A peer is a column: one program, and how it is asked.
type peer struct {
	name    string
	program string   // as findPeer has it
	version []string // arguments that make it print its version
	proxied bool     // its way out is a proxy that the environment names
	// profile says how what it is asked compares with Bourn's seal. What it leaves
	// open is not said here but probed, see reach.go.
	profile string
	// run returns the command, or why the peer can not be asked so.
	run func(b *bench, program string, a ask, cmd []string) (command, error)
}

// errCannot is wrapped by what a peer has no means for.
var errCannot = errors.New("can't")

func cannot(why string) error { return fmt.Errorf("%w: %s", errCannot, why) }

// A cell is what stands where there is no number, and why.
type cell struct {
	Name string `json:"name"`
	Cell string `json:"cell"`
	Why  string `json:"why"`
}

// askPeer returns the command of p in a table, or the cell that stands for it.
func (b *bench) askPeer(p peer, a ask, cmd []string) (command, *cell) {
	program := b.bourn
	if p.name != bournName {
		program = findPeer(b.peers, p.program)
	}
	if program == "" {
		return command{}, &cell{p.name, "not here", filepath.Base(p.program) + " is not installed"}
	}
	c, err := p.run(b, program, a, cmd)
	switch {
	case errors.Is(err, errCannot):
		return c, &cell{p.name, "can't", strings.TrimPrefix(err.Error(), errCannot.Error()+": ")}
	case err != nil:
		return c, &cell{p.name, "fails", err.Error()}
	}
	c.name, c.dir, c.peer = p.name, a.write, p.name != bournName
	return c, nil
}

// columns adds the command of every peer to t. check, where it is not nil, returns what
// the same profile must refuse and what it must allow.
func (b *bench) columns(t *table, a ask, cmd []string, check func() (refused, allowed []string)) {
	for _, p := range peers {
		c, without := b.askPeer(p, a, cmd)
		if without != nil {
			t.cells = append(t.cells, *without)
			continue
		}
		if check != nil {
			refused, allowed := check()
			r, _ := b.askPeer(p, a, refused)
			ok, _ := b.askPeer(p, a, allowed)
			c.refused, c.allowed = r.args, ok.args
		}
		t.commands = append(t.commands, c)
	}
}

// settings writes a peer's settings once and returns the name of the file.
func (b *bench) settings(name string, text []byte) (string, error) {
	for file, written := range b.written {
		if written == string(text) && strings.HasSuffix(file, name) {
			return file, nil
		}
	}
	dir := filepath.Join(b.dir, "settings", fmt.Sprint(len(b.written)))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	b.written[file] = string(text)
	return file, os.WriteFile(file, text, 0o644)
}

func (b *bench) settingsJSON(name string, v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return b.settings(name, text)
}

var versionText = regexp.MustCompile(`v?\d+\.\d+[\w.+-]*`)

// versionOf returns what a peer says that it is, or what it was built of.
func (b *bench) versionOf(p peer) string {
	program := findPeer(b.peers, p.program)
	if p.name == bournName {
		program = b.bourn
	}
	if program == "" {
		return ""
	}
	if p.name == bournName { // the tree that the bench stands in
		if out, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	if p.version != nil {
		args := slices.Concat(interpreter(program), p.version)
		if out, err := exec.Command(args[0], args[1:]...).Output(); err == nil {
			if found := versionText.Find(out); found != nil {
				return strings.TrimPrefix(string(found), "v")
			}
		}
	}
	return builtVersion(program)
}

// builtVersion is the module version of a Go program, or of the library that it shows.
func builtVersion(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "unknown"
	}
	for _, dep := range info.Deps {
		if info.Main.Path == "golandlock" && strings.HasSuffix(dep.Path, "/go-landlock") {
			return strings.TrimPrefix(dep.Version, "v")
		}
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// interpreter returns how a program is started: a script of JavaScript by node.
func interpreter(program string) []string {
	if strings.HasSuffix(program, ".js") {
		if node, err := exec.LookPath("node"); err == nil {
			return []string{node, program}
		}
	}
	return []string{program}
}
