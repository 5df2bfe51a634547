package profile

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/internal/policy"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const full = `version: 1
agent: builder
command: [claude, -p, "{job}"]
filesystem:
  read:  [~/src/lib, "/opt/data//set/"]
  write: [~/src/app]                # recursive; write implies read
  deny:  [~/src/app/.env, "~/src/app/**/*.pem", {path: ~/src/app/private}]
network: {mode: restricted, hosts: [API.example.com, "*.example.org:443"], deny: ['[::1]'], unix: [~/.ssh/agent.sock]}
processes: {mode: allowlist, spawn_dirs: [~/src/app/target]}
env: {pass: [EDITOR, MODEL_API_KEY], set: {CI: "1", B_2: ""}}
limits: {memory: 2GiB, processes: 256, open_files: 4096, time: 2h}
sandbox: {fail_closed_on_sandbox_error: false, transparent_network: false}
service: true
`

func TestParse(t *testing.T) {
	got, err := ParseFor("builder", "p.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := &Profile{
		Version: 1, Agent: "builder", Command: []string{"claude", "-p", "{job}"},
		Filesystem: Filesystem{
			Read:  []Path{{"~/src/lib", Pos{5, 11}}, {"/opt/data//set/", Pos{5, 22}}},
			Write: []Path{{"~/src/app", Pos{6, 11}}},
			Deny: []Deny{
				{Path: Path{"~/src/app/.env", Pos{7, 11}}},
				{Path: Path{"~/src/app/**/*.pem", Pos{7, 27}}, Glob: true},
				{Path: Path{"~/src/app/private", Pos{7, 56}}},
			},
		},
		Network: Network{
			Mode: "restricted", ModePos: Pos{8, 17},
			Hosts: []Host{
				{"API.example.com", policy.Host{Name: "api.example.com"}, Pos{8, 37}},
				{"*.example.org:443", policy.Host{Name: "example.org", Suffix: true, Port: 443}, Pos{8, 54}},
			},
			Deny: []Host{{"[::1]", policy.Host{Addr: netip.IPv6Loopback()}, Pos{8, 83}}},
			Unix: []Path{{"~/.ssh/agent.sock", Pos{8, 100}}},
		},
		Processes: Processes{"allowlist", []Path{{"~/src/app/target", Pos{9, 43}}}},
		Env:       Env{[]string{"EDITOR", "MODEL_API_KEY"}, []EnvVar{{"CI", "1", Pos{10, 44}}, {"B_2", "", Pos{10, 53}}}},
		Limits:    Limits{2 << 30, 256, 4096, 2 * time.Hour},
		Sandbox:   Sandbox{},
		Service:   true,
	}
	if diff := cmp.Diff(want, got, addrs); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

var addrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestParseDefaults(t *testing.T) {
	want := &Profile{
		Version: 1, Agent: "a", Network: Network{Mode: "none"},
		Processes: Processes{Mode: "any"}, Sandbox: Sandbox{FailClosed: true, Transparent: true},
	}
	for _, src := range []string{
		"version: 1\nagent: a\n",
		"version: 1\nagent: a",
		"# c\n---\nversion: 1\nagent: a\n...\n",
		"--- {version: 1, agent: a}\n",
		`{"version": 1, "agent": "a", "filesystem": {"read": []}}`,
		"version: 1\r\nagent: 'a'\r\nfilesystem:\r\nlimits: {}\r\nenv:\r\n  set:\r\n",
		"  version: 1\n  agent: a\n  filesystem: # nothing\n    read:\n    deny: []\n",
		"version: 1\nagent: a\nnetwork:\n  hosts:\n  deny: []\n  unix: []\nsandbox: {transparent_network: true}\n",
	} {
		got, err := Parse("p.yaml", []byte(src))
		if err != nil {
			t.Errorf("Parse(%q): %v", src, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", src, diff)
		}
	}
}

// Each source follows "version: 1\nagent: a\n", so its first line is the third.
func TestParseErrors(t *testing.T) {
	for _, test := range []struct {
		src  string
		want []string
	}{
		// The schema.
		{"filesystem:\n  wirte: []\n", []string{`4:3: unknown key "wirte"; did you mean "write"?`}},
		{"zzz: 1\nnetwrok: 2\n", []string{`3:1: unknown key "zzz"`, `4:1: unknown key "netwrok"; did you mean "network"?`}},
		{"agent: b\n", []string{`3:1: duplicate key "agent"; the first is at 2:1`}},
		{"filesystem: []\n", []string{`3:13: filesystem must be a mapping, not a list`}},
		{"filesystem: ~\n", []string{`3:13: filesystem must be a mapping, not null`}},
		{"[a]: b\n", []string{`3:1: a key must be a name, not a list`}},
		{"filesystem: {read: , write: }\n", []string{`3:20: filesystem.read has no value`, `3:29: filesystem.write has no value`}},
		// Not supported yet, whatever the value.
		{"hitl: {mode: defer}\n", []string{`3:1: hitl is not supported yet`}},
		{"service: yes\n", []string{`3:10: service must be true or false, not "yes"`}},
		{"service: 1\n", []string{`3:10: service must be true or false, not a number without quotes`}},
		{"service:\n", []string{`3:9: service has no value`}},
		{"network: {mode: 1, hosts: {}, deny: x.org, unix: [.ssh]}\n", []string{
			`3:17: network.mode must be none, restricted or open, not a number without quotes`, `3:27: network.hosts must be a list of hosts, not a mapping`,
			`3:37: network.deny must be a list of hosts, not "x.org"`, `3:51: path ".ssh" is relative; begin it with / or ~/`}},
		{"network: {mode: non}\n", []string{`3:17: unknown network.mode "non"; did you mean "none"?`}},
		{"sandbox: {transparent_network: yes, nested: 1, quarantine: maybe}\n", []string{
			`3:32: sandbox.transparent_network must be true or false, not "yes"`, `3:45: sandbox.nested must be true or false, not a number without quotes`,
			`3:60: sandbox.quarantine must be true or false, not "maybe"`}},
		{"filesystem:\n  deny:\n    - {path: /a, style: empt}\n    - path: /b\n      placeholder: x\n    - style: none\n", []string{
			`5:25: unknown filesystem.deny.style "empt"; did you mean "empty"?`, `7:20: filesystem.deny.placeholder must be true or false, not "x"`,
			`8:7: filesystem.deny.path is missing`}},
		// Values.
		{"command: claude\n", []string{`3:10: command must be a list of words, not "claude"`}},
		{"command: [sleep, 5, yes, true, null]\n", []string{
			`3:18: a word of command must be text, not a number without quotes`,
			`3:26: a word of command must be text, not true or false without quotes`,
			`3:32: a word of command must be text, not null`}},
		{"command: []\n", []string{`3:10: command is empty; leave the key out`}},
		{"command: ['', \"a\\0\"]\n", []string{`3:11: command names no program`, `3:15: a word of command has a NUL character`}},
		{"processes: {mode: all, spawn_dirs: [~/*]}\n", []string{
			`3:19: unknown processes.mode "all"`,
			`3:37: "~/*" is a pattern: read and write take paths, not patterns; only deny takes patterns`}},
		{"env: {pass: [A-B, 1A, ''], set: {CI: 1, C: null}}\n", []string{
			`3:14: "A-B" cannot name a variable; use A-Z, a-z, 0-9 and _, not beginning with a digit`,
			`3:19: "1A" cannot name a variable; use A-Z, a-z, 0-9 and _, not beginning with a digit`,
			`3:23: a variable must have a name`,
			`3:38: env.set.CI must be text, not a number without quotes`,
			`3:44: env.set.C must be text, not null`}},
		{"limits: {memory: 1.5GiB, processes: 0, open_files: 0x10, time: 60}\n", []string{
			`3:18: limits.memory must be a size like 512MiB, 2GB or a number of bytes, not "1.5GiB"`,
			`3:37: limits.processes cannot be 0; leave the key out for no limit`,
			`3:52: limits.open_files must be a number, not "0x10"`,
			`3:64: limits.time must be a time with its unit, like 90s, 30m or 2h, not a number without quotes`}},
		{"limits: {memory: 9223372036854775807KiB, processes: 3000000000, time: -1s}\n", []string{
			`3:18: limits.memory "9223372036854775807KiB" is too large`,
			`3:53: limits.processes "3000000000" is too large`,
			`3:71: limits.time must be more than 0; leave the key out for no limit`}},
		{"sandbox: {fail_closed_on_sandbox_error: no}\n", []string{`3:41: sandbox.fail_closed_on_sandbox_error must be true or false, not "no"`}},
		// Paths.
		{"filesystem:\n  read: [src, ~bob/x, '', /a/../b, ~/.., '/a*', '../x']\n", []string{
			`4:10: path "src" is relative; begin it with / or ~/`,
			`4:15: path "~bob/x" is in another person's home; begin it with / or ~/`,
			`4:23: a path cannot be empty`,
			`4:27: path "/a/../b" has a component ".."; write the path that is meant`,
			`4:36: path "~/.." has a component ".."; write the path that is meant`,
			`4:42: "/a*" is a pattern: read and write take paths, not patterns; only deny takes patterns`,
			`4:49: path "../x" is relative; begin it with / or ~/`}},
		{"filesystem:\n  deny: ['/a[', '/a{', '/a}', '/a\\', '/{a,..}/b', '*.pem']\n", []string{
			`4:10: pattern "/a[" has a bad [ ] class; write \[ for the character "["`,
			`4:17: pattern "/a{" has a "{" without its "}"; write \{ for the character`,
			`4:24: pattern "/a}" has a "}" without its "{"; write \} for the character`,
			`4:31: pattern "/a\\" ends in a backslash`,
			`4:38: path "/{a,..}/b" has a component ".."; write the path that is meant`,
			`4:51: path "*.pem" is relative; begin it with / or ~/`}},
		{"filesystem:\n  read:\n  - |\n    /a\n  - 7\n  -\n", []string{
			`5:5: an entry of filesystem.read must be on one line`,
			`7:5: an entry of filesystem.read must be a path, not a number without quotes`,
			`8:4: an entry of filesystem.read must be a path, not nothing`}},
		// Hosts.
		{"network:\n  mode: restricted\n  hosts: [http://x.org, '*', 7, 'x.org:0', 127.1.1, '']\n  deny: ['*.org', 'a b']\n", []string{
			`5:11: invalid host "http://x.org": give a name with an optional port, not a URL`,
			`5:25: invalid host "*": too broad: name a domain, as in *.example.com, or set network.mode to open`,
			`5:30: an entry of network.hosts must be a host, not a number without quotes`,
			`5:33: invalid host "x.org:0": the port must be a number from 1 to 65535`,
			`5:44: invalid host "127.1.1": it is neither a host name nor an address in the usual spelling`,
			`5:53: invalid host "": it is empty`,
			`6:10: invalid host "*.org": too broad: name a domain, as in *.example.com`,
			`6:19: invalid host "a b": it is not a host name`}},
		{"network: {mode: restricted, hosts: [x.org, X.ORG., x.org:443, '10.0.0.1', '::ffff:10.0.0.1'], deny: [x.org, x.org]}\n", []string{
			`3:37: "x.org" is both granted and denied; the deny is at 3:109`,
			`3:44: "x.org" is listed twice in network.hosts; the first is at 3:37`,
			`3:44: "X.ORG." is both granted and denied; the deny is at 3:109`,
			`3:75: "10.0.0.1" is listed twice in network.hosts; the first is at 3:63`,
			`3:109: "x.org" is listed twice in network.deny; the first is at 3:102`}},
		{"network: {mode: none, hosts: [x.org, y.org]}\n", []string{`3:17: network.hosts needs network.mode: restricted, not none; the first host is at 3:31`}},
		{"network: {mode: open, hosts: [x.org]}\n", []string{`3:17: network.hosts needs network.mode: restricted, not open; the first host is at 3:31`}},
		{"network: {hosts: [x.org]}\n", []string{`3:19: network.hosts needs network.mode: restricted`}},
		// Contradictions.
		{"filesystem: {read: [/a, /a/], write: [/b//c], deny: [/a, /b/c, '/b/\\c']}\n", []string{
			`3:21: "/a" is both granted and denied; the deny is at 3:54`,
			`3:25: "/a" is listed twice in filesystem.read; the first is at 3:21`,
			`3:25: "/a/" is both granted and denied; the deny is at 3:54`,
			`3:39: "/b//c" is both granted and denied; the deny is at 3:64`}},
		{"env: {pass: [A, A, B], set: {B: x}}\n", []string{
			`3:17: "A" is listed twice in env.pass; the first is at 3:14`,
			`3:30: B is both passed and set; env.pass names it at 3:20`}},
		{"processes: {mode: none, spawn_dirs: [/a]}\n", []string{`3:19: processes.mode none allows no spawn_dirs; the first is at 3:38`}},
		// YAML that profiles do not use.
		{"env: &a {pass: [A]}\nlimits: *a\n", []string{
			`3:6: anchors are not allowed in a profile`, `4:9: aliases are not allowed in a profile; write the value again`}},
		{"<<: {}\n", []string{`3:1: merge keys are not allowed in a profile`}},
		{"command: [!!str 5]\n", []string{`3:11: tags are not allowed in a profile; quote a value to make it text`}},
		{"command: [! x]\n", []string{`3:11: tags are not allowed in a profile; quote a value to make it text`}},
		{"? command\n: [x]\n", []string{`3:1: this form of YAML is not used in profiles; write key: value, and lists with - or [ ]`}},
		{"command: [a: b]\n", []string{`3:11: this form of YAML is not used in profiles: '{' must come here`, `3:11: a word of command must be text, not a mapping`}},
		{"command:\n  - a\n    b\n", []string{`4:5: text that goes on over several lines must be in quotes`}},
		{"---\na: b\n", []string{`3:1: a profile is one document; this begins another`}},
		{"filesystem:\n\tread: []\n", []string{`4:1: tab; indent with spaces, and write "\t" in double quotes for the character`}},
		{"a: \x00\nb: \xff\n# \u2028\nc: \ufeff\n", []string{
			`3:4: character U+0000 is not allowed; write it as an escape in double quotes`,
			`4:4: byte 0xff is not UTF-8`,
			`5:3: character U+2028 is not allowed; write it as an escape in double quotes`,
			`6:4: character U+FEFF is not allowed; write it as an escape in double quotes`}},
		{"a: b\rc: d\n", []string{`3:5: carriage return that no newline follows`}},
		{"hitl: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\n", []string{
			`3:1: hitl is not supported yet`, `3:23: nested deeper than 16 levels`}},
		{"presets: " + strings.Repeat("[", 20000) + "\n", []string{`3:1: exceeded max depth of 10000`}},
		// Syntax errors have a position.
		{"network:\n  mode: restricted\n  hosts:\n    - a.org\n    - *.b.org\n", []string{`7:5: an entry that begins with * or & must be in quotes`}},
		{"x: }\n", []string{`3:1: did not find expected node content`}},
		{"env:\n  pass: [a, b\nlimits: {}\n", []string{`4:3: did not find expected ',' or ']'`}},
		{"foo\n", []string{`3:1: could not find expected ':'`}},
		{"env:\n  set:\n    A: b: c\n", []string{`5:5: mapping values are not allowed in this context`}},
	} {
		_, err := Parse("p.yaml", []byte("version: 1\nagent: a\n"+test.src))
		checkErrors(t, test.src, err, test.want)
	}
}

func TestParseErrorsWhole(t *testing.T) {
	for _, test := range []struct {
		src  string
		want []string
	}{
		{"", []string{"1:1: the profile is empty"}},
		{"# c\n\n", []string{"1:1: the profile is empty"}},
		{"---\n", []string{"2:1: a profile must be a mapping, not nothing"}},
		{"- a\n", []string{"1:1: a profile must be a mapping, not a list"}},
		{"{}", []string{"1:1: version is missing", "1:1: agent is missing"}},
		{"version: 2\nagent: A\n", []string{
			"1:10: version 2 is unknown; this program reads version 1",
			`2:8: invalid agent name "A": use a-z, 0-9, '-' and '_', beginning with a letter or a digit`}},
		{"version: \"1\"\nagent: 7\n", []string{
			`1:10: version must be the number 1, not "1"`, `2:8: agent must be a name, not a number without quotes`}},
		{"version: 1\nagent: other\n", []string{`2:8: the profile is of agent "other", and the file is of agent "a"`}},
		{"version:\nagent: a\n", []string{`1:9: version has no value`}},
		{"%YAML 1.2\n---\nversion: 1\n", []string{"1:1: YAML directives are not allowed in a profile"}},
		{"\ufeffversion: 1\n", []string{"1:1: byte order mark; save the file as UTF-8 without one"}},
		{"version: }\n", []string{"1:1: did not find expected node content"}},
		{strings.Repeat("#", maxSource+1), []string{"1:1: a profile cannot be longer than 1048576 bytes"}},
	} {
		_, err := ParseFor("a", "p.yaml", []byte(test.src))
		checkErrors(t, test.src, err, test.want)
	}
}

func checkErrors(t *testing.T, src string, err error, want []string) {
	t.Helper()
	if len(src) > 200 {
		src = src[:200]
	}
	if !errors.Is(err, bourn.ErrInvalid) {
		t.Errorf("Parse(%q) = %v, want ErrInvalid", src, err)
		return
	}
	if diff := cmp.Diff("p.yaml:"+strings.Join(want, "\np.yaml:"), err.Error()); diff != "" {
		t.Errorf("Parse(%q) (-want +got):\n%s", src, diff)
	}
}

func TestPrintableName(t *testing.T) {
	_, err := Parse("a\x1b[2J.yaml", nil)
	if want := `a\x1b[2J.yaml:1:1: the profile is empty`; err.Error() != want {
		t.Errorf("Parse = %q, want %q", err, want)
	}
}

// Every key is decoded, has keys or is not supported; nothing is accepted without effect.
func TestSchema(t *testing.T) {
	var walk func(where string, rows []key)
	walk = func(where string, rows []key) {
		for _, row := range rows {
			ways := 0
			for _, is := range []bool{row.later, row.keys != nil, row.decode != nil} {
				if is {
					ways++
				}
			}
			if ways != 1 {
				t.Errorf("%s has %d of later, keys and decode, want 1", dotted(where, row.name), ways)
			}
			walk(dotted(where, row.name), row.keys)
		}
	}
	walk("", schema)
	walk("filesystem.deny", denySchema)
}

func TestTemplate(t *testing.T) {
	got, err := Template(Draft{Agent: "builder", Command: []string{"claude", "-p", "{job}", "", "yes", "a\nb"},
		Write: []string{"~/src/app", "/a b"}, Deny: []string{"~/src/app/**/*.pem"}})
	if err != nil {
		t.Fatal(err)
	}
	want := `# What agent builder may do. Files and hosts that are not here are closed to it.
# A change takes effect when the agent next starts (bourn agent perm --help edits this file).
version: 1
agent: builder
command: [claude, -p, "{job}", "", "yes", "a\nb"]

filesystem:
  # Everything below these may be read and written.
  write:
    - ~/src/app
    - "/a b"
  # Everything below these may be read.
  read: []
  # Paths and patterns ("~/app/**/*.pem") that stay closed, whatever is granted.
  deny:
    - "~/src/app/**/*.pem"
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("Template (-want +got):\n%s", diff)
	}
	for _, bad := range []bourn.AgentName{"", "A", "a\nversion: 2"} {
		if _, err := Template(Draft{Agent: bad}); !errors.Is(err, bourn.ErrInvalid) {
			t.Errorf("Template(%q) = %v, want ErrInvalid", bad, err)
		}
	}
	full, err := Template(Draft{Agent: "a", Presets: []string{"go", "git"}, Env: []string{"EDITOR"}, Write: []string{"/w"}, SpawnDirs: []string{"/w/bin"}})
	if p, parseErr := Parse("p", full); err != nil || parseErr != nil || len(p.Presets) != 2 || p.Env.Pass[0] != "EDITOR" || p.Processes.SpawnDirs[0].Text != "/w/bin" {
		t.Errorf("Template: %v, %v\n%s", err, parseErr, full)
	}
	if _, err := Template(Draft{Agent: "a", Write: []string{"relative"}}); !errors.Is(err, bourn.ErrInvalid) {
		t.Errorf("Template of a relative path = %v, want ErrInvalid", err)
	}
}

// What an attacker writes to make the reader slow is refused in time. A line with many
// entries took 39 s when a position was found by counting from the start of its line.
func TestParseBombs(t *testing.T) {
	for name, unit := range map[string]string{
		"flow lists": "[", "flow mappings": "{a: ", "lists": "- ", "complex keys": "? ", "comments": "#\n",
		"keys": "a:\n", "entries": "- a\n#\n", "words": "a ", "lines": "\n", "quotes": "\"\n", "anchors": "- &a *a\n",
		"entries of a line": "/a, ", "keys of a line": "é: , ",
	} {
		start := time.Now()
		src := strings.Repeat(unit, (maxSource-100)/len(unit))
		switch name {
		case "entries of a line":
			src = head + "filesystem: {read: [/é, " + src + "]}"
		case "keys of a line":
			src = "{" + src + "}"
		}
		if _, err := Parse("p", []byte(src)); err == nil {
			t.Errorf("%s: Parse accepts it", name)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: Parse took %v", name, took)
		}
	}
}

func TestSourcePos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([aé€𝄞]{0,40}\r?\n){0,4}[aé€𝄞]{0,200}`).Draw(t, "text")
		s, problems := newSource("p", []byte(text))
		if problems != nil {
			t.Fatal(problems.join())
		}
		want := Pos{1, 1}
		for off, r := range text + "\n" {
			if got := s.pos(off); got != want {
				t.Fatalf("pos(%d) = %v, want %v", off, got, want)
			}
			end := off < len(text) && r == '\n' && off > 0 && text[off-1] == '\r'
			if got := s.offset(want.Line, want.Column); got != off && !end {
				t.Fatalf("offset(%v) = %d, want %d", want, got, off)
			}
			if want.Column++; r == '\n' {
				want = Pos{want.Line + 1, 1}
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	for _, src := range []string{
		"version: 1\nagent: a\nfilesystem:\n  read:\n  - /a\n  - {path: ~/b}\n", "a: [x, 'y''', \"z\\n\"]\n", "a: |+\n  x\n\n...\n",
		"a: &x b\n<<: *x\n", "---\na: b\n---\n", "? a\n: b\n", "\xef\xbb\xbf", "%YAML 1.1\n", "{\"version\":1,\"agent\":\"a\"}", "a:\r\n\tb\r\n",
	} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := Parse("p", src)
		if (p == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v", p, err)
		}
		lines := strings.Split(string(src), "\n")
		inRange := func(pos Pos) {
			if pos.Line < 1 || pos.Line > len(lines) || pos.Column < 1 || pos.Column > len(lines[pos.Line-1])+1 {
				t.Fatalf("position %v is outside of the text", pos)
			}
		}
		if err == nil {
			checkPositions(t, string(src), p)
			return
		}
		last := Pos{}
		for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
			var p problem
			if !errors.As(err, &p) {
				t.Fatalf("%v has no position", err)
			}
			pos := p.pos
			inRange(pos)
			if pos.compare(last) < 0 {
				t.Fatalf("position %v after %v", pos, last)
			}
			last = pos
		}
	})
}

// checkPositions checks that a path without quotes stands where its position says.
func checkPositions(t *testing.T, src string, p *Profile) {
	s, _ := newSource("p", []byte(src))
	all := append(append([]Path{}, p.Filesystem.Read...), p.Filesystem.Write...)
	for _, path := range all {
		at := s.text[s.offset(path.Pos.Line, path.Pos.Column):]
		if at[0] != '"' && at[0] != '\'' && !strings.HasPrefix(at, path.Text) {
			t.Fatalf("%q is not at %v", path.Text, path.Pos)
		}
	}
}

func ExampleParse() {
	_, err := Parse("builder.yaml", []byte("version: 1\nagent: builder\nfilesystem:\n  wirte: [src]\n  read: [src]\n"))
	fmt.Println(err)
	// Output:
	// builder.yaml:4:3: unknown key "wirte"; did you mean "write"?
	// builder.yaml:5:10: path "src" is relative; begin it with / or ~/
}
