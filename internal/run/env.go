package run

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bourn/internal/policy"
)

// passedEnv are the variables that every run keeps. HOME, TMPDIR, PATH and PWD are set.
var passedEnv = []string{"LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "USER", "LOGNAME", "SHELL"}

// toolchainEnv are variables by which toolchains find themselves, and what of the
// directory that they name must be readable: nothing for "".
var toolchainEnv = []struct {
	name  string
	parts []string
}{
	{"RUSTUP_HOME", []string{"toolchains", "settings.toml", "update-hashes"}}, {"CARGO_HOME", []string{"bin"}}, {"RUSTUP_TOOLCHAIN", nil},
	{"PYENV_ROOT", []string{"."}}, {"PYENV_VERSION", nil}, {"NVM_DIR", []string{"versions"}}, {"RBENV_ROOT", []string{"."}},
	{"JAVA_HOME", []string{"."}}, {"GOROOT", []string{"."}}, {"VIRTUAL_ENV", []string{"."}},
}

// defaultPath is what a run gets where PATH is not set (environ(7)).
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookup returns a variable of the person's environment.
func (h *Home) lookup(name string) (string, bool) {
	for i := len(h.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(h.Environ[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// environment builds the run's environment.
func (h *Home) environment(agent bool, cwd string) []policy.EnvVar {
	path, ok := h.lookup("PATH")
	if !ok || path == "" {
		path = defaultPath
	}
	tmp := "/tmp"
	env := []policy.EnvVar{
		{Name: "PATH", Value: path + ":/run/bourn"}, {Name: "HOME", Value: h.Person},
		{Name: "TMPDIR", Value: tmp}, {Name: "PWD", Value: cwd},
	}
	for _, name := range passedEnv {
		if v, ok := h.lookup(name); ok {
			env = append(env, policy.EnvVar{Name: name, Value: v})
		}
	}
	for _, row := range toolchainEnv {
		if v, ok := h.lookup(row.name); ok {
			env = append(env, policy.EnvVar{Name: row.name, Value: v})
		}
	}
	for _, kv := range h.Environ {
		if name, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, "LC_") {
			env = append(env, policy.EnvVar{Name: name, Value: v})
		}
	}
	return env
}

// withVar puts a variable into env, in the place of one of the same name.
func withVar(env []policy.EnvVar, v policy.EnvVar) []policy.EnvVar {
	env = slices.DeleteFunc(env, func(e policy.EnvVar) bool { return e.Name == v.Name })
	return append(env, v)
}

// toolchainRoots are directories that belong to a directory of PATH: what stands there
// does not work without them. Patterns are matched against the end of the PATH entry;
// the root is that entry with so many components taken off, and more joined to it.
var toolchainRoots = []struct {
	suffix string
	up     int
	more   []string
}{
	{"/.cargo/bin", 2, []string{".rustup/toolchains", ".rustup/settings.toml", ".rustup/update-hashes"}},
	{"/.pyenv/shims", 1, nil}, {"/.pyenv/bin", 1, nil},
	{"/.rbenv/shims", 1, nil}, {"/.rbenv/bin", 1, nil},
	{"/.asdf/shims", 1, nil}, {"/.asdf/bin", 1, nil},
	{"/.volta/bin", 1, nil}, {"/.bun/bin", 1, nil}, {"/.deno/bin", 1, nil},
	{"/mise/shims", 1, []string{"installs"}},
	{"/go/bin", 1, []string{"bin", "lib", "pkg/tool", "pkg/include", "src", "VERSION", "go.env"}},
}

// versioned are toolchains that stand in a directory per version: the directory of PATH
// is its bin. Patterns are path.Match's and match the end of the version's directory.
var versioned = []string{
	".nvm/versions/node/*", ".sdkman/candidates/*/*", ".fnm/*/*/installation", ".fnm/*/*/*/installation",
	".local/share/mise/installs/*/*", ".pyenv/versions/*", ".rustup/toolchains/*",
}

// versionRoot returns the root of a versioned toolchain of which dir is the bin.
func versionRoot(dir string) (string, bool) {
	root, ok := strings.CutSuffix(dir, "/bin")
	if !ok {
		return "", false
	}
	if strings.HasPrefix(root, "/opt/") {
		return root, true
	}
	parts := strings.Split(root, "/")
	for _, pattern := range versioned {
		n := strings.Count(pattern, "/") + 1
		if n > len(parts) {
			continue
		}
		if hit, _ := filepath.Match(pattern, strings.Join(parts[len(parts)-n:], "/")); hit {
			return root, true
		}
	}
	return "", false
}

// toolchains returns what must be readable for the programs in PATH to run.
func (h *Home) toolchains() []string {
	path, _ := h.lookup("PATH")
	var out []string
	add := func(p string) {
		if p = filepath.Clean(p); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, row := range toolchainEnv {
		root, ok := h.lookup(row.name)
		if !ok || !filepath.IsAbs(root) {
			continue
		}
		for _, part := range row.parts {
			if at := filepath.Join(root, part); policy.Broad(at, []string{h.Person}) == "" && !policy.InSystem(filepath.Clean(at)) {
				add(at)
			}
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) || policy.Broad(filepath.Clean(dir), nil) != "" || policy.InSystem(filepath.Clean(dir)) {
			continue
		}
		dir = filepath.Clean(dir)
		if root, ok := versionRoot(dir); ok {
			add(root)
			continue
		}
		rooted := false
		for _, row := range toolchainRoots {
			if !strings.HasSuffix(dir, row.suffix) {
				continue
			}
			rooted = true
			root := dir
			for range row.up {
				root = filepath.Dir(root)
			}
			if row.more == nil {
				add(root)
			}
			add(dir)
			for _, m := range row.more {
				add(filepath.Join(root, m))
			}
		}
		if !rooted {
			add(dir)
		}
	}
	return out
}

// maxLinked bounds how many symlinks of one directory of PATH are followed.
const maxLinked = 200

// linked returns the symlinks in a directory of PATH: installers put them there for
// programs that stand elsewhere.
func linked(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > maxLinked {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		at := filepath.Join(dir, e.Name())
		// One to a neighbour, as of rustup's proxies, leads nowhere new.
		if target, err := os.Readlink(at); err == nil && strings.Contains(target, "/") {
			out = append(out, at)
		}
	}
	return out
}

// programs returns the paths of programs that must be readable with what is around them:
// the command itself, and what the symlinks in PATH lead to.
func (h *Home) programs(command []string, cwd string) []string {
	var out []string
	if len(command) > 0 {
		if at := h.find(command[0], cwd); at != "" {
			out = append(out, at)
		}
	}
	path, _ := h.lookup("PATH")
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) && !policy.InSystem(filepath.Clean(dir)) {
			out = append(out, linked(filepath.Clean(dir))...)
		}
	}
	return out
}

// find returns the path of a command as a shell in cwd would find it outside, and as it is
// found inside, or "".
func (h *Home) find(name, cwd string) string {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(cwd, name)
		}
		return name
	}
	path, _ := h.lookup("PATH")
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(cwd, dir)
		}
		at := filepath.Join(dir, name)
		if info, err := os.Stat(at); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return at
		}
	}
	return ""
}

// gitPassed are the settings of the person's git config that are shown inside: what
// commits need, and what a new repository looks like. Nothing else of it is.
var gitPassed = []struct{ section, key string }{{"user", "name"}, {"user", "email"}, {"init", "defaultbranch"}}

// gitKept keeps git inside from tidying away what it cannot see: other worktrees look gone,
// their reflogs are not the run's, and info/ may be read-only. Without it gc stops at those.
const gitKept = "[gc]\n\tworktreePruneExpire = never\n\treflogExpire = never\n\treflogExpireUnreachable = never\n[repack]\n\tupdateServerInfo = false\n"

// gitIdentity returns lines for a git config file with the passed settings.
func (h *Home) gitIdentity() string {
	found := map[string]string{}
	for _, at := range []string{filepath.Join(h.Person, ".config/git/config"), filepath.Join(h.Person, ".gitconfig")} {
		f, err := os.Open(at)
		if err != nil {
			continue
		}
		readGitConfig(f, func(section, key, value string) { found[section+"."+key] = value })
		f.Close()
	}
	lines := gitKept
	for _, p := range gitPassed {
		if v := found[p.section+"."+p.key]; v != "" {
			lines += "[" + p.section + "]\n\t" + p.key + " = " + gitQuote(v) + "\n"
		}
	}
	return lines
}

// readGitConfig calls f with each setting of a git config file (git-config(1), Syntax),
// section and key in lower case. Values that continue on a next line are not understood and
// are left out.
func readGitConfig(r io.Reader, f func(section, key, value string)) {
	section := ""
	for s := bufio.NewScanner(r); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(strings.TrimSpace(strings.Trim(line, "[]")))
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasSuffix(line, `\`) {
			continue
		}
		f(section, strings.ToLower(strings.TrimSpace(key)), gitValue(value))
	}
}

// gitValue takes a config value out of its quotes and comments.
func gitValue(v string) string {
	var b strings.Builder
	quoted := false
	v = strings.TrimSpace(v)
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '\\' && i+1 < len(v):
			i++
			b.WriteByte(v[i])
		case c == '"':
			quoted = !quoted
		case (c == '#' || c == ';') && !quoted:
			return strings.TrimSpace(b.String())
		default:
			b.WriteByte(c)
		}
	}
	return strings.TrimSpace(b.String())
}

func gitQuote(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ").Replace(v) + `"`
}
