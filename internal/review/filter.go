package review

import (
	"encoding/binary"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// A filter says which rules could match a text at all: those of whose literals one stands
// in it. It looks at every four bytes of the text once, whatever the number of rules.
// Capital letters of ASCII count as small ones.
type filter struct {
	bits   []uint64            // which grams there are, roughly
	grams  map[uint32][]needle // by four bytes of the literal
	shorts map[string][]int32  // literals of fewer bytes
	always []int32             // rules without a literal
}

// A needle is a literal that one rule needs.
type needle struct {
	text string
	at   int // of the gram in it
	rule int32
}

const (
	gramSize = 4
	bitCount = 1 << 16
)

// A need is a rule and literals of which one must stand in every text that it matches.
type need struct {
	rule int32
	any  []string
}

// newFilter returns the filter of rules. Each literal is found by the four bytes of it that
// the fewest literals hold.
func newFilter(needs []need) filter {
	f := filter{grams: map[uint32][]needle{}, shorts: map[string][]int32{}}
	times := map[uint32]int{}
	for _, n := range needs {
		for _, text := range n.any {
			for i := 0; i+gramSize <= len(text); i++ {
				times[gram(text, i)]++
			}
		}
	}
	for _, n := range needs {
		if len(n.any) == 0 {
			f.always = append(f.always, n.rule)
		}
		for _, text := range n.any {
			if len(text) < gramSize {
				f.shorts[text] = append(f.shorts[text], n.rule)
				continue
			}
			at := 0
			for i := 1; i+gramSize <= len(text); i++ {
				if times[gram(text, i)] < times[gram(text, at)] {
					at = i
				}
			}
			f.add(needle{text, at, n.rule})
		}
	}
	return f
}

func gram(s string, at int) uint32 { return binary.LittleEndian.Uint32([]byte(s[at : at+gramSize])) }

func (f *filter) add(n needle) {
	if f.bits == nil {
		f.bits = make([]uint64, bitCount/64)
	}
	g := gram(n.text, n.at)
	f.grams[g] = append(f.grams[g], n)
	h := hash(g)
	f.bits[h/64] |= 1 << (h % 64)
}

func hash(g uint32) uint32 { return g * 0x9e3779b1 >> 16 % bitCount }

// candidates adds the rules that could match text to found, each once.
func (f *filter) candidates(text string, found *ruleSet) {
	for _, rule := range f.always {
		found.add(rule)
	}
	if len(f.shorts) == 0 && len(f.grams) == 0 {
		return
	}
	text = lower(text)
	for short, rules := range f.shorts {
		if strings.Contains(text, short) {
			for _, rule := range rules {
				found.add(rule)
			}
		}
	}
	if len(f.grams) == 0 || len(text) < gramSize {
		return
	}
	g := uint32(text[0])<<8 | uint32(text[1])<<16 | uint32(text[2])<<24
	for i := gramSize - 1; i < len(text); i++ {
		g = g>>8 | uint32(text[i])<<24
		if h := hash(g); f.bits[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		for _, n := range f.grams[g] {
			from := i - (gramSize - 1) - n.at
			if from >= 0 && strings.HasPrefix(text[from:], n.text) {
				found.add(n.rule)
			}
		}
	}
}

// lower returns s with the capital letters of ASCII made small; every byte keeps its place.
func lower(s string) string {
	for i := 0; i < len(s); i++ {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] |= 0x20
				}
			}
			return string(b)
		}
	}
	return s
}

// A ruleSet holds rules, in the order in which they were added first.
type ruleSet struct {
	in   []uint64
	list []int32
}

func (s *ruleSet) add(rule int32) {
	for int(rule)/64 >= len(s.in) {
		s.in = append(s.in, 0)
	}
	if s.in[rule/64]&(1<<(rule%64)) == 0 {
		s.in[rule/64] |= 1 << (rule % 64)
		s.list = append(s.list, rule)
	}
}

func (s *ruleSet) reset() {
	for _, rule := range s.list {
		s.in[rule/64] &^= 1 << (rule % 64)
	}
	s.list = s.list[:0]
}

// maxAlternatives is how many literals one rule may need one of.
const maxAlternatives = 16

// required returns literals, in small letters, of which one stands in every text that a
// regular expression matches; none when that cannot be told.
func required(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return literalOf(re)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min >= 1 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if lits := required(sub); shortest(lits) > shortest(best) {
				best = lits
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			lits := required(sub)
			if len(lits) == 0 || len(all)+len(lits) > maxAlternatives {
				return nil
			}
			all = append(all, lits...)
		}
		return all
	case syntax.OpNoMatch, syntax.OpEmptyMatch, syntax.OpCharClass, syntax.OpAnyCharNotNL, syntax.OpAnyChar,
		syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary,
		syntax.OpNoWordBoundary, syntax.OpStar, syntax.OpQuest:
	}
	return nil
}

// literalOf returns the literal, or the longest run of it that has only one spelling.
func literalOf(re *syntax.Regexp) []string {
	text := string(re.Rune)
	if re.Flags&syntax.FoldCase != 0 {
		// In Unicode, k and s fold to the Kelvin sign and the long s as well.
		best := ""
		for _, run := range strings.FieldsFunc(text, func(r rune) bool { return r >= 0x80 || strings.ContainsRune("kKsS", r) }) {
			if len(run) > len(best) {
				best = run
			}
		}
		text = best
	}
	if text == "" || strings.ContainsRune(text, utf8.RuneError) { // which matches bytes that are not UTF-8
		return nil
	}
	return []string{lower(text)}
}

func shortest(lits []string) int {
	if len(lits) == 0 {
		return 0
	}
	least := len(lits[0])
	for _, l := range lits {
		least = min(least, len(l))
	}
	return least
}

// regexNeeds returns the literals of the text of a regular expression.
func regexNeeds(pattern string) []string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	return required(re.Simplify())
}
