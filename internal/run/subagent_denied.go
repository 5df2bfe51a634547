package run

import (
	"fmt"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox"
	"bourn/internal/worker"
)

// What is denied to a run is denied to those who work for it as the objects that they are,
// too: between its seal and theirs a directory may be renamed, and no pattern would find what
// is in it.

// objects returns what the run is denied, as the host had it when the run was planned, and
// what those were denied that it works for.
func (p *Prepared) objects() []sandbox.Remembered {
	var out []sandbox.Remembered
	for _, d := range p.Request.Denies {
		add := func(at policy.Place) {
			if !at.Exists || at.Made || at.Object == (policy.Object{}) {
				return
			}
			root, write := p.Whole.Root(at.Real)
			if !write { // it is not the run that could rename it
				root = at.Real
			}
			out = append(out, sandbox.Remembered{Pattern: d.Pattern, Path: at.Real, Root: root, Object: at.Object})
		}
		add(d.Place)
		for _, m := range d.Matches {
			add(m)
		}
		for _, m := range d.More {
			add(m.Place)
		}
	}
	return merged(out, p.known)
}

// merged returns a list with what it does not have yet of another.
func merged(list, more []sandbox.Remembered) []sandbox.Remembered {
	type key struct {
		pattern string
		object  policy.Object
	}
	has := make(map[key]bool, len(list))
	for _, r := range list {
		has[key{r.Pattern, r.Object}] = true
	}
	for _, r := range more {
		if k := (key{r.Pattern, r.Object}); !has[k] {
			has[k] = true
			list = append(list, r)
		}
	}
	return list
}

// maxInherited bounds what is told of denied objects, in bytes of their names: twice that and
// a task fit into a message.
const maxInherited = 4 << 20

// told returns objects as another process is told of them, and whether these are all.
func told(objects []sandbox.Remembered) (out []worker.Object, all bool) {
	const numbers = 100 // bytes of what is no name
	size := 0
	for _, r := range objects {
		if size += numbers + len(r.Pattern) + len(r.Path) + len(r.Root); size > maxInherited {
			return nil, false
		}
		out = append(out, worker.Object{Pattern: r.Pattern, Path: r.Path, Root: r.Root, Dev: r.Object.Dev, Ino: r.Object.Ino, Born: r.Object.Born})
	}
	return out, true
}

// inherit takes what the caller's run is denied, as objects.
func (p *Prepared) inherit(from worker.Inherited) error {
	if from.Untold {
		return bourn.WithHint(fmt.Errorf("%w: more is denied to the caller than another agent can be told", bourn.ErrDenied),
			"deny the directory that holds it instead of each file, or leave agent out")
	}
	var objects []sandbox.Remembered
	for _, o := range from.Objects {
		objects = append(objects, sandbox.Remembered{Pattern: o.Pattern, Path: o.Path, Root: o.Root, Object: policy.Object{Dev: o.Dev, Ino: o.Ino, Born: o.Born}})
	}
	p.known = merged(p.known, objects)
	return nil
}
