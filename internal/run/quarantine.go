package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/policy"
)

// quarantine moves what appeared during a run and runs code on the host later into
// $BOURN_HOME/quarantine/RUN, and returns what to say of it. The move is by rename alone:
// across file systems the thing stays where it is.
func (r *runner) quarantine(l policy.Late) string {
	dir := filepath.Join(r.home.Dir, "quarantine", r.id)
	to := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(l.Path, "/"), "/", "%"))
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Rename(l.Path, to)
	}
	if err != nil {
		return fmt.Sprintf("%s was created during the run: %s. It cannot be moved aside (%v): read it before you use it", bourn.Printable(l.Path), l.Reason, err)
	}
	return fmt.Sprintf("%s was created during the run: %s. It is moved to %s", bourn.Printable(l.Path), l.Reason, bourn.Printable(to))
}
