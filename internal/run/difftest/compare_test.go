package difftest

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"bourn/internal/policy"
)

// A finding is one difference. Kind is what stays the same while a trial is made smaller.
type finding struct{ Kind, Text string }

// verdict is what a trial gave.
type verdict struct {
	findings []finding
	refused  string // why nothing was executed
	ops      int
}

// hung is the kind of a run that does not end. It is not made smaller: that takes long.
const hung = "the run hung"

func (v *verdict) add(kind, format string, args ...any) {
	v.findings = append(v.findings, finding{kind, fmt.Sprintf(format, args...)})
}

// Operations by what they do. Those in nofollow are on a link itself.
var (
	writing  = []string{"write", "trunc", "chmod", "utime", "chown", "xattr", "create", "mkdir", "symlink", "mkfifo", "rename", "link", "unlink", "rmdir", "opentrunc", "replace", "exchange", "move"}
	nofollow = []string{"rename", "link", "unlink", "rmdir", "replace", "exchange", "move"}
	makes    = []string{"create", "mkdir", "symlink", "mkfifo"}
)

// operations lists what is tried. It depends on nothing but the trial.
func (o *oracle) operations() (ops []op, targets []string) {
	var aliases [][2]string // a link and where it leads
	for _, at := range o.paths() {
		if o.kind(at) == "link" {
			if r := o.resolve(at, true); r.exists && !r.foreign && r.real != at {
				aliases = append(aliases, [2]string{at, r.real})
			}
		}
	}
	free := ""
	for _, g := range o.writes {
		if o.kind(g) == "dir" && !o.later(g+"/zzm") {
			free = g
		}
	}
	targets = append(o.paths(), o.base, o.base+"/w/missing", o.base+"/o/missing")
	for _, at := range targets {
		ops = append(ops, o.direct(at, free)...)
		spelled := []op{{Path: "/proc/self/root" + at}, {Path: "/proc/1/root" + at}, {Path: "/proc/thread-self/cwd" + at}, {Path: at, Via: "at"}, {Path: at, Via: "cwd"},
			{Path: path.Dir(at) + "/../" + path.Base(path.Dir(at)) + "/" + path.Base(at)}, {Path: at + "/."}}
		n := 0
		for _, a := range aliases {
			if under(at, a[1]) && n < 3 {
				n++
				spelled = append(spelled, op{Path: a[0] + strings.TrimPrefix(at, a[1])})
			}
		}
		for _, s := range spelled {
			for _, what := range []string{"read", "stat", "write", "chmod", "create"} {
				if what == "create" && (o.kind(at) != "dir" || o.later(at+"/zzc") && !o.isClosed(at)) || what == "write" && (o.kind(at) == "dir" || o.kind(at) == "sock") {
					continue
				}
				s.Op, s.Arg = what, "zzc"
				ops = append(ops, s)
			}
		}
	}
	return ops, targets
}

// direct lists every operation on a path by its own name.
func (o *oracle) direct(at, free string) (ops []op) {
	add := func(what, arg string, args ...string) {
		ops = append(ops, op{Op: what, Path: at, Arg: arg, Args: args})
	}
	kind := o.kind(at)
	for _, what := range []string{"read", "stat", "write", "trunc", "chmod", "utime", "chown", "xattr"} {
		if kind != "sock" || what != "write" { // a socket is written to by nobody
			add(what, "")
		}
	}
	if kind == "dir" && (!o.later(at+"/zzc") || o.isClosed(at)) {
		for _, what := range makes {
			add(what, "zzc")
		}
	}
	if kind != "dir" {
		add("exec", "")
	}
	if kind == "sock" {
		add("connect", "")
	}
	beside := path.Dir(at) + "/zzr"
	if at != o.base && !o.later(beside) {
		var below []string
		for _, c := range o.paths() {
			if c != at && under(c, at) && o.isClosed(c) {
				below = append(below, strings.TrimPrefix(c, at+"/"))
			}
		}
		add("rename", beside, below...)
		add("link", beside)
		if free != "" && !under(free, at) && !o.later(free+"/zzm") {
			add("rename", free+"/zzm")
			add("link", free+"/zzm")
		}
	}
	var way []string
	for dir := path.Dir(at); under(dir, o.base) && dir != o.base; dir = path.Dir(dir) {
		way = append(way, dir)
	}
	slices.Reverse(way)
	add("unlock", "", way...)
	return ops
}

// destructive lists what must fail where it is tried: on what is closed, and on what is
// shown and may not be written.
func (o *oracle) destructive(targets []string, free string) (ops []op) {
	for _, at := range targets {
		if o.kind(at) == "" || !o.isClosed(at) && (!o.granted(at) || underAny(at, o.writes) && !underAny(at, o.guarded)) {
			continue
		}
		fresh := "/tmp/zzx"
		if free != "" {
			fresh = free + "/zzx"
		}
		for _, what := range []string{"unlink", "rmdir", "opentrunc", "replace", "exchange"} {
			if o.kind(at) == "link" && what == "opentrunc" { // it is not the link that would be emptied
				continue
			}
			ops = append(ops, op{Op: what, Path: at, Arg: fresh, destroys: true})
		}
	}
	for _, at := range slices.Concat(o.guarded, o.special) { // a name that runs code on the host must stay what it is
		// A directory that cannot be searched may be closed with the name in it, and then be
		// closed again under its own name while the probe puts back what it moved.
		if len(o.t.Deny) > 0 && !o.visible(at) {
			continue
		}
		for above := path.Dir(at); above != o.base; above = path.Dir(above) {
			if beside := path.Dir(above) + "/zzt"; o.pins[above] && !o.later(beside) {
				ops = append(ops, op{Op: "retake", Path: at, Arg: beside, Args: []string{above}, destroys: true})
			}
		}
	}
	return ops
}

// check carries out a trial once and compares.
func (e *engine) check(t *trial) (v verdict, err error) {
	if err := e.build(t); err != nil {
		return v, err
	}
	w := newWorld(e.base(t), t.Nodes, e.uid == 0)
	o := newOracle(t, w, learnt{})
	ops, targets := o.operations()
	roots := []string{w.base + "/w", w.base + "/o", w.base + "/home"}
	outside, err := e.ask(request{Ops: ops, Snap: roots})
	if err != nil {
		return v, err
	}
	for i, r := range outside.Results {
		if r.Note != "" {
			return v, fmt.Errorf("outside, %v: %s", ops[i], r.Note)
		}
	}
	if err := e.prepare(t); err != nil {
		return v, err
	}
	before, err := e.ask(request{Snap: roots})
	if err != nil {
		return v, err
	}
	free := ""
	for _, g := range o.writes {
		if o.kind(g) == "dir" && !o.later(g+"/zzm") {
			free = g
		}
	}
	all := slices.Concat(ops, o.cautious().destructive(targets, free))
	end, err := e.sealed(t, o, request{Ops: all, Explain: targets})
	if err != nil {
		return v, err
	}
	if end.hung {
		v.add(hung, "the run did not end in %s", hangs)
		return v, nil
	}
	v.refused = end.refused
	if end.refused != "" {
		if !o.refused && !o.known(end.refused) {
			v.add("not started: "+summary(end.refused), "%s", end.refused)
		}
		return v, nil
	}
	v.ops = len(all)
	after, err := e.ask(request{Snap: roots})
	if err != nil {
		return v, err
	}
	o = o.learn(end.report.Items)
	c := comparer{oracle: o, v: &v, outside: outside.Results, hostDev: 0, inodes: map[uint64]string{}}
	c.identities(ops)
	for i, op := range all {
		c.operation(op, end.Results[i], i)
	}
	c.report(end.report.Items)
	c.explained(targets, end.Explain, all, end.Results)
	for at, was := range before.Snap {
		if now := after.Snap[at]; now != was && !under(at, o.abs(t.Bourn)) {
			v.add("host changed", "%s was %q and is %q", o.relative(at), was, now)
		}
	}
	return v, nil
}

// summary is a message without what differs from trial to trial.
func summary(stderr string) string {
	line, _, _ := strings.Cut(stderr, "\n")
	return regexp.MustCompile(`"[^"]*"|/[^ ]*`).ReplaceAllString(line, "…")
}

// known reports whether a refusal to start is one that a trial may meet.
func (o *oracle) known(stderr string) bool {
	return strings.Contains(stderr, "was denied in an earlier run and is not at its place") || strings.Contains(stderr, "profile.yaml:") ||
		strings.Contains(stderr, "cannot make / writable") || // nowhere to start: the working directory is closed
		o.isClosed(o.abs("home")) && strings.Contains(stderr, "inside the seal: cannot execute")
}

// A comparer holds one trial's results against each other.
type comparer struct {
	*oracle
	v       *verdict
	outside []result
	hostDev uint64
	inodes  map[uint64]string // of objects that must not be seen
}

// identities learns the inodes of closed objects from the host.
func (c *comparer) identities(ops []op) {
	for i, op := range ops {
		r := c.outside[i]
		if op.Op != "stat" || op.Via != "" || r.Errno != 0 {
			continue
		}
		if way := c.resolve(op.Path, true); way.exists && !way.foreign {
			c.hostDev = r.Dev
			// Where the report says that other names are not known, one may be readable.
			if c.isClosed(way.real) && !c.readableByName(c.object(way.real)) {
				c.inodes[r.Ino] = way.real
			}
		}
	}
}

// real returns the place that an operation is about, inside and outside alike.
func (c *comparer) real(op op) way {
	p, rooted := strings.CutPrefix(op.Path, "/proc/self/root")
	r := c.resolve(p, !slices.Contains(nofollow, op.Op))
	if rooted && r.real == "" {
		r.foreign = true
	}
	return r
}

func (c *comparer) operation(op op, in result, i int) {
	way := c.real(op)
	spelled := fmt.Sprintf("%s %q", op.Op, strings.ReplaceAll(op.Path, c.base+"/", ""))
	if op.Via != "" {
		spelled += " by " + op.Via
	}
	if op.Arg != "" {
		spelled += fmt.Sprintf(" with %q", strings.ReplaceAll(op.Arg, c.base+"/", ""))
	}
	if way.real != op.Path {
		spelled += fmt.Sprintf(" (%s)", c.relative(way.real))
	}
	if token := tokenOf(in.Content); token != "" && !c.readableByName(c.object(c.base+"/"+token)) {
		c.v.add("leak by "+op.Op, "%s gives the content of %s", spelled, token)
	}
	if at, closed := c.inodes[in.Ino]; closed && in.Dev == c.hostDev && in.Errno == 0 {
		c.v.add("seen by "+op.Op, "%s reaches the object of %s", spelled, c.relative(at))
	}
	if way.foreign || way.failed {
		return
	}
	target := way.real
	switch {
	case !way.exists && !slices.Contains(makes, op.Op), op.Op == "write" && c.kind(target) == "sock":
		return
	case in.Errno == 0:
		c.succeeded(op, target, spelled)
	case !op.destroys && c.outside[i].Errno == 0:
		c.failed(op, way, in, spelled)
	}
	if op.Op == "read" && in.Errno == 0 && !op.destroys && c.outside[i].Errno == 0 && c.canRead(target) {
		c.same(in, c.outside[i], spelled)
	}
}

// succeeded judges an operation that went through.
func (c *comparer) succeeded(op op, target, spelled string) {
	switch {
	case op.Op == "retake":
		c.v.add("protected name taken", "%s succeeds after a rename of %s", spelled, c.relative(op.Args[0]))
	case c.isClosed(target) && op.Op != "stat" && (c.granted(target) || underAny(target, c.closed) && !c.ownOnly(target)):
		c.v.add("closed but "+op.Op, "%s succeeds", spelled)
	case c.granted(target) && !c.canWrite(target) && op.Op == "write" && c.kind(target) == "fifo":
		// A read-only mount does not stop a fifo, and Landlock cannot take away below what
		// it gives above: in a grant to read, below a place of the run's own.
		// Nor does one on a guarded directory, whose item says so.
		if !underAny(target, c.guarded) && (underAny(target, c.writes) || !c.private(target)) {
			c.v.add("read-only fifo but write", "%s succeeds", spelled)
		}
	case c.pins[target] && slices.Contains([]string{"rename", "rmdir", "replace", "exchange"}, op.Op):
		c.v.add("pinned but "+op.Op, "%s succeeds", spelled)
	case c.granted(target) && !c.canWrite(target) && slices.Contains(writing, op.Op):
		c.v.add("read-only but "+op.Op, "%s succeeds", spelled)
	case (op.Op == "write" || op.Op == "trunc") && c.guardedByName(c.object(target)) && !underAny(target, c.meant) &&
		!c.hiddenIn(target, append(c.paths(), c.base)): // where nobody can search, the item says that links are not guarded
		c.v.add("guarded but written by another name", "%s succeeds", spelled)
	case op.Op == "exec" && c.granted(target) && !c.canExec(target):
		c.v.add("noexec but exec", "%s succeeds", spelled)
	}
}

// ownOnly reports whether a closed place is closed only because it is Bourn's: where it
// is not granted, a run may have something of its own there.
func (c *comparer) ownOnly(target string) bool { return under(target, c.abs(c.t.Bourn)) }

// failed judges an operation that succeeds outside and not inside.
func (c *comparer) failed(op op, way way, in result, spelled string) {
	if !c.canRead(way.real) || !c.passable(way) || op.Op == "unlock" || c.later(way.real) {
		return
	}
	if slices.Contains(writing, op.Op) && !c.canWrite(way.real) || op.Op == "exec" && !c.canExec(way.real) {
		return
	}
	// What a pattern matches may be closed before the probe has removed it again. It is tried
	// where a directory seems closed, and it is not when whoever plans cannot see why.
	if slices.Contains(makes, op.Op) && c.later(way.real+"/"+op.Arg) {
		return
	}
	if op.Op == "rename" || op.Op == "link" {
		from := way.real
		if op.Op == "rename" {
			from = path.Dir(from)
		}
		switch {
		case !c.canWrite(path.Dir(way.real)) || !c.canWrite(path.Dir(op.Arg)):
			return
		case in.Errno == syscall.EXDEV && c.mount(from) != c.mount(path.Dir(op.Arg)):
			return
		case in.Errno == syscall.EBUSY && op.Op == "rename" && c.mountPoint(way.real):
			return
		}
	}
	c.v.add(fmt.Sprintf("over-closed %s %v", op.Op, int(in.Errno)), "%s fails with %v, and outside it does not", spelled, in.Errno)
}

// same compares what was read.
func (c *comparer) same(in, out result, spelled string) {
	visible := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.HasPrefix(n, "zz") })
	}
	if in.Content != out.Content || !slices.Equal(visible(in.Names), visible(out.Names)) {
		c.v.add("content differs", "%s gives %q %q and outside %q %q", spelled, in.Content, in.Names, out.Content, out.Names)
	}
}

// report holds the items against the oracle, whose word the operations were held against.
func (c *comparer) report(items []policy.Item) {
	var reads, writes []string
	for _, it := range items {
		if it.Fate != policy.Enforced {
			continue
		}
		switch it.Kind {
		case policy.KindRead:
			reads = append(reads, it.Target)
		case policy.KindWrite:
			writes = append(writes, it.Target)
		case policy.KindDeny:
			way := c.resolve(it.Target, true)
			if way.exists && !way.foreign && c.visible(way.real) && !c.isClosed(way.real) {
				c.v.add("deny unknown to the oracle", "the report says enforced for %s", c.relative(it.Target))
			}
		case policy.KindProtect, policy.KindHost, policy.KindUnix, policy.KindSpawnDir, policy.KindEnv, policy.KindDoor, policy.KindTool, policy.KindRecords, policy.KindLimit, policy.KindDefault:
		}
	}
	c.equal("read", c.reads, reads)
	c.equal("write", slices.DeleteFunc(slices.Clone(c.writes), func(w string) bool { return slices.Contains(c.dropped, w) }), writes)
	for _, text := range c.through {
		if !slices.ContainsFunc(items, func(it policy.Item) bool {
			return it.Kind == policy.KindDeny && it.Fate == policy.Dropped && strings.HasSuffix(it.Target, "/"+text) && strings.Contains(it.Reason, " leads to was not searched")
		}) {
			c.v.add("link not mentioned", "the pattern %s leads through a link, and the report does not say so", text)
		}
	}
	c.denied(items)
	c.listed(items)
}

// listed wants an item for everything read-only and for every socket that can be reached.
func (c *comparer) listed(items []policy.Item) {
	has := func(kind policy.Kind, at string) bool {
		return slices.ContainsFunc(items, func(it policy.Item) bool {
			return it.Kind == kind && it.Fate == policy.Enforced && it.Target == at
		})
	}
	for _, at := range c.guarded {
		if !c.isClosed(at) && !has(policy.KindProtect, at) {
			c.v.add("protection not listed", "nothing in the report makes %s read-only", c.relative(at))
		}
	}
	for _, at := range c.special {
		if !slices.ContainsFunc(items, func(it policy.Item) bool {
			return it.Kind == policy.KindProtect && it.Fate == policy.Enforced && it.Target == at && strings.HasPrefix(it.Caveat, "closed: ")
		}) {
			c.v.add("protection not listed", "nothing in the report closes %s", c.relative(at))
		}
	}
	for _, at := range c.paths() {
		// /proc/net/unix has a line for each socket: a path with a newline is not listed.
		if c.kind(at) == "sock" && !strings.Contains(at, "\n") && c.canRead(at) && !has(policy.KindUnix, at) {
			c.v.add("socket not listed", "%s can be connected to, and the report does not say so", c.relative(at))
		}
	}
}

// denied wants an enforced item, or a dropped one with a reason, for every deny.
func (c *comparer) denied(items []policy.Item) {
	for _, at := range slices.Concat(c.closed, c.special) {
		ok := slices.ContainsFunc(items, func(it policy.Item) bool {
			if it.Kind != policy.KindDeny && it.Kind != policy.KindProtect || it.Fate != policy.Enforced {
				return false
			}
			way := c.resolve(it.Target, true)
			return way.exists && under(at, way.real)
		})
		if !ok && c.granted(at) {
			c.v.add("deny not enforced", "nothing in the report closes %s", c.relative(at))
		}
	}
}

func (c *comparer) equal(kind string, want, got []string) {
	norm := func(in []string) []string {
		out := slices.Clone(in)
		slices.Sort(out)
		return slices.Compact(out)
	}
	if w, g := norm(want), norm(got); !slices.Equal(w, g) {
		c.v.add("grants differ", "%s: the oracle has %q and the report %q", kind, w, g)
	}
}

// explained holds Explain's answers against what happened to the same path.
func (c *comparer) explained(targets []string, answers [][3]bool, ops []op, results []result) {
	index := map[string]int{}
	for i, t := range targets {
		index[t] = i
	}
	for i, op := range ops {
		at, isTarget := index[op.Path]
		if !isTarget || op.Via != "" || op.destroys || c.kind(op.Path) == "link" || !c.resolve(op.Path, false).exists {
			continue
		}
		what, n := "", 0
		switch op.Op {
		case "read":
			what = "read"
		case "write", "trunc", "chmod", "create", "mkdir":
			what, n = "write", 1
		case "exec":
			what, n = "exec", 2
		default:
			continue
		}
		allowed, errno := answers[at][n], results[i].Errno
		switch {
		case !allowed && errno == 0:
			if n == 1 && c.kind(op.Path) == "fifo" { // judged already
				continue
			}
			if !c.granted(op.Path) && c.kind(op.Path) == "dir" { // above what is shown stand empty directories
				continue
			}
			c.v.add("explain denies "+what, "%s of %s succeeds, and explain says denied", op.Op, c.relative(op.Path))
		case allowed && errno != 0 && c.outside[i].Errno == 0 && c.granted(op.Path):
			c.v.add("explain allows "+what, "%s of %s fails with %v, and explain says allowed", op.Op, c.relative(op.Path), errno)
		}
	}
}

// reproduction is a script that makes the tree and starts the run.
func (e *engine) reproduction(t *trial) string {
	base := "/var/tmp/r"
	if t.Place != "/var/tmp" {
		base = t.Place + "/r"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# seed %d, uid %d\nrm -rf %s; mkdir %s\n", t.Seed, t.UID, base, base)
	b.WriteString(script(base, t.Nodes))
	env := fmt.Sprintf("HOME=%s/home BOURN_HOME=%s", base, quote(base+"/"+t.Bourn))
	if t.Agent {
		agent := quote(base + "/" + t.Bourn + "/agents/x")
		fmt.Fprintf(&b, "mkdir -p %s/home\ncat > %s/profile.yaml <<'END'\n%sEND\n", agent, agent, t.profile(base))
	}
	o := newOracle(t, newWorld(base, t.Nodes, t.UID == 0), learnt{})
	elsewhere := !o.canRead(base + "/" + t.Cwd)
	if elsewhere {
		b.WriteString("cd /\n")
	} else {
		fmt.Fprintf(&b, "cd %s\n", quote(base+"/"+t.Cwd))
	}
	for _, m := range t.Moves {
		fmt.Fprintf(&b, "# between two runs, inside: mv -T %s %s\n", quote(m.From), quote(m.To))
	}
	args := t.args(base, "-", elsewhere)
	for i := range args {
		args[i] = quote(args[i])
	}
	args[len(args)-1] = "sh"
	fmt.Fprintf(&b, "%s bourn %s\n", env, strings.Join(args, " "))
	return b.String()
}

func (t *trial) clone() *trial {
	data, _ := json.Marshal(t)
	var c trial
	_ = json.Unmarshal(data, &c)
	return &c
}

// shrink removes parts of a trial while a difference of the same kind stays.
func (e *engine) shrink(t *trial, kind string, budget int) (*trial, verdict) {
	best := t
	var last verdict
	still := func(c *trial) bool {
		budget--
		v, err := e.run(c)
		if err != nil || !slices.ContainsFunc(v.findings, func(f finding) bool { return f.Kind == kind }) {
			return false
		}
		last = v
		return true
	}
	for changed := true; changed && budget > 0; {
		changed = false
		for _, c := range best.smaller() {
			if budget <= 0 {
				break
			}
			if still(c) {
				best, changed = c, true
				break
			}
		}
	}
	return best, last
}

// smaller lists trials with one part less.
func (t *trial) smaller() (out []*trial) {
	drop := func(n int, f func(c *trial, i int)) {
		for i := n - 1; i >= 0; i-- {
			c := t.clone()
			f(c, i)
			out = append(out, c)
		}
	}
	drop(len(t.Deny), func(c *trial, i int) { c.Deny = slices.Delete(c.Deny, i, i+1) })
	drop(len(t.Read), func(c *trial, i int) { c.Read = slices.Delete(c.Read, i, i+1) })
	drop(len(t.Write), func(c *trial, i int) { c.Write = slices.Delete(c.Write, i, i+1) })
	drop(len(t.Spawn), func(c *trial, i int) {
		c.Spawn = slices.Delete(c.Spawn, i, i+1)
		if len(c.Spawn) == 0 && !c.Agent {
			c.Exec = "any"
		}
	})
	drop(len(t.Moves), func(c *trial, i int) { c.Moves = slices.Delete(c.Moves, i, i+1) })
	for i := len(t.Nodes) - 1; i >= 0; i-- {
		n := t.Nodes[i]
		if !strings.Contains(n.Path, "/") || n.Path == t.Bourn || n.Path == t.Cwd {
			continue
		}
		c := t.clone()
		c.Nodes = slices.DeleteFunc(c.Nodes, func(o node) bool {
			return under(o.Path, n.Path) || o.Kind == "hard" && under(o.Target, n.Path)
		})
		if !slices.ContainsFunc(c.Nodes, func(o node) bool { return o.Path == t.Bourn }) {
			continue
		}
		out = append(out, c)
	}
	for i, n := range t.Nodes {
		if n.Kind == "dir" && n.Mode != 0o755 && n.Path != t.Bourn {
			c := t.clone()
			c.Nodes[i].Mode = 0o755
			out = append(out, c)
		}
	}
	if t.Agent && (t.Exec == "any" && len(t.Spawn) == 0 || t.Exec == "allowlist" && len(t.Spawn) > 0) {
		c := t.clone()
		c.Agent = false
		out = append(out, c)
	}
	return out
}
