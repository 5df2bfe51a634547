package run

import (
	"fmt"
	"path/filepath"
	"slices"

	"bourn"
)

// What runs could write is kept in $BOURN_HOME/written, a Go string a line: a symlink there
// is never followed, a program there selects no preset, a configuration there is not
// believed, however long ago the run was. What agents may write in their next run is in
// their profiles.

// maxWritten is from how many lines on those whose path is gone are taken out.
const maxWritten = 20000

func (h *Home) writtenPath() string { return filepath.Join(h.Dir, "written") }

// written returns what runs could write. One that cannot be read is an error: nothing could
// be excluded.
func (h *Home) written() ([]string, error) {
	out, err := readPaths(h.writtenPath())
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot read what earlier runs could write: %w", err),
			"remove "+h.writtenPath()+" if no run has left a link or a program that you do not trust")
	}
	return out, nil
}

// keepWritten adds paths that a run is about to be able to write. Known is what was
// written when the run was planned.
func (h *Home) keepWritten(known, paths []string) error {
	if len(unlisted(paths, known)) == 0 {
		return nil
	}
	unlock, err := lockFile(h.writtenPath())
	if err != nil {
		return err
	}
	defer unlock()
	all, err := h.written()
	if err != nil {
		return err
	}
	if all = append(all, unlisted(paths, all)...); len(all) > maxWritten {
		all = slices.DeleteFunc(all, func(p string) bool { return !exists(p) })
	}
	if err := writePaths(h.writtenPath(), all); err != nil {
		return fmt.Errorf("cannot keep what this run can write: %w", err)
	}
	return nil
}

// unlisted returns the paths that a list has not, each once.
func unlisted(paths, list []string) []string {
	var out []string
	for _, p := range paths {
		if !slices.Contains(list, p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
