// Package agentstest runs coding agents sealed as people get them: from the npm registry,
// in a home with secrets, with the preset that their name selects. A server of the test's
// own stands in for the model and asks for tools, so that what an agent does is known.
//
// Without npm, or where the registry cannot be asked, the tests skip; "npm" in
// BOURN_TEST_NEED makes that a failure.
package agentstest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn/internal/run/runtest"
)

// versions are what is installed. Raise them here, and in docs/presets.md.
var versions = map[string]string{
	"@anthropic-ai/claude-code":               "2.1.332",
	"@openai/codex":                           "0.171.0",
	"@modelcontextprotocol/server-everything": "2026.8.31",
	"@modelcontextprotocol/conformance":       "0.2.0-alpha.12",
	"@modelcontextprotocol/inspector":         "2.12.0",
	"node":                                    "24.9.0", // which those two need
}

// installTime is how long npm may take for one package: two of them are large.
const installTime = 4 * time.Minute

// A prefix is a package as npm installed it, once for the test process.
type prefix struct {
	once sync.Once
	dir  string
	err  error
	said []byte
}

var (
	prefixes = map[string]*prefix{}
	shared   string // holds the prefixes
)

func TestMain(m *testing.M) {
	for name := range versions {
		prefixes[name] = new(prefix)
	}
	status := m.Run()
	if shared != "" {
		os.RemoveAll(shared)
	}
	os.Exit(status)
}

// installed puts a package into u's home, below ~/.npm-global as npm's manual advises, and
// returns its directory. Its programs are in PATH from then on.
func installed(t *testing.T, u *runtest.User, name string) string {
	t.Helper()
	for _, program := range []string{"npm", "node"} {
		runtest.Need(t, program, u.Do("sh", "-c", `command -v "$1"`, "sh", program).Status == 0)
	}
	p := prefixes[name]
	p.once.Do(func() { p.install(name + "@" + versions[name]) })
	if p.err != nil {
		t.Logf("npm cannot install %s: %v\n%s", name, p.err, p.said)
		runtest.Need(t, "npm", false)
	}
	global := filepath.Join(u.Home, ".npm-global")
	u.Mkdir(global)
	for _, args := range [][]string{{"cp", "-a", p.dir + "/.", global}, {"chown", "-R", "--reference=" + u.Home, global}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	bin := filepath.Join(global, "bin")
	for i, kv := range u.Env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok && !strings.HasPrefix(path, bin) {
			u.Env[i] = "PATH=" + bin + ":" + path
		}
	}
	return filepath.Join(global, "lib/node_modules", name)
}

// install installs a package into a prefix of its own. A platform's program is an optional
// dependency that a script puts in place: neither may be left out.
func (p *prefix) install(spec string) {
	if shared == "" {
		if shared, p.err = os.MkdirTemp("/var/tmp", "bourn-agents-"); p.err != nil {
			return
		}
	}
	if p.dir, p.err = os.MkdirTemp(shared, "prefix-"); p.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--global", "--prefix", p.dir, "--include=optional", "--ignore-scripts=false",
		"--prefer-offline", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=5000", "--no-audit", "--no-fund", "--no-update-notifier", spec)
	cmd.WaitDelay = time.Second
	p.said, p.err = cmd.CombinedOutput()
}

// TestDocumented holds the versions that the page of presets names.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/presets.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"@anthropic-ai/claude-code", "@openai/codex"} {
		if row := "| `" + name + "` | " + versions[name] + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/presets.md lacks %s", row)
		}
	}
}
