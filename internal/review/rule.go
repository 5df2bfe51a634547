package review

import (
	"path"
	"regexp"
	"strings"

	"bourn"

	"github.com/bmatcuk/doublestar/v4"
	"mvdan.cc/sh/v3/syntax"
)

// A rule is a hard block made ready to be matched.
type rule struct {
	HardBlock
	ops    opSet
	form   string         // the pattern as it is compared; of a path rule absolute
	dir    string         // of a glob for paths: what every path it matches is at or below
	words  []word         // of an exact or prefix rule for commands: the pattern's words
	fields []string       // and the pattern, cut at blanks
	re     *regexp.Regexp // of a regex rule, and of a glob for commands
	lits   [][]string     // sets of literals: of each, one stands in every text that the rule matches
	needs  options        // of a prefix rule for commands
}

// An opSet is a set of operations.
type opSet uint8

func opBit(o bourn.Operation) opSet {
	switch o {
	case bourn.Read:
		return 1
	case bourn.Write:
		return 2
	case bourn.Delete:
		return 4
	case bourn.Execute:
		return 8
	case bourn.Delegate:
		return 16
	}
	return 0
}

// checkPattern returns what is wrong with the pattern of a rule, or nil.
func checkPattern(h HardBlock, base Base) *Problem {
	_, problem := newRule(h, base, syntax.NewParser())
	return problem
}

// newRule makes a rule ready.
func newRule(h HardBlock, base Base, p *syntax.Parser) (rule, *Problem) {
	r := rule{HardBlock: h}
	for _, o := range h.Operations {
		r.ops |= opBit(o)
	}
	if strings.TrimSpace(h.Pattern) == "" {
		return r, problemf("", "pattern_empty", "the pattern is empty")
	}
	if h.Type == CommandRule {
		return r, r.command(p, base)
	}
	return r, r.path(base)
}

// compileRegex compiles a regular expression, and says what it needs.
func (r *rule) compileRegex(pattern string) *Problem {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return problemf("", "pattern_regex_invalid", "the pattern is not a regular expression (RE2): %v", err)
	}
	r.re, r.lits = re, regexNeeds(pattern)
	return nil
}

func (r *rule) path(base Base) *Problem {
	if !path.IsAbs(base.Root) {
		return problemf("", "base_invalid", "the base root %q is not absolute", base.Root)
	}
	pattern := r.Pattern
	switch r.Match {
	case Regex:
		if base.FoldCase {
			pattern = "(?i)" + pattern
		}
		return r.compileRegex(pattern)
	case Contains:
		r.form = fold(pattern, base)
		r.lits = [][]string{{lower(r.form)}}
		return nil
	case Exact, Prefix:
		if rest, home := strings.CutPrefix(pattern, "~"); home && (rest == "" || rest[0] == '/') {
			if base.Home == "" {
				return problemf("", "pattern_home_unknown", "nobody's home is known here, so write the path out instead of ~")
			}
			pattern = base.Home + rest
		}
		r.form = fold(absolute(pattern, base.Root), base)
		return nil
	case Glob:
		return r.pathGlob(base)
	}
	return problemf("", "match_invalid", "the match %q is not known", r.Match)
}

func (r *rule) pathGlob(base Base) *Problem {
	pattern := r.Pattern
	if !doublestar.ValidatePattern(pattern) {
		return problemf("", "pattern_glob_invalid", "the pattern is not a glob: a bracket or brace is not closed, or a backslash ends it")
	}
	if rest, home := strings.CutPrefix(pattern, "~/"); home {
		if base.Home == "" {
			return problemf("", "pattern_home_unknown", "nobody's home is known here, so write the path out instead of ~")
		}
		pattern = escapeGlob(base.Home) + "/" + rest
	}
	for _, part := range strings.FieldsFunc(pattern, func(c rune) bool { return strings.ContainsRune("/{},", c) }) {
		if part == ".." {
			return problemf("", "pattern_glob_dotdot", "a glob cannot hold the component ..; write the path out")
		}
	}
	if alternatives(pattern) > maxGlobAlternatives {
		return problemf("", "pattern_glob_too_many", "the braces of the glob stand for more than %d patterns", maxGlobAlternatives)
	}
	if !path.IsAbs(pattern) {
		pattern = escapeGlob(path.Clean(base.Root)) + "/" + pattern
	}
	for strings.Contains(pattern, "/./") || strings.Contains(pattern, "//") {
		pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, "/./", "/"), "//", "/")
	}
	if len(pattern) > 1 {
		pattern = strings.TrimSuffix(strings.TrimSuffix(pattern, "/."), "/")
	}
	r.form = fold(pattern, base)
	if !doublestar.ValidatePattern(r.form) {
		return problemf("", "pattern_glob_invalid", "the pattern is not a glob when it is made absolute: %q", r.form)
	}
	start, runs := globRuns(r.form)
	r.dir = path.Dir(start + "x")
	for _, run := range runs {
		if run = strings.Trim(run, "/"); run != "" && len(r.lits) < maxSets {
			r.lits = append(r.lits, []string{lower(run)})
		}
	}
	return nil
}

// maxGlobAlternatives bounds the work of matching a glob.
const maxGlobAlternatives = 256

// alternatives returns how many patterns without braces a glob stands for, at most one more
// than the limit.
func alternatives(glob string) int {
	type level struct{ sum, product int }
	levels := []level{{0, 1}}
	for i := 0; i < len(glob); i++ {
		top := &levels[len(levels)-1]
		switch glob[i] {
		case '\\':
			i++
		case '{':
			levels = append(levels, level{0, 1})
		case ',':
			top.sum, top.product = top.sum+top.product, 1
		case '}':
			if len(levels) == 1 {
				continue
			}
			sum := top.sum + top.product
			levels = levels[:len(levels)-1]
			top = &levels[len(levels)-1]
			top.product = min(top.product*sum, maxGlobAlternatives+1)
		}
	}
	return levels[0].product
}

// globRuns returns the literal text that a glob begins with, and every run of literal text
// behind it that stands outside braces and classes.
func globRuns(glob string) (start string, runs []string) {
	var run strings.Builder
	first := true
	end := func() {
		if first {
			start, first = run.String(), false
		} else {
			runs = append(runs, run.String())
		}
		run.Reset()
	}
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '\\':
			if i++; i < len(glob) {
				run.WriteByte(glob[i])
			}
		case '*', '?':
			end()
		case '[', '{':
			end()
			i = skipGroup(glob, i)
		default:
			run.WriteByte(c)
		}
	}
	end()
	return start, runs
}

// skipGroup returns where the class or the braces that begin at i end.
func skipGroup(glob string, i int) int {
	depth := 0
	class := glob[i] == '['
	for ; i < len(glob); i++ {
		switch {
		case glob[i] == '\\':
			i++
		case class && glob[i] == ']':
			return i
		case !class && glob[i] == '{':
			depth++
		case !class && glob[i] == '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return i
}

func escapeGlob(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(`*?[]{}\`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// absolute returns a path made absolute against root and cleaned, by its text alone.
func absolute(p, root string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(root, p)
}

// fold returns s as the file system compares it.
func fold(s string, base Base) string {
	if !base.FoldCase {
		return s
	}
	return strings.ToLower(strings.ToUpper(s))
}

func (r *rule) command(p *syntax.Parser, base Base) *Problem {
	switch r.Match {
	case Regex:
		return r.compileRegex(r.Pattern)
	case Glob:
		return r.compileRegex(globRegexp(r.Pattern))
	case Contains:
		r.form = r.Pattern
		r.lits = [][]string{{lower(r.form)}}
		return nil
	case Exact, Prefix:
		r.form = strings.TrimSpace(r.Pattern)
		r.fields = strings.Fields(r.Pattern)
		r.words = patternWords(p, r.Pattern, base.FoldCase)
		if strings.HasPrefix(r.words[0].text, "-") {
			return problemf("", "pattern_no_program", "the pattern begins with the option %q; it must begin with a program, or match by contains or regex", r.words[0].text)
		}
		_, r.needs = operands(r.words)
		return nil
	}
	return problemf("", "match_invalid", "the match %q is not known", r.Match)
}

// patternWords returns the words of a pattern: those of the simple command that it is, or
// else what stands between its blanks.
func patternWords(p *syntax.Parser, pattern string, fold bool) []word {
	r := &reading{parser: p, bytes: maxReading, fold: fold}
	ws := literals(strings.Fields(pattern))
	if nesting(pattern) > maxNesting {
		return ws
	}
	if file, err := r.parse(pattern, syntax.LangBash); err == nil && len(file.Stmts) == 1 && len(file.Stmts[0].Redirs) == 0 {
		if c := callOf(file.Stmts[0]); c != nil && len(c.Args) > 0 {
			if parsed, tooMany := words(c.Args, nil); len(parsed) > 0 && !tooMany {
				ws = parsed
			}
		}
	}
	f, _ := r.form(ws, "")
	return f.words
}
