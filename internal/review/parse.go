package review

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bourn"
)

// A Problem is one thing that is wrong with a document.
type Problem struct {
	Path string // of what is wrong: "hardBlocks.3", or "" for the document
	Code string // what is wrong with it, one word for programs: "pattern_regex_invalid"
	Text string // the same for people, with what would mend it
}

// Key returns path and code as one: "hardBlocks.3.pattern_regex_invalid".
func (p Problem) Key() string {
	if p.Path == "" {
		return p.Code
	}
	return p.Path + "." + p.Code
}

func (p Problem) String() string { return p.Key() + ": " + p.Text }

func problemf(path, code, format string, args ...any) *Problem {
	return &Problem{path, code, fmt.Sprintf(format, args...)}
}

// Parse reads a document and returns either boundaries or, all at once, everything that
// is wrong with it; never both. base is what the examples of path rules are relative to.
//
//	{"version": 1, "hardBlocks": [{
//	  "id": "no-force-push",              a-z 0-9 . _ -, beginning with a letter or digit
//	  "enabled": true,                    left out: true
//	  "type": "command",                  path, command
//	  "pattern": "git push --force",
//	  "match": "prefix",                  exact, prefix, glob, regex, contains;
//	                                      left out: glob for paths, regex for commands
//	  "operations": ["execute"],          read, write, delete, execute, delegate
//	  "reason": "…",                      may be left out
//	  "examples": {"blocks": ["…"], "passes": ["…"]}      may be left out
//	}]}
//
// Keys are exact: one that is unknown, differently cased or there twice is a problem, and
// so is whatever follows the document.
func Parse(data []byte, base Base) (Boundaries, []Problem) {
	root, problem := decode(data)
	if problem != nil {
		return Boundaries{}, []Problem{*problem}
	}
	p := &parser{base: base}
	b := p.document(root)
	if len(p.problems) == 0 {
		p.examples(b)
	}
	if len(p.problems) > 0 {
		return Boundaries{}, p.problems
	}
	return b, nil
}

type parser struct {
	base     Base
	problems []Problem
}

func (p *parser) add(path, code, format string, args ...any) {
	if len(p.problems) == maxProblems {
		p.problems = append(p.problems, *problemf("", "too_many_problems", "there are more than these %d", maxProblems))
	}
	if len(p.problems) > maxProblems {
		return
	}
	p.problems = append(p.problems, *problemf(path, code, format, args...))
}

// fields returns the members of an object by key, each key once and known.
func (p *parser) fields(n node, path string, known ...string) map[string]node {
	if n.kind != jsonObject {
		p.add(path, "type_invalid", "this is not an object but a value of type %s", n.kind)
		return nil
	}
	all := map[string]node{}
	for i, key := range n.keys {
		_, twice := all[key]
		near := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, key) })
		switch {
		case slices.Contains(known, key) && twice:
			p.add(path, key+"_duplicate", "the key %q stands here twice", key)
		case slices.Contains(known, key):
			all[key] = n.members[i]
		case near >= 0:
			p.add(path, "key_unknown", "the key %q is not known; it is spelled %q", key, known[near])
		default:
			p.add(path, "key_unknown", "the key %q is not known; there are %s", key, strings.Join(known, ", "))
		}
	}
	return all
}

// text returns a string, and whether it is there and one.
func (p *parser) text(fields map[string]node, path, key string, required bool) (string, bool) {
	n, there := fields[key]
	switch {
	case !there && required && fields != nil:
		p.add(path, key+"_missing", "the key %q is missing", key)
		return "", false
	case !there:
		return "", false
	}
	return p.string(n, path, key)
}

// string returns a string of an allowed length.
func (p *parser) string(n node, path, key string) (string, bool) {
	switch {
	case n.kind != jsonString:
		p.add(path, key+"_type_invalid", "%s is not a string but of type %s", key, n.kind)
	case len(n.text) > maxPattern:
		p.add(path, key+"_too_long", "%s has %d bytes; at most %d are allowed", key, len(n.text), maxPattern)
	case strings.ContainsRune(n.text, 0):
		p.add(path, key+"_invalid", "%s holds a NUL, which no path and no command can hold", key)
	default:
		return n.text, true
	}
	return "", false
}

func (p *parser) list(n node, path, key string) ([]node, bool) {
	if n.kind != jsonArray {
		p.add(path, key+"_type_invalid", "%s is not a list but of type %s", key, n.kind)
		return nil, false
	}
	return n.members, true
}

func (p *parser) document(n node) Boundaries {
	fields := p.fields(n, "", "version", "hardBlocks")
	if fields == nil {
		return Boundaries{}
	}
	if v, there := fields["version"]; !there {
		p.add("", "version_missing", `the key "version" is missing; it is 1`)
	} else if v.kind != jsonNumber || v.text != strconv.Itoa(version) {
		p.add("", "version_unsupported", "the version is not the number 1, the only one that is known")
	}
	b := NoRules()
	list, there := fields["hardBlocks"]
	if !there {
		p.add("", "hardBlocks_missing", `the key "hardBlocks" is missing; without rules it is []`)
		return b
	}
	rules, ok := p.list(list, "", "hardBlocks")
	if !ok {
		return b
	}
	if len(rules) > maxRules {
		p.add("", "hardBlocks_too_many", "there are %d rules; at most %d are allowed", len(rules), maxRules)
		return b
	}
	seen := map[string]int{}
	for i, n := range rules {
		path := "hardBlocks." + strconv.Itoa(i)
		rule := p.rule(n, path)
		if first, twice := seen[rule.ID]; twice && rule.ID != "" {
			p.add(path, "id_duplicate", "the id %q is that of rule %d too", rule.ID, first)
		} else {
			seen[rule.ID] = i
		}
		b.HardBlocks = append(b.HardBlocks, rule)
	}
	return b
}

func (p *parser) rule(n node, path string) HardBlock {
	f := p.fields(n, path, "id", "enabled", "type", "pattern", "match", "operations", "reason", "examples")
	if f == nil {
		return HardBlock{}
	}
	r := HardBlock{Enabled: true}
	id, ok := p.text(f, path, "id", true)
	if ok && !validID(id) {
		p.add(path, "id_invalid", "the id %q must have 1 to %d characters of a-z, 0-9, '.', '_' and '-', beginning with a letter or a digit", bourn.Printable(id), maxRuleID)
	} else {
		r.ID = id
	}
	if e, there := f["enabled"]; there {
		if e.kind != jsonBool {
			p.add(path, "enabled_type_invalid", "enabled is neither true nor false but of type %s", e.kind)
		}
		r.Enabled = e.text == "true"
	}
	r.Reason, _ = p.text(f, path, "reason", false)
	r.Operations = p.operations(f, path)
	r.Blocks, r.Passes = p.exampleLists(f, path)
	known := p.kind(f, path, &r)
	pattern, ok := p.text(f, path, "pattern", true)
	r.Pattern = pattern
	if ok && known {
		p.pattern(r, path)
	}
	if r.Type == CommandRule && len(r.Operations) > 0 && !slices.Contains(r.Operations, bourn.Execute) {
		p.add(path, "operations_never_match", "a command is executed, so a command rule without the operation execute would never match")
	}
	return r
}

// kind reads type and match, and reports whether both are known.
func (p *parser) kind(f map[string]node, path string, r *HardBlock) bool {
	t, okType := p.text(f, path, "type", true)
	switch r.Type = RuleType(t); r.Type {
	case PathRule:
		r.Match = Glob
	case CommandRule:
		r.Match = Regex
	default:
		if okType {
			p.add(path, "type_invalid", "the type %q is not known; use path or command", bourn.Printable(t))
		}
		okType = false
	}
	if _, there := f["match"]; !there {
		return okType
	}
	m, okMatch := p.text(f, path, "match", false)
	r.Match = Match(m)
	if okMatch && !slices.Contains([]Match{Exact, Prefix, Glob, Regex, Contains}, r.Match) {
		p.add(path, "match_invalid", "the match %q is not known; use exact, prefix, glob, regex or contains", bourn.Printable(m))
		okMatch = false
	}
	return okType && okMatch
}

// operations returns the operations of a rule in the order of the vocabulary.
func (p *parser) operations(f map[string]node, path string) []bourn.Operation {
	n, there := f["operations"]
	if !there {
		p.add(path, "operations_missing", "the key %q is missing; it lists what is refused: read, write, delete, execute, delegate", "operations")
		return nil
	}
	list, ok := p.list(n, path, "operations")
	if !ok {
		return nil
	}
	if len(list) == 0 {
		p.add(path, "operations_empty", "the rule has no operation, so it would never match")
	}
	seen := map[bourn.Operation]bool{}
	for _, n := range list {
		text, ok := p.string(n, path, "operations")
		if !ok {
			continue
		}
		o, err := bourn.ParseOperation(text)
		switch {
		case err != nil:
			p.add(path, "operations_invalid", "the operation %q is not known; use read, write, delete, execute, delegate", bourn.Printable(text))
		case seen[o]:
			p.add(path, "operations_duplicate", "the operation %q stands here twice", o)
		default:
			seen[o] = true
		}
	}
	var all []bourn.Operation
	for _, o := range bourn.Operations() {
		if seen[o] {
			all = append(all, o)
		}
	}
	return all
}

func (p *parser) exampleLists(f map[string]node, path string) (blocks, passes []string) {
	n, there := f["examples"]
	if !there {
		return nil, nil
	}
	lists := p.fields(n, path+".examples", "blocks", "passes")
	return p.exampleList(lists, path+".examples", "blocks"), p.exampleList(lists, path+".examples", "passes")
}

func (p *parser) exampleList(lists map[string]node, path, key string) []string {
	n, there := lists[key]
	if !there {
		return nil
	}
	list, ok := p.list(n, path, key)
	if !ok {
		return nil
	}
	if len(list) > maxExamples {
		p.add(path, key+"_too_many", "there are %d examples; at most %d are allowed", len(list), maxExamples)
		return nil
	}
	var all []string
	for _, n := range list {
		if text, ok := p.string(n, path, key); ok {
			all = append(all, text)
		}
	}
	return all
}

func validID(id string) bool {
	if id == "" || len(id) > maxRuleID {
		return false
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || i > 0 && (c == '.' || c == '_' || c == '-') {
			continue
		}
		return false
	}
	return true
}

// pattern reports what is wrong with the pattern of a rule.
func (p *parser) pattern(r HardBlock, path string) {
	if problem := checkPattern(r, p.base); problem != nil {
		problem.Path = path
		p.add(path, problem.Code, "%s", problem.Text)
	}
}

// examples holds every rule against its examples, alone and as if it were enabled.
func (p *parser) examples(b Boundaries) {
	for i, r := range b.HardBlocks {
		if len(r.Blocks)+len(r.Passes) == 0 {
			continue
		}
		path := "hardBlocks." + strconv.Itoa(i)
		r.Enabled = true
		alone, err := Compile(Boundaries{Version: version, HardBlocks: []HardBlock{r}}, p.base)
		if err != nil {
			p.add(path, "pattern_invalid", "%v", err)
			continue
		}
		for j, example := range r.Blocks {
			if got := alone.example(r, example); got != bourn.Deny {
				p.add(path, fmt.Sprintf("example_blocks_%d_%s", j, passesOrAsks(got)), "the rule does not match %q, which its examples say it blocks", bourn.Printable(example))
			}
		}
		for j, example := range r.Passes {
			if got := alone.example(r, example); got != bourn.Allow {
				p.add(path, fmt.Sprintf("example_passes_%d_%s", j, passesOrAsks(got)), "the rule does not let %q pass, which its examples say it does", bourn.Printable(example))
			}
		}
	}
}

func passesOrAsks(o bourn.Outcome) string {
	switch o {
	case bourn.Allow:
		return "passes"
	case bourn.Ask:
		return "asks"
	case bourn.Deny:
	}
	return "blocks"
}

// example judges one example by a rule that stands alone.
func (c *Compiled) example(r HardBlock, text string) bourn.Outcome {
	if r.Type == CommandRule {
		return Judge(bourn.Action{Command: &bourn.Command{Text: text}}, c).Outcome
	}
	return Judge(bourn.Action{Targets: []bourn.Target{{Operation: r.Operations[0], Path: text}}}, c).Outcome
}
