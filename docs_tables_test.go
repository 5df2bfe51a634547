package bourn_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/run/runtest"

	"github.com/google/go-cmp/cmp"
)

// A row of a table of a page, by the headings of its columns.
type row map[string]string

// tables returns the rows of the tables of a page that have all the columns.
func tables(t *testing.T, page string, columns ...string) []row {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	var head []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			head = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case head == nil:
			head = cells
		case strings.HasPrefix(cells[0], "---"):
		case !slices.ContainsFunc(columns, func(c string) bool { return !slices.Contains(head, c) }):
			r := row{}
			for i, cell := range cells {
				r[head[i]] = cell
			}
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no table with the columns %q", page, columns)
	}
	return rows
}

var code = regexp.MustCompile("`([^`]+)`")

// codes returns what stands in backticks in a text.
func codes(text string) []string {
	var all []string
	for _, m := range code.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// parse parses a file of the program.
func parse(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// schemaKeys reads the rows of a schema of internal/profile, with what they are in.
func schemaKeys(t *testing.T, name string) (keys, later []string) {
	t.Helper()
	var rows ast.Expr
	ast.Inspect(parse(t, "internal/profile/schema.go"), func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == name {
			rows = v.Values[0]
		}
		return true
	})
	if rows == nil {
		t.Fatalf("internal/profile/schema.go has no %s", name)
	}
	var walk func(where string, list ast.Expr)
	walk = func(where string, list ast.Expr) {
		for _, element := range list.(*ast.CompositeLit).Elts {
			key, isLater, below := "", false, ast.Expr(nil)
			for _, field := range element.(*ast.CompositeLit).Elts {
				kv := field.(*ast.KeyValueExpr)
				switch kv.Key.(*ast.Ident).Name {
				case "name":
					key, _ = strconv.Unquote(kv.Value.(*ast.BasicLit).Value)
				case "later":
					isLater = true
				case "keys":
					below = kv.Value
				}
			}
			if where != "" {
				key = where + "." + key
			}
			if isLater {
				later = append(later, key)
			} else {
				keys = append(keys, key)
			}
			if below != nil {
				walk(key, below)
			}
		}
	}
	walk("", rows)
	return keys, later
}

const profilePage = "docs/profile.md"

// parseFragment parses a part of a profile, with what is required beside it.
func parseFragment(text string) error {
	text = strings.Replace(text, ", service:", "\nservice:", 1)
	for _, line := range []string{"version: 1", "agent: builder"} {
		key, _, _ := strings.Cut(line, " ")
		if !strings.Contains("\n"+text, "\n"+key) {
			text = line + "\n" + text
		}
	}
	_, err := profile.Parse("profile.yaml", []byte(text+"\n"))
	return err
}

// TestProfilePage holds the page's keys against the schema, and its examples and errors
// against the parser.
func TestProfilePage(t *testing.T) {
	var written, unsupported []string
	for _, r := range tables(t, profilePage, "Key", "Example") {
		key, example := codes(r["Key"])[0], codes(r["Example"])[0]
		err := parseFragment(example)
		if _, supported := r["Value"]; supported {
			written = append(written, key)
			if err != nil {
				t.Errorf("the example of %s: %v", key, err)
			}
			continue
		}
		unsupported = append(unsupported, key)
		if err == nil || !strings.Contains(err.Error(), key+" is not supported yet") {
			t.Errorf("the example of %s: %v", key, err)
		}
	}
	keys, later := schemaKeys(t, "schema")
	inDeny, laterInDeny := schemaKeys(t, "denySchema")
	inTool, laterInTool := schemaKeys(t, "toolSchema")
	inDeny, laterInDeny = append(inDeny, inTool...), append(laterInDeny, laterInTool...)
	if diff := cmp.Diff(append(keys, inDeny...), written); diff != "" {
		t.Errorf("the keys of the page are not those of the schema (-schema +page):\n%s", diff)
	}
	if diff := cmp.Diff(append(later, laterInDeny...), unsupported); diff != "" {
		t.Errorf("the keys that are not supported yet (-schema +page):\n%s", diff)
	}
	for _, r := range tables(t, profilePage, "Written", "Said") {
		fragment, said := codes(r["Written"])[0], codes(r["Said"])[0]
		if err := parseFragment(fragment); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(said, "…")) {
			t.Errorf("%s: the page says %q, and it is %v", fragment, said, err)
		}
	}
}

// TestProfileExamples parses the profiles that the pages show: every YAML block of two pages,
// and elsewhere those that name an agent.
func TestProfileExamples(t *testing.T) {
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			if b.lang == "yaml" && strings.Contains(b.text, "advisory:") {
				if _, err := profile.ParseFloor("policy.yaml", []byte(b.text)); err != nil {
					t.Errorf("%s:%d: %v", page, b.line, err)
				}
				continue
			}
			if b.lang == "yaml" && page == "docs/repository.md" {
				if _, err := profile.ParseProposal(profile.ProposalName, []byte(b.text)); err != nil {
					t.Errorf("%s:%d: %v", page, b.line, err)
				}
				continue
			}
			whole := strings.Contains("\n"+b.text, "\nagent: ") || page == profilePage || page == "docs/network.md"
			if b.lang != "yaml" || !whole {
				continue
			}
			if err := parseFragment(b.text); err != nil {
				t.Errorf("%s:%d: %v", page, b.line, err)
			}
		}
	}
}

// list writes texts as code, separated by commas.
func list(texts []string) string {
	var out []string
	for _, s := range texts {
		out = append(out, "`"+s+"`")
	}
	return strings.Join(out, ", ")
}

// presetsText is the part of the page that the presets determine.
func presetsText() string {
	var b strings.Builder
	b.WriteString("| Preset | For | Selected by |\n|---|---|---|\n")
	for _, p := range profile.Presets() {
		by := list(p.Commands)
		if by == "" {
			by = "only by name"
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", p.Name, p.Name, p.About, by)
	}
	for _, p := range profile.Presets() {
		fmt.Fprintf(&b, "\n### %s\n\n| | |\n|---|---|\n", p.Name)
		line := func(what, text string) {
			if text != "" {
				fmt.Fprintf(&b, "| %s | %s |\n", what, text)
			}
		}
		line("written", list(p.Write))
		line("read", list(p.Read))
		var made, homes, set []string
		for _, m := range p.Make {
			if m.Text != "" {
				made = append(made, m.Path+" ("+strings.TrimSpace(m.Text)+")")
			} else {
				made = append(made, m.Path+"/")
			}
		}
		for _, h := range p.Homes {
			homes = append(homes, h.Name+" in the place of "+h.Instead)
		}
		for _, v := range p.Set {
			set = append(set, v.Name+"="+v.Value)
		}
		line("made", list(made))
		line("moved by", list(homes))
		line("hosts", list(p.Hosts))
		line("the host in", list(p.HostVars))
		line("hosts of packages", list(p.Registries))
		line("socket in", list(p.Sockets))
		if p.SocketAt != "" {
			line("without it", list([]string{p.SocketAt}))
		}
		if p.Git {
			line("repository", "of a linked worktree or submodule: see [git](#git-worktrees-and-ssh)")
		}
		if p.SSH {
			line("of its own", "`/etc/ssh`")
		}
		line("variables passed", list(p.Env))
		line("variables set", list(set))
		line("note", p.Note)
	}
	return b.String()
}

// generated compares the part of a page between two comments with what it is made of.
// BOURN_DOCS_WRITE=1 writes it instead.
func generated(t *testing.T, page, want string) {
	t.Helper()
	const begin, end = "<!-- generated: BOURN_DOCS_WRITE=1 go test . writes it -->\n", "<!-- end of what is generated -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no generated part", page)
	}
	want = "\n" + want + "\n"
	if os.Getenv("BOURN_DOCS_WRITE") != "" {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is not as the code has it (-code +page):\n%s", page, diff)
	}
}

// TestPresetsPage holds the page against the presets.
func TestPresetsPage(t *testing.T) { generated(t, "docs/presets.md", presetsText()) }

const troublePage = "docs/troubleshooting.md"

// TestProtectedPaths holds the page's table against that of the policy.
func TestProtectedPaths(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Protected | From | `protected: …` |\n|---|---|---|\n")
	for _, p := range policy.ProtectedPaths {
		from := "reading and writing"
		if p.Write {
			from = "writing"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Path, from, p.Reason)
	}
	generated(t, troublePage, b.String())
}

// literals returns the string literals of the program, constants joined with + included.
func literals(t *testing.T) []string {
	t.Helper()
	var all []string
	for dir := range readPackages(t) {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				all = append(all, literalsOf(parse(t, name))...)
			}
		}
	}
	return all
}

func literalsOf(node ast.Node) []string {
	var all []string
	ast.Inspect(node, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

// verb is what stands for a value in a format.
var verb = regexp.MustCompile(`%(\[\d+\])?[-+#0-9.]*[a-zA-Z]`)

// inCode reports whether each part of a quoted text, between its …, is in a literal.
func inCode(quoted string, all []string) bool {
	for part := range strings.SplitSeq(quoted, "…") {
		part = strings.TrimSpace(part)
		if part != "" && !slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, part) }) {
			return false
		}
	}
	return true
}

// TestTroubleshootingPage sees that what the page quotes is what the program says, and that
// the mends of a host that is too weak are all there.
func TestTroubleshootingPage(t *testing.T) {
	all := literals(t)
	for i := range all {
		all[i] = verb.ReplaceAllString(all[i], "…")
	}
	for _, r := range tables(t, troublePage, "Said") {
		for _, said := range codes(r["Said"]) {
			if !inCode(said, all) {
				t.Errorf("the page quotes %q, which nothing says", said)
			}
		}
	}
	var quoted []string
	for _, r := range tables(t, troublePage, "Mend") {
		quoted = append(quoted, codes(r["Mend"])...)
	}
	for _, mend := range quoted {
		if !inCode(mend, all) {
			t.Errorf("the page names the mend %q, which nothing says", mend)
		}
	}
	for _, said := range returned(t, "internal/launch/errors.go", "mend") {
		if !slices.Contains(quoted, said) {
			t.Errorf("the page lacks the mend %q", said)
		}
	}
}

// returned returns the literals that a function returns.
func returned(t *testing.T, name, function string) []string {
	t.Helper()
	var all []string
	for _, decl := range parse(t, name).Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != function {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if r, ok := n.(*ast.ReturnStmt); ok {
				all = append(all, literalsOf(r)...)
			}
			return true
		})
	}
	if len(all) == 0 {
		t.Fatalf("%s has no function %s that returns texts", name, function)
	}
	return all
}

// shown are command lines of bourn's in a page: code, and lines of blocks for a shell.
var shown = regexp.MustCompile("(?m)`(bourn [^`]+)`|^(bourn [a-z].*)$|`(perm [^`]+)`")

// TestCommands sees that the commands that the pages name are there, with their flags.
func TestCommands(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	help := map[string]string{}
	for _, page := range pages(t) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shown.FindAllStringSubmatch(string(data), -1) {
			line := m[1] + m[2]
			if m[3] != "" {
				line = "bourn agent " + m[3]
			}
			line, _, _ = strings.Cut(line+" ", " -- ")
			line, _, _ = strings.Cut(line, " # ")
			checkCommand(t, u, help, page, strings.Fields(line)[1:])
		}
	}
}

var subcommand = regexp.MustCompile(`^[a-z][a-z-]+$`)

// checkCommand checks a command line by the help of its command.
func checkCommand(t *testing.T, u *runtest.User, help map[string]string, page string, words []string) {
	t.Helper()
	var path []string
	text := func() string {
		at := strings.Join(path, " ")
		if help[at] == "" {
			help[at] = u.Bourn(append(slices.Clone(path), "--help")...).Out
		}
		return help[at]
	}
	for _, word := range words {
		if flag, _, _ := strings.Cut(word, "="); strings.HasPrefix(flag, "-") {
			if flag != "--help" && !regexp.MustCompile(`(?m)[ ,]`+regexp.QuoteMeta(flag)+`\b`).MatchString(text()) {
				t.Errorf("%s: bourn %s has no flag %s", page, strings.Join(path, " "), flag)
			}
			continue
		}
		if !strings.Contains(text(), "Available Commands:") && !strings.Contains(text(), " [command]") || !subcommand.MatchString(word) {
			continue
		}
		if !regexp.MustCompile(`(?m)^  ` + word + ` `).MatchString(text()) {
			t.Errorf("%s: bourn %s has no command %s", page, strings.Join(path, " "), word)
			return
		}
		path = append(path, word)
	}
}
