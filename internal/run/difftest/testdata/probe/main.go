// Command probe is the inside and the outside of the differential test: it makes trees,
// tries operations on paths, and says what came of each. It gives up every capability
// first, so that outside it is judged by mode bits alone, as a sealed command is.
//
//	→ {"build":{…}} or {"wipe":"/dir"} or {"snap":["/dir"]} or {"ops":[…],"explain":[…]}
//	← one line of JSON for each
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

type entry struct {
	Path, Kind, Target, Content string
	Mode                        uint32
}

type op struct {
	Op   string   `json:"o"`
	Path string   `json:"p"`
	Via  string   `json:"v,omitempty"` // "", "at" or "cwd"
	Arg  string   `json:"a,omitempty"`
	Args []string `json:"as,omitempty"`
}

type request struct {
	Build   []entry  `json:"build,omitempty"`
	Wipe    []string `json:"wipe,omitempty"`
	Snap    []string `json:"snap,omitempty"`
	Ops     []op     `json:"ops,omitempty"`
	Explain []string `json:"explain,omitempty"`
	Within  []string `json:"within,omitempty"`
}

type result struct {
	Errno   int      `json:"e,omitempty"`
	Content string   `json:"c,omitempty"`
	Names   []string `json:"n,omitempty"`
	Ino     uint64   `json:"i,omitempty"`
	Dev     uint64   `json:"d,omitempty"`
	Note    string   `json:"x,omitempty"` // an undo that failed
}

type response struct {
	Err     string            `json:"err,omitempty"`
	Results []result          `json:"r,omitempty"`
	Explain [][3]bool         `json:"explain,omitempty"` // read, write, exec allowed
	Snap    map[string]string `json:"snap,omitempty"`
}

// within are the directories below which something may be changed. Trees have links that
// lead out of them, and as root an operation through one would change the host.
var within []string

func main() {
	runtime.LockOSThread()
	if len(os.Args) > 1 { // outside: the directories that are the trials' own
		within = os.Args[1:]
		if err := confine(); err != nil {
			fatal(err)
		}
	}
	if err := drop(); err != nil {
		fatal(err)
	}
	unix.Umask(0)
	in := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<16))
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	enc := json.NewEncoder(out)
	for {
		var req request
		if err := in.Decode(&req); err != nil {
			return
		}
		if len(os.Args) == 1 {
			within = req.Within
		}
		resp := serve(req)
		if err := enc.Encode(resp); err != nil {
			fatal(err)
		}
		out.Flush()
	}
}

func fatal(err error) {
	os.Stderr.WriteString("probe: " + err.Error() + "\n")
	os.Exit(99)
}

// confine makes everything but the trials' own directories read-only for this process,
// where it is root. For others the modes do that.
func confine() error {
	if os.Getuid() != 0 {
		return nil
	}
	ro := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	rw := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, dir := range within {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &ro); err != nil {
		return err
	}
	for _, dir := range within {
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &rw); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/etc/.bourn-difftest", nil, 0o600); !errors.Is(err, unix.EROFS) {
		return errors.New("the host is not read-only")
	}
	return nil
}

// changing are the operations that follow a link at the end and change what is there.
var changing = map[string]bool{"write": true, "trunc": true, "chmod": true, "utime": true, "chown": true, "xattr": true,
	"create": true, "mkdir": true, "symlink": true, "mkfifo": true, "opentrunc": true, "unlock": true, "retake": true}

// elsewhere reports whether a target exists and is not below the trials' directories.
func elsewhere(t target) bool {
	fd, err := unix.Openat(t.dir, t.name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return true
	}
	for _, dir := range within {
		if at == dir || strings.HasPrefix(at, dir+"/") {
			return false
		}
	}
	return true
}

// drop leaves this thread, which does everything, without capabilities.
func drop() error {
	const noRoot = 1<<0 | 1<<1 | 1<<2 | 1<<3
	_ = unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0) // refused to those who have none
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&head, &none[0])
}

func serve(req request) (resp response) {
	if len(req.Wipe) > 0 {
		for _, fd := range listeners {
			unix.Close(fd)
		}
		listeners = nil
	}
	for _, dir := range req.Wipe {
		if err := wipe(dir); err != nil {
			resp.Err = "wipe: " + err.Error()
			return resp
		}
	}
	if err := build(req.Build); err != nil {
		resp.Err = "build: " + err.Error()
		return resp
	}
	for _, o := range req.Ops {
		resp.Results = append(resp.Results, try(o))
	}
	if len(req.Explain) > 0 {
		if err := explain(req.Explain, &resp); err != nil {
			resp.Err = "explain: " + err.Error()
		}
	}
	if len(req.Snap) > 0 {
		resp.Snap = map[string]string{}
		for _, dir := range req.Snap {
			snap(dir, resp.Snap)
		}
	}
	return resp
}

func wipe(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return nil
	}
	if st.IsDir() {
		_ = os.Chmod(dir, 0o700)
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := wipe(dir + "/" + e.Name()); err != nil {
				return err
			}
		}
	}
	return os.Remove(dir)
}

var listeners []int

func build(entries []entry) error {
	for _, e := range entries {
		var err error
		switch e.Kind {
		case "dir":
			err = os.Mkdir(e.Path, 0o755)
		case "file":
			err = os.WriteFile(e.Path, []byte(e.Content), 0o644)
		case "link":
			err = os.Symlink(e.Target, e.Path)
		case "hard":
			err = unix.Linkat(unix.AT_FDCWD, e.Target, unix.AT_FDCWD, e.Path, 0)
		case "fifo":
			err = unix.Mkfifo(e.Path, 0o644)
		case "sock":
			err = listen(e.Path)
		}
		if err != nil {
			return errors.New(strconv.Quote(e.Path) + ": " + err.Error())
		}
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if e := entries[i]; e.Kind == "dir" || e.Kind == "file" {
			if err := unix.Chmod(e.Path, e.Mode); err != nil {
				return err
			}
		}
	}
	return nil
}

func listen(at string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	listeners = append(listeners, fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: at}); err != nil {
		return err
	}
	return unix.Listen(fd, 128)
}

// snap describes what lies at and below dir; modes that hide it are opened and restored.
func snap(at string, into map[string]string) {
	var st unix.Stat_t
	if err := unix.Lstat(at, &st); err != nil {
		return
	}
	text := strconv.FormatUint(uint64(st.Mode), 8) + " " + strconv.FormatUint(uint64(st.Ino), 10)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if st.Mode&0o700 != 0o700 {
			_ = unix.Chmod(at, 0o700)
			defer unix.Chmod(at, st.Mode&0o7777)
		}
		entries, _ := os.ReadDir(at)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "zz") {
				snap(at+"/"+e.Name(), into)
			}
		}
	case unix.S_IFREG:
		if st.Mode&0o400 == 0 {
			_ = unix.Chmod(at, 0o600)
			defer unix.Chmod(at, st.Mode&0o7777)
		}
		data, _ := os.ReadFile(at)
		text += " " + string(data)
	case unix.S_IFLNK:
		target, _ := os.Readlink(at)
		text += " -> " + target
	}
	into[at] = text
}

func explain(paths []string, resp *response) error {
	conn, err := net.Dial("unix", "/run/bourn/gate.sock")
	if err != nil {
		return err
	}
	defer conn.Close()
	dec := json.NewDecoder(conn)
	for _, p := range paths {
		var answer [3]bool
		for i, what := range []string{"read", "write", "exec"} {
			params := map[string]string{"operation": what, "target": p}
			if err := json.NewEncoder(conn).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "bourn/explain", "params": params}); err != nil {
				return err
			}
			var r struct {
				Result struct {
					Answer string `json:"answer"`
				} `json:"result"`
				Error json.RawMessage `json:"error"`
			}
			if err := dec.Decode(&r); err != nil {
				return err
			}
			if r.Error != nil {
				return errors.New(string(r.Error))
			}
			answer[i] = r.Result.Answer == "allowed"
		}
		resp.Explain = append(resp.Explain, answer)
	}
	return nil
}

// target is where an operation applies: a directory and a name.
type target struct {
	dir  int
	name string
}

// aim opens what the spelling needs.
func aim(o op) (t target, done func(), errno int) {
	done = func() {}
	switch o.Via {
	case "at":
		fd, err := unix.Open(path.Dir(o.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return t, done, number(err)
		}
		return target{fd, path.Base(o.Path)}, func() { unix.Close(fd) }, 0
	case "cwd":
		if err := unix.Chdir(path.Dir(o.Path)); err != nil {
			return t, done, number(err)
		}
		return target{unix.AT_FDCWD, "./" + path.Base(o.Path)}, func() { _ = unix.Chdir("/") }, 0
	}
	return target{unix.AT_FDCWD, o.Path}, done, 0
}

func number(err error) int {
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return int(errno)
	}
	return 9999
}

// try does one operation and undoes what it did.
func try(o op) (r result) {
	t, done, errno := aim(o)
	defer done()
	if errno != 0 {
		return result{Errno: errno}
	}
	if changing[o.Op] && elsewhere(t) {
		return result{Errno: 9996}
	}
	switch o.Op {
	case "read":
		return read(t)
	case "stat":
		var st unix.Stat_t
		err := unix.Fstatat(t.dir, t.name, &st, 0)
		return result{Errno: number(err), Ino: st.Ino, Dev: st.Dev}
	case "write":
		return write(t)
	case "trunc":
		return truncate(t)
	case "chmod":
		var st unix.Stat_t
		if err := unix.Fstatat(t.dir, t.name, &st, 0); err != nil {
			return result{Errno: number(err)}
		}
		return result{Errno: number(unix.Fchmodat(t.dir, t.name, st.Mode&0o7777, 0))}
	case "utime":
		ts := []unix.Timespec{{Sec: 1700000000}, {Sec: 1700000000}}
		return result{Errno: number(unix.UtimesNanoAt(t.dir, t.name, ts, 0))}
	case "chown":
		return result{Errno: number(unix.Fchownat(t.dir, t.name, os.Getuid(), os.Getgid(), 0))}
	case "xattr":
		return xattr(t)
	case "exec":
		return result{Errno: execCheck(t)}
	case "create":
		fd, err := unix.Openat(t.dir, t.name+"/"+o.Arg, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err == nil {
			unix.Close(fd)
			r.undo(unix.Unlinkat(t.dir, t.name+"/"+o.Arg, 0))
		}
		r.Errno = number(err)
	case "mkdir":
		err := unix.Mkdirat(t.dir, t.name+"/"+o.Arg, 0o755)
		if err == nil {
			r.undo(unix.Unlinkat(t.dir, t.name+"/"+o.Arg, unix.AT_REMOVEDIR))
		}
		r.Errno = number(err)
	case "symlink":
		err := unix.Symlinkat("nowhere", t.dir, t.name+"/"+o.Arg)
		if err == nil {
			r.undo(unix.Unlinkat(t.dir, t.name+"/"+o.Arg, 0))
		}
		r.Errno = number(err)
	case "mkfifo":
		err := unix.Mknodat(t.dir, t.name+"/"+o.Arg, unix.S_IFIFO|0o644, 0)
		if err == nil {
			r.undo(unix.Unlinkat(t.dir, t.name+"/"+o.Arg, 0))
		}
		r.Errno = number(err)
	case "link": // to a new name elsewhere, and read it there
		err := unix.Linkat(t.dir, t.name, unix.AT_FDCWD, o.Arg, 0)
		if err == nil {
			r = read(target{unix.AT_FDCWD, o.Arg})
			r.undo(unix.Unlink(o.Arg))
			r.Errno = 0
			return r
		}
		r.Errno = number(err)
	case "rename": // to a new name beside it or elsewhere, read it there, and back
		err := unix.Renameat(t.dir, t.name, unix.AT_FDCWD, o.Arg)
		if err == nil {
			r = read(target{unix.AT_FDCWD, o.Arg})
			for _, below := range o.Args { // what was closed there must have come along closed
				if q := read(target{unix.AT_FDCWD, o.Arg + "/" + below}); q.Errno == 0 {
					r = q
					break
				}
			}
			r.undo(unix.Renameat(unix.AT_FDCWD, o.Arg, t.dir, t.name))
			r.Errno = 0
			return r
		}
		r.Errno = number(err)
	case "move": // for good
		r.Errno = number(unix.Renameat(t.dir, t.name, unix.AT_FDCWD, o.Arg))
	case "retake": // put another tree in the place of a directory above, and a file at the path
		above := o.Args[0]
		if err := unix.Renameat(unix.AT_FDCWD, above, unix.AT_FDCWD, o.Arg); err != nil {
			return result{Errno: number(err)}
		}
		_ = os.MkdirAll(path.Dir(o.Path), 0o755)
		r.Errno = number(os.WriteFile(o.Path, []byte("#taken"), 0o644))
		_ = os.RemoveAll(above) // made just now
		r.undo(unix.Renameat(unix.AT_FDCWD, o.Arg, unix.AT_FDCWD, above))
	case "put": // a decoy, for good
		_ = os.MkdirAll(path.Dir(o.Path), 0o755)
		r.Errno = number(os.WriteFile(o.Path, []byte("#decoy"), 0o644))
	case "unlock":
		return unlock(o, t)
	case "connect":
		r.Errno = connect(o.Path)
	// What follows destroys, and is tried only where it must fail.
	case "unlink":
		r.Errno = number(unix.Unlinkat(t.dir, t.name, 0))
	case "rmdir":
		r.Errno = number(unix.Unlinkat(t.dir, t.name, unix.AT_REMOVEDIR))
	case "opentrunc":
		fd, err := unix.Openat(t.dir, t.name, unix.O_WRONLY|unix.O_TRUNC|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		r.Errno = number(err)
	case "replace", "exchange":
		flags := uint(0)
		if o.Op == "exchange" {
			flags = unix.RENAME_EXCHANGE
		}
		fd, err := unix.Open(o.Arg, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return result{Errno: 9998}
		}
		unix.Close(fd)
		r.Errno = number(unix.Renameat2(unix.AT_FDCWD, o.Arg, t.dir, t.name, flags))
		_ = unix.Unlink(o.Arg)
	default:
		r.Errno = 9997
	}
	return r
}

func (r *result) undo(err error) {
	if err != nil {
		r.Note = "undo: " + err.Error()
	}
}

func read(t target) (r result) {
	fd, err := unix.Openat(t.dir, t.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return result{Errno: number(err)}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return result{Errno: number(err)}
	}
	r.Ino, r.Dev = st.Ino, st.Dev
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		buf := make([]byte, 256)
		n, err := unix.Pread(fd, buf, 0)
		if err != nil {
			return result{Errno: number(err)}
		}
		r.Content = "f" + string(buf[:n])
	case unix.S_IFDIR:
		r.Content = "d"
		buf := make([]byte, 16384)
		for { // a signal, as Go's own to a thread, makes one call end before the last entry
			n, err := unix.ReadDirent(fd, buf)
			if err != nil {
				return result{Errno: number(err)}
			}
			if n == 0 {
				break
			}
			_, _, r.Names = unix.ParseDirent(buf[:n], -1, r.Names)
		}
		sort.Strings(r.Names)
	default:
		r.Content = "o"
	}
	return r
}

func write(t target) result {
	fd, err := unix.Openat(t.dir, t.name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == unix.ENXIO { // a fifo without a reader: it was judged before
		return result{Names: []string{"ENXIO"}}
	}
	if err != nil {
		return result{Errno: number(err)}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return result{Errno: number(err)}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		_, err = unix.Pwrite(fd, []byte("#"), 0) // every file begins so
	}
	return result{Errno: number(err), Ino: st.Ino, Dev: st.Dev}
}

func truncate(t target) result {
	var st unix.Stat_t
	if err := unix.Fstatat(t.dir, t.name, &st, 0); err != nil {
		return result{Errno: number(err)}
	}
	fd, err := unix.Openat(t.dir, t.name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return result{Errno: number(err)}
	}
	defer unix.Close(fd)
	return result{Errno: number(unix.Ftruncate(fd, st.Size))}
}

func xattr(t target) (r result) {
	name := t.name
	if t.dir != unix.AT_FDCWD {
		name = "/proc/self/fd/" + strconv.Itoa(t.dir) + "/" + t.name
	}
	err := unix.Setxattr(name, "user.zz", []byte("1"), 0)
	if err == nil {
		r.undo(unix.Removexattr(name, "user.zz"))
	}
	r.Errno = number(err)
	return r
}

// execCheck asks the kernel whether the file could be executed (AT_EXECVE_CHECK, 6.14).
func execCheck(t target) int {
	const check = 0x10000
	name, err := unix.BytePtrFromString(t.name)
	if err != nil {
		return 9999
	}
	argv := []*byte{name, nil}
	envv := []*byte{nil}
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, uintptr(t.dir), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])), check, 0)
	return int(errno)
}

// unlock opens the modes on the way, as an owner may, and then reads.
func unlock(o op, t target) (r result) {
	type old struct {
		at   string
		mode uint32
	}
	var changed []old
	for _, at := range append(o.Args, o.Path) {
		var st unix.Stat_t
		if unix.Lstat(at, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK || st.Mode&0o700 == 0o700 {
			continue
		}
		if unix.Chmod(at, 0o700) == nil {
			changed = append(changed, old{at, st.Mode & 0o7777})
		}
	}
	r = read(t)
	for i := len(changed) - 1; i >= 0; i-- {
		r.undo(unix.Chmod(changed[i].at, changed[i].mode))
	}
	return r
}

func connect(at string) int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return number(err)
	}
	defer unix.Close(fd)
	name := at
	if len(name) > 100 {
		dir, err := unix.Open(filepath.Dir(at), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return number(err)
		}
		defer unix.Close(dir)
		name = "/proc/self/fd/" + strconv.Itoa(dir) + "/" + filepath.Base(at)
	}
	return number(unix.Connect(fd, &unix.SockaddrUnix{Name: name}))
}
