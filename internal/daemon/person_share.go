package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/posix"
	"bourn/internal/workspace"
)

const (
	shareWhat = "files_share" // what the log calls it
	shareTool = "files_write" // and the tool that it is judged as
)

// sharing names the person and what is to be shared.
type sharing struct {
	Person string `path:"person" maxLength:"64"`
	Body   api.Share
}

// peopleRoutes are about the persons of a shared host.
func (s *server) peopleRoutes() {
	handle(s, operation("share-as-person", "POST", "/v1/people/{person}/share", "Copy a file or directory of a person's into a circle"), func(ctx context.Context, in *sharing) (*out[api.Shared], error) {
		registry, person, key, err := s.whom(ctx, in.Person, in.Body.Agent, shareWhat)
		if err != nil {
			return nil, err
		}
		to, err := sharedAs(registry, person, in.Body)
		if err != nil {
			return nil, err
		}
		h, err := s.tools.host(ctx, key)
		if err != nil {
			return nil, err
		}
		defer s.tools.unuse(h)
		r, err := s.tools.share(ctx, h.run, principalOf(ctx).name(), workspace.Request{Tool: shareTool, Verb: workspace.Share, Path: in.Body.From, To: to})
		return &out[api.Shared]{api.Shared{Path: r.Path, Files: r.Files, Directories: r.Directories, Bytes: r.Bytes}}, err
	})
}

// sharedAs is the path that a copy gets, in a circle that the person is in.
func sharedAs(r posix.Registry, person posix.Entry, q api.Share) (string, error) {
	circles, _ := r.Shown(person)
	i := slices.IndexFunc(circles, func(at string) bool { return filepath.Base(at) == q.Circle })
	if i < 0 {
		return "", &workspace.Problem{Code: bourn.CodeDenied, Reason: "permission_denied", Text: fmt.Sprintf("%s is in no circle %q", person.ID, q.Circle), Hint: "an administrator may run: bourn people circle join"}
	}
	to := q.To
	if to == "" {
		to = filepath.Base(q.From)
	}
	if to = filepath.Clean(to); to == "." || !filepath.IsLocal(to) {
		return "", &workspace.Problem{Code: bourn.CodeInvalid, Reason: "invalid_path", Text: fmt.Sprintf("%q names nothing in the circle's directory", q.To), Hint: "as in CIRCLE/plans"}
	}
	return filepath.Join(circles[i], to), nil
}

// share reviews a share, logs it, and has it performed.
func (g *gate) share(ctx context.Context, run *gatedRun, who string, request workspace.Request) (r workspace.ShareResult, err error) {
	entry := audit.Entry{ID: audit.NewID(), Kind: audit.KindAction, Who: who, For: run.member.String(), Agent: string(run.agent), Run: run.run, What: shareWhat}
	allowed, noted, err := g.grant(ctx, run, g.known[shareTool], request, &entry)
	if err != nil {
		return r, err
	}
	began := time.Now()
	var raw workspace.Raw
	err = run.actor.Do(ctx, request, allowed, &raw, nil)
	g.ended(entry, noted, time.Since(began), raw.JSON, err)
	if err == nil {
		err = raw.Into(&r)
	}
	return r, err
}
