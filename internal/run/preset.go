package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox/survey"
)

// NoPreset is the name that keeps a run without the preset of its command.
const NoPreset = "none"

// presets applies the presets that the profile or the command line name, and without
// either, for a run without an agent, the one that the command selects.
func (p *Prepared) presets() error {
	names := slices.Clone(p.Options.Presets)
	if p.Profile != nil {
		names = append(p.Profile.Presets, names...)
	}
	if len(names) == 0 && p.Options.Agent == "" {
		if preset, ok := p.presetOfCommand(); ok {
			names = []string{preset.Name}
			p.Chosen = preset.Name
		}
	}
	if slices.Contains(names, NoPreset) {
		if len(names) > 1 {
			return bourn.WithHint(fmt.Errorf("%w: --preset none and another preset contradict each other", bourn.ErrInvalid),
				"leave out the flag, or take the preset out of the agent's profile")
		}
		return nil
	}
	for i, name := range names {
		preset, ok := profile.FindPreset(name)
		if !ok {
			return bourn.WithHint(fmt.Errorf("%w: no preset %q", bourn.ErrInvalid, bourn.Printable(name)), "there are "+presetNames())
		}
		if slices.Contains(names[:i], name) {
			continue
		}
		if err := p.preset(preset); err != nil {
			return err
		}
	}
	return nil
}

func presetNames() string {
	var names []string
	for _, preset := range profile.Presets() {
		names = append(names, preset.Name)
	}
	return strings.Join(names, ", ")
}

// presetOfCommand returns the preset that the command selects: by its name as it is found
// in PATH, or by that of what it leads to. A program of a project selects nothing, since
// whoever made the project would have what the preset grants: one below the current
// directory or its repository, or in anything that is granted or that a run could write.
func (p *Prepared) presetOfCommand() (profile.Preset, bool) {
	if len(p.Request.Command) == 0 {
		return profile.Preset{}, false
	}
	command := p.Request.Command[0]
	if strings.Contains(command, "/") && !filepath.IsAbs(command) {
		return profile.Preset{}, false
	}
	at := p.home.find(command, p.Options.Cwd)
	if at == "" {
		return profile.Preset{}, false
	}
	r, err := survey.Resolve(at)
	if err != nil {
		return profile.Preset{}, false
	}
	preset, ok := profile.PresetFor(filepath.Base(at))
	if !ok {
		preset, ok = profile.PresetFor(filepath.Base(r.Real))
	}
	if ok && (p.ofProject(at) || p.ofProject(r.Real)) {
		p.notes = append(p.notes, "preset "+preset.Name+" is not applied, since "+at+" is a project's or could have been written by a run (--preset "+preset.Name+" applies it)")
		return profile.Preset{}, false
	}
	return preset, ok
}

// ofProject reports whether a program belongs to what is worked on.
func (p *Prepared) ofProject(at string) bool {
	top := p.Options.Cwd
	for dir := top; dir != "/"; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, ".git")) {
			top = dir
		}
	}
	granted := slices.ContainsFunc(p.Request.Grants, func(g policy.Grant) bool { return p.holds(g, at) })
	return granted || policy.Under(at, top) && !policy.InSystem(at) || p.writable(at)
}

// holds reports whether a grant that is not resolved yet holds a path.
func (p *Prepared) holds(g policy.Grant, at string) bool {
	if policy.Under(at, g.Path) {
		return true
	}
	r, err := survey.Resolve(g.Path)
	return err != nil || policy.Under(at, r.Real)
}

// writable reports whether a write grant of this run, or of an agent, holds a path.
func (p *Prepared) writable(at string) bool {
	for _, g := range p.Request.Grants {
		if g.Kind == policy.KindWrite && p.holds(g, at) {
			return true
		}
	}
	return slices.ContainsFunc(p.others(), func(w string) bool { return policy.Under(at, w) })
}

// preset adds what a preset grants on this host.
func (p *Prepared) preset(preset profile.Preset) error {
	from := "preset:" + preset.Name
	place := func(text string) string {
		for _, v := range preset.Homes {
			if value, ok := p.home.lookup(v.Name); ok && filepath.IsAbs(value) && (text == v.Instead || strings.HasPrefix(text, v.Instead+"/")) {
				return filepath.Clean(value + text[len(v.Instead):])
			}
		}
		return p.home.expand(text)
	}
	for _, m := range preset.Make {
		if err := p.make(place(m.Path), m.Text); err != nil {
			return err
		}
	}
	grant := func(kind policy.Kind, paths []string) {
		for _, text := range paths {
			for _, at := range matches(place(text)) {
				p.grant(kind, at, from, true)
			}
		}
	}
	grant(policy.KindWrite, preset.Write)
	grant(policy.KindRead, preset.Read)
	p.presetHosts(preset, from)
	p.presetSockets(preset, from)
	if preset.Git {
		p.gitDirs(from)
	}
	if preset.SSH && len(p.Request.Files) == 0 {
		p.Request.Files, p.Request.FilesOf = sshFiles("/etc/ssh"), from
	}
	for _, name := range preset.Env {
		if _, set := p.home.lookup(name); set && !p.hasVar(name) {
			p.pass(name, from)
		}
	}
	for _, v := range preset.Set {
		if !p.hasVar(v.Name) {
			p.Request.Env = withVar(p.Request.Env, policy.EnvVar{Name: v.Name, Value: v.Value, From: from})
		}
	}
	if preset.Note != "" {
		p.notes = append(p.notes, preset.Note)
	}
	return nil
}

// matches returns what exists at a path whose last component may be a pattern.
func matches(at string) []string {
	dir, name := filepath.Split(at)
	if !strings.ContainsAny(name, "*?[") {
		if exists(at) {
			return []string{at}
		}
		return nil
	}
	var out []string
	entries, _ := os.ReadDir(dir) // sorted; what cannot be listed holds nothing to grant
	for _, e := range entries {
		if ok, _ := filepath.Match(name, e.Name()); ok {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// presetSockets adds the sockets that variables name, or else the usual one.
func (p *Prepared) presetSockets(preset profile.Preset, from string) {
	usual := preset.SocketAt
	for _, name := range preset.Sockets {
		value, set := p.home.lookup(name)
		if set && value != "" {
			usual = ""
		}
		p.unix(strings.TrimPrefix(value, "unix://"), from, preset.Gives)
	}
	p.unix(usual, from, preset.Gives)
}

func (p *Prepared) unix(at, from, gives string) {
	if filepath.IsAbs(at) {
		p.Request.Unix = append(p.Request.Unix, policy.Grant{Kind: policy.KindUnix, From: from, Fresh: true, Gives: gives, Place: policy.Place{Path: filepath.Clean(at)}})
	}
}

func (p *Prepared) hasVar(name string) bool {
	return slices.ContainsFunc(p.Request.Env, func(v policy.EnvVar) bool { return v.Name == name })
}

// presetHosts adds the hosts of a preset, and with one the network is restricted, unless
// the profile says what it is.
func (p *Prepared) presetHosts(preset profile.Preset, from string) {
	if p.Profile != nil && p.Profile.Network.ModeNamed() && p.Request.Network != policy.NetworkRestricted {
		return
	}
	add := func(text string, private bool) {
		h, err := policy.ParseHost(text)
		if err != nil || policy.ProtectedHost(h) != "" {
			return
		}
		if !slices.ContainsFunc(p.Request.Hosts, func(w policy.HostWish) bool { return w.Host == h }) {
			p.Request.Hosts = append(p.Request.Hosts, policy.HostWish{Host: h, From: from, Private: private})
		}
		p.Request.Network = policy.NetworkRestricted
	}
	for _, text := range preset.Hosts {
		add(text, false)
	}
	// What the person's own configuration names may stand in a network of theirs.
	for _, name := range preset.HostVars {
		if value, ok := p.home.lookup(name); ok {
			for _, text := range urlHosts(value) {
				add(text, true)
			}
		}
	}
	for _, toolchain := range preset.Registries {
		for _, text := range p.home.registries(toolchain, p.writable) {
			add(text, true)
		}
	}
}

// make makes what a tool would make in its first run and could not keep. Only a run does
// so, not its plan.
func (p *Prepared) make(at, text string) error {
	if exists(at) {
		return nil
	}
	if !p.Options.Starting {
		p.notes = append(p.notes, at+" does not exist: the run makes it")
		return nil
	}
	err := os.MkdirAll(filepath.Dir(at), 0o700)
	if err == nil && text == "" {
		err = os.Mkdir(at, 0o700)
	} else if err == nil {
		err = writeNew(at, text)
	}
	if err != nil {
		return fmt.Errorf("cannot make %s, where the tool keeps its state: %w", bourn.Printable(at), err)
	}
	return nil
}

func writeNew(at, text string) error {
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
