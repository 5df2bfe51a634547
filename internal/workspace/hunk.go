package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"sort"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// maxPatched is how many bytes a patch may make, of all its files together, and of each.
const maxPatched = 64 << 20

// maxCompared bounds how many lines of files are held against lines of a patch, in all: about
// half a second. A long line counts for several.
const maxCompared = 1 << 27

var errCompared = errors.New("it takes too long to find where its lines are")

// applied returns what a file holds after its part of a patch. It takes what it compares off
// left.
func applied(source []byte, f *gitdiff.File, left *int) (content []byte, err error) {
	if !f.IsBinary {
		return appliedText(source, f.TextFragments, left)
	}
	defer func() {
		if defect := recover(); defect != nil {
			err = fmt.Errorf("%v", defect)
		}
	}()
	var out bytes.Buffer
	err = gitdiff.Apply(&out, bytes.NewReader(source), f, gitdiff.WithMaxBinaryFragmentBytes(maxPatched/4))
	return notNil(out.Bytes()), err
}

// appliedText applies hunks. Each fits where its lines stand, the nearest place to where it
// says that they do: lines that came or went above it are no conflict. Every line has to be
// there exactly.
func appliedText(source []byte, hunks []*gitdiff.TextFragment, left *int) ([]byte, error) {
	lines := splitLines(source)
	hunks = append([]*gitdiff.TextFragment{}, hunks...)
	sort.SliceStable(hunks, func(i, j int) bool { return hunks[i].OldPosition < hunks[j].OldPosition })
	out := make([]byte, 0, len(source))
	done, shift := 0, 0 // lines that were written, and how far hunks stand from where they say
	for i, h := range hunks {
		old := 0
		for _, l := range h.Lines {
			if l.Old() {
				old++
			}
		}
		says := int(min(max(h.OldPosition, 0), int64(len(lines))+1)) - 1
		if old == 0 {
			says++ // after that line, and not at it
		}
		at := spot(lines, h, old, done, says+shift, left)
		if *left < 0 {
			return nil, errCompared
		}
		if at < 0 {
			return nil, fmt.Errorf("the lines of hunk %d (@@ -%d) are not there", i+1, h.OldPosition)
		}
		shift = at - says
		for _, l := range lines[done:at] {
			out = append(out, l...)
		}
		for _, l := range h.Lines {
			if !l.New() {
				continue
			}
			if n := len(out); n > 0 && out[n-1] != '\n' {
				return nil, fmt.Errorf("hunk %d adds a line behind one that does not end", i+1)
			}
			out = append(out, l.Line...)
		}
		done = at + old
	}
	if n := len(out); n > 0 && out[n-1] != '\n' && done < len(lines) {
		return nil, fmt.Errorf("a line that does not end is not the last")
	}
	for _, l := range lines[done:] {
		out = append(out, l...)
	}
	return out, nil
}

// spot returns the line at which a hunk fits that is the nearest to where it is wanted, not
// before from; -1 for none. It gives up when nothing is left.
func spot(lines [][]byte, h *gitdiff.TextFragment, old, from, wanted int, left *int) int {
	last := len(lines) - old
	wanted = min(max(wanted, from), max(last, from))
	for off := 0; (wanted-off >= from || wanted+off <= last) && *left >= 0; off++ {
		if at := wanted - off; at >= from && at <= last && fitsAt(lines, h, at, left) {
			return at
		}
		if at := wanted + off; off > 0 && at <= last && fitsAt(lines, h, at, left) {
			return at
		}
	}
	return -1
}

func fitsAt(lines [][]byte, h *gitdiff.TextFragment, at int, left *int) bool {
	*left--
	for _, l := range h.Lines {
		if !l.Old() {
			continue
		}
		if *left -= 1 + len(l.Line)/64; *left < 0 {
			return false
		}
		if string(lines[at]) != l.Line {
			return false
		}
		at++
	}
	return true
}

// splitLines cuts a text behind every line end.
func splitLines(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte{'\n'})
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
