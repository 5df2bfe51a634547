package namespace

import (
	"errors"
	"path"
	"slices"
	"strings"

	"bourn/internal/policy"

	"golang.org/x/sys/unix"
)

// readOnlyProc are the entries of /proc that change the host: uid 0 without any
// capability owns them, so mode bits alone do not keep them.
var readOnlyProc = []string{"sys", "sysrq-trigger", "irq", "bus", "acpi", "fs", "asound", "driver", "mtrr", "scsi", "tty"}

// maskedProc are the entries of /proc that tell too much of the host.
var maskedProc = []string{"kcore", "keys", "key-users", "latency_stats", "timer_list", "sched_debug", "kallsyms", "kmsg", "kpagecount", "kpageflags", "kpagecgroup", "vmallocinfo"}

func (t *Tree) makeProc() error {
	const what = "mount /proc"
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return step(what, "", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return step(what, "", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, baseAttr|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return step(what, "", err)
	}
	defer unix.Close(fd)
	if err := t.attach(fd, "/proc", true); err != nil {
		return step(what, "", err)
	}
	for _, name := range readOnlyProc {
		if err := t.guard(policy.Guard{Path: "/proc/" + name}); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ELOOP) {
			return step("make read-only", "/proc/"+name, err)
		}
	}
	for _, name := range maskedProc {
		if err := t.mask(policy.Mask{Path: "/proc/" + name}, false); err != nil && !errors.Is(err, unix.ENOENT) {
			return step("close", "/proc/"+name, err)
		}
	}
	return nil
}

// deviceNodes are shown from the host: device nodes cannot be made in a user namespace.
var deviceNodes = []string{"null", "zero", "full", "random", "urandom", "tty"}

var deviceLinks = []policy.Link{
	{At: "/dev/fd", Target: "/proc/self/fd"}, {At: "/dev/stdin", Target: "/proc/self/fd/0"},
	{At: "/dev/stdout", Target: "/proc/self/fd/1"}, {At: "/dev/stderr", Target: "/proc/self/fd/2"},
	{At: "/dev/ptmx", Target: "pts/ptmx"},
}

func (t *Tree) makeDev() error {
	for _, name := range deviceNodes {
		at := "/dev/" + name
		if err := t.attachDevice(at); err != nil {
			return step("show", at, err)
		}
	}
	for _, l := range deviceLinks {
		if err := t.symlink(l); err != nil {
			return step("make", l.At, err)
		}
	}
	return step("mount /dev/pts", "", t.makePts())
}

func (t *Tree) attachDevice(at string) error {
	src, err := source(at, policy.Object{})
	if err != nil {
		return err
	}
	defer unix.Close(src)
	tree, err := clone(src, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return t.attach(tree, at, false)
}

func (t *Tree) makePts() error {
	fs, err := unix.Fsopen("devpts", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	for _, kv := range [][2]string{{"ptmxmode", "0666"}, {"mode", "0600"}} {
		if err := unix.FsconfigSetString(fs, kv[0], kv[1]); err != nil {
			return err
		}
	}
	if err := owned(fs, t.user); err != nil {
		return err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return t.attach(fd, "/dev/pts", true)
}

// makeRun hides the mask objects under a /run of the run's own and shows the program.
func (t *Tree) makeRun(program string) error {
	fd, err := tmpfs("0755", baseAttr, nil)
	if err != nil {
		return step("mount /run", "", err)
	}
	t.run = fd
	if err := t.attach(fd, "/run", true); err != nil {
		return step("mount /run", "", err)
	}
	err = t.attachBind(policy.Bind{Path: "/run/bourn/bourn", Source: program})
	if err != nil {
		return step("show the program", program, err)
	}
	return step("make", "/var/run", t.symlink(policy.Link{At: "/var/run", Target: "/run"}))
}

// makeEtc copies the named files of /etc as they are now: a bind of a file goes empty
// when the host replaces it.
func (t *Tree) makeEtc(plan *policy.Plan) error {
	etc := directory{tree: t}
	defer etc.close()
	gitconfig := false
	buf := make([]byte, 16<<10)
	for _, at := range plan.Copies {
		data, err := readFile(at, &buf)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
			continue
		}
		if err != nil {
			return step("copy", at, err)
		}
		if at == gitconfigPath {
			gitconfig = true
			data = append(append(data, '\n'), plan.GitUser...)
		}
		if err := etc.write(at, data); err != nil {
			return step("copy", at, err)
		}
	}
	for _, f := range plan.Files {
		if err := etc.write(f.Path, []byte(f.Text)); err != nil {
			return step("write", f.Path, err)
		}
	}
	if !gitconfig && plan.GitUser != "" {
		return step("write", gitconfigPath, etc.write(gitconfigPath, []byte(plan.GitUser)))
	}
	return nil
}

const gitconfigPath = "/etc/gitconfig"

// maxCopy bounds a copied file of /etc, in bytes.
const maxCopy = 4 << 20

// readFile and directory.write do without package os, which asks the poller about every
// file: a start copies dozens of them. The result lies in buf, which grows as needed.
func readFile(at string, buf *[]byte) ([]byte, error) {
	fd, err := unix.Open(at, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for n := 0; n <= maxCopy; {
		got, err := unix.Read(fd, (*buf)[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n += max(got, 0); err != nil || n < len(*buf) {
			return (*buf)[:n:n], err // of a regular file, less than asked for is the end
		}
		*buf = append(*buf, make([]byte, len(*buf))...)
	}
	return nil, unix.EFBIG
}

// A directory is the one inside in which a file was written last, kept open.
type directory struct {
	tree *Tree
	path string
	fd   int
}

func (d *directory) close() {
	if d.path != "" {
		unix.Close(d.fd)
	}
}

func (d *directory) write(at string, data []byte) error {
	if dir := path.Dir(at); dir != d.path {
		fd, err := d.tree.ensure(dir, true)
		if err != nil {
			return err
		}
		d.close()
		d.path, d.fd = dir, fd
	}
	fd, err := unix.Openat(d.fd, path.Base(at), unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (t *Tree) makeLinks(plan *policy.Plan) error {
	for _, l := range plan.Links {
		if err := t.symlink(l); err != nil && !errors.Is(err, unix.EEXIST) {
			return step("make the link", l.At, err)
		}
	}
	return nil
}

func (t *Tree) symlink(l policy.Link) error {
	parent, err := t.ensure(path.Dir(l.At), true)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return unix.Symlinkat(l.Target, parent, path.Base(l.At))
}

func sortedPrivate(in []policy.Private) []policy.Private {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b policy.Private) int { return strings.Compare(a.Path, b.Path) })
	return out
}
