package difftest

import (
	"slices"
	"strings"
)

// restart seals the same request several times. In each run but the last the command
// renames what it may, and puts decoys where denied objects stood; in the last one
// nothing that the first run closed may be seen, under whatever name it has by then.
func (e *engine) restart(t *trial) (v verdict, err error) {
	t = t.clone()
	if err := e.build(t); err != nil {
		return v, err
	}
	if err := e.prepare(t); err != nil {
		return v, err
	}
	base := e.base(t)
	first := newOracle(t, newWorld(base, t.Nodes, e.uid == 0), learnt{})
	for i := range t.Nodes {
		n := &t.Nodes[i]
		n.Token = n.token()
	}
	var closed map[string]bool // by token, once a report was seen
	for _, m := range t.Moves {
		o := newOracle(t, newWorld(base, t.Nodes, e.uid == 0), learnt{})
		from, to := base+"/"+m.From, base+"/"+m.To
		if o.kind(from) == "" || o.kind(to) != "" || under(to, from) || under(first.abs(t.Bourn), from) || under(first.abs(t.Cwd), from) {
			continue
		}
		ops := []op{{Op: "move", Path: from, Arg: to}}
		for _, at := range o.closed {
			if under(at, from) && at != from {
				ops = append(ops, op{Op: "put", Path: at})
			}
		}
		end, err := e.sealed(t, o, request{Ops: ops})
		if err != nil {
			return v, err
		}
		if end.hung {
			v.add(hung, "the run did not end in %s", hangs)
			return v, nil
		}
		if v.refused = end.refused; end.refused != "" {
			if !o.refused && !o.known(end.refused) {
				v.add("not started again: "+summary(end.refused), "%s", end.refused)
			}
			return v, nil
		}
		if closed == nil {
			closed = first.learn(end.report.Items).tokens()
		}
		if end.Results[0].Errno == 0 {
			t.renamed(m)
		}
		if e.forget != nil {
			e.forget(base)
		}
	}
	return v, e.again(t, first, closed, &v)
}

// tokens returns the tokens of what is closed in grants.
func (o *oracle) tokens() map[string]bool {
	closed := map[string]bool{}
	for at, n := range o.nodes {
		// What is closed for what it could run is no secret: it is not remembered.
		if o.granted(at) && o.isClosed(at) && !slices.Contains(o.special, at) && n.Kind != "link" && !under(at, o.abs(o.t.Bourn)) {
			object := o.object(at)
			if o.readableByName(object) { // by a name that the report says is not known
				continue
			}
			closed[n.token()] = true
			closed[o.nodes[object].token()] = true
		}
	}
	return closed
}

// renamed carries a move over to the nodes.
func (t *trial) renamed(m move) {
	for i := range t.Nodes {
		n := &t.Nodes[i]
		for _, p := range []*string{&n.Path, &n.Target} {
			if (p == &n.Path || n.Kind == "hard") && under(*p, m.From) {
				*p = m.To + strings.TrimPrefix(*p, m.From)
			}
		}
	}
}

// again is the last run: it looks everywhere.
func (e *engine) again(t *trial, first *oracle, closed map[string]bool, v *verdict) error {
	base := e.base(t)
	o := newOracle(t, newWorld(base, t.Nodes, e.uid == 0), learnt{})
	var ops []op
	var stats []op
	for _, at := range o.paths() {
		stats = append(stats, op{Op: "stat", Path: at})
		ops = append(ops, o.direct(at, "")...)
	}
	outside, err := e.ask(request{Ops: stats})
	if err != nil {
		return err
	}
	end, err := e.sealed(t, o, request{Ops: ops})
	if err != nil {
		return err
	}
	if end.hung {
		v.add(hung, "the run did not end in %s", hangs)
		return nil
	}
	if v.refused = end.refused; end.refused != "" {
		if !o.refused && !o.known(end.refused) {
			v.add("not started again: "+summary(end.refused), "%s", end.refused)
		}
		return nil
	}
	if closed == nil { // nothing was moved
		closed = first.learn(end.report.Items).tokens()
	}
	inodes := map[uint64]string{}
	var device uint64
	for i, s := range stats {
		n := o.nodes[o.object(s.Path)]
		if r := outside.Results[i]; r.Errno == 0 && n != nil && n.Kind != "link" && closed[n.token()] {
			inodes[r.Ino], device = s.Path, r.Dev
		}
	}
	v.ops += len(ops)
	for i, op := range ops {
		r := end.Results[i]
		if token := tokenOf(r.Content); closed[token] {
			v.add("leak after a restart by "+op.Op, "%s %q gives the content of %s", op.Op, o.relative(op.Path), token)
		}
		if at, is := inodes[r.Ino]; is && r.Errno == 0 && r.Dev == device && slices.Contains([]string{"read", "stat", "unlock"}, op.Op) {
			v.add("seen after a restart by "+op.Op, "%s %q reaches what was denied, now %s", op.Op, o.relative(op.Path), o.relative(at))
		}
	}
	return nil
}
