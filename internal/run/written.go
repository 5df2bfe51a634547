package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// What runs without an agent could write is kept in $BOURN_HOME/written, a Go string a line:
// a symlink there is never followed, a program there selects no preset, a configuration
// there is not believed, however long ago the run was. What agents can write is in their
// profiles.

// maxWritten is from how many lines on those whose path is gone are taken out.
const maxWritten = 2000

func (h *Home) writtenPath() string { return filepath.Join(h.Dir, "written") }

func (h *Home) written() []string {
	data, err := os.ReadFile(h.writtenPath())
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if at, err := strconv.Unquote(strings.TrimSuffix(line, "\n")); err == nil {
			out = append(out, at)
		}
	}
	return out
}

// keepWritten adds paths that a run is about to be able to write.
func (h *Home) keepWritten(paths []string) error {
	known := h.written()
	var add []string
	for _, p := range paths {
		if !slices.Contains(known, p) && !slices.Contains(add, p) {
			add = append(add, p)
		}
	}
	if len(add) == 0 {
		return nil
	}
	unlock, err := h.lock("")
	if err != nil {
		return err
	}
	defer unlock()
	all := append(h.written(), add...)
	if len(all) > maxWritten {
		all = slices.DeleteFunc(all, func(p string) bool { return !exists(p) })
	}
	var text bytes.Buffer
	for _, p := range all {
		fmt.Fprintln(&text, strconv.Quote(p))
	}
	if err := writeFile(h.writtenPath(), text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("cannot keep what this run can write: %w", err)
	}
	return nil
}
