package posix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"bourn"
)

// Paths say where the facts of a host are read.
type Paths struct {
	// Root is put before every path but Mounts and Proc. "" is the machine itself.
	Root                                             string
	Passwd, Shadow, Group, SubUID, SubGID, LoginDefs string
	Registry, Workspace                              string
	// Mounts is a mountinfo file, Proc a process file system. "": not looked at.
	Mounts, Proc string
	// Shallow leaves out who owns what in circles, and with it what is taken from leavers there. How
	// long that takes is up to those who fill the circles, so what people lose is planned and performed without it first.
	Shallow bool
}

// HostPaths returns where a machine has its facts.
func HostPaths() Paths {
	return Paths{
		Passwd: "/etc/passwd", Shadow: "/etc/shadow", Group: "/etc/group", SubUID: "/etc/subuid", SubGID: "/etc/subgid",
		LoginDefs: "/etc/login.defs", Registry: RegistryPath, Workspace: DefaultWorkspace,
		Mounts: "/proc/self/mountinfo", Proc: "/proc",
	}
}

// ReadHost reads the facts that a plan for the state needs. passwd and group must be there;
// an absent other file says nothing. One that cannot be read or parsed is an error: what is not
// known is not taken for harmless.
func ReadHost(p Paths, s State) (Host, error) {
	h := Host{Workspace: p.Workspace, Dirs: map[string]Dir{}, Owners: map[string][]uint32{}}
	if err := h.readAccounts(p); err != nil {
		return Host{}, err
	}
	if err := readFile(p.Root+p.Registry, func(data []byte) error {
		// A registry that is not valid lets nobody in, and is written anew.
		r, err := ParseRegistry(data)
		if h.Registry = r; err != nil {
			h.Spoilt = err.Error()
		}
		return nil
	}); err != nil {
		return Host{}, err
	}
	if p.Mounts != "" {
		if err := readFile(p.Mounts, func(data []byte) (err error) { h.Mounts, err = parseMounts(data); return err }); err != nil {
			return Host{}, err
		}
		h.Mounts = below(h.Mounts, p.Root)
	}
	if p.Proc != "" {
		var err error
		if h.Running, err = running(p.Proc, s.Range.people()); err != nil {
			return Host{}, fmt.Errorf("cannot read who runs what: %w", err)
		}
	}
	return h, h.readTree(p.Root, s, p.Shallow)
}

func (h *Host) readAccounts(p Paths) error {
	for _, f := range []struct {
		path string
		read func([]byte) error
	}{
		{p.Passwd, func(b []byte) (err error) { h.Users, err = ParsePasswd(b); return err }},
		{p.Shadow, func(b []byte) error { return applyShadow(h.Users, b) }},
		{p.Group, func(b []byte) (err error) { h.Groups, err = ParseGroup(b); return err }},
		{p.SubUID, func(b []byte) (err error) { h.SubUIDs, err = ParseSubIDs(b); return err }},
		{p.SubGID, func(b []byte) (err error) { h.SubGIDs, err = ParseSubIDs(b); return err }},
	} {
		if err := readFile(p.Root+f.path, f.read); err != nil {
			return err
		}
	}
	if len(h.Users) == 0 || len(h.Groups) == 0 {
		return fmt.Errorf("cannot read %s and %s: %w: one of them is empty", p.Passwd, p.Group, bourn.ErrInvalid)
	}
	defs := []byte{}
	if err := readFile(p.Root+p.LoginDefs, func(b []byte) error { defs = b; return nil }); err != nil {
		return err
	}
	var err error
	if h.Defs, err = ParseLoginDefs(defs); err != nil {
		return fmt.Errorf("cannot read %s: %w", p.LoginDefs, err)
	}
	return nil
}

// readFile gives a file's content to parse, unless there is none.
func readFile(name string, parse func([]byte) error) error {
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		return bourn.WithHint(fmt.Errorf("cannot read %s: %w", name, bourn.ErrDenied), "run this as root")
	case err != nil:
		return fmt.Errorf("cannot read %s: %w", name, bourn.ErrUnavailable)
	}
	if err := parse(data); err != nil {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	return nil
}

// below returns the mount points below root, without it.
func below(points map[string]bool, root string) map[string]bool {
	if root == "" || points == nil {
		return points
	}
	inside := map[string]bool{}
	for point := range points {
		if rest, found := strings.CutPrefix(point, root); found && strings.HasPrefix(rest, "/") {
			inside[rest] = true
		}
	}
	return inside
}

// readTree looks at the directories that the state wants, and at who owns what in circles.
func (h *Host) readTree(root string, s State, shallow bool) error {
	for _, d := range directories(s, h.Workspace, numbers{}) {
		dir, exists, err := lookAt(root + d.path)
		if err != nil {
			return fmt.Errorf("cannot look at %s: %w", d.path, err)
		}
		if exists {
			h.Dirs[d.path] = dir
		}
	}
	for _, c := range s.Circles {
		at := circlePath(h.Workspace, c.ID)
		dir, exists, err := lookAt(root + at)
		if err != nil {
			return fmt.Errorf("cannot look at %s: %w", at, err)
		}
		if !exists || dir.Kind != "directory" {
			continue
		}
		h.Dirs[at] = dir
		if shallow {
			continue
		}
		owners, err := owners(root, at, c.GID, s.Range.people())
		if err != nil {
			return fmt.Errorf("cannot look through %s: %w", path.Base(at), err)
		}
		h.Owners[at] = owners
	}
	return nil
}
