package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox"
	"bourn/internal/worker"
)

// ServeMember has the control plane start an agent's work for others on conn, until that is
// closed: each is a run of the agent, under its own profile, with all that the caller is
// denied. It returns when none is left.
func (h *Home) ServeMember(name bourn.AgentName, conn io.ReadWriteCloser) error {
	if _, _, err := h.Profile(name); err != nil {
		return err
	}
	return worker.Serve(context.Background(), conn, worker.Handler{Prepare: func(_ context.Context, id string, j worker.Job) (worker.Child, error) {
		prof, _, err := h.Profile(name)
		if err != nil {
			return nil, bourn.WithHint(fmt.Errorf("%w: %w", bourn.ErrDenied, err), "bourn agent perm show "+string(name)+" shows the profile")
		}
		if err := h.of(prof).mayWork(name, prof, j.Root.Path); err != nil {
			return nil, err
		}
		p, err := h.Prepare(Options{Agent: name, Cwd: j.Root.Path, Starting: true})
		if err != nil {
			return nil, err
		}
		return p.child(id, j)
	}})
}

// mayWork is the delegation gate without its question: whether an agent may be sent to a
// directory by another one. What no line of its profile says is a person's to answer, and
// nothing is done meanwhile.
func (h *Home) mayWork(name bourn.AgentName, prof *profile.Profile, root string) error {
	target := topLevel(root)
	req := h.question(wish{agent: name, kind: policy.KindWrite}, target)
	for _, g := range prof.Filesystem.Write {
		req.Grants = append(req.Grants, policy.Grant{Kind: policy.KindWrite, From: "profile", Place: policy.Place{Path: h.expand(g.Text)}})
	}
	for _, d := range prof.Filesystem.Deny {
		req.Denies = append(req.Denies, h.deny(d))
	}
	if err := sandbox.Gather(req, sandbox.Options{}); err != nil {
		return err
	}
	wanted := req.Grants[0]
	refused := func(hint, format string, args ...any) error {
		return bourn.WithHint(fmt.Errorf("%w: agent %s cannot be sent to %s: %s", bourn.ErrDenied, name, bourn.Printable(target), fmt.Sprintf(format, args...)), hint)
	}
	switch {
	case !wanted.Exists || wanted.Err != "" || !wanted.Dir:
		return refused("name a directory that is there", "it is no directory that is there")
	case req.Refusal(policy.KindWrite, target) != "":
		return refused("name a directory that holds only what the task needs", "%s", req.Refusal(policy.KindWrite, target))
	}
	for _, at := range []string{target, root} {
		if i, closed := closing(req.Denies, at); closed {
			return refused("do without it: a deny is final", "its profile denies %s", bourn.Printable(prof.Filesystem.Deny[i].Text))
		}
	}
	for _, g := range req.Grants[1:] {
		if g.Exists && g.Real == g.Path && g.Foul == "" && policy.Under(target, g.Real) {
			return nil
		}
	}
	return &worker.Problem{Code: bourn.CodeParked, Reason: "not_granted",
		Text: fmt.Sprintf("whether agent %s may work in %s is for a person to say, and nothing was done", name, bourn.Printable(target)),
		Hint: fmt.Sprintf("ask a person, who may run: bourn agent perm allow-write %s %s", name, shellQuote(target))}
}

// topLevel is the top of the checkout that a directory is in, found by walking up; outside of
// one it is the directory. Git's configuration is not read.
func topLevel(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		} else if at == "/" || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return dir
		}
	}
}
