package run

import (
	"fmt"
	"slices"
	"sync"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
)

// CheckPresets refuses names of presets that there are none of, and NoPreset beside others.
func CheckPresets(names []string) error {
	for _, name := range names {
		if _, ok := profile.FindPreset(name); name != NoPreset && !ok {
			return bourn.WithHint(fmt.Errorf("%w: no preset %q", bourn.ErrInvalid, bourn.Printable(name)), "there are "+presetNames())
		}
	}
	if len(names) > 1 && slices.Contains(names, NoPreset) {
		return bourn.WithHint(fmt.Errorf("%w: --preset none and another preset contradict each other", bourn.ErrInvalid), "leave one of them out")
	}
	return nil
}

// PresetFor returns the name of the preset that the command of a new agent selects, as a
// run of it here would: "" for none. Where a command has a preset and may not select it,
// because its program could be another's work, note says so.
func (h *Home) PresetFor(n NewAgent) (name, note string, err error) {
	of, err := h.ofUser(n.RunAs)
	if err != nil {
		return "", "", err
	}
	p := &Prepared{Options: Options{Cwd: n.Cwd}, home: of, Request: &policy.Request{Command: n.Command}}
	if p.written, err = h.written(); err != nil {
		return "", "", err
	}
	p.others = sync.OnceValue(h.otherWrites("", p.written))
	for _, typed := range n.Write {
		at, err := of.absolute(typed, n.Cwd)
		if err != nil {
			return "", "", err
		}
		p.Request.Grants = append(p.Request.Grants, policy.Grant{Kind: policy.KindWrite, Place: policy.Place{Path: at}})
	}
	preset, ok := p.presetOfCommand()
	if ok {
		name = preset.Name
	}
	if len(p.notes) > 0 {
		note = p.notes[0]
	}
	return name, note, nil
}
