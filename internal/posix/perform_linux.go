package posix

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bourn"
)

// A performer has the root directory open.
type performer struct {
	opts Options
	root int
	self uint32 // who the directories on the way belong to: root
}

func open(opts Options) (*performer, error) {
	if opts.Root == "" && unix.Geteuid() != 0 {
		return nil, bourn.WithHint(fmt.Errorf("cannot change users and groups: %w: only root can", bourn.ErrDenied), "run this as root")
	}
	root, err := unix.Open(path.Clean(opts.Root+"/"), openDirectory, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", opts.Root, err)
	}
	return &performer{opts: opts, root: root, self: uint32(unix.Geteuid())}, nil
}

func (p *performer) close() { unix.Close(p.root) }

// perform does one batch.
func (p *performer) perform(changes []Change) ([]Left, error) {
	switch changes[0].accounts() {
	case createsAccounts:
		if program := sysusersProgram(); p.opts.Sysusers && program != "" {
			return nil, p.sysusers(program, changes)
		}
		return nil, p.rewrite(changes)
	case rewritesAccounts:
		return nil, p.rewrite(changes)
	case notAccounts:
	}
	c := changes[0]
	switch c.Do {
	case NarrowRegistry, WriteRegistry:
		return nil, p.registry(*c.Registry)
	case Stop:
		if err := p.opts.Stop(c.UID); err != nil {
			return nil, fmt.Errorf("cannot %s: %w", c, err)
		}
	case MakeDirectory, MendDirectory:
		err := p.directory(c)
		if err != nil && c.Movable != 0 {
			// What somebody does in a directory of their own keeps nobody else from anything.
			return []Left{{c.Path, err.Error()}}, nil
		}
		return nil, err
	case Reown:
		return p.reown(c)
	case Mount:
		return nil, p.mount(c.Path)
	case LockUser, RemoveMember, CreateGroup, CreateUser, MendUser, AddMember:
	}
	return nil, nil
}

// etc opens the directory of the account files.
func (p *performer) etc() (int, error) { return p.openParent("/etc/passwd", false) }

// An accountFile is one of the four while they are rewritten.
type accountFile struct {
	name string
	file *os.File // nil: there is none
	data *[]byte
}

// rewrite changes the account files under the lock of lckpwdf(3). Groups are written before
// the users that are in them, each file whole or not at all.
func (p *performer) rewrite(changes []Change) error {
	etc, err := p.etc()
	if err != nil {
		return err
	}
	defer unix.Close(etc)
	unlock, err := lockAt(etc, ".pwd.lock", lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	var had databases
	files := []accountFile{{"group", nil, &had.group}, {"gshadow", nil, &had.gshadow}, {"passwd", nil, &had.passwd}, {"shadow", nil, &had.shadow}}
	for i, f := range files {
		if files[i].file, err = readAt(etc, f.name, f.data); err != nil {
			return err
		}
		if files[i].file != nil {
			defer files[i].file.Close()
		}
	}
	if had.passwd == nil || had.group == nil {
		return fmt.Errorf("cannot change passwd and group: %w: one of them is not there", bourn.ErrNotFound)
	}
	next, err := had.apply(changes, int(time.Now().Unix()/(24*60*60)))
	if err != nil {
		return err
	}
	for i, data := range [][]byte{next.group, next.gshadow, next.passwd, next.shadow} {
		if files[i].file == nil || bytes.Equal(data, *files[i].data) {
			continue
		}
		if err := replace(etc, files[i].name, data, files[i].file, 0); err != nil {
			return fmt.Errorf("cannot write %s: %w", files[i].name, err)
		}
	}
	return nil
}

// readAt opens and reads an account file: a regular file under one name.
func readAt(etc int, name string, into *[]byte) (*os.File, error) {
	fd, err := unix.Openat(etc, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = denied(name, "is not a file but %s", kindOf(st.Mode))
	}
	if err == nil {
		*into, err = io.ReadAll(file)
		if *into == nil {
			*into = []byte{}
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return file, nil
}

// sysusersProgram returns the path of systemd-sysusers, or "". PATH is not asked: this is root's.
func sysusersProgram() string {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
		if st, err := os.Stat(dir + "/systemd-sysusers"); err == nil && st.Mode().IsRegular() {
			return dir + "/systemd-sysusers"
		}
	}
	return ""
}

// sysusers has systemd-sysusers(8) create users and groups, and looks at what it did.
func (p *performer) sysusers(program string, changes []Change) error {
	users, groups, err := p.accounts()
	if err == nil {
		err = free(changes, users, groups)
	}
	if err != nil {
		return err
	}
	args := []string{"-"}
	if p.opts.Root != "" {
		args = []string{"--root=" + p.opts.Root, "-"}
	}
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	cmd.Stdin = strings.NewReader(sysusers(changes))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot create users and groups: %w: systemd-sysusers: %w: %s", bourn.ErrUnavailable, err, bourn.Printable(lastLine(out)))
	}
	if users, groups, err = p.accounts(); err != nil {
		return err
	}
	return verify(changes, users, groups)
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// accounts reads passwd and group as they are now.
func (p *performer) accounts() ([]User, []Group, error) {
	etc, err := p.etc()
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(etc)
	var passwd, group []byte
	for name, into := range map[string]*[]byte{"passwd": &passwd, "group": &group} {
		file, err := readAt(etc, name, into)
		if err != nil {
			return nil, nil, err
		}
		if file != nil {
			file.Close()
		}
	}
	users, err := ParsePasswd(passwd)
	if err != nil {
		return nil, nil, err
	}
	groups, err := ParseGroup(group)
	return users, groups, err
}

// registry writes the helper's registry, which everybody may read: it says no more than
// passwd and group.
func (p *performer) registry(r Registry) error {
	above, err := p.openParent(path.Dir(p.opts.Registry), false)
	if err != nil {
		return err
	}
	defer unix.Close(above)
	if err := unix.Mkdirat(above, path.Base(path.Dir(p.opts.Registry)), 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("cannot make %s: %w", path.Dir(p.opts.Registry), err)
	}
	dir, err := p.openParent(p.opts.Registry, false)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	name := path.Base(p.opts.Registry)
	unlock, err := lockAt(dir, "."+name+".lock", lockWait)
	if err != nil {
		return bourn.WithHint(err, "the helper holds it for a moment only; if it does not let go, stop the service and plan again")
	}
	defer unlock()
	now, err := registryAt(dir, name)
	if err != nil {
		return err
	}
	data, err := r.revokedAs(now).Encode()
	if err != nil {
		return fmt.Errorf("cannot write the registry: %w", err)
	}
	if err := replace(dir, name, data, nil, 0o644); err != nil {
		return fmt.Errorf("cannot write %s: %w", p.opts.Registry, err)
	}
	return nil
}

// registryAt reads the registry as it is now; its zero value where there is none that is valid.
func registryAt(dir int, name string) (Registry, error) {
	var data []byte
	file, err := readAt(dir, name, &data)
	if err != nil || file == nil {
		return Registry{}, err
	}
	file.Close()
	r, _ := ParseRegistry(data)
	return r, nil
}

// running returns the groups of running processes by uid, of the uids within r.
func running(proc string, r Range) (map[uint32][]uint32, error) {
	found := map[uint32][]uint32{}
	err := eachStatus(proc, func(_ string, status []byte) {
		if uid, gids := credentials(status); r.contains(uid) && !ended(statusFields(status)) {
			found[uid] = append(found[uid], gids...)
		}
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
