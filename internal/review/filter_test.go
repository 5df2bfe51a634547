package review

import (
	"fmt"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRequired(t *testing.T) {
	type sets = [][]string
	for pattern, want := range map[string]sets{
		`abc`:             {{"abc"}},
		`ABC`:             {{"abc"}},
		`^git\s+push.*-f`: {{"push"}, {"git"}, {"-f"}},
		`a+bcd?`:          {{"bc"}, {"a"}},
		`(abc){0,2}`:      nil,
		`(abc){1,2}`:      {{"abc"}},
		`(abc)*x`:         {{"x"}},
		`abc|de`:          {{"abc", "de"}},
		`abc|d*`:          nil,
		`(?i)task`:        {{"ta"}},
		`(?i)ks`:          nil,
		`\x{fffd}`:        nil,
		`[ab]`:            nil,
		`\.(key|pem)$`:    {{"key", "pem"}, {"."}},
		`(?:)`:            nil,
		`é(?i)É`:          {{"é"}},
	} {
		if diff := cmp.Diff(want, regexNeeds(pattern), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", pattern, diff)
		}
	}
}

// TestManyGlobs shows that globs which are found by a literal in them are found without
// the slashes round it, which ** may stand for nothing between.
func TestManyGlobs(t *testing.T) {
	b := NoRules()
	for i := range 4 * maxSameDir {
		b.HardBlocks = append(b.HardBlocks, HardBlock{ID: fmt.Sprintf("r%d", i), Enabled: true, Type: PathRule, Match: Glob,
			Pattern: fmt.Sprintf("**/part%d/**", i), Operations: []bourn.Operation{bourn.Read}})
	}
	c, err := Compile(b, testBase)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bourn.Outcome{
		"part7": bourn.Deny, "x/part7": bourn.Deny, "x/part7/y": bourn.Deny, "x/PART7": bourn.Allow, "part": bourn.Allow, "xpart7": bourn.Allow,
	} {
		if got := Judge(on(bourn.Read, path, ""), c).Outcome; got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}
