package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
)

// A bench is what the tables are built from: programs, directories, environment.
type bench struct {
	dir         string // everything below is removed at the end
	project     string // what the sealed commands may write
	secret      string // a file outside every grant
	mask        string // an empty file that nobody may read
	bourn       string
	bwrap       string // "" where it is not installed
	files       int
	tree, git   string // made when first asked for
	env         []string
	null        *os.File
	answer      *os.File // where a timed command says how long it took
	interrupted *atomic.Bool
	peers       string            // where -install puts them
	written     map[string]string // settings of peers, by file
	remove      []string          // outside dir, removed at the end as well
}

// prepare makes the directories that every table uses.
func (b *bench) prepare() error {
	b.project = filepath.Join(b.dir, "project")
	home := filepath.Join(b.dir, "home")
	b.secret = filepath.Join(b.dir, "secret")
	b.mask = filepath.Join(b.dir, "mask")
	for _, dir := range []string{b.project, home} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(b.secret, []byte("secret\n"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(b.mask, nil, 0); err != nil {
		return err
	}
	b.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1"}
	b.bwrap = b.path("bwrap")
	b.written = map[string]string{}
	var err error
	if b.peers, err = peersDir(); err != nil {
		return err
	}
	b.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0)
	return err
}

// close removes what the bench has written.
func (b *bench) close() {
	for _, dir := range append(b.remove, b.dir) {
		_ = os.RemoveAll(dir)
	}
}

// path returns where a program is, and "" where it is not installed.
func (b *bench) path(program string) string {
	found, err := exec.LookPath(program)
	if err != nil {
		return ""
	}
	return found
}

// addBwrap adds a command of bubblewrap's, or says that there is none.
func (b *bench) addBwrap(t *table, c command) {
	if b.bwrap == "" {
		t.skipped = append(t.skipped, c.name+": bwrap is not installed")
		return
	}
	t.commands = append(t.commands, c)
}

var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"}

// etc are the files of /etc that programs need.
var etc = []string{
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "resolv.conf", "hosts", "nsswitch.conf",
	"passwd", "group", "services", "protocols", "localtime", "ssl/certs",
	"ca-certificates.conf", "alternatives", "mime.types", "profile", "gitconfig",
}

// bwrapRun returns the bubblewrap command line with the root that a seal of Bourn's
// has: a tmpfs, read-only system directories, the named files of /etc, fresh /proc,
// /dev and /tmp, the project writable, namespaces for everything, no capabilities and no
// network. Every denied file gets an empty one bound over it.
func (b *bench) bwrapRun(project string, denied []string, cmd ...string) []string {
	args := []string{b.bwrap, "--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session"}
	for _, dir := range systemDirs {
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", target, dir)
		} else if _, err := os.Stat(dir); err == nil {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	for _, file := range etc {
		args = append(args, "--ro-bind-try", "/etc/"+file, "/etc/"+file)
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run", "--bind", project, project)
	for _, file := range denied {
		args = append(args, "--ro-bind", b.mask, file)
	}
	return slices.Concat(args, []string{"--chdir", project, "--"}, cmd)
}

// addFloor compiles floor.c and adds it: the least that any sandbox with these
// namespaces pays.
func (b *bench) addFloor(t *table) {
	const name = "floor in C"
	cc := b.path("cc")
	if cc == "" {
		t.skipped = append(t.skipped, name+": no C compiler")
		return
	}
	program := filepath.Join(b.dir, "floor")
	out, err := exec.Command(cc, "-O2", "-static", "-o", program, "floor.c").CombinedOutput()
	if err != nil { // no static libc: dynamic then
		out, err = exec.Command(cc, "-O2", "-o", program, "floor.c").CombinedOutput()
	}
	if err != nil {
		t.skipped = append(t.skipped, name+": cannot compile floor.c"+firstLine(out))
		return
	}
	t.commands = append(t.commands, command{name: name, args: []string{program, b.path("true")}})
}
