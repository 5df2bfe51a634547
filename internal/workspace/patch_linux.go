package workspace

import (
	"fmt"
	"io/fs"

	"bourn"
)

// patch applies a whole patch or nothing of it: everything is read, applied in memory and
// judged before the first file is changed, and what was changed goes back if a later one
// cannot be. What ends the actor in the middle leaves every file whole, old or new, and
// what was beside it, named .bourn-write- and 12 digits.
func (w *work) patch() (any, error) {
	files, err := parsePatch(w.request.Content)
	if err != nil {
		return nil, err
	}
	var steps []*step
	defer func() {
		for _, s := range steps {
			s.t.close()
		}
	}()
	total, left := 0, maxCompared
	for _, f := range files {
		more, err := w.stepsOf(f, &left)
		steps = append(steps, more...)
		if err != nil {
			return nil, err
		}
		for _, s := range more {
			total += len(s.t.now) + len(s.content)
		}
		if total > maxPatched {
			return nil, &Problem{Code: bourn.CodeInvalid, Reason: "too_large", Text: fmt.Sprintf("the files of the patch have more than %d bytes", maxPatched)}
		}
	}
	if err := w.take(steps); err != nil {
		return nil, err
	}
	r := PatchResult{Files: []WriteResult{}}
	for _, s := range steps {
		if !s.onlyRead {
			r.Files = append(r.Files, s.result())
		}
	}
	return r, nil
}

func conflict(format string, args ...any) error {
	return &Problem{Code: bourn.CodeConflict, Reason: "patch_conflict", Text: fmt.Sprintf(format, args...) + "; nothing was changed", Hint: "read the file again and make the patch anew"}
}

// stepsOf applies one file's part in memory, with what is left to compare.
func (w *work) stepsOf(f patchFile, left *int) (steps []*step, err error) {
	fromOps, toOps := f.operations()
	var from *step
	var source []byte
	if f.from != "" {
		t, err := w.target(joined(w.request.Path, f.from), fromOps...)
		if err != nil {
			return nil, err
		}
		from = &step{t: t, content: t.now, keep: true, onlyRead: f.goes() == "" && f.from != f.to}
		steps = append(steps, from)
		if !t.exists {
			return steps, w.pathProblem(t.path, fs.ErrNotExist)
		}
		source = t.now
	}
	content, err := applied(source, f.diff, left)
	if err != nil {
		return steps, conflict("the patch does not fit %q: %v", cmpOr(f.from, f.to), err)
	}
	switch {
	case f.to == "" && len(content) > 0:
		return steps, conflict("the patch deletes %q, which holds more than the patch says", f.from)
	case f.to == f.from:
		from.keep, from.content = false, content
		from.t.mode = modeAfter(f.diff.NewMode, from.t.mode)
		return steps, nil
	case f.goes() != "":
		from.keep, from.content = false, nil
	}
	if f.to == "" {
		return steps, nil
	}
	t, err := w.target(joined(w.request.Path, f.to), toOps...)
	if err != nil {
		return steps, err
	}
	if from != nil {
		t.mode = from.t.mode
	}
	t.mode = modeAfter(f.diff.NewMode, t.mode)
	steps = append(steps, &step{t: t, content: content})
	if t.exists {
		return steps, &Problem{Code: bourn.CodeConflict, Reason: "already_exists", Text: fmt.Sprintf("the patch makes %q, which is there already; nothing was changed", f.to)}
	}
	return steps, nil
}

// modeAfter is the mode that a patch gives a file: git knows whether it can be executed, by
// those who may read it.
func modeAfter(patched, now fs.FileMode) fs.FileMode {
	switch patched.Perm() {
	case 0o755:
		return now | now&0o444>>2
	case 0o644:
		return now &^ 0o111
	}
	return now
}
