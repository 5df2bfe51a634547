package run

import (
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// A toolchain's packages come from where its own configuration says, be it a company's
// mirror or what the tool itself was shipped with. The files are read, no program is
// asked: one in PATH could be an agent's.

// registries returns the hosts that a toolchain's packages come from, as network.hosts has
// them. Files that untrusted reports to be writable for an agent are passed over.
func (h *Home) registries(toolchain string, untrusted func(string) bool) []string {
	r := registry{h, untrusted}
	urls := map[string]func() []string{"go": r.golang, "npm": r.npm, "pip": r.pip, "cargo": r.cargo, "maven": r.maven}[toolchain]
	if urls == nil {
		return nil
	}
	var hosts []string
	for _, u := range urls() {
		for _, host := range urlHosts(u) {
			if !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// urlHosts returns HOST:PORT of a URL.
func urlHosts(text string) []string {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); strings.Contains(host, "*") || err == nil && linkLocal(addr) {
		return nil // no place for packages or models
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return []string{host + ":" + port}
}

// linkLocal reports whether an address is one that metadata services have.
func linkLocal(addr netip.Addr) bool {
	what := policy.Special(addr)
	return strings.HasPrefix(what, "a metadata") || strings.HasPrefix(what, "link-local")
}

// A registry reads configuration files.
type registry struct {
	home      *Home
	untrusted func(string) bool
}

const maxConfig = 1 << 20

// read returns a file's text, "" where there is none that can be trusted.
func (r registry) read(at string) string {
	res, err := survey.Resolve(r.home.expand(at))
	if err != nil || !res.Exists || res.Object.Type != survey.File || res.Object.Size > maxConfig || r.untrusted(res.Real) {
		return ""
	}
	for _, l := range res.Links {
		if r.untrusted(l.At) {
			return ""
		}
	}
	data, err := os.ReadFile(res.Real)
	if err != nil {
		return ""
	}
	return string(data)
}

// values returns what stands behind "KEY =" in the lines of a text.
func values(text string, keys ...string) []string {
	var out []string
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, "=")
		if ok && slices.Contains(keys, strings.TrimSpace(key)) {
			out = append(out, strings.Trim(strings.TrimSpace(value), `"'`))
		}
	}
	return out
}

// firstOf returns the first list that is not empty.
func firstOf(lists ...[]string) []string {
	for _, l := range lists {
		if len(l) > 0 {
			return l
		}
	}
	return nil
}

func (r registry) env(names ...string) []string {
	var out []string
	for _, name := range names {
		if v, ok := r.home.lookup(name); ok && v != "" {
			out = append(out, strings.Fields(v)...)
		}
	}
	return out
}

// program returns the real path of a program in PATH that no agent can write, or "".
func (r registry) program(name string) string {
	at := r.home.find(name, "/")
	if at == "" || r.untrusted(at) {
		return ""
	}
	res, err := survey.Resolve(at)
	if err != nil || r.untrusted(res.Real) {
		return ""
	}
	return res.Real
}

// golang: the environment, the user's go/env, the toolchain's go.env (go help environment).
func (r registry) golang() []string {
	var lists []string
	root := ""
	if goroot := r.env("GOROOT"); len(goroot) == 1 {
		root = goroot[0]
	} else if at := r.program("go"); at != "" {
		root = filepath.Dir(filepath.Dir(at))
	}
	for _, key := range []string{"GOPROXY", "GOSUMDB"} {
		lists = append(lists, firstOf(r.env(key), values(r.read("~/.config/go/env"), key), values(r.read(root+"/go.env"), key))...)
	}
	var urls []string
	for _, list := range lists {
		for _, u := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == '|' }) {
			if !strings.Contains(u, "://") && strings.Contains(u, ".") { // GOSUMDB is a name
				u = "https://" + strings.SplitN(u, "+", 2)[0]
			}
			urls = append(urls, u)
		}
	}
	return urls
}

// lazily compiles an expression when it is first needed, not in every start of bourn.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var npmDefault = lazily(`define\('registry', \{\s*default: ['"\x60](https?://[^'"\x60]+)|registry: \{[^}]*default: ['"\x60](https?://[^'"\x60]+)|\n\s*default: ['"\x60](https?://registry[^'"\x60]+)`)

// npm: the environment, the user's and the system's npmrc, what npm was shipped with. Not
// the project's npmrc, which is the run's own.
func (r registry) npm() []string {
	var urls []string
	text := r.read("~/.npmrc") + "\n" + r.read("/etc/npmrc")
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.HasSuffix(strings.TrimSpace(key), ":registry") {
			urls = append(urls, strings.TrimSpace(value)) // of a scope
		}
	}
	main := firstOf(r.env("npm_config_registry", "NPM_CONFIG_REGISTRY"), values(text, "registry"))
	if len(main) == 0 {
		if at := r.program("npm"); at != "" {
			definitions := filepath.Join(filepath.Dir(filepath.Dir(at)), "node_modules/@npmcli/config/lib/definitions/definitions.js")
			main = submatch(npmDefault, r.read(definitions))
		}
	}
	return append(urls, main...)
}

// submatch returns the group of the first match that is not empty.
func submatch(re func() *regexp.Regexp, text string) []string {
	groups := re().FindStringSubmatch(text)
	for i := 1; i < len(groups); i++ {
		if groups[i] != "" {
			return groups[i : i+1]
		}
	}
	return nil
}

var (
	pipDefault = lazily(`PyPI = PackageIndex\(\s*"(https?://[^"]+)"`)
	pipFiles   = lazily(`PyPI = PackageIndex\([^)]*file_storage_domain="([^"]+)"`)
)

// pip: the environment, pip.conf, what pip was shipped with.
func (r registry) pip() []string {
	text := r.read("~/.config/pip/pip.conf") + "\n" + r.read("~/.pip/pip.conf") + "\n" + r.read("/etc/pip.conf")
	urls := append(r.env("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_INDEX"), values(text, "extra-index-url")...)
	main := firstOf(r.env("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"), values(text, "index-url", "index_url"))
	if len(main) == 0 {
		index := r.read(r.pipIndex())
		main = submatch(pipDefault, index)
		for _, domain := range submatch(pipFiles, index) {
			main = append(main, "https://"+domain)
		}
	}
	return append(urls, main...)
}

// pipIndex finds the file in which pip says where packages are.
func (r registry) pipIndex() string {
	const file = "pip/_internal/models/index.py"
	for _, name := range []string{"python3", "pip3", "pip"} {
		at := r.program(name)
		if at == "" {
			continue
		}
		prefix := filepath.Dir(filepath.Dir(at))
		for _, pattern := range []string{prefix + "/lib/python3*/site-packages/" + file, prefix + "/lib/python3/dist-packages/" + file} {
			if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
				return found[0]
			}
		}
	}
	// A shim leads to another program: the versions that are there.
	for _, pattern := range []string{"~/.pyenv/versions/*/lib/python3*/site-packages/" + file} {
		if found, err := filepath.Glob(r.home.expand(pattern)); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

var urlInText = lazily(`https?://[^\s"'<>\x60]+`)

// cargo: what its configuration names. The default is in no file: it is cargo's own.
func (r registry) cargo() []string {
	var urls []string
	for _, at := range []string{"~/.cargo/config.toml", "~/.cargo/config"} {
		for line := range strings.Lines(r.read(at)) {
			if key, value, ok := strings.Cut(line, "="); ok && slices.Contains([]string{"index", "registry"}, strings.TrimSpace(key)) {
				urls = append(urls, urlInText().FindString(strings.TrimPrefix(strings.Trim(strings.TrimSpace(value), `"'`), "sparse+")))
			}
		}
	}
	return urls
}

var mavenURL = lazily(`<url>\s*(https?://[^<\s]+)`)

// maven: the mirrors and repositories of the user's settings.
func (r registry) maven() []string {
	var urls []string
	for _, m := range mavenURL().FindAllStringSubmatch(r.read("~/.m2/settings.xml"), -1) {
		urls = append(urls, m[1])
	}
	return urls
}
