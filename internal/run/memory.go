package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox"
)

// maxRemembered bounds what is kept of runs without an agent, whose deny patterns
// differ from run to run.
const maxRemembered = 20000

func (h *Home) memoryPath(name bourn.AgentName) string {
	return filepath.Join(h.base(name), "denied.json")
}

// remembered returns the objects that earlier seals denied. An unreadable memory is an
// error: without it a denied file that was renamed away would be readable.
func (h *Home) remembered(name bourn.AgentName) ([]sandbox.Remembered, error) {
	data, err := os.ReadFile(h.memoryPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []sandbox.Remembered
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot read what earlier runs denied: %w", err),
			"remove "+h.memoryPath(name)+" if no denied file has been renamed since the last run")
	}
	return all, nil
}

// remember keeps the identity of every object that this seal denies, so that the next
// one denies the object and not only its name. Entries of other patterns stay.
func (h *Home) remember(name bourn.AgentName, req *policy.Request, old []sandbox.Remembered) error {
	var now []sandbox.Remembered
	patterns := map[string]bool{}
	for _, d := range req.Denies {
		patterns[d.Pattern] = true
		add := func(p policy.Place) {
			if p.Exists && p.Object != (policy.Object{}) {
				now = append(now, sandbox.Remembered{Pattern: sandbox.Text(d.Pattern), Path: sandbox.Text(p.Real), Object: p.Object})
			}
		}
		add(d.Place)
		for _, m := range d.Matches {
			add(m)
		}
		for _, m := range d.More {
			add(m.Place)
		}
	}
	all := now
	for _, r := range old {
		if !patterns[string(r.Pattern)] {
			all = append(all, r)
		}
	}
	if len(all) > maxRemembered && len(now) < maxRemembered {
		all = all[:maxRemembered]
	}
	if slices.Equal(all, old) {
		return nil
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := writeFile(h.memoryPath(name), data, 0o600); err != nil {
		return fmt.Errorf("cannot keep what this run denies: %w", err)
	}
	return nil
}
