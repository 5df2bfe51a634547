package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"bourn"

	"golang.org/x/sys/unix"
)

// write writes a whole file, and makes the directories that it needs.
func (w *work) write() (any, error) {
	t, err := w.target(w.request.Path, bourn.Write)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return w.replace(t, w.request.Content)
}

// replace makes a target hold content and says what changed.
func (w *work) replace(t *target, content []byte) (any, error) {
	s := &step{t: t, content: notNil(content)}
	if err := w.take([]*step{s}); err != nil {
		return nil, err
	}
	return s.result(), nil
}

// edit replaces the one place where a text occurs.
func (w *work) edit() (any, error) {
	t, err := w.target(w.request.Path, bourn.Read, bourn.Write)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if !t.exists {
		return nil, w.pathProblem(t.path, fs.ErrNotExist)
	}
	old := []byte(w.request.Old)
	n, at := occurrences(t.now, old)
	switch {
	case len(old) == 0:
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "edit_empty", Text: "the text to replace is empty", Hint: "files_write writes a whole file"}
	case n == 0:
		return nil, &Problem{Code: bourn.CodeConflict, Reason: "edit_not_found", Text: fmt.Sprintf("the text does not occur in %q", w.request.Path), Hint: "read the file again: it has to be exact, blanks and tabs too"}
	case n > 1:
		return nil, &Problem{Code: bourn.CodeConflict, Reason: "edit_ambiguous", Text: fmt.Sprintf("the text occurs %d times in %q", n, w.request.Path), Hint: "give more of what is round the place that is meant"}
	}
	return w.replace(t, slices.Concat(t.now[:at], []byte(w.request.New), t.now[at+len(old):]))
}

// occurrences counts where a text begins, overlapping ones too since any of them could be
// meant, and says where the first does. Its time grows with both lengths and not with their
// product, whatever they hold (Knuth, Morris and Pratt): bytes.Index cannot promise that.
func occurrences(text, old []byte) (n, first int) {
	if len(old) == 0 || len(old) > len(text) {
		return 0, 0
	}
	// back[i] is how much of old fits still when what follows its first i bytes does not.
	back := make([]int32, len(old)+1)
	fits := int32(0)
	for i := 1; i < len(old); i++ {
		for fits > 0 && old[i] != old[fits] {
			fits = back[fits]
		}
		if old[i] == old[fits] {
			fits++
		}
		back[i+1] = fits
	}
	fits = 0
	for i, c := range text {
		for fits > 0 && c != old[fits] {
			fits = back[fits]
		}
		if c == old[fits] {
			fits++
		}
		if int(fits) < len(old) {
			continue
		}
		if n++; n == 1 {
			first = i + 1 - len(old)
		}
		fits = back[fits]
	}
	return n, first
}

// delete removes a file, a link or an empty directory.
func (w *work) delete() (any, error) {
	e, err := w.element(w.request.Path, bourn.Delete)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	st, err := e.stat()
	if err != nil {
		return nil, w.pathProblem(e.at, err)
	}
	flags := 0
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	} else if namesDirectory(w.request.Path) {
		return nil, invalidPath("%q is no directory", w.request.Path)
	}
	err = unix.Unlinkat(int(e.dir.Fd()), e.name, flags)
	switch {
	case errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST):
		return nil, &Problem{Code: bourn.CodeConflict, Reason: "not_empty", Text: fmt.Sprintf("the directory %q is not empty", w.request.Path), Hint: "delete what is in it first"}
	case errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTDIR):
		return nil, changed(e.at)
	case err != nil:
		return nil, w.pathProblem(e.at, err)
	}
	return WriteResult{Path: e.at}, nil
}

// changed is the problem of a path that is not what it was when it was judged.
func changed(at string) error {
	return &Problem{Code: bourn.CodeConflict, Reason: "changed_meanwhile", Text: fmt.Sprintf("%q was changed meanwhile; nothing was done to it", at), Hint: "read it again"}
}
