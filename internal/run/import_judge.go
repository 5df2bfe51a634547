package run

import (
	"path/filepath"
	"slices"
	"strings"

	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox/survey"
)

// judge decides about every claim, kind by kind.
func (im *importer) judge() error {
	decide := map[claimKind]func(*claim){
		claimDenyRead: im.denyRead, claimWrite: im.grantWrite, claimRead: im.grantRead, claimDenyWrite: im.denyWrite,
		claimDenyHost: im.denyHost, claimHost: im.grantHost, claimUnix: im.grantUnix, claimEnv: im.setEnv, claimNoEnv: im.noEnv,
	}
	for kind := claimDenyRead; kind < claimDecided; kind++ {
		if kind == claimWrite {
			im.loseWrites()
		}
		for i := range im.claims {
			if im.claims[i].kind == kind {
				decide[kind](&im.claims[i])
			}
		}
	}
	// By name nothing closes the project; by a link something may.
	_, err := im.grantable(policy.KindWrite, im.at.project, im.denies)
	return err
}

// loseWrites keeps grants from what may be read and not changed.
func (im *importer) loseWrites() {
	for i := range im.claims {
		c := &im.claims[i]
		if c.kind == claimDenyWrite && (c.path.bad != "" || !im.allDenied(c.path.denies())) {
			im.lose(c)
		}
	}
}

// preset is what every agent that is made here has besides its profile.
func (im *importer) preset() profile.Preset {
	p, _ := profile.FindPreset(claudePreset)
	return p
}

// presetOver returns the write grant of the preset that holds a path, or "".
func (im *importer) presetOver(at string) string {
	for _, w := range im.preset().Write {
		if policy.Under(at, im.home.expand(w)) {
			return w
		}
	}
	return ""
}

// ownPlaces are what every run has of its own: nothing of the host's is there.
var ownPlaces = []string{"/proc", "/dev", "/run", "/tmp", "/var/tmp"}

// denyRead closes what a deny names, for reading and so for writing.
func (im *importer) denyRead(c *claim) {
	im.closeRead(c)
	if c.fate == importNot {
		im.lose(c)
	}
}

func (im *importer) closeRead(c *claim) {
	if c.path.bad != "" {
		c.not("%s", c.path.bad)
		return
	}
	texts := c.path.denies()
	if err := im.canDeny(texts); err != nil {
		if strings.Contains(strings.Join(c.path.components, ""), "]") {
			c.not("%s", plainReason(err))
			return
		}
		if texts = c.path.plainDenies(); im.canDeny(texts) != nil {
			c.not("%s", plainReason(err))
			return
		}
	}
	if im.closesAny(texts, im.at.project) {
		im.holdsProject(c)
		return
	}
	if im.ofHost(c, texts) {
		return
	}
	for _, w := range im.preset().Write {
		at := im.home.expand(w)
		if im.closesAny(texts, at) || policy.Under(im.home.expand(c.path.reach()), at) {
			c.not("Claude Code itself works in %s, and one seal holds for it and its tools", w)
			return
		}
	}
	for _, text := range texts {
		if !slices.ContainsFunc(im.denies, func(d profile.Deny) bool { return d.Clean() == newDeny(text).Clean() }) {
			im.denies = append(im.denies, newDeny(text))
		}
	}
	c.take(profile.DenyList, texts...)
}

// ofHost decides about what no run has of the host's, or none can be without.
func (im *importer) ofHost(c *claim, texts []string) bool {
	reach := im.home.expand(c.path.reach())
	for _, own := range ownPlaces {
		if reach == own || policy.Under(reach, own) && !policy.Under(reach, "/tmp") && !policy.Under(reach, "/var/tmp") && !policy.Under(reach, "/dev/shm") {
			c.already("every run has a %s of its own", own)
			return true
		}
	}
	for _, at := range append([]string{"/etc"}, policy.SystemPaths...) {
		if exists(at) && im.closesAny(texts, at) {
			c.not("no program runs without %s, of which only what everybody may read is shown", at)
			return true
		}
	}
	return false
}

// holdsProject decides about a deny that the project lies in.
func (im *importer) holdsProject(c *claim) {
	open := slices.ContainsFunc(im.allowRead, func(p claudePath) bool {
		at, bad := p.path()
		return bad == "" && policy.Under(im.at.project, im.home.expand(at)) && im.home.expand(at) != im.home.expand(c.path.reach())
	})
	if c.block && open {
		c.already("nothing of it is shown but what is granted")
		return
	}
	c.not("it would close the project, in which the agent works; besides the project nothing of it is shown that is not granted")
}

func newDeny(text string) profile.Deny {
	return profile.Deny{Path: profile.Path{Text: text}, Glob: profile.IsPattern(text)}
}

// canDeny returns why a profile could not hold entries, or a run not search for them.
func (im *importer) canDeny(texts []string) error {
	for _, text := range texts {
		if _, _, err := profile.Add("profile.yaml", []byte("version: 1\nagent: a\n"), profile.DenyList, text); err != nil {
			return err
		}
		if !profile.IsPattern(text) {
			continue
		}
		if _, err := survey.ParsePattern(im.home.expandPattern(text)); err != nil {
			return err
		}
	}
	return nil
}

// closesAny reports whether one of the entries closes a path, by name or by where a link
// leads.
func (im *importer) closesAny(texts []string, at string) bool {
	for _, text := range texts {
		d := newDeny(text)
		if literal, ok := d.Literal(); ok {
			real, _ := im.home.Resolve(literal, im.cwd)
			if policy.Under(at, im.home.expand(literal)) || real != "" && policy.Under(at, real) {
				return true
			}
			continue
		}
		p, err := survey.ParsePattern(im.home.expandPattern(text))
		if err != nil {
			return true
		}
		for dir := at; dir != "/"; dir = filepath.Dir(dir) {
			if p.Match(dir) {
				return true
			}
		}
	}
	return false
}

// granted decides about an allow that adds nothing to what is granted already.
func (im *importer) granted(c *claim) bool {
	at := im.home.expand(c.path.prefix())
	w := im.presetOver(at)
	switch {
	case c.path.bad != "" || c.path.climbs && !c.block:
		return false
	case policy.Under(at, im.at.project):
		c.already("it lies in the project, which is writable")
	case w != "":
		c.already("preset %s grants %s", claudePreset, w)
	default:
		return false
	}
	return true
}

// place returns the path that an allow grants.
func (im *importer) place(c *claim) (string, bool) {
	at, bad := c.path.path()
	switch {
	case bad != "":
		c.not("%s", bad)
	case c.path.climbs && !c.block:
		c.not(`a rule reaches only what lies below the directory where it begins, and ".." leaves that; name the path with // or ~/`)
	case at == "":
		c.not("it names no path")
	}
	return at, c.say == ""
}

func (im *importer) grantWrite(c *claim) {
	if im.granted(c) {
		return
	}
	at, ok := im.place(c)
	if !ok {
		return
	}
	if slices.Contains([]string{"/tmp", "/var/tmp", "/dev/shm"}, im.home.expand(at)) {
		c.already("every run has a %s of its own, gone after it", at)
		return
	}
	g, err := im.grantable(policy.KindWrite, at, im.denies)
	if err != nil {
		c.not("%s", plainReason(err))
		return
	}
	if !im.unlost(c, g.Real) {
		return
	}
	im.writes = addOnce(im.writes, g.Real)
	c.take(profile.WriteList, g.Real)
}

func (im *importer) grantRead(c *claim) {
	if im.granted(c) {
		return
	}
	at, ok := im.place(c)
	if !ok {
		return
	}
	if policy.InSystem(im.home.expand(at)) {
		c.already("system paths are readable")
		return
	}
	g, err := im.grantable(policy.KindRead, at, im.denies)
	if err != nil {
		c.not("%s", plainReason(err))
		return
	}
	if i := slices.IndexFunc(im.writes, func(w string) bool { return policy.Under(g.Real, w) }); i >= 0 {
		c.take(profile.WriteList, im.writes[i])
		return
	}
	if !im.unlost(c, g.Real) {
		return
	}
	im.reads = addOnce(im.reads, g.Real)
	c.take(profile.ReadList, g.Real)
}

// denyWrite decides about what may be read and not changed.
func (im *importer) denyWrite(c *claim) {
	if c.path.bad != "" {
		c.not("%s", c.path.bad)
		return
	}
	if texts := c.path.denies(); im.allDenied(texts) {
		c.take(profile.DenyList, texts...)
		return
	}
	reach := im.home.expand(c.path.reach())
	real, err := im.home.Resolve(reach, im.cwd)
	writes := slices.Clone(im.writes)
	for _, w := range im.preset().Write {
		writes = append(writes, im.home.expand(w))
	}
	meets := func(w string) bool {
		return policy.Under(reach, w) || policy.Under(w, reach) || policy.Under(real, w) || policy.Under(w, real)
	}
	if err == nil && !slices.ContainsFunc(writes, meets) {
		c.already("nothing of the host's can be written outside the write grants")
		return
	}
	c.not("to be read and not changed, inside what is writable: bourn has no line for that; a Read deny closes it for both")
}

func (im *importer) allDenied(texts []string) bool {
	return !slices.ContainsFunc(texts, func(t string) bool { return !im.isDenied(t) })
}

// isDenied reports whether an entry is closed by those that were taken.
func (im *importer) isDenied(text string) bool {
	literal, plain := newDeny(text).Literal()
	return slices.ContainsFunc(im.denies, func(d profile.Deny) bool {
		over, ok := d.Literal()
		return d.Clean() == newDeny(text).Clean() || ok && plain && policy.Under(im.home.expand(literal), im.home.expand(over))
	})
}

// A lostRule takes something away, and no line keeps that: what it reaches is not granted.
type lostRule struct {
	reach string // absolute
	rule  string
}

func (im *importer) lose(c *claim) {
	reach := im.home.expand(c.path.reach())
	im.lost = append(im.lost, lostRule{reach, c.rule})
	if real, err := im.home.Resolve(reach, im.cwd); err == nil && real != reach {
		im.lost = append(im.lost, lostRule{real, c.rule})
	}
}

// unlost refuses a grant that a lost rule would narrow.
func (im *importer) unlost(c *claim, real string) bool {
	for _, l := range im.lost {
		if policy.Under(real, l.reach) || policy.Under(l.reach, real) {
			c.not("%s takes something of it away, which bourn cannot express", l.rule)
			return false
		}
	}
	return true
}
