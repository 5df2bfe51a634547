package run

import (
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// accesses judge the paths that a watched command named, beside the run: the command waits
// for whoever takes them in.
type accesses struct {
	queue  chan access
	all    sync.WaitGroup
	lost   atomic.Bool // some were not judged
	mounts survey.Table
}

type access struct {
	op   policy.Operation
	path string
}

// maxQueued bounds the paths that wait to be judged.
const maxQueued = 1024

// accessed returns what is told of paths, nil where nothing is watched.
func (r *runner) accessed() func(policy.Operation, string) {
	if !r.Options.Watch {
		return nil
	}
	a := &accesses{queue: make(chan access, maxQueued)}
	a.mounts, _ = survey.Mounts() // without a table nothing counts as local
	r.access = a
	a.all.Go(func() {
		for one := range a.queue {
			r.judgeAccess(one)
		}
	})
	return func(op policy.Operation, path string) {
		select {
		case a.queue <- access{op, path}:
			a.lost.CompareAndSwap(false, path == "")
		default:
			a.lost.Store(true)
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

// notes say what a person should know of the watch.
func (a *accesses) notes() []string {
	if a == nil || !a.lost.Load() {
		return nil
	}
	return []string{"not all that was out of reach is listed: the command named more paths than --watch keeps apart, or may not be looked into"}
}

// localFS are file systems that answer by themselves: to look at a path in another one may
// ask a server that the path names (autofs, NFS), which the run could not.
var localFS = map[string]bool{
	"ext2": true, "ext3": true, "ext4": true, "xfs": true, "btrfs": true, "f2fs": true, "zfs": true, "bcachefs": true, "reiserfs": true,
	"tmpfs": true, "ramfs": true, "rootfs": true, "overlay": true, "squashfs": true, "erofs": true, "vfat": true, "exfat": true, "ntfs3": true,
}

// there reports whether something stands at a path of a local file system, links apart: a
// link may be the command's own, and lead anywhere.
func (a *accesses) there(p string) bool {
	m, ok := a.mounts.At(p)
	return ok && localFS[m.FSType] && survey.Stands(p)
}

// judgeAccess keeps an access that the plan refuses, if it would have worked outside.
func (r *runner) judgeAccess(a access) {
	if a.path == "" {
		return
	}
	answer := r.Plan.Explain(a.op, a.path)
	own := answer.Item != nil && strings.HasSuffix(answer.Item.Target, ownPlace)
	if answer.Allowed == "allowed" && !(own && a.op != policy.OpWrite) {
		return
	}
	needs := a.path
	if a.op == policy.OpWrite && !r.access.there(needs) {
		needs = path.Dir(a.path)
	}
	if !r.access.there(needs) {
		return
	}
	reason, grant := refusedBecause(answer.Item), ""
	if reason == policy.NotGranted {
		e, err := r.Explain(a.op, a.path) // nothing on the way is a link
		if err != nil || e.Allowed == "allowed" {
			return
		}
		reason, grant = refusedBecause(e.Item), e.Grant
	}
	r.refused.add(a.op, a.path, reason, func() string { return grant })
}

// refusedBecause says in a few words why an item refuses.
func refusedBecause(it *policy.Item) string {
	switch {
	case it == nil:
		return policy.NotGranted
	case it.Fate == policy.Dropped:
		return "the grant was dropped: " + it.Reason
	case it.Blocks():
		return "a hard block of this host's administrator (" + it.From + ")"
	case it.Kind == policy.KindDeny:
		return "denied"
	case it.Kind == policy.KindProtect:
		return "protected: " + it.Caveat
	case it.Kind == policy.KindRead:
		return "granted for reading only"
	case strings.HasPrefix(it.Target, "system paths"):
		return "system paths are read-only"
	case strings.HasPrefix(it.Target, "execution "):
		return "only system paths and spawn dirs may execute"
	}
	return policy.NotGranted
}
