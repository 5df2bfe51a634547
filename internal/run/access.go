package run

import (
	"path"
	"strings"
	"sync"

	"bourn/internal/policy"
)

// accesses judge the paths that a watched command named, beside the run: the command waits
// for whoever takes them in.
type accesses struct {
	queue chan access
	all   sync.WaitGroup
}

type access struct {
	op   policy.Operation
	path string
}

// maxQueued bounds the paths that wait to be judged; what comes beyond is not reported.
const maxQueued = 8192

// accessed returns what is told of paths, nil where nothing is watched.
func (r *runner) accessed() func(policy.Operation, string) {
	if !r.Options.Watch {
		return nil
	}
	r.access = &accesses{queue: make(chan access, maxQueued)}
	r.access.all.Go(func() {
		for a := range r.access.queue {
			r.judgeAccess(a)
		}
	})
	return func(op policy.Operation, path string) {
		select {
		case r.access.queue <- access{op, path}:
		default:
		}
	}
}

// close returns when all that came has been judged.
func (a *accesses) close() {
	if a != nil {
		close(a.queue)
		a.all.Wait()
	}
}

// judgeAccess keeps an access that the plan refuses, if it would have worked outside.
func (r *runner) judgeAccess(a access) {
	needs := a.path
	if a.op == policy.OpWrite && !exists(needs) {
		needs = path.Dir(a.path)
	}
	if !exists(needs) {
		return
	}
	e, err := r.Explain(a.op, a.path)
	if err != nil || e.Allowed == "allowed" {
		return
	}
	reason := refusedBecause(e.Item)
	if reason == systemPaths {
		e.Grant = "" // it would work, and is hardly what anybody wants
	}
	r.refused.add(a.op, a.path, reason, e.Grant)
}

const systemPaths = "system paths are read-only"

// refusedBecause says in a few words why an item refuses.
func refusedBecause(it *policy.Item) string {
	switch {
	case it == nil:
		return "not granted"
	case it.Fate == policy.Dropped:
		return "the grant was dropped: " + it.Reason
	case it.Kind == policy.KindDeny:
		return "denied"
	case it.Kind == policy.KindProtect:
		return "protected: " + it.Caveat
	case it.Kind == policy.KindRead:
		return "granted for reading only"
	case strings.HasPrefix(it.Target, "system paths"):
		return systemPaths
	case strings.HasPrefix(it.Target, "execution "):
		return "only system paths and spawn dirs may execute"
	}
	return "not granted"
}
