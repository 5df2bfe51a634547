package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox"
	"bourn/internal/sandbox/survey"
)

// A wish is a path that a person wants granted, and what it must agree with.
type wish struct {
	agent  bourn.AgentName
	kind   policy.Kind
	typed  string
	cwd    string // canonical
	denies []profile.Deny
	writes []string // further write grants, besides those of all profiles
	making bool     // the agent is about to be made: its grants are flags
}

// verbs are the commands that grant, by kind.
var verbs = map[policy.Kind]string{
	policy.KindRead: "allow-read", policy.KindWrite: "allow-write", policy.KindSpawnDir: "allow-spawn-dir",
}

// grant is what a person types to grant another path instead.
func (w wish) grant(path string) string {
	if w.making {
		return "--" + string(w.kind) + " " + shellQuote(path)
	}
	return "bourn agent perm " + verbs[w.kind] + " " + string(w.agent) + " " + shellQuote(path)
}

// grantable resolves the path of a wish. An error says why it cannot be granted.
func (h *Home) grantable(w wish) (policy.Grant, error) {
	at, err := h.absolute(w.typed, w.cwd)
	if err != nil {
		return policy.Grant{}, err
	}
	req := h.question(w, at)
	written, err := h.written()
	if err != nil {
		return policy.Grant{}, err
	}
	others := func() []string { return append(h.otherWrites("", written)(), w.writes...) }
	if err := sandbox.Gather(req, sandbox.Options{OtherWrites: others}); err != nil {
		return policy.Grant{}, err
	}
	g := req.Grants[0]
	refused := func(format string, args ...any) error {
		return bourn.WithHint(fmt.Errorf("%w: cannot grant %s: %s", bourn.ErrDenied, shown(w.typed, g.Real), bourn.Printable(fmt.Sprintf(format, args...))),
			"grant another path: what is named there holds for every agent")
	}
	switch {
	case g.Err != "":
		return g, refused("%s", g.Err)
	case !g.Exists:
		return g, w.missing(req, g)
	}
	if reason := req.Refusal(w.kind, g.Real); reason != "" {
		err := refused("%s", reason)
		if policy.Broad(g.Real, req.Homes) != "" {
			err = bourn.WithHint(err, "grant a directory that holds only what the agent needs")
		}
		return g, err
	}
	if g.Foul != "" {
		return g, bourn.WithHint(refused("%s is a symlink inside a write grant, and those are never followed: whoever may write there decides where it leads", g.Foul),
			"name the path that it leads to, if that is what you mean: "+bourn.Printable(g.Real))
	}
	return g, h.notDenied(w, g, refused)
}

// question is a request for one grant and nothing else.
func (h *Home) question(w wish, at string) *policy.Request {
	return &policy.Request{Agent: string(w.agent), Home: h.Person, BournDir: h.Dir, Program: h.Program,
		Grants: []policy.Grant{{Kind: w.kind, From: "profile", Fresh: true, Place: policy.Place{Path: at}}}}
}

// missing is the error for a path that does not exist, with the one that could be granted.
func (w wish) missing(req *policy.Request, g policy.Grant) error {
	err := fmt.Errorf("%w: cannot grant %s: the path does not exist", bourn.ErrNotFound, shown(w.typed, g.Real))
	near := "the nearest directory that exists is " + bourn.Printable(g.Ancestor)
	switch {
	case strings.ContainsAny(w.typed, "*?["):
		return bourn.WithHint(err, "a grant names one path and everything below it, only deny-path takes patterns; "+near)
	case req.Refusal(w.kind, g.Ancestor) != "":
		return bourn.WithHint(err, "make it first; "+near+", which cannot be granted")
	}
	return bourn.WithHint(err, "make it first, or grant what exists: "+w.grant(g.Ancestor))
}

// notDenied returns an error when a deny of the profile closes the grant: a deny wins.
func (h *Home) notDenied(w wish, g policy.Grant, refused func(string, ...any) error) error {
	if len(w.denies) == 0 {
		return nil
	}
	req := h.question(w, g.Real)
	for _, d := range w.denies {
		req.Denies = append(req.Denies, h.deny(d))
	}
	if err := sandbox.Gather(req, sandbox.Options{}); err != nil {
		return err
	}
	i, ok := closing(req.Denies, g.Real)
	if !ok {
		return nil
	}
	entry := w.denies[i].Text
	if w.making {
		return bourn.WithHint(refused("it is denied by %s, and a deny wins", bourn.Printable(entry)), "leave out one of the two")
	}
	return bourn.WithHint(refused("the profile denies %s, and a deny wins", bourn.Printable(entry)),
		"remove that entry first, if that is what you mean: bourn agent perm remove-path "+string(w.agent)+" "+shellQuote(entry))
}

// deny turns an entry of a profile into a question to the host.
func (h *Home) deny(d profile.Deny) policy.Deny {
	style := policy.StyleNone
	if d.Empty {
		style = policy.StyleEmpty
	}
	if d.Glob {
		return policy.Deny{Pattern: h.expandPattern(d.Text), From: "profile", Glob: true, Style: style}
	}
	text, _ := d.Literal()
	return policy.Deny{Pattern: h.expand(text), From: "profile", Style: style, Placeholder: d.Placeholder}
}

// closing returns the first deny that closes a real path, or something that holds it.
func closing(denies []policy.Deny, real string) (int, bool) {
	for i := range denies {
		if _, ok := denies[i].Closes(real); ok {
			return i, true
		}
	}
	return 0, false
}

// absolute returns the path that a person typed, from the root on and with what it has of
// "." and ".." as typed: the host resolves those.
func (h *Home) absolute(typed, cwd string) (string, error) {
	switch {
	case typed == "":
		return "", bourn.WithHint(fmt.Errorf("%w: a path cannot be empty", bourn.ErrInvalid), "is the variable set? . is the current directory")
	case strings.ContainsRune(typed, 0):
		return "", bourn.WithHint(fmt.Errorf("%w: path %q has a NUL character", bourn.ErrInvalid, typed), "no path has one: look at where this one comes from")
	case typed == "~":
		return h.Person, nil
	case strings.HasPrefix(typed, "~/"):
		return h.Person + typed[1:], nil
	case filepath.IsAbs(typed):
		return typed, nil
	}
	return cwd + "/" + typed, nil
}

// A denial is an entry of filesystem.deny as a profile would have it.
type denial struct {
	text   string
	glob   bool
	exists bool // of a path: something stands there

	placeholder bool
}

// denyEntry returns the entry that denies what a person typed. What exists by exactly that
// name is a path, whatever characters it has; else unescaped * ? [ { make a pattern,
// which stays as written but for where it begins.
func (h *Home) denyEntry(typed, cwd string) denial {
	literal := h.lexical(typed, cwd)
	if o, err := survey.Stat(literal); err == nil && o.Type != survey.Missing {
		return denial{text: profile.EscapePattern(literal), exists: true}
	}
	if !profile.IsPattern(typed) {
		literal = h.lexical(profile.Unescape(typed), cwd)
		o, err := survey.Stat(literal)
		return denial{text: profile.EscapePattern(literal), exists: err == nil && o.Type != survey.Missing}
	}
	if !filepath.IsAbs(typed) && !strings.HasPrefix(typed, "~/") {
		// The working directory is no pattern, whatever characters it has.
		typed = profile.EscapePattern(strings.TrimSuffix(cwd, "/")) + "/" + strings.TrimPrefix(typed, "./")
	}
	return denial{text: typed, glob: true}
}

// lexical returns a typed path, absolute and clean. Of one with a ".." in it, what stands
// before is resolved first, as the kernel does.
func (h *Home) lexical(typed, cwd string) string {
	at, err := h.absolute(typed, cwd)
	if err != nil {
		return typed
	}
	if i := strings.LastIndex(at+"/", "/../"); i >= 0 {
		if r, err := survey.Resolve(at[:i] + "/.."); err == nil {
			at = r.Real + at[min(i+len("/.."), len(at)):]
		}
	}
	return filepath.Clean(at)
}

// shown is a path for a message: as typed, and where that leads if it is elsewhere.
func shown(typed, real string) string {
	if real == "" || filepath.Clean(typed) == real {
		return bourn.Printable(typed)
	}
	return bourn.Printable(typed) + " (" + bourn.Printable(real) + ")"
}

// Resolve returns where a typed path leads on the host, as far as it exists.
func (h *Home) Resolve(typed, cwd string) (string, error) {
	at, err := h.absolute(typed, cwd)
	if err != nil {
		return "", err
	}
	r, err := survey.Resolve(at)
	if err != nil {
		return "", bourn.WithHint(fmt.Errorf("%w: %w", bourn.ErrInvalid, err), "name the path that is meant, without symlinks")
	}
	return r.Real, nil
}

// exists reports whether something stands at a path; what cannot be examined does not.
func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}
