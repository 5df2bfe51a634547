package review

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	doc := `
	{"hardBlocks": [
	  {"type": "path", "id": "env-files", "pattern": "**/.env", "operations": ["delete", "read", "write"]},
	  {"id": "x.1_y", "enabled": false, "type": "command", "pattern": "a<b", "operations": ["execute", "read"],
	   "reason": "not \u0068ere", "examples": {"passes": ["a"], "blocks": ["a<b"]}, "match": "contains"}
	], "version": 1}
	`
	b, problems := Parse([]byte(doc), testBase)
	if problems != nil {
		t.Fatal(problems)
	}
	want := Boundaries{1, []HardBlock{
		{ID: "env-files", Enabled: true, Type: PathRule, Pattern: "**/.env", Match: Glob, Operations: []bourn.Operation{bourn.Read, bourn.Write, bourn.Delete}},
		{ID: "x.1_y", Type: CommandRule, Pattern: "a<b", Match: Contains, Operations: []bourn.Operation{bourn.Read, bourn.Execute}, Reason: "not here", Blocks: []string{"a<b"}, Passes: []string{"a"}},
	}}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Error(diff)
	}
	const canonical = `{"version":1,"hardBlocks":[` +
		`{"id":"env-files","enabled":true,"type":"path","pattern":"**/.env","match":"glob","operations":["read","write","delete"]},` +
		`{"id":"x.1_y","enabled":false,"type":"command","pattern":"a<b","match":"contains","operations":["read","execute"],"reason":"not here","examples":{"blocks":["a<b"],"passes":["a"]}}]}`
	if diff := cmp.Diff(canonical, string(b.Encode())); diff != "" {
		t.Error(diff)
	}
	again, problems := Parse([]byte(canonical), testBase)
	if problems != nil || again.Digest() != b.Digest() {
		t.Errorf("the canonical form reads back as %+v, %v", again, problems)
	}
	if b.Digest() == NoRules().Digest() {
		t.Error("two documents have one digest")
	}
}

// TestProblems holds each thing that can be wrong with a document.
func TestProblems(t *testing.T) {
	rule := func(fields string) string { return `{"version":1,"hardBlocks":[{` + fields + `}]}` }
	const id, typ, pat, ops = `"id":"a"`, `"type":"path"`, `"pattern":"x"`, `"operations":["read"]`
	with := func(fields ...string) string { return rule(strings.Join(fields, ",")) }
	command := func(match, pattern string, more ...string) string {
		return with(append([]string{id, `"type":"command"`, `"match":"` + match + `"`, `"pattern":"` + pattern + `"`, `"operations":["execute"]`}, more...)...)
	}
	tests := []struct {
		doc  string
		want []string
	}{
		{``, []string{"json_invalid"}},
		{`{"version":1,"hardBlocks":[]`, []string{"json_invalid"}},
		{`{"version":1,"hardBlocks":[],}`, []string{"json_invalid"}},
		{`{"version":1,"hardBlocks":[]} x`, []string{"trailing_data"}},
		{`{"version":1,"hardBlocks":[]} {}`, []string{"trailing_data"}},
		{"{\"version\":1,\"hardBlocks\":[]\xff}", []string{"encoding_invalid"}},
		{with(`"id":"\ud800"`, typ, pat, ops), []string{"json_invalid"}},
		{strings.Repeat("[", 100) + strings.Repeat("]", 100), []string{"json_invalid"}},
		{strings.Repeat(" ", maxDocument+1), []string{"too_large"}},
		{`[]`, []string{"type_invalid"}},
		{`null`, []string{"type_invalid"}},
		{`{}`, []string{"version_missing", "hardBlocks_missing"}},
		{`{"version":"1","hardBlocks":{}}`, []string{"version_unsupported", "hardBlocks_type_invalid"}},
		{`{"version":1.0,"hardBlocks":[]}`, []string{"version_unsupported"}},
		{`{"version":2,"hardBlocks":[]}`, []string{"version_unsupported"}},
		{`{"version":1,"version":1,"hardBlocks":[]}`, []string{"version_duplicate"}},
		{`{"version":1,"hardblocks":[]}`, []string{"key_unknown", "hardBlocks_missing"}},
		{`{"version":1,"hardBlocks":[],"more":1}`, []string{"key_unknown"}},
		{`{"version":1,"hardBlocks":[1,null,[]]}`, []string{"hardBlocks.0.type_invalid", "hardBlocks.1.type_invalid", "hardBlocks.2.type_invalid"}},
		{rule(``), []string{"hardBlocks.0.id_missing", "hardBlocks.0.operations_missing", "hardBlocks.0.type_missing", "hardBlocks.0.pattern_missing"}},
		{with(`"ID":"a"`, typ, pat, ops), []string{"hardBlocks.0.key_unknown", "hardBlocks.0.id_missing"}},
		{with(id, id, typ, pat, ops), []string{"hardBlocks.0.id_duplicate"}},
		{with(`"id":"A"`, typ, pat, ops), []string{"hardBlocks.0.id_invalid"}},
		{with(`"id":"-a"`, typ, pat, ops), []string{"hardBlocks.0.id_invalid"}},
		{with(`"id":""`, typ, pat, ops), []string{"hardBlocks.0.id_invalid"}},
		{with(`"id":"`+strings.Repeat("a", 65)+`"`, typ, pat, ops), []string{"hardBlocks.0.id_invalid"}},
		{with(`"id":7`, typ, pat, ops), []string{"hardBlocks.0.id_type_invalid"}},
		{with(id, typ, pat, ops, `"enabled":"yes"`), []string{"hardBlocks.0.enabled_type_invalid"}},
		{with(id, typ, pat, ops, `"enabled":null`), []string{"hardBlocks.0.enabled_type_invalid"}},
		{with(id, `"type":"file"`, pat, ops), []string{"hardBlocks.0.type_invalid"}},
		{with(id, typ, pat, ops, `"match":"suffix"`), []string{"hardBlocks.0.match_invalid"}},
		{with(id, typ, pat, ops, `"match":null`), []string{"hardBlocks.0.match_type_invalid"}},
		{with(id, typ, `"pattern":""`, ops), []string{"hardBlocks.0.pattern_empty"}},
		{with(id, typ, `"pattern":["x"]`, ops), []string{"hardBlocks.0.pattern_type_invalid"}},
		{with(id, typ, `"pattern":"a\u0000b"`, ops), []string{"hardBlocks.0.pattern_invalid"}},
		{with(id, typ, `"pattern":"`+strings.Repeat("a", maxPattern+1)+`"`, ops), []string{"hardBlocks.0.pattern_too_long"}},
		{with(id, typ, `"pattern":"a[b"`, ops), []string{"hardBlocks.0.pattern_glob_invalid"}},
		{with(id, typ, `"pattern":"a{b"`, ops), []string{"hardBlocks.0.pattern_glob_invalid"}},
		{with(id, typ, `"pattern":"a/../b*"`, ops), []string{"hardBlocks.0.pattern_glob_dotdot"}},
		{with(id, typ, `"pattern":"a/{x,..}/b"`, ops), []string{"hardBlocks.0.pattern_glob_dotdot"}},
		{with(id, typ, `"pattern":"`+strings.Repeat("{a,b}", 9)+`"`, ops), []string{"hardBlocks.0.pattern_glob_too_many"}},
		{with(id, typ, `"pattern":"a("`, ops, `"match":"regex"`), []string{"hardBlocks.0.pattern_regex_invalid"}},
		{with(id, typ, `"pattern":"(?=a)"`, ops, `"match":"regex"`), []string{"hardBlocks.0.pattern_regex_invalid"}},
		{with(id, typ, `"pattern":"a{1000}{1000}"`, ops, `"match":"regex"`), []string{"hardBlocks.0.pattern_regex_invalid"}},
		{command("prefix", "--force"), []string{"hardBlocks.0.pattern_no_program"}},
		{command("prefix", "  "), []string{"hardBlocks.0.pattern_empty"}},
		{with(id, typ, pat, `"operations":[]`), []string{"hardBlocks.0.operations_empty"}},
		{with(id, typ, pat, `"operations":"read"`), []string{"hardBlocks.0.operations_type_invalid"}},
		{with(id, typ, pat, `"operations":["read","Write",1,"read"]`), []string{"hardBlocks.0.operations_invalid", "hardBlocks.0.operations_type_invalid", "hardBlocks.0.operations_duplicate"}},
		{with(id, `"type":"command"`, pat, ops), []string{"hardBlocks.0.operations_never_match"}},
		{with(id, typ, pat, ops, `"reason":1`), []string{"hardBlocks.0.reason_type_invalid"}},
		{with(id, typ, pat, ops, `"examples":[]`), []string{"hardBlocks.0.examples.type_invalid"}},
		{with(id, typ, pat, ops, `"examples":{"blocks":"x","pass":[]}`), []string{"hardBlocks.0.examples.key_unknown", "hardBlocks.0.examples.blocks_type_invalid"}},
		{with(id, typ, pat, ops, `"examples":{"blocks":["x","y"],"passes":["z","x"]}`), []string{"hardBlocks.0.example_blocks_1_passes", "hardBlocks.0.example_passes_1_blocks"}},
		{command("prefix", "git push", `"examples":{"blocks":["git $x"],"passes":["git status","git $x"]}`), []string{"hardBlocks.0.example_blocks_0_asks", "hardBlocks.0.example_passes_1_asks"}},
		{with(id, typ, pat, ops, `"enabled":false`, `"examples":{"blocks":["y"]}`), []string{"hardBlocks.0.example_blocks_0_passes"}},
		{`{"version":1,"hardBlocks":[{` + id + `,` + typ + `,` + pat + `,` + ops + `},{` + id + `,` + typ + `,` + pat + `,` + ops + `}]}`, []string{"hardBlocks.1.id_duplicate"}},
	}
	for _, tt := range tests {
		b, problems := Parse([]byte(tt.doc), testBase)
		var keys []string
		for _, p := range problems {
			keys = append(keys, p.Key())
			if p.Text == "" {
				t.Errorf("%s says nothing", p.Key())
			}
		}
		if diff := cmp.Diff(tt.want, keys); diff != "" {
			t.Errorf("%.300s\n%s", tt.doc, diff)
		}
		if diff := cmp.Diff(Boundaries{}, b); diff != "" {
			t.Errorf("%.300s leaves something behind: %s", tt.doc, diff)
		}
	}
}

func TestHomeUnknown(t *testing.T) {
	doc := []byte(`{"version":1,"hardBlocks":[{"id":"a","type":"path","match":"prefix","pattern":"~/.ssh","operations":["read"]}]}`)
	if _, problems := Parse(doc, Base{Root: "/w"}); len(problems) != 1 || problems[0].Code != "pattern_home_unknown" {
		t.Errorf("%v", problems)
	}
}

func TestTooMany(t *testing.T) {
	var doc bytes.Buffer
	for i := range maxRules + 1 {
		fmt.Fprintf(&doc, ",{\"id\":\"r%d\"}", i)
	}
	_, problems := Parse([]byte(`{"version":1,"hardBlocks":[`+doc.String()[1:]+`]}`), testBase)
	if len(problems) != 1 || problems[0].Key() != "hardBlocks_too_many" {
		t.Errorf("%.200v", problems)
	}
	_, problems = Parse([]byte(`{"version":1,"hardBlocks":[`+strings.Repeat("0,", 5000)+`0]}`), testBase)
	if len(problems) != maxProblems+1 || problems[maxProblems].Key() != "too_many_problems" {
		t.Errorf("%d problems", len(problems))
	}
}

// FuzzParse shows that any bytes are either boundaries that print back the same, or
// problems; and that what is read compiles.
func FuzzParse(f *testing.F) {
	f.Add(testdata(f, "corpus.json"))
	f.Add(`{"version":1,"hardBlocks":[{"id":"a","type":"path","pattern":"{a,b}/**/[c-d]","operations":["read"]}]}`)
	f.Add(`{"version":1,"hardBlocks":[{"id":"a","type":"command","match":"glob","pattern":"a[!b]*","operations":["execute"],"examples":{"blocks":["ac"]}}]}`)
	f.Add(`{"version":1,"hardBlocks":[{"id":"a","id":"b"}]}`)
	f.Fuzz(func(t *testing.T, doc string) {
		b, problems := Parse([]byte(doc), testBase)
		if problems != nil {
			if len(b.HardBlocks) > 0 || b.Version != 0 {
				t.Fatalf("problems and %+v", b)
			}
			return
		}
		again, problems := Parse(b.Encode(), testBase)
		if problems != nil {
			t.Fatalf("%s does not read back: %v", b.Encode(), problems)
		}
		if diff := cmp.Diff(b, again); diff != "" {
			t.Fatal(diff)
		}
		if _, err := Compile(b, testBase); err != nil {
			t.Fatal(err)
		}
	})
}
