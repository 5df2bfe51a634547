package workspace

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"bourn"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// maxPatchFiles is how many files one patch may change.
const maxPatchFiles = 1000

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
// call read the same bytes by it, so that what is reviewed is what is applied.
func parsePatch(text []byte) ([]patchFile, error) {
	files, _, err := gitdiff.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, invalidPatch("the patch cannot be read: %v", err)
	}
	if len(files) == 0 {
		return nil, invalidPatch("the patch names no file")
	}
	if len(files) > maxPatchFiles {
		return nil, invalidPatch("the patch names %d files; up to %d are changed at once", len(files), maxPatchFiles)
	}
	var all []patchFile
	written := map[string]bool{}
	for _, f := range files {
		p, err := patchFileOf(f)
		if err != nil {
			return nil, err
		}
		for _, at := range []string{p.to, p.goes()} {
			if at != "" && written[at] {
				return nil, invalidPatch("the patch changes %q twice", at)
			}
			written[at] = true
		}
		all = append(all, p)
	}
	return all, nil
}

// goes is the path that is no longer there afterwards.
func (p patchFile) goes() string {
	if p.diff.IsDelete || p.diff.IsRename {
		return p.from
	}
	return ""
}

func patchFileOf(f *gitdiff.File) (patchFile, error) {
	p := patchFile{diff: f, from: f.OldName, to: f.NewName}
	if f.IsNew {
		p.from = ""
	}
	if f.IsDelete {
		p.to = ""
	}
	// Diffs of other tools keep the prefixes that git's headers come without.
	if from, to := strings.HasPrefix(p.from, "a/"), strings.HasPrefix(p.to, "b/"); (from || p.from == "") && (to || p.to == "") && f.OldOIDPrefix == "" && !f.IsRename && !f.IsCopy {
		p.from, p.to = strings.TrimPrefix(p.from, "a/"), strings.TrimPrefix(p.to, "b/")
	} else if p.from == p.to && strings.HasPrefix(p.to, "b/") && f.OldOIDPrefix == "" && f.OldMode == 0 && f.NewMode == 0 {
		p.from, p.to = p.from[2:], p.to[2:]
	}
	for _, at := range []string{p.from, p.to} {
		if at == "" {
			continue
		}
		clean := path.Clean(at)
		if strings.HasPrefix(at, "/") || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(at, 0) {
			return p, invalidPatch("the patch names %q, which is not below the directory it is applied in", at)
		}
	}
	if p.from == "" && p.to == "" {
		return p, invalidPatch("a part of the patch names no file")
	}
	for _, mode := range []fs.FileMode{f.OldMode, f.NewMode} {
		// As git writes it: 100644, 100755; 120000 is a link, 160000 a submodule.
		if kind := mode & 0o170000; mode != 0 && kind != 0o100000 && kind != 0 || mode&fs.ModeSymlink != 0 {
			return p, invalidPatch("the patch makes or changes a link or a submodule at %q", cmpOr(p.to, p.from))
		}
	}
	if f.IsBinary && f.BinaryFragment == nil {
		return p, invalidPatch("the patch says that %q differs, and not how", cmpOr(p.to, p.from))
	}
	return p, nil
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// targets are what the patch does to which path: a write to each that is there afterwards, a
// delete of each that no longer is, a read of what is copied.
func patchTargets(dir string, files []patchFile) []bourn.Target {
	var all []bourn.Target
	add := func(o bourn.Operation, at string) {
		all = append(all, bourn.Target{Operation: o, Path: joined(dir, at)})
	}
	for _, f := range files {
		if f.from != "" && f.goes() == "" && f.from != f.to {
			add(bourn.Read, f.from)
		}
		if at := f.goes(); at != "" {
			add(bourn.Delete, at)
			if f.diff.IsRename {
				add(bourn.Read, at)
				add(bourn.Write, at)
			}
		}
		if f.to != "" {
			add(bourn.Write, f.to)
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
