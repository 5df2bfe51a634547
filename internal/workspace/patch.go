package workspace

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"bourn"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Limits of one patch, beside its length: how many files it may change, and how many lines it
// may have, each of which takes some hundred bytes to be read.
const (
	maxPatchFiles = 1000
	maxPatchLines = 500_000
)

// reading bounds how many patches a process reads at once: the rest waits.
var reading = make(chan struct{}, 2)

// A patchFile is one file of a patch: what is read, what is written, what goes.
type patchFile struct {
	diff     *gitdiff.File
	from, to string // "" where there is none
}

// invalidPatch says why a text is no patch that is applied.
func invalidPatch(format string, args ...any) error {
	return &Problem{Code: bourn.CodeInvalid, Reason: "patch_invalid", Text: fmt.Sprintf(format, args...), Hint: "a unified diff, as git diff writes it"}
}

// parsePatch reads a unified diff, with git's extended headers or without. Both sides of a
// call read the same bytes by it, so that what is reviewed is what is applied. What stands
// before the first file is no part of it.
func parsePatch(text []byte) ([]patchFile, error) {
	if len(text) > maxPatch {
		return nil, invalidPatch("the patch has %d bytes; up to %d are applied", len(text), maxPatch)
	}
	if n := bytes.Count(text, []byte{'\n'}); n > maxPatchLines {
		return nil, invalidPatch("the patch has %d lines; up to %d are applied", n, maxPatchLines)
	}
	reading <- struct{}{}
	defer func() { <-reading }()
	sections := sectionsOf(text)
	if len(sections) == 0 {
		return nil, invalidPatch("the patch names no file")
	}
	if len(sections) > maxPatchFiles {
		return nil, invalidPatch("the patch names %d files; up to %d are changed at once", len(sections), maxPatchFiles)
	}
	var all []patchFile
	touched := map[string]bool{}
	for _, s := range sections {
		p, err := s.parse()
		if err != nil {
			return nil, err
		}
		for _, at := range p.touches() {
			if touched[at] {
				return nil, invalidPatch("the patch changes %q twice", at)
			}
			touched[at] = true
		}
		all = append(all, p)
	}
	return all, nil
}

// touches are the paths that are different afterwards, each once.
func (p patchFile) touches() []string {
	var all []string
	if p.to != "" {
		all = append(all, p.to)
	}
	if at := p.goes(); at != "" && at != p.to {
		all = append(all, at)
	}
	return all
}

// goes is the path that is no longer there afterwards.
func (p patchFile) goes() string {
	if p.diff.IsDelete || p.diff.IsRename && p.from != p.to {
		return p.from
	}
	return ""
}

// A section is the part of a patch that is about one file.
type section struct {
	line int // where it begins, from 1
	git  bool
	text []byte
}

// sectionsOf cuts a patch where a file begins. Lines of content, which may look like
// anything, are passed over by the counts of their header. Header lines that end in two
// bytes end in one afterwards: a path has no carriage return because its patch was mailed.
func sectionsOf(text []byte) []section {
	var all []section
	lines := bytes.SplitAfter(text, []byte{'\n'})
	header := false // of git's: --- and +++ belong to it
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		switch {
		case bytes.HasPrefix(l, []byte("diff --git ")):
			all, header = append(all, section{line: i + 1, git: true}), true
		case !header && plainHeader(lines[i:]):
			all = append(all, section{line: i + 1})
			all[len(all)-1].add(unixEnd(l), unixEnd(lines[i+1]))
			i++
			continue
		case bytes.HasPrefix(l, []byte("@@ -")):
			n := hunkLines(lines[i:])
			if len(all) > 0 {
				all[len(all)-1].add(unixEnd(l))
				all[len(all)-1].add(lines[i+1 : i+n]...)
			} else {
				// A part without a file is no patch; the parser says so.
				all = append(all, section{line: i + 1, text: bytes.Join(lines[i:i+n], nil)})
			}
			header, i = false, i+n-1
			continue
		case bytes.HasPrefix(l, []byte("GIT binary patch")):
			header = false
		}
		if len(all) > 0 {
			all[len(all)-1].add(unixEnd(l))
		}
	}
	return all
}

func (s *section) add(lines ...[]byte) {
	for _, l := range lines {
		s.text = append(s.text, l...)
	}
}

func unixEnd(l []byte) []byte {
	if bytes.HasSuffix(l, []byte("\r\n")) {
		return append(l[:len(l)-2:len(l)-2], '\n')
	}
	return l
}

func plainHeader(lines [][]byte) bool {
	return len(lines) > 2 && bytes.HasPrefix(lines[0], []byte("--- ")) && bytes.HasPrefix(lines[1], []byte("+++ ")) && bytes.HasPrefix(lines[2], []byte("@@ -"))
}

// hunkLines is how many lines a hunk has, its header and the mark of a missing line end
// included. Where the counts are wrong the parser says so.
func hunkLines(lines [][]byte) int {
	var old, now int64
	head, _, ok := strings.Cut(strings.TrimPrefix(string(lines[0]), "@@ -"), " @@")
	if from, to, ok2 := strings.Cut(head, " +"); ok && ok2 {
		old, now = rangeLines(from), rangeLines(to)
	}
	n := 1
	for ; n < len(lines) && (old > 0 || now > 0) && len(lines[n]) > 0; n++ {
		switch lines[n][0] {
		case ' ', '\n', '\r':
			old, now = old-1, now-1
		case '-':
			old--
		case '+':
			now--
		case '\\':
		default:
			return n
		}
	}
	if n < len(lines) && bytes.HasPrefix(lines[n], []byte(`\ `)) {
		n++
	}
	return n
}

func rangeLines(s string) int64 {
	_, count, ok := strings.Cut(s, ",")
	if !ok {
		return 1
	}
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// parse reads a section, which is to be exactly one file.
func (s section) parse() (p patchFile, err error) {
	defer func() {
		if defect := recover(); defect != nil {
			err = invalidPatch("line %d: the patch cannot be read: %v", s.line, defect)
		}
	}()
	files, _, err := gitdiff.Parse(bytes.NewReader(s.text))
	if err != nil {
		return p, invalidPatch("the file that begins in line %d cannot be read: %v", s.line, err)
	}
	if len(files) != 1 {
		return p, invalidPatch("what begins in line %d is not one file", s.line)
	}
	return s.file(files[0])
}

func (s section) file(f *gitdiff.File) (patchFile, error) {
	p := patchFile{diff: f, from: f.OldName, to: f.NewName}
	if f.IsNew {
		p.from = ""
	}
	if f.IsDelete {
		p.to = ""
	}
	if !s.git && s.prefixed() {
		p.from, p.to = cutPrefix(p.from), cutPrefix(p.to)
	}
	for _, at := range []*string{&p.from, &p.to} {
		if err := checkPatchPath(at); err != nil {
			return p, err
		}
	}
	if p.from == "" && p.to == "" {
		return p, invalidPatch("what begins in line %d names no file", s.line)
	}
	for _, mode := range []fs.FileMode{f.OldMode, f.NewMode} {
		// As git writes it: 100644, 100755; 120000 is a link, 160000 a submodule.
		if kind := mode & 0o170000; mode != 0 && kind != 0o100000 || mode&^0o177777 != 0 {
			return p, invalidPatch("the patch makes or changes something else than a file at %q", cmpOr(p.to, p.from))
		}
	}
	if f.IsBinary && f.BinaryFragment == nil {
		return p, invalidPatch("the patch says that %q differs, and not how", cmpOr(p.to, p.from))
	}
	return p, nil
}

// prefixed reports whether a plain header names its files as git does, below a and b.
func (s section) prefixed() bool {
	first, rest, _ := bytes.Cut(s.text, []byte{'\n'})
	second, _, _ := bytes.Cut(rest, []byte{'\n'})
	is := func(line []byte, mark, side string) bool {
		name := strings.TrimPrefix(strings.TrimPrefix(string(line), mark), `"`)
		return strings.HasPrefix(name, side) || name == "/dev/null" || strings.HasPrefix(name, "/dev/null\t")
	}
	return is(first, "--- ", "a/") && is(second, "+++ ", "b/")
}

func cutPrefix(at string) string {
	if at == "" || at == "/dev/null" {
		return at
	}
	return at[min(2, len(at)):]
}

// checkPatchPath refuses a path that is not below the directory that the patch is applied in,
// and makes it clean.
func checkPatchPath(at *string) error {
	if *at == "" {
		return nil
	}
	clean := path.Clean(*at)
	if strings.HasPrefix(*at, "/") || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsAny(*at, "\x00\n") || strings.HasSuffix(*at, "/") {
		return invalidPatch("the patch names %q, which is no file below the directory it is applied in", *at)
	}
	*at = clean
	return nil
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// operations are what the patch does to the file that is there, and to the one that is there
// afterwards: a write to each path that is named, a delete of what goes, a read of what the
// new content is made of.
func (p patchFile) operations() (from, to []bourn.Operation) {
	if p.from != "" {
		from = []bourn.Operation{bourn.Read}
		if p.goes() != "" {
			from = append(from, bourn.Write, bourn.Delete)
		} else if p.from == p.to {
			from = append(from, bourn.Write)
		}
	}
	if p.to != "" && p.to != p.from {
		to = []bourn.Operation{bourn.Write}
	}
	return from, to
}

// patchTargets are the targets of a patch in a directory.
func patchTargets(dir string, files []patchFile) []bourn.Target {
	var all []bourn.Target
	for _, f := range files {
		from, to := f.operations()
		for _, o := range from {
			all = append(all, bourn.Target{Operation: o, Path: joined(dir, f.from)})
		}
		for _, o := range to {
			all = append(all, bourn.Target{Operation: o, Path: joined(dir, f.to)})
		}
	}
	return all
}

// joined is a patch's path below the directory it is applied in.
func joined(dir, at string) string {
	if dir == "" {
		return at
	}
	return path.Join(dir, at)
}
