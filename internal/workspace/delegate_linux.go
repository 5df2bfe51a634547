package workspace

import (
	"fmt"
	"os"
	"strings"

	"bourn"

	"golang.org/x/sys/unix"
)

// delegate opens where each job is to work, through the actor's own seal, and says which
// directories these are. Whoever starts the jobs opens them once more and compares.
func (w *work) delegate() (DelegateResult, error) {
	var result DelegateResult
	for _, j := range w.request.Jobs {
		root, err := w.jobRoot(j.Root)
		if err != nil {
			return DelegateResult{}, err
		}
		result.Roots = append(result.Roots, root)
	}
	return result, nil
}

func (w *work) jobRoot(given string) (Root, error) {
	p, err := w.resolve(given, unix.O_DIRECTORY)
	if err != nil {
		return Root{}, err
	}
	defer p.Close()
	if err := w.opened(p.given, p.at, bourn.Delegate); err != nil {
		return Root{}, err
	}
	// What cannot be read here is nothing that a child could be given.
	fd, err := unix.Open(procPath(p.File), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Root{}, w.pathProblem(p.at, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Root{}, w.pathProblem(p.at, err)
	}
	return Root{Path: p.at, Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// openRoot opens the directory that an actor judged, following no link. Another one by now
// is ErrDenied.
func openRoot(r Root) (*os.File, error) {
	if !strings.HasPrefix(r.Path, "/") || strings.Contains(r.Path+"/", "/../") {
		return nil, fmt.Errorf("%w: the path of a root is absolute", bourn.ErrInvalid)
	}
	var st unix.Stat_t
	fd, err := openPlain(r.Path)
	if err == nil {
		if err = unix.Fstat(fd, &st); err == nil && uint64(st.Dev) == r.Dev && st.Ino == r.Ino {
			return os.NewFile(uintptr(fd), r.Path), nil
		}
		unix.Close(fd)
	}
	return nil, &Problem{Code: bourn.CodeDenied, Reason: "root_changed",
		Text: fmt.Sprintf("%q is not, or not any more, the directory that was judged", r.Path),
		Hint: "name a directory of the workspace; the agent's own home and what is in memory can be no other run's root"}
}
