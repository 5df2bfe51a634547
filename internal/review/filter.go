package review

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
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

// A need is a rule with sets of literals: of each set, one literal stands in every text
// that the rule matches. One set is enough to find the rule by.
type need struct {
	rule int32
	sets [][]string
}

// A census counts in how many literals each gram is, and how often a short literal is needed.
type census struct {
	grams  map[uint32]int
	shorts map[string]int
}

func count(needs []need) census {
	c := census{map[uint32]int{}, map[string]int{}}
	for _, n := range needs {
		for _, set := range n.sets {
			for _, text := range set {
				if len(text) < gramSize {
					c.shorts[text]++
				}
				for i := 0; i+gramSize <= len(text); i++ {
					c.grams[gram(text, i)]++
				}
			}
		}
	}
	return c
}

// rarest returns where in a literal the four bytes are that the fewest literals have, and
// how many have them.
func (c census) rarest(text string) (at, times int) {
	times = c.grams[gram(text, 0)]
	for i := 1; i+gramSize <= len(text); i++ {
		if t := c.grams[gram(text, i)]; t < times {
			at, times = i, t
		}
	}
	return at, times
}

// common says how often a set finds its rule in vain, roughly: a text that holds one
// literal of it is taken to be as likely as there are rules that need the same.
func (c census) common(set []string) int {
	most := 0
	for _, text := range set {
		if len(text) < gramSize {
			most = max(most, c.shorts[text]<<(8*(gramSize-len(text))))
			continue
		}
		_, times := c.rarest(text)
		most = max(most, times)
	}
	return most
}

// newFilter returns the filter of rules. Each is found by the set of literals that is the
// rarest, and each literal by the rarest four bytes of it.
func newFilter(needs []need) filter {
	f := filter{grams: map[uint32][]needle{}, shorts: map[string][]int32{}}
	c := count(needs)
	for _, n := range needs {
		if len(n.sets) == 0 {
			f.always = append(f.always, n.rule)
			continue
		}
		best, least := n.sets[0], c.common(n.sets[0])
		for _, set := range n.sets[1:] {
			if common := c.common(set); common < least {
				best, least = set, common
			}
		}
		for _, text := range best {
			if len(text) < gramSize {
				f.shorts[text] = append(f.shorts[text], n.rule)
				continue
			}
			at, _ := c.rarest(text)
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

// Limits of what is kept of one rule's literals.
const (
	maxAlternatives = 16 // literals of one set
	maxSets         = 8
)

// required returns sets of literals, in small letters: of each, one stands in every text
// that a regular expression matches. There may be none.
func required(re *syntax.Regexp) [][]string {
	switch re.Op {
	case syntax.OpLiteral:
		if text := literalOf(re); text != "" {
			return [][]string{{text}}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min >= 1 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var all [][]string
		for _, sub := range re.Sub {
			all = append(all, required(sub)...)
		}
		slices.SortStableFunc(all, func(a, b []string) int { return shortest(b) - shortest(a) })
		return all[:min(len(all), maxSets)]
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			sets := required(sub)
			if len(sets) == 0 || len(all)+len(sets[0]) > maxAlternatives {
				return nil
			}
			all = append(all, sets[0]...)
		}
		return [][]string{all}
	case syntax.OpNoMatch, syntax.OpEmptyMatch, syntax.OpCharClass, syntax.OpAnyCharNotNL, syntax.OpAnyChar,
		syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary,
		syntax.OpNoWordBoundary, syntax.OpStar, syntax.OpQuest:
	}
	return nil
}

// literalOf returns the literal, or the longest run of it that has only one spelling; "" for none.
func literalOf(re *syntax.Regexp) string {
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
	if strings.ContainsRune(text, utf8.RuneError) { // which matches bytes that are not UTF-8
		return ""
	}
	return lower(text)
}

func shortest(set []string) int {
	least := len(set[0])
	for _, text := range set {
		least = min(least, len(text))
	}
	return least
}

// regexNeeds returns the literals of the text of a regular expression.
func regexNeeds(pattern string) [][]string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	return required(re.Simplify())
}
