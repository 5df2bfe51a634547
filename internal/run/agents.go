package run

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
)

// A NewAgent is what a person says of an agent to be made. Paths are as typed: relative
// ones begin at Cwd, and each is judged as [Home.Allow] and [Home.Deny] do.
type NewAgent struct {
	Name    bourn.AgentName
	Command []string // may be empty
	Write   []string
	Read    []string
	Deny    []string
	Hosts   []string
	Presets []string // by name
	RunAs   string   // a user, "" for none
	Env     []string // names to pass
	Spawn   []string // spawn dirs; with one, only system paths and these may execute
	Cwd     string   // canonical
	Records policy.Records

	Placeholders []string // what to deny as Deny does, with a placeholder
}

// Create makes an agent: its directory, profile and keys. The directory appears whole or
// not at all. An agent of that name is ErrConflict; a grant that cannot be had is an
// error, and nothing is made.
func (h *Home) Create(n NewAgent) error {
	if _, err := os.Lstat(h.agent(n.Name)); err == nil {
		return h.taken(n.Name)
	}
	of, err := h.ofUser(n.RunAs)
	if err != nil {
		return err
	}
	text, err := of.newProfile(n)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(h.agents(), 0o700); err != nil {
		return fmt.Errorf("cannot make agent %q: %w", n.Name, err)
	}
	tmp, err := os.MkdirTemp(h.agents(), ".new-")
	if err != nil {
		return fmt.Errorf("cannot make agent %q: %w", n.Name, err)
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp, text); err != nil {
		return fmt.Errorf("cannot make agent %q: %w", n.Name, err)
	}
	if err := h.noteChange(n.Name, "agent created", strings.Join(n.Command[:min(len(n.Command), 1)], ""), text); err != nil {
		return err
	}
	err = os.Rename(tmp, h.agent(n.Name))
	if errors.Is(err, fs.ErrExist) {
		return h.taken(n.Name)
	}
	if err != nil {
		return fmt.Errorf("cannot make agent %q: %w", n.Name, err)
	}
	return nil
}

func (h *Home) taken(name bourn.AgentName) error {
	return bourn.WithHint(fmt.Errorf("%w: there is an agent %q already", bourn.ErrConflict, name),
		fmt.Sprintf("bourn agent show %s, or take another name", name))
}

// newProfile returns the text of the profile of a new agent.
func (h *Home) newProfile(n NewAgent) ([]byte, error) {
	denies, held, parsed, err := h.newDenies(n)
	if err != nil {
		return nil, err
	}
	writes, err := h.newGrants(n, policy.KindWrite, n.Write, parsed, nil)
	if err != nil {
		return nil, err
	}
	reads, err := h.newGrants(n, policy.KindRead, n.Read, parsed, writes)
	if err != nil {
		return nil, err
	}
	spawns, err := h.newGrants(n, policy.KindSpawnDir, n.Spawn, parsed, writes)
	if err != nil {
		return nil, err
	}
	text, err := profile.Template(profile.Draft{Agent: n.Name, Command: n.Command, Presets: n.Presets, RunAs: n.RunAs,
		Write: writes, Read: reads, Deny: denies, Env: n.Env, SpawnDirs: spawns, Records: n.Records})
	for _, path := range held {
		if err != nil {
			return nil, err
		}
		text, _, err = profile.AddPlaceholder("profile.yaml", text, path)
	}
	for _, typed := range n.Hosts {
		if err != nil {
			return nil, err
		}
		var host policy.Host
		if host, err = grantableHost(typed); err == nil {
			text, _, err = profile.Add("profile.yaml", text, profile.HostList, host.String())
		}
	}
	return text, err
}

// newDenies returns the entries that deny what a person typed, held those that get a
// placeholder, and all of them parsed.
func (h *Home) newDenies(n NewAgent) (plain, held []string, parsed []profile.Deny, err error) {
	for i, typed := range slices.Concat(n.Placeholders, n.Deny) {
		if _, err := h.absolute(typed, n.Cwd); err != nil {
			return nil, nil, nil, err
		}
		entry := h.denyEntry(typed, n.Cwd)
		switch {
		case i < len(n.Placeholders):
			held = addOnce(held, entry.text)
		case !slices.Contains(held, entry.text):
			plain = addOnce(plain, entry.text)
		}
		parsed = append(parsed, profile.Deny{Path: profile.Path{Text: entry.text}, Glob: entry.glob})
	}
	return plain, held, parsed, nil
}

// newGrants judges the grants of one kind and returns their real paths.
func (h *Home) newGrants(n NewAgent, kind policy.Kind, typed []string, denies []profile.Deny, writes []string) ([]string, error) {
	var out []string
	for _, t := range typed {
		g, err := h.grantable(wish{agent: n.Name, kind: kind, typed: t, cwd: n.Cwd, denies: denies,
			writes: append(writes, out...), making: true})
		if err != nil {
			return nil, err
		}
		out = addOnce(out, g.Real)
	}
	return out, nil
}

func addOnce(list []string, s string) []string {
	for _, x := range list {
		if x == s {
			return list
		}
	}
	return append(list, s)
}

// fill makes what an agent's directory holds.
func fill(dir string, text []byte) error {
	for _, sub := range []string{"home", "context", "runs"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	key, pub, err := newIdentity()
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
		mode os.FileMode
	}{{"profile.yaml", text, 0o600}, {"identity.key", key, 0o600}, {"identity.pub", pub, 0o644}} {
		if err := writeFile(filepath.Join(dir, f.name), f.data, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// DER that stands before the bytes of an Ed25519 key, which have a fixed length: a
// PrivateKeyInfo with the seed (RFC 8410, section 7) and a SubjectPublicKeyInfo (section
// 4). Package crypto/x509 says the same and doubles what every start must initialise.
var (
	privatePrefix = []byte{0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20}
	publicPrefix  = []byte{0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}
)

// newIdentity returns an Ed25519 key pair as PEM: PKCS #8 and SubjectPublicKeyInfo.
func newIdentity() (key, pub []byte, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: append(privatePrefix[:len(privatePrefix):len(privatePrefix)], private.Seed()...)}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: append(publicPrefix[:len(publicPrefix):len(publicPrefix)], public...)}), nil
}

// Delete removes an agent's directory with everything in it. An agent that runs, or may
// run since a record cannot be read, is ErrConflict. Symlinks are removed, never followed.
func (h *Home) Delete(name bourn.AgentName) error {
	if err := h.CanDelete(name); err != nil {
		return err
	}
	unlock, err := h.lock(name)
	if err != nil {
		return fmt.Errorf("cannot lock agent %q: %w", name, err)
	}
	defer unlock()
	// A start that was waiting for the lock finds no home and ends.
	if err := h.CanDelete(name); err != nil {
		return err
	}
	if err := h.noteChange(name, "agent deleted", "", nil); err != nil {
		return err
	}
	root, err := os.OpenRoot(h.agents())
	if err != nil {
		return fmt.Errorf("cannot delete agent %q: %w", name, err)
	}
	defer root.Close()
	if err := openUp(root, string(name)); err != nil {
		return fmt.Errorf("cannot delete agent %q: %w", name, err)
	}
	if err := root.RemoveAll(string(name)); err != nil {
		return fmt.Errorf("cannot delete all of agent %q: %w", name, err)
	}
	return nil
}

// CanDelete returns the error that Delete would begin with, or nil.
func (h *Home) CanDelete(name bourn.AgentName) error {
	info, err := os.Lstat(h.agent(name))
	switch {
	case err != nil:
		return h.noProfile(name, err)
	case !info.IsDir():
		return bourn.WithHint(fmt.Errorf("%w: %s is not a directory, and nothing is deleted through it", bourn.ErrInvalid, bourn.Printable(h.agent(name))),
			"look at what stands there, and remove it by hand")
	}
	if err := h.canDeleteService(name); err != nil {
		return err
	}
	live, unreadable, err := h.Live(name)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		return bourn.WithHint(fmt.Errorf("%w: agent %q is running (process %d)", bourn.ErrConflict, name, live[0].Pid), "end it first")
	}
	if unreadable != nil {
		return bourn.WithHint(fmt.Errorf("%w: agent %q may be running: %w", bourn.ErrConflict, name, unreadable),
			"when it does not run, remove that record and delete again")
	}
	return nil
}

// openUp gives the owner access to every directory below, so that all can be removed:
// tools leave read-only trees (the Go module cache is one).
func openUp(root *os.Root, name string) error {
	return fs.WalkDir(root.FS(), name, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o700 == 0o700 {
			return err
		}
		return root.Chmod(at, 0o700)
	})
}

// Profile reads the profile of an agent. Src is returned where the text could be read,
// also together with the error for a text that is no profile.
func (h *Home) Profile(name bourn.AgentName) (p *profile.Profile, src []byte, err error) {
	if src, err = os.ReadFile(h.ProfilePath(name)); err != nil {
		return nil, nil, h.noProfile(name, err)
	}
	p, err = profile.ParseFor(name, h.ProfilePath(name), src)
	return p, src, unusableProfile(err)
}

// unusableProfile says how a profile that cannot be read is mended. A nil err stays nil.
func unusableProfile(err error) error {
	return bourn.WithHint(err, "mend what is named in that file; man bourn-profile has every key")
}

// HomePath is the agent's own writable home.
func (h *Home) HomePath(name bourn.AgentName) string { return filepath.Join(h.agent(name), "home") }

// State says whether an agent runs and what keeps its newest run, and how many run.
func (h *Home) State(name bourn.AgentName) (policy.Sandbox, int, error) {
	live, unreadable, err := h.Live(name)
	switch {
	case err != nil:
		return policy.Sandbox{State: policy.StateUnknown}, 0, err
	case len(live) > 0:
		return live[0].Sandbox, len(live), nil
	case unreadable != nil:
		return policy.Sandbox{State: policy.StateUnknown}, 0, nil
	}
	return policy.Sandbox{State: policy.StateNotRunning}, 0, nil
}
