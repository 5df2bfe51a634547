package run

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"

	"github.com/google/go-cmp/cmp"
)

// importWorld is a home with a project and things around it.
type importWorld struct {
	t       testing.TB
	home    *Home
	project string
}

func newImportWorld(t testing.TB) importWorld {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "bourn-import-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	w := importWorld{t, &Home{Dir: filepath.Join(base, "home/.bourn"), Person: filepath.Join(base, "home")}, filepath.Join(base, "home/src/My App")}
	for _, dir := range []string{"src", ".git", "../lib/private", "../../notes/deep", "../../.claude", "../../.ssh"} {
		if err := os.MkdirAll(filepath.Join(w.project, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(w.path("../../.zshrc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w importWorld) path(rel string) string { return filepath.Join(w.project, rel) }

// at writes settings to a path and imports them.
func (w importWorld) at(file, settings string) (*Import, error) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return w.home.ImportClaude(ClaudeSettings{File: file, Cwd: w.project})
}

func (w importWorld) read(settings string) (*Import, error) {
	w.t.Helper()
	return w.at(w.path(".claude/settings.json"), settings)
}

// outcome is what became of the one rule that ends in text.
func outcome(t *testing.T, im *Import, text string) string {
	t.Helper()
	var found []string
	for _, x := range im.Taken {
		if strings.HasSuffix(x.Rule, text) {
			found = append(found, "taken "+x.Line)
		}
	}
	for fate, list := range map[string][]Reasoned{"default ": im.Default, "not ": im.Not} {
		for _, x := range list {
			if strings.HasSuffix(x.Rule, text) {
				found = append(found, fate+x.Reason)
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("%q is in the lists %d times: %q", text, len(found), found)
	}
	return found[0]
}

// The last rule of each case, among the others, and what becomes of it; P is the project, H
// the home.
func TestImportClaudeRules(t *testing.T) {
	for _, test := range []struct{ list, rules, want string }{
		{"deny", `Read(./.env)`, "taken filesystem.deny: P/**/.env"},
		{"deny", `Read(.env)`, "taken filesystem.deny: P/**/.env"},
		{"deny", `Read(.env.*)`, "taken filesystem.deny: P/**/.env.*"},
		{"deny", `Read(**/.env)`, "taken filesystem.deny: P/**/.env"},
		{"deny", `Read(./secrets/**)`, "taken filesystem.deny: P/**/secrets"},
		{"deny", `Read(./config/credentials.json)`, "taken filesystem.deny: P/config/credentials.json"},
		{"deny", `Read(/secrets/**)`, "taken filesystem.deny: P/secrets"},
		{"deny", `Read(//srv/keys/**)`, "taken filesystem.deny: /srv/keys"},
		{"deny", `Read(~/.ssh/**)`, "taken filesystem.deny: ~/.ssh"},
		{"deny", `Read(~/.aws/*)`, "taken filesystem.deny: ~/.aws/*"},
		{"deny", `Read(//**/*.pem)`, "taken filesystem.deny: /**/*.pem"},
		{"deny", `Read(../lib/secret)`, "taken filesystem.deny: H/src/lib/secret"},
		{"deny", `Read(a/../b/x)`, "taken filesystem.deny: P/b/x"},
		{"deny", `Read(*/../b)`, `not a ".." after a pattern; write the path that is meant`},
		{"deny", `Read(*.{pem,key})`, `taken filesystem.deny: P/**/*.\{pem,key\}, P/**/*.{pem,key}`},
		{"deny", `Read(a\\*b)`, `taken filesystem.deny: P/**/a\*b`},
		{"deny", `Read(/odd[)`, `taken filesystem.deny: P/odd\[`},
		{"deny", `Read(/end\\)`, `taken filesystem.deny: P/end\\`},
		{"deny", `Read([[:alpha:]]x)`, "not bourn's patterns have no classes like [[:alpha:]]"},
		{"deny", `Read(!.env)`, "not " + becauseNegation},
		{"deny", `Read(**)`, "taken filesystem.deny: P/*"},
		{"deny", `Read(~/**)`, "not it would close the project, in which the agent works; besides the project nothing of it is shown that is not granted"},
		{"deny", `Read(//**)`, "not it would close the project, in which the agent works; besides the project nothing of it is shown that is not granted"},
		{"deny", `Read(//etc/**)`, "not no program runs without /etc, of which only what everybody may read is shown"},
		{"deny", `Read(//etc/shadow)`, "taken filesystem.deny: /etc/shadow"},
		{"deny", `Read(//proc/**)`, "default every run has a /proc of its own"},
		{"deny", `Read(~/.claude/.credentials.json)`, "not Claude Code itself works in ~/.claude, and one seal holds for it and its tools"},
		{"deny", `Glob(/secrets/**)`, "taken filesystem.deny: P/secrets"},
		{"deny", `Read`, "not " + becauseTool},
		{"deny", `Read(*)`, "not " + becauseTool},
		{"deny", `Read(/x)|Edit(/x/y)`, "taken filesystem.deny: P/x/y"},
		{"deny", `Edit(/vendor/**)`, "not to be read and not changed, inside what is writable: bourn has no line for that; a Read deny closes it for both"},
		{"deny", `Edit(~/.bashrc)`, "default nothing of the host's can be written outside the write grants"},
		{"deny", `Edit(~/.claude/agents/**)`, "not to be read and not changed, inside what is writable: bourn has no line for that; a Read deny closes it for both"},
		{"deny", `Bash(curl:*)`, "not " + becauseCommand},
		{"deny", `WebFetch`, "not " + becauseTool},
		{"deny", `WebFetch(domain:Ads.Example.)`, "taken network.deny: ads.example"},
		{"deny", `WebFetch(domain:api.anthropic.com)`, "not Claude Code itself reaches api.anthropic.com:443, and one seal holds for it and its tools"},
		{"deny", `Agent(Explore)`, "not " + becauseTool},
		{"deny", `Read(x`, "not it is no rule of the form Tool or Tool(what)"},
		{"ask", `Bash(git push:*)`, "not " + becauseAsk},
		{"ask", `Read(./.env)`, "not " + becauseAsk},
		{"allow", `Bash(*)`, "not " + becauseCommand},
		{"allow", `Bash(git diff:*)`, "not " + becauseCommand},
		{"allow", `Read`, "not " + becauseNoPath},
		{"allow", `Edit(*)`, "not " + becauseNoPath},
		{"allow", `mcp__github__get_issue`, "not " + becauseMCP},
		{"allow", `WebSearch`, "not " + becauseTool},
		{"allow", `Edit(/src/**)`, "default it lies in the project, which is writable"},
		{"allow", `Read(**/*.go)`, "default it lies in the project, which is writable"},
		{"allow", `Read(//P/src/**)`, "default it lies in the project, which is writable"},
		{"allow", `Read(~/.claude/skills/**)`, "default preset claude-code grants ~/.claude"},
		{"allow", `Read(//usr/include/**)`, "default system paths are readable"},
		{"allow", `Read(~/.zshrc)`, "taken filesystem.read: H/.zshrc"},
		{"allow", `Read(~/notes/**)`, "taken filesystem.read: H/notes"},
		{"allow", `Edit(~/notes/**)`, "taken filesystem.write: H/notes"},
		{"allow", `Edit(~/notes/**)|Read(~/notes/deep/**)`, "taken filesystem.write: H/notes"},
		{"allow", `Write(//H/src/lib/**)`, "taken filesystem.write: H/src/lib"},
		{"allow", `Read(~/notes/*.md)`, "not a grant names one path and everything below it; only denies take patterns"},
		{"allow", `Edit(../lib/**)`, `not a rule reaches only what lies below the directory where it begins, and ".." leaves that; name the path with // or ~/`},
		{"allow", `Read(~/none)`, "not cannot grant H/none: the path does not exist"},
		{"allow", `Edit(//**)`, "not cannot grant /: too broad: grant a directory below it"},
		{"allow", `Edit(~/**)`, "not cannot grant ~ (H): too broad: it covers the home directory H"},
		{"allow", `Glob(~/notes/**)`, "not Claude Code does not look at the path of such a rule; Read rules are for it"},
		{"allow", `Read(!~/notes)`, "not " + becauseNoPath},
		{"allow", `WebFetch(domain:docs.example.com)`, "taken network.hosts: docs.example.com"},
		{"allow", `WebFetch(domain:*.example.com)`, "taken network.hosts: *.example.com"},
		{"allow", `WebFetch(domain:*)`, "not every host: bourn grants hosts by name; network.mode: open is for a person to write"},
		{"allow", `WebFetch(https://example.com)`, "not bourn reads WebFetch rules of the form WebFetch(domain:HOST)"},
		{"additionalDirectories", `../lib/`, "taken filesystem.write: H/src/lib"},
		{"additionalDirectories", `~/notes`, "taken filesystem.write: H/notes"},
		{"additionalDirectories", `./src`, "default it lies in the project, which is writable"},
		{"additionalDirectories", `/etc/shadow`, "not cannot grant /etc/shadow: protected, it can never be granted: it holds password hashes"},
	} {
		t.Run(test.list+" "+test.rules, func(t *testing.T) {
			w := newImportWorld(t)
			place := strings.NewReplacer("//P", "/"+w.project, "//H", "/"+w.home.Person, "P/", w.project+"/", "H/", w.home.Person+"/", "(H)", "("+w.home.Person+")", "directory H", "directory "+w.home.Person)
			rules := strings.Split(place.Replace(test.rules), "|")
			im, err := w.read(fmt.Sprintf(`{"permissions": {%q: ["%s"]}}`, test.list, strings.Join(rules, `", "`)))
			if err != nil {
				t.Fatal(err)
			}
			got := outcome(t, im, ": "+strings.ReplaceAll(rules[len(rules)-1], `\\`, `\`))
			want := place.Replace(test.want)
			if strings.HasPrefix(want, "not cannot grant "+w.home.Person+"/none") {
				want = "not cannot grant ~/none (" + w.home.Person + "/none): the path does not exist"
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Denies narrow what is granted, also those that have no line.
func TestImportClaudeNeverWidens(t *testing.T) {
	for _, test := range []struct{ name, settings, rule, want string }{
		{"a deny wins", `{"permissions": {"allow": ["Read(~/notes/**)"], "deny": ["Read(~/notes/**)"]}}`, "allow: Read(~/notes/**)", "it is denied by ~/notes, and a deny wins"},
		{"a deny of changes", `{"permissions": {"allow": ["Edit(~/src/lib/**)"], "deny": ["Edit(~/src/lib/private/**)"]}}`, "allow: Edit(~/src/lib/**)", "permissions.deny: Edit(~/src/lib/private/**) takes something of it away"},
		{"a deny that cannot be kept", `{"permissions": {"additionalDirectories": ["~/notes"], "deny": ["Read(~/**)"]}}`, "additionalDirectories: ~/notes", "permissions.deny: Read(~/**) takes"},
		{"a question", `{"permissions": {"allow": ["Read(~/notes/**)"], "ask": ["Read(~/notes/deep/**)"]}}`, "allow: Read(~/notes/**)", "permissions.ask: Read(~/notes/deep/**) takes"},
		{"a denied host", `{"sandbox": {"network": {"allowedDomains": ["a.example.com"], "deniedDomains": ["*.example.com"]}}}`, "allowedDomains: a.example.com", "*.example.com is denied, and a deny wins"},
		{"every host denied", `{"sandbox": {"network": {"allowedDomains": ["a.example.com"], "deniedDomains": ["*"]}}}`, "allowedDomains: a.example.com", "a rule denies or asks for *"},
		{"a denied pattern", `{"permissions": {"allow": ["WebFetch(domain:ads.example)"], "deny": ["WebFetch(domain:ads.*)"]}}`, "allow: WebFetch(domain:ads.example)", "a rule denies or asks for ads.*"},
		{"bypassPermissions", `{"permissions": {"defaultMode": "bypassPermissions", "allow": ["Bash", "Read", "Edit"]}}`, "defaultMode: bypassPermissions", becauseMode},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newImportWorld(t)
			im, err := w.read(test.settings)
			if err != nil {
				t.Fatal(err)
			}
			if got := outcome(t, im, test.rule); !strings.HasPrefix(got, "not ") || !strings.Contains(got, test.want) {
				t.Errorf("got %s, want it not expressed: %s", got, test.want)
			}
			p, err := profile.Parse("profile.yaml", im.Text)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Filesystem.Read)+len(p.Network.Hosts) > 0 || len(p.Filesystem.Write) != 1 || p.Filesystem.Write[0].Text != w.project {
				t.Errorf("more than the project is granted:\n%s", im.Text)
			}
		})
	}
}

// Settings in the shapes that documentation and projects show.
var settingsShapes = map[string]string{
	"a team's": `{
  "$schema": "https://json.schemastore.org/claude-code-settings.json",
  "permissions": {
    "allow": ["Bash(npm run lint)", "Bash(npm run test:*)", "Read(~/.zshrc)", "WebFetch(domain:docs.example.com)"],
    "deny": ["Bash(curl:*)", "Read(./.env)", "Read(./.env.*)", "Read(./secrets/**)", "Read(./config/credentials.json)", "Read(./build)", "Write(./migrations/**)"],
    "ask": ["Bash(git push:*)"],
    "additionalDirectories": ["../lib/", "../gone/"],
    "defaultMode": "acceptEdits",
    "disableBypassPermissionsMode": "disable"
  },
  "env": {"CLAUDE_CODE_ENABLE_TELEMETRY": "1", "OTEL_METRICS_EXPORTER": "otlp"},
  "includeCoAuthoredBy": false,
  "cleanupPeriodDays": 20,
  "companyAnnouncements": ["Welcome", "Read the guide"]
}`,
	"a sandbox": `{
  "sandbox": {
    "enabled": true, "autoAllowBashIfSandboxed": true, "allowUnsandboxedCommands": false, "failIfUnavailable": true,
    "excludedCommands": ["docker *", "watchman"],
    "filesystem": {"allowWrite": ["~/.kube", "/tmp", "~/notes"], "denyRead": ["~/", "~/.aws/credentials"], "allowRead": ["."], "denyWrite": ["./dist"]},
    "network": {"allowedDomains": ["github.com", "*.npmjs.org", "api.example.com:443"], "deniedDomains": ["uploads.github.com"],
      "allowUnixSockets": ["~/agent.sock", "~/none.sock"], "allowLocalBinding": true, "httpProxyPort": 8080},
    "credentials": {"files": [{"path": "~/.netrc", "mode": "deny"}, {"path": "~/.config/gh/hosts.yml", "mode": "mask"}],
      "envVars": [{"name": "NPM_TOKEN", "mode": "deny"}, {"name": "ANTHROPIC_API_KEY", "mode": "deny"}]}
  },
  "permissions": {"deny": ["Read(.envrc)", "Read(~/.aws/**)"]}
}`,
	"hooks and servers": `{
  "model": "opus", "apiKeyHelper": "/bin/generate_temp_api_key.sh",
  "statusLine": {"type": "command", "command": "~/.claude/statusline.sh"},
  "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check.py"}]}], "Stop": []},
  "enableAllProjectMcpServers": true, "enabledMcpjsonServers": ["memory", "github"], "disabledMcpjsonServers": [],
  "enabledPlugins": {"formatter@acme": true},
  "permissions": {"allow": ["mcp__memory", "mcp__github__*", "Task(Explore)", "Skill(review)"], "deny": ["Read(**/*.{pem,key})", "mcp__github__delete", "NotebookEdit"], "ask": []},
  "sandbox": {"network": {}}
}`,
	"empty": `{}`,
}

func TestImportClaudeShapes(t *testing.T) {
	for name, settings := range settingsShapes {
		t.Run(name, func(t *testing.T) {
			w := newImportWorld(t)
			socket, err := net.Listen("unix", w.path("../../agent.sock"))
			if err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			im, err := w.read(settings)
			if err != nil {
				t.Fatal(err)
			}
			if im.Agent != "my-app" || im.Project != w.project || im.Profile != w.home.ProfilePath("my-app") {
				t.Errorf("agent %s of %s, profile %s", im.Agent, im.Project, im.Profile)
			}
			accounted(t, settings, im)
			if err := w.home.CreateImported(im); err != nil {
				t.Fatal(err)
			}
			if _, src, err := w.home.Profile(im.Agent); err != nil || string(src) != string(im.Text) {
				t.Errorf("the profile is %q, %v", src, err)
			}
			if err := w.home.CreateImported(im); bourn.CodeOf(err) != bourn.CodeConflict {
				t.Errorf("a second one: %v", err)
			}
			if name == "a sandbox" {
				checkSandboxShape(t, w, im)
			}
		})
	}
}

func checkSandboxShape(t *testing.T, w importWorld, im *Import) {
	t.Helper()
	want := strings.ReplaceAll(strings.ReplaceAll(`version: 1
agent: my-app
command: [claude]
presets: [claude-code]

filesystem:
  # Everything below these may be read and written.
  write:
    - "PROJECT"
    - H/notes
  # Everything below these may be read.
  read: []
  # Paths and patterns ("~/app/**/*.pem") that stay closed, whatever is granted.
  deny:
    - ~/.aws/credentials
    - ~/.netrc
    - "PROJECT/**/.envrc"
    - ~/.aws
network:
  mode: restricted
  hosts:
    - github.com
    - "*.npmjs.org"
    - "api.example.com:443"
  deny:
    - uploads.github.com
  unix:
    - H/agent.sock
`, "PROJECT", w.project), "H/", w.home.Person+"/")
	_, got, _ := strings.Cut(string(im.Text), "edits this file).\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for rule, want := range map[string]string{
		"denyRead: ~/":                               "default nothing of it is shown but what is granted",
		"allowWrite: /tmp":                           "default every run has a /tmp of its own, gone after it",
		"denyWrite: ./dist":                          "not to be read and not changed, inside what is writable: bourn has no line for that; a Read deny closes it for both",
		"enabled: true":                              "default all of the agent is sealed, Claude Code itself included",
		"failIfUnavailable: true":                    "default nothing starts where the host cannot seal",
		`{"name":"NPM_TOKEN","mode":"deny"}`:         "default an agent has no variable of the host's but those that its profile names",
		`{"name":"ANTHROPIC_API_KEY","mode":"deny"}`: "not Claude Code itself gets it, and one seal holds for it and what it starts",
	} {
		if got := outcome(t, im, rule); got != want {
			t.Errorf("%s: %s", rule, got)
		}
	}
}

// accounted checks that every value of a settings file is in exactly one list, once for
// each time that the file has it, and that the lists have nothing else.
func accounted(t testing.TB, settings string, im *Import) {
	t.Helper()
	var rules []string
	for _, x := range im.Taken {
		rules = append(rules, x.Rule)
		if x.Line == "" {
			t.Errorf("%s is taken by no line", x.Rule)
		}
	}
	for _, x := range slices.Concat(im.Default, im.Not) {
		rules = append(rules, x.Rule)
		if x.Reason == "" {
			t.Errorf("%s has no reason", x.Rule)
		}
	}
	var whole map[string]any
	if err := json.Unmarshal([]byte(settings), &whole); err != nil {
		t.Fatal(err)
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		// A rule is "KEY: VALUE" for this value, or KEY for a variable.
		text, isText := v.(string)
		i := slices.IndexFunc(rules, func(r string) bool {
			key, value, found := strings.Cut(r, ": ")
			if strings.HasPrefix(r, at+": ") {
				key, value = at, r[len(at)+2:]
			}
			var got any
			return r == at && !found && strings.HasPrefix(at, "env.") || key == at && (isText && value == text || !isText && json.Unmarshal([]byte(value), &got) == nil && cmp.Equal(got, v))
		})
		if i >= 0 {
			rules = slices.Delete(rules, i, i+1)
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				walk(strings.TrimPrefix(at+"."+k, "."), inner)
			}
		case []any:
			for _, inner := range v {
				walk(at, inner)
			}
		default:
			t.Errorf("%s: %v is in no list", at, v)
		}
	}
	walk("", whole)
	if len(rules) > 0 {
		t.Errorf("the file does not have %q", rules)
	}
}

func TestImportClaudeErrors(t *testing.T) {
	for _, test := range []struct{ settings, want string }{
		{"", ":1:1: the JSON ends before it is complete"},
		{"{\n  \"a\": 1,\n}", ":3:1: invalid character '}' looking for beginning of object key string"},
		{"{\n  // why\n  \"a\": 1\n}", ":2:3: invalid character '/' looking for beginning of object key string"},
		{"{\"a\": \"é\", \"b\" 1}", ":1:16: invalid character '1' after object key"},
		{"{\"a\": 1", ":1:8: the JSON ends before it is complete"},
		{"{} {}", ":1:4: invalid character '{' after top-level value"},
		{"[]", ":1:1: the file must be an object, not a list"},
		{"{\"a\": \"\xff\"}", ":1:8: it is not UTF-8"},
		{"{\n\"permissions\": {\"deny\": []},\n \"permissions\": {}}", ":3:2: duplicate key \"permissions\""},
		{`{"permissions": []}`, ":1:17: permissions must be an object, not a list"},
		{`{"permissions": {"deny": "Read(x)"}}`, ":1:26: permissions.deny must be a list, not text"},
		{"{\"permissions\": {\"deny\": [\n  \"Read(x)\",\n  7]}}", ":3:3: an entry of permissions.deny must be text, not a number"},
		{`{"permissions": {"allow": null}}`, ":1:27: permissions.allow must be a list, not null"},
		{`{"permissions": {"defaultMode": true}}`, ":1:33: permissions.defaultMode must be text, not true or false"},
		{`{"sandbox": {"enabled": "yes"}}`, ":1:25: sandbox.enabled must be true or false, not text"},
		{`{"sandbox": {"network": {"allowedDomains": {}}}}`, ":1:44: sandbox.network.allowedDomains must be a list, not an object"},
		{`{"sandbox": {"credentials": {"files": [{"path": "x"}]}}}`, ":1:40: an entry of sandbox.credentials.files must have path and mode, which are text"},
		{`{"env": {"A": 1}}`, ":1:15: env.A must be text, not a number"},
	} {
		w := newImportWorld(t)
		_, err := w.read(test.settings)
		want := "invalid: cannot read settings " + w.path(".claude/settings.json") + test.want
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", test.settings, err, want)
		}
	}
	w := newImportWorld(t)
	if _, err := w.read("{// no\n}"); !strings.Contains(bourn.HintOf(err), "no comments") {
		t.Errorf("no hint about comments: %v", err)
	}
	for _, file := range []string{"none.json", ".", strings.Repeat("x", 5000)} {
		if _, err := w.home.ImportClaude(ClaudeSettings{File: file, Cwd: w.project}); err == nil {
			t.Errorf("%q was read", file)
		}
	}
	// What can never be granted cannot be the project.
	if _, err := w.at(filepath.Join(w.home.Person, "settings.json"), "{}"); err != nil {
		t.Errorf("a file in the home, from a project: %v", err)
	}
	if _, err := w.home.ImportClaude(ClaudeSettings{File: filepath.Join(w.home.Person, "settings.json"), Cwd: w.home.Person}); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("the home as a project: %v", err)
	}
}

// Settings of a person are for every project: the working directory is meant, and what
// begins with / lies beside the file.
func TestImportClaudePersonal(t *testing.T) {
	w := newImportWorld(t)
	im, err := w.at(filepath.Join(w.home.Person, ".claude/settings.json"), `{"permissions": {"deny": ["Read(.env)", "Read(/secrets/**)", "Read(//srv/x)"], "additionalDirectories": []}, "sandbox": {"filesystem": {"denyRead": ["./y"]}}}`)
	if err != nil {
		t.Fatal(err)
	}
	for rule, want := range map[string]string{
		"Read(.env)":        "taken filesystem.deny: " + w.project + "/**/.env",
		"Read(/secrets/**)": "not Claude Code itself works in ~/.claude, and one seal holds for it and its tools",
		"Read(//srv/x)":     "taken filesystem.deny: /srv/x",
		"denyRead: ./y":     "not Claude Code itself works in ~/.claude, and one seal holds for it and its tools",
	} {
		if got := outcome(t, im, rule); got != want {
			t.Errorf("%s: %s", rule, got)
		}
	}
}

// What git ignores by a pattern, the entries that stand for a deny of it close. Claude Code
// says that its patterns are those of gitignore(5).
func TestImportDeniesAgainstGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not here to ask")
	}
	w := newImportWorld(t)
	if out, err := exec.Command(git, "-C", w.project, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names := []string{".env", "a", "b", "a.pem", "a*b", "x[1]", "{a,b}", "ab"}
	paths := slices.Clone(names)
	for _, x := range names {
		for _, y := range names {
			paths = append(paths, x+"/"+y, x+"/"+y+"/a", "b/"+x+"/"+y+"/.env")
		}
	}
	parts := []string{"a", "*", "**", ".env", "*.pem", "?", "a*", "[ab]", "[!a]", `a\*b`, "{a,b}", "x[1]", "**b", "[a"}
	var patterns []string
	for _, x := range parts {
		patterns = append(patterns, x, "/"+x, x+"/", x+"/**", "**/"+x)
		for _, y := range parts {
			patterns = append(patterns, x+"/"+y, "/"+x+"/"+y+"/**", x+"/**/"+y)
		}
	}
	at := anchors{w.project, w.project}
	im := importer{home: w.home, cwd: w.project, at: at}
	ignored := 0
	for _, pattern := range patterns {
		c := claim{kind: claimDenyRead, path: at.rulePath(pattern), rule: pattern}
		im.denies = nil
		im.denyRead(&c)
		if c.fate != importTaken {
			continue
		}
		var entries []string
		for _, d := range im.denies {
			entries = append(entries, d.Text)
		}
		if err := os.WriteFile(w.path(".gitignore"), []byte(pattern+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(git, "-C", w.project, "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin")
		cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
		out, _ := cmd.Output() // 1 is for none
		for _, path := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if path == "" {
				continue
			}
			ignored++
			if !im.closesAny(entries, w.path(path)) {
				t.Errorf("%q ignores %q, and %q does not close it", pattern, path, entries)
			}
		}
	}
	if ignored < 1000 {
		t.Errorf("git ignored %d paths only: nothing was compared", ignored)
	}
}

// Whatever the file, nothing disappears, the profile is valid, and nothing is granted but
// the project and what the file names.
func FuzzImportClaude(f *testing.F) {
	for _, settings := range settingsShapes {
		f.Add(settings)
	}
	f.Add(`{"permissions": {"allow": ["Edit(~/notes/**)", "Read(//)", "WebFetch(domain:a.b)"], "deny": ["Read(a{b,c}[!d])", "Edit(..)"]}, "env": {"A": "\u0085"}}`)
	w := newImportWorld(f)
	f.Fuzz(func(t *testing.T, settings string) {
		w := importWorld{t, w.home, w.project}
		im, err := w.read(settings)
		if err != nil {
			if code := bourn.CodeOf(err); code != bourn.CodeInvalid && code != bourn.CodeDenied {
				t.Fatalf("%v is %v", err, code)
			}
			return
		}
		accounted(t, settings, im)
		p, err := profile.ParseFor(im.Agent, "profile.yaml", im.Text)
		if err != nil {
			t.Fatalf("%v\n%s", err, im.Text)
		}
		for _, g := range slices.Concat(p.Filesystem.Read, p.Filesystem.Write) {
			if g.Text != w.project && policy.Under(g.Text, w.home.Person) && !strings.Contains(settings, filepath.Base(g.Text)) {
				t.Errorf("%s is granted by nothing in the file", g.Text)
			}
			if policy.Under(w.home.Person, g.Text) {
				t.Errorf("%s is too broad", g.Text)
			}
		}
	})
}
