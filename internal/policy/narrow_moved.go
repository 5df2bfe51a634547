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
// writes is refused where something denied could be moved into that part.
//
//	parent writes /p, /p/a/.env is denied:   mv /p/a /p/sub/ is possible
//	child with a mount of /p/sub:            would read /p/sub/a/.env
//	child with a mount of /p:                does not: it has the mask, on the same name

// A moving says of a mount of the child's what could be moved there.
type moving struct{ text, hint string }

// moved returns what could be moved into mounts of the child's.
func (w *narrower) moved(grants []Grant) []moving {
	var out []moving
	below, fixed := mounts(grants), w.fixed()
	for _, m := range w.plan.Masks {
		root, write := w.plan.Root(m.Path)
		if !write {
			continue
		}
		var masked string // the child's mount in which it has the mask, "" for none
		for _, g := range below {
			if under(m.Path, g.Path) && len(g.Path) > len(masked) {
				masked = g.Path
			}
		}
		for _, g := range below {
			if in, _ := w.plan.Root(g.Path); in != root || g.Path == masked {
				continue
			}
			if dir := movable(m.Path, root, masked, g.Path, fixed); dir != "" {
				out = append(out, moving{
					fmt.Sprintf("%s %s: %s is denied, and %s could be moved there", g.Kind, bourn.Printable(g.Path), bourn.Printable(m.Path), bourn.Printable(dir)),
					"name all that the parent has there, write " + bourn.Printable(root) + ", or ask a person to deny " + bourn.Printable(dir) + " itself",
				})
			}
		}
	}
	return out
}

// movable returns a directory that holds what is denied and that the parent, in its mount of
// root, could move into another of the child's mounts than the one with the mask, or "". A
// directory does not go into itself, and with the place of the masked mount that mount goes.
func movable(denied, root, masked, into string, fixed map[string]bool) string {
	for dir := path.Dir(denied); dir != root && under(dir, root); dir = path.Dir(dir) {
		switch {
		case fixed[dir]:
		case masked != "" && under(masked, into):
			if dir != masked && under(dir, masked) {
				return dir
			}
		case !under(into, dir):
			return dir
		}
	}
	return ""
}

// mounts returns the grants that are mounts of their own: what lies in another that gives as
// much is none.
func mounts(grants []Grant) []Grant {
	var out []Grant
	for _, g := range grants {
		covered := slices.ContainsFunc(grants, func(o Grant) bool {
			return o.Kind != KindSpawnDir && o.Path != g.Path && under(g.Path, o.Path) && (o.Kind == KindWrite || g.Kind == KindRead)
		})
		if !covered || g.Kind == KindSpawnDir {
			out = append(out, g)
		}
	}
	return out
}

// fixed returns what the parent cannot move: the places of its mounts.
func (w *narrower) fixed() map[string]bool {
	at := map[string]bool{}
	for _, b := range w.plan.Binds {
		at[b.Path] = true
	}
	for _, m := range w.plan.Masks {
		at[m.Path] = true
	}
	for _, g := range w.plan.Guards {
		at[g.Path] = true
	}
	return at
}
