package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// quarantine moves what appeared during a run and runs code on the host later into
// $BOURN_HOME/quarantine/RUN, and returns what to say of it. The move is by rename alone:
// across file systems the thing stays where it is, and so does what a link of the run's
// leads to.
func (r *runner) quarantine(l policy.Late) string {
	if r.home.user != nil { // root moves nothing in directories that somebody else can change
		return fmt.Sprintf("%s was created during the run: %s. It is not moved aside, since it is %s's: read it before you use it", bourn.Printable(l.Path), l.Reason, r.home.user.Name)
	}
	r.aside++
	dir := filepath.Join(r.home.Dir, "quarantine", r.id)
	to := filepath.Join(dir, fmt.Sprintf("%d-%s", r.aside, filepath.Base(l.Path)))
	err := os.MkdirAll(dir, 0o700)
	switch {
	case err != nil:
	case !survey.Stands(filepath.Dir(l.Path)):
		err = errors.New("a symlink leads there")
	default:
		err = os.Rename(l.Path, to)
	}
	if err != nil {
		return fmt.Sprintf("%s was created during the run: %s. It cannot be moved aside (%v): read it before you use it", bourn.Printable(l.Path), l.Reason, err)
	}
	return fmt.Sprintf("%s was created during the run: %s. It is moved to %s", bourn.Printable(l.Path), l.Reason, bourn.Printable(to))
}
