package policy

import (
	"fmt"
	"path"
	"slices"

	"bourn"
)

// A mask stands on a name in one mount. The parent may move a directory that holds something
// denied, and the mask goes with it in its own mounts; in a mount of the child's that begins
// below, the directory would arrive without. So a child that sees a part of what the parent
// writes is refused where something denied could be moved into that part. What those could
// move that the parent works for counts as well: they are told what the child has seen.
//
//	parent writes /p, /p/a/.env is denied:   mv /p/a /p/sub/ is possible
//	child with a mount of /p/sub:            would read /p/sub/a/.env
//	child with a mount of /p:                does not: it has the mask, on the same name

// A moving says of a mount of the child's what could be moved there.
type moving struct{ text, hint string }

// moved returns what could be moved into mounts of the child's.
func (w *narrower) moved(child *Request) []moving {
	var out []moving
	mounts, kinds := child.mounts(w.parent)
	for _, by := range child.above {
		fixed := by.fixed()
		for _, m := range by.Masks {
			masked := longest(mounts, m.Path) // the child's mount in which it has the mask, "" for none
			for _, at := range mounts {
				if kinds[at] == "" || at == masked {
					continue
				}
				dir := by.movable(m.Path, masked, at, fixed)
				if dir == "" {
					continue
				}
				mend := "leave the spawn dir out"
				if kinds[at] != KindSpawnDir {
					root, _ := by.Root(dir)
					mend = "name all that the parent has there, write " + bourn.Printable(root)
				}
				mv := moving{
					fmt.Sprintf("%s %s: %s is denied, and %s could be moved there", kinds[at], bourn.Printable(at), bourn.Printable(m.Path), bourn.Printable(dir)),
					mend + ", or ask a person to deny " + bourn.Printable(dir) + " itself",
				}
				if !slices.Contains(out, mv) {
					out = append(out, mv)
				}
			}
		}
	}
	return out
}

// movable returns a directory above what is denied that a run of this plan could move, so that
// it would be seen in a mount of the child's in which it is not masked, or "". The mount with
// the mask goes with the place that it stands on.
func (p *Plan) movable(denied, masked, into string, fixed map[string]bool) string {
	for dir := path.Dir(denied); dir != "/"; dir = path.Dir(dir) {
		root, write := p.Root(dir) // no rename leads out of it
		if !write || fixed[dir] {
			continue
		}
		if masked != "" && under(masked, into) { // it is seen there once it has left the masked mount
			if dir != masked && under(dir, masked) && !under(root, masked) {
				return dir
			}
			continue
		}
		if in, _ := p.Root(into); in == root && (!under(into, dir) || parts(into, dir, fixed)) {
			return dir
		}
	}
	return ""
}

// parts reports whether a place can be moved out of a directory, which then can be moved into
// the place.
func parts(place, dir string, fixed map[string]bool) bool {
	for ; place != dir; place = path.Dir(place) {
		if !fixed[place] {
			return true
		}
	}
	return false
}

// mounts returns where a child will have mounts of what the host has, outermost first, and of
// those that its grants make the kind of the grant. The host is not asked: each grant counts as
// a directory that exists.
func (r *Request) mounts(parent *Request) (at []string, kinds map[string]Kind) {
	c := compiler{req: &Request{Agent: r.Agent, Home: r.Home, AgentHome: r.AgentHome, WholeHome: r.WholeHome, BournDir: r.BournDir, Program: r.Program,
		Grants: slices.Clone(r.Grants), System: parent.System, Exec: r.Exec}}
	for i := range c.req.Grants {
		g := &c.req.Grants[i]
		g.Exists, g.Dir = true, true
	}
	c.plan.Exec = r.Exec
	c.privatePlaces()
	c.system()
	c.grants()
	c.spawnDirs()
	c.sortBinds()
	kinds = map[string]Kind{}
	for _, b := range c.plan.Binds {
		if b.Source != "" {
			continue
		}
		at = append(at, b.Path)
		if b.Item >= 0 && c.plan.Items[b.Item].Kind != KindDefault {
			kinds[b.Path] = c.plan.Items[b.Item].Kind
		}
	}
	return at, kinds
}

// longest returns the longest of paths that a path lies under, or "".
func longest(paths []string, at string) string {
	best := ""
	for _, p := range paths {
		if under(at, p) && len(p) > len(best) {
			best = p
		}
	}
	return best
}

// fixed returns what a run of this plan cannot move: the places of its mounts.
func (p *Plan) fixed() map[string]bool {
	at := map[string]bool{}
	for _, b := range p.Binds {
		at[b.Path] = true
	}
	for _, m := range p.Masks {
		at[m.Path] = true
	}
	for _, g := range p.Guards {
		at[g.Path] = true
	}
	return at
}
