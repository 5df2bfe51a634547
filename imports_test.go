package bourn_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dependencies is the dependency table of the whole module: a line for each
// package directory, with exactly what its files import besides the standard
// library, test files apart. A package imports only packages of a lower level.
//
// When a test below fails it prints the line that the code asks for. Take it over
// if that is what the design wants; otherwise the import goes.
var dependencies = []dependency{
	{".", 0, "", ""},
	{"docs", 0, "", ""},
	{"internal/policy", 1, ".", "golang.org/x/net/idna"},
	{"internal/audit", 1, ".", "github.com/rogpeppe/go-internal/lockedfile"},
	{"internal/posix", 1, ".", "golang.org/x/sys/unix"},
	{"internal/egress", 2, "internal/policy", "golang.org/x/net/dns/dnsmessage"},
	{"internal/profile", 2, ". internal/policy", "go.yaml.in/yaml/v3"},
	{"internal/skill", 2, ". internal/policy", "go.yaml.in/yaml/v3"},
	{"api", 2, ".", ""},
	{"internal/archive", 2, ".", ""},
	{"internal/operation", 2, ".", "github.com/spf13/cobra"},
	{"internal/daemon/instance", 2, ".", "golang.org/x/sys/unix"},
	{"internal/review", 2, ".", "github.com/bmatcuk/doublestar/v4 mvdan.cc/sh/v3/syntax"},
	{"internal/sandbox/landlock", 2, "", "golang.org/x/sys/unix"},
	{"internal/sandbox/namespace", 2, "internal/policy", "golang.org/x/sys/unix"},
	{"internal/sandbox/notify", 2, "", "golang.org/x/net/bpf golang.org/x/sys/unix"},
	{"internal/sandbox/seccomp", 2, "", "golang.org/x/net/bpf golang.org/x/sys/unix"},
	{"internal/sandbox/survey", 2, "", "github.com/bmatcuk/doublestar/v4 golang.org/x/sys/unix"},
	{"internal/sandbox/placeholder", 3, "internal/policy internal/sandbox/survey", "golang.org/x/sys/unix"},
	{"internal/sandbox", 3, ". internal/policy internal/sandbox/survey", ""},
	{"internal/launch/terminal", 3, "", "golang.org/x/sys/unix"},
	{"internal/launch", 4, ". internal/launch/terminal internal/policy internal/sandbox/landlock internal/sandbox/namespace internal/sandbox/notify internal/sandbox/seccomp", "github.com/bmatcuk/doublestar/v4 golang.org/x/sys/unix"},
	{"internal/workspace", 5, ". internal/review", "github.com/bluekeyes/go-gitdiff/gitdiff github.com/bmatcuk/doublestar/v4 golang.org/x/sys/unix"},
	{"internal/mcp", 5, ".", "github.com/go-json-experiment/json/jsontext github.com/modelcontextprotocol/go-sdk/jsonrpc github.com/modelcontextprotocol/go-sdk/mcp"},
	{"internal/worker", 6, ". internal/workspace", ""},
	{"internal/table", 3, ". api", ""},
	{"internal/tool", 6, ". api internal/table internal/tool/tier internal/workspace", "github.com/go-json-experiment/json github.com/go-json-experiment/json/jsontext github.com/google/jsonschema-go/jsonschema"},
	{"internal/tool/tier", 2, ".", ""},
	{"internal/store/cluster", 5, ". internal/daemon/instance", "github.com/jackc/pgx/v5/pgconn golang.org/x/sys/unix"},
	{"internal/store", 6, ". internal/audit internal/store/cluster", "github.com/jackc/pgx/v5 github.com/jackc/pgx/v5/pgconn github.com/jackc/pgx/v5/pgproto3 github.com/jackc/pgx/v5/pgtype github.com/jackc/pgx/v5/pgxpool github.com/jackc/pgx/v5/stdlib github.com/pressly/goose/v3"},
	{"internal/store/rowsec", 6, ".", "github.com/jackc/pgx/v5 github.com/jackc/pgx/v5/pgconn"},
	{"internal/store/storetest", 7, "internal/store internal/store/cluster", "github.com/jackc/pgx/v5"},
	{"internal/run/runtest", 6, "", ""},
	{"internal/run/nettest", 6, "", "golang.org/x/net/dns/dnsmessage"},
	{"internal/run", 7, ". api internal/audit internal/egress internal/launch internal/policy internal/profile internal/review internal/sandbox internal/sandbox/landlock internal/sandbox/placeholder internal/sandbox/survey internal/skill internal/worker", "github.com/rogpeppe/go-internal/lockedfile"},
	{"internal/run/difftest", 8, "", ""},
	{"internal/run/agentstest", 8, "", ""},
	{"internal/man", 7, "docs", "github.com/spf13/cobra github.com/spf13/pflag"},
	{"internal/cli", 8, ". api internal/audit internal/daemon/instance internal/launch internal/launch/terminal internal/man internal/operation internal/policy internal/posix internal/profile internal/review internal/run internal/skill internal/table internal/tool/tier internal/workspace", "github.com/spf13/cobra github.com/spf13/pflag"},
	{"internal/daemon", 8, ". api internal/audit internal/daemon/instance internal/mcp internal/policy internal/posix internal/profile internal/review internal/skill internal/store internal/store/cluster internal/tool internal/tool/tier internal/worker internal/workspace", "github.com/danielgtaylor/huma/v2 github.com/danielgtaylor/huma/v2/adapters/humago github.com/go-json-experiment/json github.com/go-json-experiment/json/jsontext github.com/jackc/pgx/v5 github.com/prometheus/client_golang/prometheus github.com/prometheus/client_golang/prometheus/collectors github.com/prometheus/client_golang/prometheus/promhttp go.opentelemetry.io/otel/attribute go.opentelemetry.io/otel/codes go.opentelemetry.io/otel/propagation go.opentelemetry.io/otel/sdk/trace go.opentelemetry.io/otel/trace golang.org/x/net/netutil golang.org/x/sys/unix"},
	{"cmd/bourn", 9, "internal/cli internal/launch", ""},
	{"cmd/bourn-posix-helper", 9, ". internal/posix", "golang.org/x/sys/unix"},
	{"cmd/bournd", 9, ". internal/archive internal/audit internal/daemon internal/daemon/instance internal/operation internal/store internal/store/cluster internal/store/rowsec", "github.com/jackc/pgx/v5 github.com/jackc/pgx/v5/pgconn github.com/spf13/cobra"},
}

// A dependency is one line of the table. Own packages are named by directory,
// foreign ones by import path, both separated by blanks.
type dependency struct {
	dir     string
	level   int
	own     string
	foreign string
}

// testDependencies are the foreign packages that any test file may import.
var testDependencies = []string{
	"github.com/bmatcuk/doublestar", // an oracle for patterns
	"github.com/creack/pty",
	"github.com/google/go-cmp",
	"github.com/jackc/pgx", // asks the database behind the code's back
	"github.com/rogpeppe/go-internal",
	"pgregory.net/rapid",
}

// systemCallers are the directories, with what is below them, that may import
// syscall and golang.org/x/sys.
var systemCallers = []string{
	"cmd/bourn-posix-helper",
	"internal/daemon", // peer credentials
	"internal/launch",
	"internal/posix",
	"internal/run/nettest", // makes namespaces for tests
	"internal/run/runtest", // starts the production binary as another user
	"internal/sandbox",
	"internal/store/cluster", // starts the server as another user
	"internal/workspace",
}

// tooHeavy are parts of import paths that cmd/bourn must not link: a launch forks
// from it, so it stays small and quick to start. What needs them is bournd's.
var tooHeavy = []string{
	"jackc/pgx", "pressly/goose", "riverqueue/river", "danielgtaylor/huma",
	"go.opentelemetry.io", "prometheus/", "modelcontextprotocol/go-sdk",
	"a-h/templ", "go-webauthn", "go-oidc",
}

const modulePath = "bourn"

// TestDependencies holds the table against the code, in both directions.
func TestDependencies(t *testing.T) {
	packages := readPackages(t)
	lines := map[string]dependency{}
	for _, line := range dependencies {
		if _, twice := lines[line.dir]; twice {
			t.Errorf("%s stands in the table twice", line.dir)
		}
		lines[line.dir] = line
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		pkg := packages[dir]
		line, known := lines[dir]
		if !known {
			t.Errorf("%s is not in the table; its line would be\n\t%s", dir, pkg.line(99))
			continue
		}
		if want := pkg.line(line.level); want != line.String() {
			t.Errorf("%s does not import what the table says; its line would be\n\t%s\nand is\n\t%s", dir, want, line)
		}
		for _, own := range pkg.own {
			if other, known := lines[own]; known && other.level >= line.level {
				t.Errorf("%s (level %d) imports %s (level %d): only lower levels may be imported", dir, line.level, own, other.level)
			}
		}
	}
	for dir := range lines {
		if _, exists := packages[dir]; !exists {
			t.Errorf("%s stands in the table and does not exist", dir)
		}
	}
}

// TestTestDependencies keeps assertion libraries, mocks and the like out.
func TestTestDependencies(t *testing.T) {
	for dir, pkg := range readPackages(t) {
		for _, imp := range pkg.inTests {
			if slices.Contains(pkg.foreign, imp) || within(imp, testDependencies) {
				continue
			}
			if within(imp, []string{"golang.org/x/sys"}) && within(dir, systemCallers) {
				continue
			}
			t.Errorf("the tests of %s import %s", dir, imp)
		}
	}
}

// TestSystemCalls keeps system calls in the packages that are about them.
func TestSystemCalls(t *testing.T) {
	for dir, pkg := range readPackages(t) {
		if within(dir, systemCallers) {
			continue
		}
		for _, imp := range append(slices.Clone(pkg.foreign), pkg.standard...) {
			if imp == "syscall" || within(imp, []string{"golang.org/x/sys"}) {
				t.Errorf("%s imports %s; only %s may", dir, imp, strings.Join(systemCallers, ", "))
			}
		}
	}
}

// TestCommandIsLight asks the go command what cmd/bourn links, third parties'
// own dependencies included.
func TestCommandIsLight(t *testing.T) {
	if readPackages(t)["cmd/bourn"] == nil {
		t.Skip("cmd/bourn does not exist")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	list := exec.Command("go", "list", "-deps", "./cmd/bourn")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("cannot list what cmd/bourn links: %v", err)
	}
	for imp := range strings.Lines(string(out)) {
		for _, heavy := range tooHeavy {
			if strings.Contains(imp, heavy) {
				t.Errorf("cmd/bourn links %s", strings.TrimSpace(imp))
			}
		}
	}
}

// An importer is a package directory and what its files import, sorted.
type importer struct {
	dir      string
	own      []string // packages of this module, as directories
	foreign  []string
	standard []string
	inTests  []string // foreign packages in test files
}

// line returns the line of the table that describes p.
func (p *importer) line(level int) string {
	return dependency{p.dir, level, strings.Join(p.own, " "), strings.Join(p.foreign, " ")}.String()
}

func (d dependency) String() string {
	return fmt.Sprintf("{%q, %d, %q, %q},", d.dir, d.level, d.own, d.foreign)
}

// readPackages parses the imports of every Go file of the module, whatever its
// build constraints. Directories that the go command ignores and other modules
// are left out.
func readPackages(t *testing.T) map[string]*importer {
	t.Helper()
	packages := map[string]*importer{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipDir(name)
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		if packages[dir] == nil {
			packages[dir] = &importer{dir: dir}
		}
		return packages[dir].read(name)
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// skipDir returns fs.SkipDir for a directory that holds no package of the module.
func skipDir(name string) error {
	base := filepath.Base(name)
	if name == "." {
		return nil
	}
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// read adds the imports of one file.
func (p *importer) read(name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	test := strings.HasSuffix(name, "_test.go")
	for _, spec := range file.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		dir, own := ownDir(imp)
		foreign := strings.Contains(strings.Split(imp, "/")[0], ".")
		switch {
		case own && !test:
			add(&p.own, dir)
		case own:
			// The tests of a package may use any package of the module.
		case foreign && test:
			add(&p.inTests, imp)
		case foreign:
			add(&p.foreign, imp)
		case !test:
			add(&p.standard, imp)
		}
	}
	return nil
}

// ownDir returns the directory of a package of this module.
func ownDir(imp string) (dir string, own bool) {
	if imp == modulePath {
		return ".", true
	}
	return strings.CutPrefix(imp, modulePath+"/")
}

// within reports whether name is one of roots or below it.
func within(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return name == root || strings.HasPrefix(name, path.Clean(root)+"/")
	})
}

// add puts s into the sorted set.
func add(set *[]string, s string) {
	if i, found := slices.BinarySearch(*set, s); !found {
		*set = slices.Insert(*set, i, s)
	}
}
