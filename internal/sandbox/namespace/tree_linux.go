package namespace

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"bourn/internal/policy"

	"golang.org/x/sys/unix"
)

// A Tree is a root under construction, and later the means to renew its masks.
type Tree struct {
	root  int // the root's own mount
	run   int // /run, which holds the gate and the report
	masks int // the directory of mask objects, attached and then hidden under /run

	masksDev uint64 // their device: what lies on it is closed already

	user    *policy.User     // whom the command becomes, nil for the caller
	private []policy.Private // what is made in these is the user's
}

const (
	treeFlags  = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH
	moveFlags  = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	baseAttr   = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	pathOnly   = unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW
	noSymlinks = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
)

func step(name, path string, err error) error {
	if err == nil {
		return nil
	}
	return &StepError{Step: name, Path: path, Err: err}
}

// build follows one order; each line says what it must follow and precede.
func build(plan *policy.Plan, program string) (*Tree, error) {
	t := &Tree{user: plan.User, private: plan.Private}
	// First of all: nothing done below may reach the host's mount namespace.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, step("make mounts private", "", err)
	}
	for _, do := range []func() error{
		t.makeRoot,  // before everything that is attached to it
		t.makeMasks, // before /run, which hides it
		t.makeProc,  // while the host's /proc is in sight: the kernel wants to see it unobstructed
		t.makeDev,   //
		func() error { return t.makeRun(program) },   // after makeMasks
		func() error { return t.makeEtc(plan) },      // before the root is read-only
		func() error { return t.attachPlaces(plan) }, // parents before children
		func() error { return t.makeLinks(plan) },    // some lie in private places
		func() error { return t.attachGuards(plan) }, // before masks, so that a pin's copy does not cover one
		func() error { return t.attachMasks(plan) },  // last: nothing may be attached over a mask
		t.enter, // after it the host's files are gone
	} {
		if err := do(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// tmpfs returns a detached file system in memory, which is the user's or for nil the caller's.
func tmpfs(mode string, attr int, user *policy.User) (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "mode", mode); err != nil {
		return -1, err
	}
	if err := owned(fs, user); err != nil {
		return -1, err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
}

func (t *Tree) makeRoot() error {
	fd, err := tmpfs("0755", baseAttr, nil)
	if err != nil {
		return step("mount a root in memory", "", err)
	}
	// Attached over the host's root: paths still start at the process's root, which is
	// the mount below, until enter.
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return step("attach the root", "", err)
	}
	t.root = fd
	return nil
}

// makeMasks makes the objects that stand in for what is denied: a file, a directory,
// and an empty directory that can be listed.
func (t *Tree) makeMasks() error {
	const what = "make the mask objects"
	fd, err := tmpfs("0755", baseAttr|unix.MOUNT_ATTR_NOEXEC, nil)
	if err != nil {
		return step(what, "", err)
	}
	file, err := unix.Openat(fd, "f", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return step(what, "", err)
	}
	unix.Close(file)
	if err := errors.Join(unix.Mkdirat(fd, "d", 0), unix.Mkdirat(fd, "e", 0o555), unix.Fchmodat(fd, "e", 0o555, 0)); err != nil {
		return step(what, "", err)
	}
	ro := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &ro); err != nil {
		return step(what, "", err)
	}
	if err := t.attach(fd, "/run", true); err != nil {
		return step(what, "", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return step(what, "", err)
	}
	t.masks, t.masksDev = fd, uint64(st.Dev)
	return nil
}

// attach puts a detached mount at a path inside, which is made where it is missing.
func (t *Tree) attach(mount int, at string, dir bool) error {
	target, err := t.ensure(at, dir)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return unix.MoveMount(mount, "", target, "", moveFlags)
}

// open returns a descriptor of a path inside, through no symlink.
func (t *Tree) open(at string, flags int) (int, error) {
	rel := strings.TrimPrefix(at, "/")
	if rel == "" {
		rel = "."
	}
	return unix.Openat2(t.root, rel, &unix.OpenHow{
		Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW), Resolve: unix.RESOLVE_BENEATH | noSymlinks})
}

// ensure opens a path inside, making it and its parents where they are missing.
func (t *Tree) ensure(at string, dir bool) (int, error) {
	fd, err := t.open(at, unix.O_PATH)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	parent, err := t.ensure(path.Dir(at), true)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if dir {
		err = unix.Mkdirat(parent, path.Base(at), 0o755)
	} else {
		var file int
		if file, err = unix.Openat(parent, path.Base(at), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644); err == nil {
			unix.Close(file)
		}
	}
	if err == nil {
		err = t.give(parent, at)
	}
	if err != nil {
		return -1, err
	}
	return t.open(at, unix.O_PATH)
}

// source opens a host path through no symlink and checks that it is the object which
// the plan was made for.
func source(at string, want policy.Object) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, at, &unix.OpenHow{Flags: pathOnly, Resolve: noSymlinks})
	if err != nil {
		return -1, err
	}
	if err := same(fd, want); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// errChanged: what the plan was made for is not what stands there now.
var errChanged = errors.New("it was replaced while the run was being prepared; start again")

// same reports whether fd is the wanted object; a zero object is not checked.
func same(fd int, want policy.Object) error {
	if want == (policy.Object{}) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Ino != want.Ino || uint64(st.Dev) != want.Dev {
		return errChanged
	}
	return nil
}

// clone returns a detached copy of the tree at fd with attributes set on all of it.
func clone(fd int, attr uint64) (int, error) {
	tree, err := unix.OpenTree(fd, "", treeFlags|unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		unix.Close(tree)
		return -1, err
	}
	return tree, nil
}

// attachPlaces attaches binds and private places, parents before children: binds are
// sorted by path, and a private place goes before the first bind that sorts after it.
func (t *Tree) attachPlaces(plan *policy.Plan) error {
	private := sortedPrivate(plan.Private)
	for _, b := range plan.Binds {
		for len(private) > 0 && private[0].Path <= b.Path {
			if err := t.attachPrivate(private[0]); err != nil {
				return err
			}
			private = private[1:]
		}
		if err := t.attachBind(b); err != nil {
			return step("bind", b.Path, err)
		}
	}
	for _, p := range private {
		if err := t.attachPrivate(p); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) attachBind(b policy.Bind) error {
	from := b.Path
	if b.Source != "" {
		from = b.Source
	}
	src, err := source(from, b.Object)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	attr := uint64(baseAttr)
	if !b.Write {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	if b.NoExec {
		attr |= unix.MOUNT_ATTR_NOEXEC
	}
	tree, err := clone(src, attr)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return t.attach(tree, b.Path, b.Dir)
}

func (t *Tree) attachPrivate(p policy.Private) error {
	mode, attr, user := "0700", baseAttr, t.user
	if p.NoExec {
		attr |= unix.MOUNT_ATTR_NOEXEC
	}
	if p.Shared() {
		mode, user = "1777", nil
	}
	fd, err := tmpfs(mode, attr, user)
	if err != nil {
		return step("mount a private directory", p.Path, err)
	}
	defer unix.Close(fd)
	return step("mount a private directory", p.Path, t.attach(fd, p.Path, true))
}

func (t *Tree) attachGuards(plan *policy.Plan) error {
	for _, g := range plan.Guards {
		if err := t.guard(g); err != nil {
			return step("make read-only", g.Path, err)
		}
	}
	return nil
}

// guard binds an object over itself: read-only, or for a pin only to keep its name.
func (t *Tree) guard(g policy.Guard) error {
	fd, err := t.open(g.Path, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return guardFD(fd, g)
}

func guardFD(fd int, g policy.Guard) error {
	if err := same(fd, g.Object); err != nil {
		return err
	}
	attr := uint64(baseAttr)
	if !g.Pin {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	tree, err := clone(fd, attr)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return unix.MoveMount(tree, "", fd, "", moveFlags)
}

func (t *Tree) attachMasks(plan *policy.Plan) error {
	stubs := map[string]bool{}
	for _, s := range plan.Stubs {
		stubs[s] = true
	}
	for _, m := range slices.Backward(plan.Masks) { // inner ones first: behind an outer one they cannot be opened
		if err := t.mask(m, stubs[m.Path]); err != nil {
			return step("close", m.Path, err)
		}
	}
	return nil
}

func (t *Tree) mask(m policy.Mask, make bool) error {
	fd, err := t.open(m.Path, unix.O_PATH)
	if make && errors.Is(err, unix.ENOENT) {
		fd, err = t.ensure(m.Path, false)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return t.maskFD(fd, m)
}

// maskFD attaches the object that stands for the kind of thing that fd is.
func (t *Tree) maskFD(fd int, m policy.Mask) error {
	var st unix.Stat_t
	if err := errors.Join(same(fd, m.Object), unix.Fstat(fd, &st)); err != nil {
		return err
	}
	object := "f"
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK:
		return unix.ELOOP
	case kind == unix.S_IFDIR && m.Empty:
		object = "e"
	case kind == unix.S_IFDIR:
		object = "d"
	}
	tree, err := unix.OpenTree(t.masks, object, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return unix.MoveMount(tree, "", fd, "", moveFlags)
}

// enter makes the new root the process's root and lets go of the host's.
func (t *Tree) enter() error {
	if err := unix.Fchdir(t.root); err != nil {
		return step("enter the root", "", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return step("enter the root", "", err)
	}
	// The host's root is now mounted over ours, at the same place: let go of it.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return step("leave the host's root", "", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return step("enter the root", "", err)
	}
	var inside, root unix.Stat_t
	if err := errors.Join(unix.Stat("/", &inside), unix.Fstat(t.root, &root)); err != nil {
		return step("enter the root", "", err)
	}
	if inside.Dev != root.Dev || inside.Ino != root.Ino {
		return step("enter the root", "", fmt.Errorf("another root is in the way"))
	}
	return nil
}

func (t *Tree) seal() error {
	ro := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	for _, fd := range []int{t.root, t.run} {
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &ro); err != nil {
			return step("make the root read-only", "", err)
		}
	}
	for _, at := range []string{"/.bourn", "/run/.bourn"} {
		if err := os.Mkdir(at, 0o700); !errors.Is(err, unix.EROFS) {
			return step("make the root read-only", at, fmt.Errorf("a directory could be made (%v)", err))
		}
	}
	return nil
}

func (t *Tree) remask(dir int, name string, empty bool) error {
	fd, err := openIn(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if uint64(st.Dev) == t.masksDev {
		return ErrInPlace
	}
	return t.maskFD(fd, policy.Mask{Empty: empty})
}

func (t *Tree) masked(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && uint64(st.Dev) == t.masksDev
}

func (t *Tree) reguard(dir int, name string) error {
	fd, err := openIn(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Flags&unix.ST_RDONLY != 0 {
		return ErrInPlace
	}
	return guardFD(fd, policy.Guard{})
}

// openIn opens a name in a directory, through no symlink; a symlink itself is opened.
func openIn(dir int, name string) (int, error) {
	return unix.Openat2(dir, name, &unix.OpenHow{Flags: pathOnly, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
}
