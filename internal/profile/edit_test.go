package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// Each source and each text wanted follow head.
const head = "version: 1\nagent: a\n"

func TestAdd(t *testing.T) {
	for _, test := range []struct {
		src  string
		list List
		path string
		want string
	}{
		// Nothing there.
		{"", ReadList, "/x", "filesystem:\n  read:\n    - /x\n"},
		{"limits: {}", SpawnDirList, "/x", "limits: {}\nprocesses:\n  spawn_dirs:\n    - /x"},
		{"env:\n    pass:\n    - A\n# end\n", DenyList, "~/**/.env", "env:\n    pass:\n    - A\nfilesystem:\n    deny:\n    - \"~/**/.env\"\n# end\n"},
		{"filesystem: # mine\n", ReadList, "/x", "filesystem: { read: [ /x ] } # mine\n"},
		{"filesystem: {}\n", ReadList, "/x", "filesystem: {read: [ /x ]}\n"},
		{"filesystem:\n  write: [/w] # w\n  # after\nlimits: {}\n", ReadList, "/x",
			"filesystem:\n  write: [/w] # w\n  read:\n    - /x\n  # after\nlimits: {}\n"},
		{"filesystem: {write: [/w]}\n", ReadList, "/x", "filesystem: {write: [/w], read: [ /x ]}\n"},
		{"...\n", ReadList, "/x", "filesystem:\n  read:\n    - /x\n...\n"},
		{"command:\n- sh\n- |\n  a\n\n\n", ReadList, "/x", ""},
		// The first host brings the mode; a mode that is there stays apart from it.
		{"", HostList, "x.org", "network:\n  mode: restricted\n  hosts:\n    - x.org\n"},
		{"env:\n    pass:\n    - A\n", HostList, "*.x.org:443", "env:\n    pass:\n    - A\nnetwork:\n    mode: restricted\n    hosts:\n    - \"*.x.org:443\"\n"},
		{"network: # mine\n", HostList, "x.org", "network: { mode: restricted, hosts: [ x.org ] } # mine\n"},
		{"network: {}\n", HostList, "x.org", "network: {mode: restricted, hosts: [ x.org ]}\n"},
		{"network: {deny: [y.org]}\n", HostList, "x.org", "network: {deny: [y.org], mode: restricted, hosts: [ x.org ]}\n"},
		{"network: {\"deny\": [\"y.org\"]}\n", HostList, "x.org", "network: {\"deny\": [\"y.org\"], \"mode\": \"restricted\", \"hosts\": [ \"x.org\" ]}\n"},
		{"network:\n  unix: [/s] # s\n  # end\n", HostList, "x.org", "network:\n  unix: [/s] # s\n  mode: restricted\n  hosts:\n    - x.org\n  # end\n"},
		{"network:\r\n\r\n  # m\r\n  mode: restricted # r\r\n", HostList, "x.org", "network:\r\n\r\n  # m\r\n  hosts:\r\n    - x.org\r\n  mode: restricted # r\r\n"},
		{"network:\n  mode: restricted\n", HostList, "x.org", "network:\n  hosts:\n    - x.org\n  mode: restricted\n"},
		{"network:\n  mode: restricted\n  deny: []\n", HostList, "x.org", "network:\n  mode: restricted\n  deny: []\n  hosts:\n    - x.org\n"},
		{"network: {mode: restricted}\n", HostList, "x.org", "network: {hosts: [ x.org ], mode: restricted}\n"},
		{"network: { mode: restricted, hosts: [] }\n", HostList, "x.org", "network: { mode: restricted, hosts: [x.org] }\n"},
		{"network:\n  mode: restricted\n  hosts:\n    - a.org\n", HostList, "::1", "network:\n  mode: restricted\n  hosts:\n    - a.org\n    - \"::1\"\n"},
		{"network: {mode: open}\n", DenyHostList, "x.org", "network: {mode: open, deny: [ x.org ]}\n"},
		{"network:\n  mode: none # n\n", UnixList, "/s", "network:\n  mode: none # n\n  unix:\n    - /s\n"},
		// An empty list.
		{"filesystem:\n  read: # r\n  write: []\n", ReadList, "/x", "filesystem:\n  read: [ /x ] # r\n  write: []\n"},
		{"filesystem:\n  read: [ ] # r\n", ReadList, "/x", "filesystem:\n  read: [/x ] # r\n"},
		// A block list.
		{"filesystem:\n  read:\n  - /a   # a\n\n  - /b # b\n\n  # c\n  write: []\n", ReadList, "/x",
			"filesystem:\n  read:\n  - /a   # a\n\n  - /b # b\n  - /x\n\n  # c\n  write: []\n"},
		{"filesystem:\n  deny:\n      - {path:\n         /a} # a\n", DenyList, "/x", "filesystem:\n  deny:\n      - {path:\n         /a} # a\n      - /x\n"},
		// A flow list.
		{"filesystem: {read: [/a, \"/b\",], write: [/c]}\n", ReadList, "/x", "filesystem: {read: [/a, \"/b\", /x,], write: [/c]}\n"},
		{"filesystem:\n  read: [\n    /a, # a\n    /b  # b\n  ]\n", ReadList, "/x", "filesystem:\n  read: [\n    /a, # a\n    /b,  # b\n    /x\n  ]\n"},
		{"filesystem:\n  read: [\n    /a,\n  ]\n", ReadList, "/x", "filesystem:\n  read: [\n    /a,\n    /x,\n  ]\n"},
		// A scalar is quoted where it needs to be.
		{"filesystem: {read: ['/a']}\n", ReadList, "/x, y: #z", "filesystem: {read: ['/a', \"/x, y: #z\"]}\n"},
		{"filesystem: {read: [\"/a\"]}\n", ReadList, "/x", "filesystem: {read: [\"/a\", \"/x\"]}\n"},
		{"filesystem: {read: []}\n", ReadList, "/\n\t\x01\"\\ü\u202e", "filesystem: {read: [\"/\\n\\t\\x01\\\"\\\\ü\\u202e\"]}\n"},
		{"filesystem: {read: []}\n", ReadList, "~", "filesystem: {read: [\"~\"]}\n"},
	} {
		got, changed, err := Add("p", []byte(head+test.src), test.list, test.path)
		if err != nil || !changed {
			t.Errorf("Add(%q, %s, %q) = %v, %v", test.src, test.list, test.path, changed, err)
			continue
		}
		if test.want != "" {
			if diff := cmp.Diff(head+test.want, string(got)); diff != "" {
				t.Errorf("Add(%q, %s, %q) (-want +got):\n%s", test.src, test.list, test.path, diff)
			}
		}
		back, err := Remove("p", got, test.list, test.path)
		if err != nil || string(back) != head+test.src {
			t.Errorf("Remove from %q = %q, %v, want %q", got, back, err, head+test.src)
		}
	}
}

func TestAddTwice(t *testing.T) {
	src := []byte(head + "filesystem: {read: [/a//b/], deny: [{path: ~}]}\nnetwork: {mode: restricted, hosts: [X.org.:0443], deny: ['::FFFF:10.0.0.1']}\n")
	for list, path := range map[List]string{ReadList: "/a/b", DenyList: "~/", HostList: "x.org:443", DenyHostList: "10.0.0.1"} {
		if got, changed, err := Add("p", src, list, path); err != nil || changed || string(got) != string(src) {
			t.Errorf("Add(%s, %q) = %q, %v, %v, want no change", list, path, got, changed, err)
		}
	}
}

func TestRemove(t *testing.T) {
	for _, test := range []struct {
		src  string
		list List
		want string
	}{
		{"filesystem:\n  read:\n  - /a # a\n  # x\n  - /x # of x\n  - /b\n", ReadList, "filesystem:\n  read:\n  - /a # a\n  # x\n  - /b\n"},
		{"filesystem:\n  read: # r\n  - /x\n", ReadList, "filesystem:\n  read: # r\n"},
		{"filesystem:\n  read:\n  # r\n  - /x\n", ReadList, "filesystem:\n  read:\n  # r\n"},
		{"filesystem: # f\n  read:\n  - /x\n", ReadList, "filesystem: # f\n"},
		{"filesystem:\n  read:\n  - '/x/'\nlimits:\n", ReadList, "limits:\n"},
		{"filesystem: {read: [/x, /a]}\n", ReadList, "filesystem: {read: [/a]}\n"},
		{"filesystem: {read: [/a , /x , ]}\n", ReadList, "filesystem: {read: [/a , ]}\n"},
		{"filesystem: {read: [/a, /x, /b]}\n", ReadList, "filesystem: {read: [/a, /b]}\n"},
		{"filesystem: {read: [ /x ], write: []}\n", ReadList, "filesystem: {read: [  ], write: []}\n"},
		{"filesystem: {read: [/x,]}\n", ReadList, "filesystem: {read: []}\n"},
		{"filesystem:\n  read: [\n    /x, # x\n  ]\n", ReadList, "filesystem:\n  read: [\n  ]\n"},
		{"filesystem:\n  read: [\n    /x\n    , # x\n  ]\n", ReadList, "filesystem:\n  read: [\n     # x\n  ]\n"},
		{"filesystem:\n  read: [\n    /a, # a\n    /x # x\n    # b\n  ]\n", ReadList, "filesystem:\n  read: [\n    /a # a\n    # b\n  ]\n"},
		{"filesystem:\n  read: [\n    /a, # a\n    /x]\n", ReadList, "filesystem:\n  read: [\n    /a # a\n    ]\n"},
		{"filesystem:\n  deny:\n  - /a\n  -\n    path: /x\n  - /b\n", DenyList, "filesystem:\n  deny:\n  - /a\n  - /b\n"},
	} {
		got, err := Remove("p", []byte(head+test.src), test.list, "/x")
		if err != nil {
			t.Errorf("Remove(%q): %v", test.src, err)
			continue
		}
		if diff := cmp.Diff(head+test.want, string(got)); diff != "" {
			t.Errorf("Remove(%q) (-want +got):\n%s", test.src, diff)
		}
	}
}

// A mode that is not as Add writes it, or that something is written to, outlives the hosts.
func TestRemoveHost(t *testing.T) {
	for _, test := range []struct{ src, want string }{
		{"network:\n  mode: restricted\n  hosts:\n    - x.org\nlimits:\n", "limits:\n"},
		{"network: # n\n  mode: restricted\n  hosts:\n    - x.org\n", "network: # n\n"},
		{"network:\n  mode: restricted\n  hosts:\n    - x.org\n  deny:\n    - y.org\n", "network:\n  deny:\n    - y.org\n"},
		{"network:\n  mode: restricted # m\n  hosts:\n    - x.org\n", "network:\n  mode: restricted # m\n"},
		{"network:\n  mode: restricted\n  hosts: # h\n    - x.org\n", "network:\n  mode: restricted\n  hosts: # h\n"},
		{"network:\n  mode: restricted\n  hosts: [x.org]\n", "network:\n  mode: restricted\n  hosts: []\n"},
		{"network:\n  mode: restricted\n  hosts:\n    - X.ORG.\n    - y.org\n", "network:\n  mode: restricted\n  hosts:\n    - y.org\n"},
		{"network: {mode: restricted, hosts: [x.org]}\n", "network: {mode: restricted, hosts: []}\n"},
		{"network: {mode: restricted, hosts: [ x.org ], deny: []}\n", "network: {mode: restricted, hosts: [  ], deny: []}\n"},
		{"network: {mode: 'restricted', hosts: [ x.org ]}\n", "network: {mode: 'restricted'}\n"},
		{"network: {hosts: [ x.org ] , mode: restricted}\n", "network: {hosts: [  ] , mode: restricted}\n"},
	} {
		got, err := Remove("p", []byte(head+test.src), HostList, "x.org")
		if err != nil {
			t.Errorf("Remove(%q): %v", test.src, err)
			continue
		}
		if diff := cmp.Diff(head+test.want, string(got)); diff != "" {
			t.Errorf("Remove(%q) (-want +got):\n%s", test.src, diff)
		}
	}
}

func TestRemoveFirstLine(t *testing.T) {
	src := "filesystem:\r\n  read:\r\n    - /x\r\nversion: 1\r\nagent: a\r\n"
	got, err := Remove("p", []byte(src), ReadList, "/x")
	if want := "version: 1\r\nagent: a\r\n"; err != nil || string(got) != want {
		t.Errorf("Remove = %q, %v, want %q", got, err, want)
	}
}

func TestEditErrors(t *testing.T) {
	for _, test := range []struct {
		src  string
		list List
		path string
		want string
	}{
		{"hitl: {}\n", ReadList, "/x", `cannot add "/x" to filesystem.read: p:3:1: hitl is not supported yet`},
		{"", ReadList, "x", `cannot add "x" to filesystem.read: invalid: path "x" is relative; begin it with / or ~/`},
		{"", ReadList, "/\xff", `cannot add "/\xff" to filesystem.read: invalid: the path is not UTF-8, and a profile cannot hold it`},
		{"", "filesystem.exec", "/x", `cannot add "/x" to filesystem.exec: invalid: there is no list "filesystem.exec"`},
		{"filesystem: {deny: [/x]}\n", ReadList, "/x/",
			`cannot add "/x/" to filesystem.read: the profile would not be valid: p:3:34: "/x/" is both granted and denied; the deny is at 3:21`},
		{"processes: {mode: none}\n", SpawnDirList, "/x",
			`cannot add "/x" to processes.spawn_dirs: the profile would not be valid: p:3:19: processes.mode none allows no spawn_dirs; the first is at 3:39`},
	} {
		out, _, err := Add("p", []byte(head+test.src), test.list, test.path)
		if out != nil || !errors.Is(err, bourn.ErrInvalid) || err.Error() != test.want {
			t.Errorf("Add(%q, %s, %q) = %q, %v\nwant %s", test.src, test.list, test.path, out, err, test.want)
		}
	}
	for _, test := range []struct{ src, host, want string }{
		{"", "http://x.org", `cannot add "http://x.org" to network.hosts: invalid host "http://x.org": give a name with an optional port, not a URL`},
		{"network: {mode: none}\n", "x.org", `cannot add "x.org" to network.hosts: the profile would not be valid: ` +
			`p:3:35: network.hosts needs network.mode: restricted, not none; the first host is at 3:20`},
		{"network:\n  mode: open\n", "x.org", `cannot add "x.org" to network.hosts: the profile would not be valid: ` +
			`p:6:9: network.hosts needs network.mode: restricted, not open; the first host is at 5:7`},
		{"network:\n  hosts: []\n", "x.org", `cannot add "x.org" to network.hosts: the profile would not be valid: ` +
			`p:4:11: network.hosts needs network.mode: restricted`},
		{"network: {deny: [X.org]}\n", "x.org", `cannot add "x.org" to network.hosts: the profile would not be valid: ` +
			`p:3:53: "x.org" is both granted and denied; the deny is at 3:18`},
	} {
		out, _, err := Add("p", []byte(head+test.src), HostList, test.host)
		if out != nil || !errors.Is(err, bourn.ErrInvalid) || err.Error() != test.want {
			t.Errorf("Add(%q, hosts, %q) = %q, %v\nwant %s", test.src, test.host, out, err, test.want)
		}
	}
	_, err := Remove("p", []byte(head), DenyList, "/x")
	if want := `cannot remove "/x" from filesystem.deny: not found`; !errors.Is(err, bourn.ErrNotFound) || err.Error() != want {
		t.Errorf("Remove = %v, want %s", err, want)
	}
	if _, err := Remove("p", []byte("a: }"), DenyList, "/x"); !errors.Is(err, bourn.ErrInvalid) {
		t.Errorf("Remove from what is no profile = %v, want ErrInvalid", err)
	}
}

func TestQuote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[~/]?[-~/a:# ,\[\]{}'"\\n\n&*!|>%@é]{0,6}`),
			rapid.SampledFrom([]string{"true", "No", "null", "~", "-", "--", "---", "-1", "1e3", "=", "<<", ".inf", "2026-01-02", "0x1", "", "-n", "-y"})).Draw(t, "text")
		text = strings.ToValidUTF8(text, "")
		for _, form := range []string{"- %s\n", "[%s]", "[ %s, %[1]s ]", "a: %s # c", "{a: %s}", "a:\n  b: %s"} {
			var root yaml.Node
			src := fmt.Sprintf(form, quote(text))
			if err := yaml.Unmarshal([]byte(src), &root); err != nil {
				t.Fatalf("cannot read %q: %v", src, err)
			}
			n := root.Content[0]
			for len(n.Content) > 0 {
				n = n.Content[len(n.Content)-1]
			}
			if n.Value != text || n.Tag != "!!str" {
				t.Fatalf("%q reads back as %q with tag %s", src, n.Value, n.Tag)
			}
		}
	})
}

// drawSource draws a profile in which each thing that an edit meets has every form.
type drawSource struct {
	*rapid.T
	paths int
	notes int
	mode  string // of the network, "" where it is not named
}

func (d *drawSource) one(of ...string) string { return rapid.SampledFrom(of).Draw(d.T, "form") }

func (d *drawSource) path() string {
	d.paths++
	p := fmt.Sprintf("/p%d", d.paths)
	return d.one(p, "~"+p, `"`+p+`"`, "'"+p+"/ #x'", `"`+p+`\n\"\\x"`, p+"é//b/")
}

func (d *drawSource) note() string {
	if d.one("", "#") == "" {
		return ""
	}
	d.notes++
	return fmt.Sprintf("# note %d.", d.notes)
}

func (d *drawSource) host() string {
	d.paths++
	h := fmt.Sprintf("h%d.example.com", d.paths)
	return d.one(h, "H"+h[1:]+":443", `"*.`+h+`"`, "'"+h+".:22'", fmt.Sprintf("'192.0.2.%d'", d.paths), fmt.Sprintf("\"[2001:db8::%x]:53\"", d.paths))
}

// entry draws an entry of a list.
func (d *drawSource) entry(list string) string {
	if List(list).ofHosts() {
		return d.host()
	}
	return d.path()
}

// holds reports whether a list may have entries.
func (d *drawSource) holds(list string) bool {
	return List(list) != HostList || d.mode == NetworkRestricted
}

// gap draws lines without content.
func (d *drawSource) gap(indent string) string {
	switch note := d.note(); d.one("none", "blank", "note", "both") {
	case "blank":
		return "\n"
	case "note":
		if note != "" {
			return indent + note + "\n"
		}
	case "both":
		return "\n" + d.one("", indent, indent+"  ") + note + "\n"
	}
	return ""
}

// tailNote draws what may follow a value on its line.
func (d *drawSource) tailNote() string {
	if note := d.note(); note != "" {
		return d.one(" ", "   ") + note
	}
	return d.one("", "", " ")
}

func (d *drawSource) flowList(list, indent string, oneLine bool) string {
	n := rapid.IntRange(0, 3).Draw(d.T, "length")
	if n == 0 || !d.holds(list) {
		return d.one("[]", "[ ]")
	}
	var items []string
	for range n {
		items = append(items, d.entry(list))
	}
	pad, end := d.one("", " "), d.one("", "", ",", " , ")
	if oneLine || d.one("line", "lines") == "line" {
		return "[" + pad + strings.Join(items, d.one(",", ", ", " , ")) + end + pad + "]"
	}
	out := "[" + d.tailNote() + "\n"
	for i, item := range items {
		comma := d.one(",", " ,", ",", "\n"+indent+" ,")
		if i == n-1 {
			comma = d.one("", comma)
		}
		out += indent + "  " + item + comma + d.tailNote() + "\n" + d.gap(indent)
	}
	return out + indent + " ]"
}

func (d *drawSource) flowMapping(parent, indent string, keys []string, oneLine bool) string {
	var items []string
	for _, key := range keys {
		switch {
		case key == "mode":
			items = append(items, d.one(key, `"mode"`)+": "+d.one(d.mode, `"`+d.mode+`"`))
		case d.one("has", "has", "lacks") == "has":
			items = append(items, d.one(key, `"`+key+`"`)+": "+d.flowList(parent+"."+key, indent+"  ", oneLine))
		}
	}
	if len(items) == 0 {
		return d.one("{}", "{ }")
	}
	pad := d.one("", " ")
	return "{" + pad + strings.Join(items, d.one(", ", " , ")) + d.one("", ",") + pad + "}"
}

func (d *drawSource) blockList(list, indent string) string {
	out := ""
	for range rapid.IntRange(1, 3).Draw(d.T, "length") {
		out += indent + d.one("- ", "-   ") + d.entry(list) + d.tailNote() + "\n" + d.gap(indent)
	}
	return out
}

func (d *drawSource) blockMapping(parent, indent string, keys []string) string {
	out := ""
	for _, key := range keys {
		list := parent + "." + key
		switch form := d.one("absent", "bare", "flow", "block"); {
		case key == "mode":
			out += indent + key + ": " + d.one(d.mode, "'"+d.mode+"'") + d.tailNote() + "\n" + d.gap(indent)
		case form == "bare":
			out += indent + key + ":" + d.tailNote() + "\n"
		case form == "flow":
			out += indent + key + ": " + d.flowList(list, indent, false) + d.tailNote() + "\n"
		case form == "block" && d.holds(list):
			out += indent + key + ":" + d.tailNote() + "\n" + d.gap(indent) + d.blockList(list, indent+d.one("", "  "))
		}
	}
	if out == "" {
		return parent + ":" + d.tailNote() + "\n"
	}
	return parent + ":" + d.tailNote() + "\n" + d.gap(indent) + out
}

func (d *drawSource) mapping(parent string, keys, forms []string) string {
	keys = rapid.Permutation(keys).Draw(d.T, "keys")
	switch d.one(forms...) {
	case "bare":
		return parent + ":" + d.tailNote() + "\n"
	case "flow":
		return parent + ": " + d.flowMapping(parent, "  ", keys, false) + d.tailNote() + "\n"
	case "block":
		return d.blockMapping(parent, d.one("  ", " ", "    "), keys)
	}
	return ""
}

func (d *drawSource) source() string {
	filesystem, processes, network := []string{"read", "write", "deny"}, []string{"spawn_dirs"}, []string{"hosts", "deny", "unix"}
	forms := []string{"absent", "bare", "flow", "block", "block"}
	if d.mode = d.one("", NetworkRestricted, NetworkRestricted, NetworkNone, NetworkOpen); d.mode != "" {
		network, forms = append(network, "mode"), forms[2:]
	}
	all := []string{"absent", "bare", "flow", "block", "block"}
	if d.one("block", "block", "block", "flow") == "flow" {
		parts := []string{"version: 1", `"agent": a`}
		for _, m := range [][]string{append([]string{"filesystem"}, filesystem...), append([]string{"processes"}, processes...), append([]string{"network"}, network...)} {
			if keys := m[1:]; d.one("has", "lacks") == "has" || slices.Contains(keys, "mode") {
				parts = append(parts, m[0]+": "+d.flowMapping(m[0], "", rapid.Permutation(keys).Draw(d.T, "keys"), false))
			}
		}
		slices.Sort(parts)
		return d.gap("") + d.one("", "--- ") + "{" + strings.Join(parts, d.one(", ", ",\n ")) + d.one("}", "\n}", ",}") + d.one("", "\n")
	}
	parts := []string{
		"version: 1" + d.tailNote() + "\n", "agent: a\n", d.mapping("filesystem", filesystem, all), d.mapping("processes", processes, all), d.mapping("network", network, forms),
		d.one("", "env:\n  set:\n    A: |+\n      x\n\n", "limits: {memory: 1GB}\n", "command: ['a\n\n  b']\n"),
	}
	out := d.one("", "---\n")
	for _, part := range rapid.Permutation(parts).Draw(d.T, "order") {
		out += part + d.gap("")
	}
	out += d.one("", "", "...\n")
	if d.one("end", "end", "none") == "none" {
		out = strings.TrimRight(out, "\n")
	}
	return strings.ReplaceAll(out, "\n", d.one("\n", "\r\n"))
}

var lists = []List{ReadList, WriteList, DenyList, SpawnDirList, HostList, DenyHostList, UnixList}

// unready reports whether a profile takes no host: its mode is another than restricted, or
// it has the key for hosts and no mode.
func unready(p *Profile, src []byte) bool {
	if p.Network.ModeNamed() {
		return p.Network.Mode != NetworkRestricted
	}
	var root struct{ Network map[string]any }
	_ = yaml.Unmarshal(src, &root)
	_, has := root.Network["hosts"]
	return has
}

// An Add changes nothing but to insert, and its Remove gives the same bytes back, also
// when there are others in between.
func TestAddRemove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := []byte((&drawSource{T: t}).source())
		p, err := Parse("p", src)
		if err != nil {
			t.Fatalf("the source drawn is no profile: %v\n%s", err, src)
		}
		type step struct {
			list   List
			path   string
			before []byte
		}
		var steps []step
		for i := range rapid.IntRange(1, 5).Draw(t, "adds") {
			list := rapid.SampledFrom(lists).Draw(t, "list")
			path := fmt.Sprintf("/new%d", i) + rapid.SampledFrom([]string{"", "/a b", "/#", "/, ]", "\n", "é"}).Draw(t, "path")
			if list.ofHosts() {
				path = fmt.Sprintf(rapid.SampledFrom([]string{"new%d.example.com", "*.new%d.example.com:443", "[2001:db8:1::%d]:22", "10.0.0.%d"}).Draw(t, "host"), i)
			}
			out, changed, err := Add("p", src, list, path)
			if list == HostList && unready(p, src) {
				if !errors.Is(err, bourn.ErrInvalid) || !strings.Contains(err.Error(), "network.hosts needs network.mode: restricted") {
					t.Fatalf("Add(%s, %q) = %v, want a word about the mode\n%s", list, path, err, src)
				}
				continue
			}
			if err != nil || !changed {
				t.Fatalf("Add(%s, %q) = %v, %v\n%s", list, path, changed, err, src)
			}
			if !subsequence(src, out) {
				t.Fatalf("Add(%s, %q) does more than insert:\n%s\n%s", list, path, src, out)
			}
			steps = append(steps, step{list, path, src})
			if p, err = Parse("p", out); err != nil || list == HostList && p.Network.Mode != NetworkRestricted {
				t.Fatalf("after Add(%s, %q) the mode is %s, %v\n%s", list, path, p.Network.Mode, err, out)
			}
			src = out
		}
		for _, s := range slices.Backward(steps) {
			out, err := Remove("p", src, s.list, s.path)
			if err != nil || string(out) != string(s.before) {
				t.Fatalf("Remove(%s, %q) = %v\nwant %q\ngot  %q\nfrom %q", s.list, s.path, err, s.before, out, src)
			}
			src = out
		}
	})
}

func subsequence(a, b []byte) bool {
	for _, c := range b {
		if len(a) > 0 && a[0] == c {
			a = a[1:]
		}
	}
	return len(a) == 0
}

// Every entry can be removed in any order, and a comment on a line of its own stays.
func TestRemoveAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := []byte((&drawSource{T: t}).source())
		notes := ownLines(src)
		for {
			p, err := Parse("p", src)
			if err != nil {
				t.Fatal(err)
			}
			var left []List
			for _, list := range lists {
				if len(p.texts(list)) > 0 {
					left = append(left, list)
				}
			}
			if len(left) == 0 {
				break
			}
			list := rapid.SampledFrom(left).Draw(t, "list")
			path := rapid.SampledFrom(p.texts(list)).Draw(t, "path")
			out, err := Remove("p", src, list, path)
			if err != nil {
				t.Fatalf("Remove(%s, %q): %v\n%s", list, path, err, src)
			}
			for _, note := range notes {
				if !strings.Contains(string(out), note) {
					t.Fatalf("Remove(%s, %q) loses %q:\n%s\n%s", list, path, note, src, out)
				}
			}
			src = out
		}
	})
}

// ownLines returns the comments that have a line of their own.
func ownLines(src []byte) []string {
	var notes []string
	for line := range strings.Lines(string(src)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "# note") {
			notes = append(notes, line)
		}
	}
	return notes
}

func FuzzEdit(f *testing.F) {
	for _, src := range []string{
		full, head, head + "filesystem:\n  read:\n  - /a # a\n  write: []\n", head + "filesystem:\r\n  read:\r\n", `{"version":1,"agent":"a"}`,
		head + "network:\n  mode: restricted\n", head + "network: {hosts: [ a ], mode: restricted}\n",
		head + "filesystem: {read: [\n/a, # x\n/b\n], write: [ ]}\n", "--- {version: 1, agent: a, filesystem: { }}\n...\n",
		head + "env: {set: {A: 'x\n\n y'}}\ncommand:\n- |2+\n   a\n\n# c", head + "filesystem:\n  deny:\n  - path: /a\n",
	} {
		f.Add([]byte(src), uint8(0), "/x")
		f.Add([]byte(src), uint8(2), "~/x y/**")
		f.Add([]byte(src), uint8(4), "*.example.com:443")
	}
	f.Fuzz(func(t *testing.T, src []byte, n uint8, path string) {
		list := lists[int(n)%len(lists)]
		out, changed, err := Add("p", src, list, path)
		if err != nil {
			if _, bad := Parse("p", src); bad == nil && strings.Contains(err.Error(), "by hand") {
				t.Fatalf("Add(%q, %s, %q): %v", src, list, path, err)
			}
			return
		}
		if !changed {
			if string(out) != string(src) {
				t.Fatalf("Add(%q, %s, %q) = %q without a change", src, list, path, out)
			}
			return
		}
		back, err := Remove("p", out, list, path)
		if err != nil || string(back) != string(src) {
			t.Fatalf("Add(%q, %s, %q) = %q, its Remove %q, %v", src, list, path, out, back, err)
		}
	})
}
