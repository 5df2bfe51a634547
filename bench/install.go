package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed peers/golandlock.go
var goLandlockSource []byte

// peersDir is where -install puts programs: outside the tree, kept between runs.
func peersDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "bourn-bench"), nil
}

// An installer fetches one peer into dir. What stands there already is left.
type installer struct {
	peer    string
	program string // below dir, or anywhere in PATH without a slash
	install func(dir string) error
}

var installers = []installer{
	{"landrun", "bin/landrun", goInstall("github.com/zouuup/landrun/cmd/landrun")},
	{"go-landlock", "bin/golandlock", buildGoLandlock},
	{"fence", "bin/fence", goInstall("github.com/Use-Tusk/fence/cmd/fence")},
	{"greywall", "bin/greywall", goInstall("github.com/GreyhavenHQ/greywall/cmd/greywall")},
	{"sandbox-runtime", srtProgram, installSrt},
	{"codex", codexProgram(), installCodex},
	{"bubblewrap", "bwrap", system("bubblewrap")},
	{"firejail", "firejail", system("firejail")},
	{"sandbox-runtime's socat", "socat", system("socat")},
	{"sandbox-runtime's ripgrep", "rg", system("ripgrep")},
}

const srtProgram = "srt/node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js"

// codexProgram is the native program: the JavaScript before it would triple its start.
func codexProgram() string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	return "codex/node_modules/@openai/codex/vendor/" + arch + "-unknown-linux-musl/bin/codex"
}

// installPeers installs what can be, and says of each peer what became of it.
func installPeers(w io.Writer) error {
	dir, err := peersDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	for _, i := range installers {
		if at := findPeer(dir, i.program); at != "" {
			fmt.Fprintf(w, "%s: there already: %s\n", i.peer, at)
			continue
		}
		if err := i.install(dir); err != nil {
			fmt.Fprintf(w, "%s: left out: %v\n", i.peer, err)
			continue
		}
		fmt.Fprintf(w, "%s: installed: %s\n", i.peer, findPeer(dir, i.program))
	}
	return nil
}

// findPeer returns where a program is: below dir, else by its name in PATH, else "".
func findPeer(dir, program string) string {
	if at := filepath.Join(dir, program); strings.Contains(program, "/") {
		if _, err := os.Stat(at); err == nil {
			return at
		}
	}
	if at, err := exec.LookPath(filepath.Base(program)); err == nil {
		return at
	}
	return ""
}

func goInstall(module string) func(string) error {
	return func(dir string) error {
		return fetch(dir, []string{"GOBIN=" + filepath.Join(dir, "bin"), "GOFLAGS=-mod=mod"}, "go", "install", module+"@latest")
	}
}

// buildGoLandlock builds the program in a module of its own, so that the bench keeps
// none to download.
func buildGoLandlock(dir string) error {
	src := filepath.Join(dir, "golandlock")
	if err := os.RemoveAll(src); err != nil {
		return err
	}
	if err := os.MkdirAll(src, 0o755); err != nil {
		return err
	}
	text := bytes.Replace(goLandlockSource, []byte("//go:build ignore\n"), nil, 1)
	if err := os.WriteFile(filepath.Join(src, "main.go"), text, 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "init", "golandlock"},
		{"get", "github.com/landlock-lsm/go-landlock@latest"},
		{"build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "bin", "golandlock"), "."},
	} {
		if err := fetch(src, []string{"GOFLAGS=-mod=mod", "GOWORK=off"}, "go", args...); err != nil {
			return err
		}
	}
	return nil
}

func installSrt(dir string) error {
	return npmInstall(filepath.Join(dir, "srt"), "@anthropic-ai/sandbox-runtime@latest")
}

// installCodex installs the package of this platform, which the package proper only
// names as optional.
func installCodex(dir string) error {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	version, err := exec.Command("npm", "view", "@openai/codex", "version").Output()
	if err != nil {
		return fmt.Errorf("cannot ask for its version: %w", err)
	}
	return npmInstall(filepath.Join(dir, "codex"), fmt.Sprintf("@openai/codex@%s-linux-%s", strings.TrimSpace(string(version)), arch))
}

func npmInstall(dir, pkg string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return fetch(dir, nil, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", pkg)
}

// system says which package of the system is missing: the bench installs none.
func system(pkg string) func(string) error {
	return func(string) error { return fmt.Errorf("install the system's package %s", pkg) }
}

// fetch runs a package manager in dir; the last line that it prints is the reason
// when it fails.
func fetch(dir string, env []string, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(lines[len(lines)-1]))
	}
	return nil
}
