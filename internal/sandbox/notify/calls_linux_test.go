//go:build amd64 || arm64

package notify

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// A row is a call and what must be reported of it. In paths DIR is the directory of the
// test, which is also the caller's. Pid is left out.
type row struct {
	nr   uintptr
	args []any // int, string, marker or []uint64
	want []Event
}

type marker int

const (
	theDir  marker = iota // a descriptor of DIR/sub
	theFile               // a descriptor of DIR/file
	buffer                // memory
	wild                  // no memory
	closed                // no descriptor
	aPipe                 // a descriptor that is no directory
	atEnd                 // "file" at the end of a page that is followed by none
	across                // "./file" on two pages
	cut                   // text without an end at the end of a page that is followed by none
	longest               // 4095 bytes, "./" repeated and "abc"
	tooLong               // a byte more
)

const at1 = unix.AT_FDCWD

var rows = []row{
	{unix.SYS_OPENAT, []any{at1, "file", unix.O_RDONLY}, []Event{{0, "openat", Read, "DIR/file"}}},
	{unix.SYS_OPENAT, []any{at1, "./sub/..//file", unix.O_WRONLY}, []Event{{0, "openat", Write, "DIR/file"}}},
	{unix.SYS_OPENAT, []any{theDir, "below", unix.O_RDWR}, []Event{{0, "openat", Write, "DIR/sub/below"}}},
	{unix.SYS_OPENAT, []any{theDir, "../file", unix.O_RDONLY | unix.O_CREAT, 0o600}, []Event{{0, "openat", Write, "DIR/file"}}},
	{unix.SYS_OPENAT, []any{theDir, "/etc/../etc/hosts", unix.O_RDONLY | unix.O_DIRECTORY}, []Event{{0, "openat", Read, "/etc/hosts"}}},
	{unix.SYS_OPENAT, []any{closed, "/none", unix.O_RDONLY | unix.O_TRUNC}, []Event{{0, "openat", Write, "/none"}}},
	{unix.SYS_OPENAT, []any{at1, "file", unix.O_PATH | unix.O_RDWR}, []Event{{0, "openat", Read, "DIR/file"}}},
	{unix.SYS_OPENAT, []any{theFile, "x", unix.O_RDONLY}, []Event{{0, "openat", Read, "DIR/file/x"}}},
	{unix.SYS_OPENAT, []any{closed, "file", unix.O_RDONLY}, nil},
	{unix.SYS_OPENAT, []any{aPipe, "file", unix.O_RDONLY}, nil},
	{unix.SYS_OPENAT, []any{at1, "", unix.O_RDONLY}, nil},
	{unix.SYS_OPENAT, []any{at1, 0, unix.O_RDONLY}, nil},
	{unix.SYS_OPENAT, []any{at1, wild, unix.O_RDONLY}, nil},
	{unix.SYS_OPENAT, []any{at1, -1, unix.O_RDONLY}, nil},
	{unix.SYS_OPENAT, []any{at1, cut, unix.O_RDONLY}, nil},
	{unix.SYS_OPENAT, []any{at1, tooLong, unix.O_RDONLY}, nil},
	{unix.SYS_OPENAT, []any{at1, longest, unix.O_RDONLY}, []Event{{0, "openat", Read, "DIR/abc"}}},
	{unix.SYS_OPENAT, []any{at1, atEnd, unix.O_RDONLY}, []Event{{0, "openat", Read, "DIR/file"}}},
	{unix.SYS_OPENAT, []any{at1, across, unix.O_RDONLY}, []Event{{0, "openat", Read, "DIR/file"}}},
	{unix.SYS_OPENAT2, []any{at1, "file", []uint64{unix.O_RDONLY, 0, 0}, 24}, []Event{{0, "openat2", Read, "DIR/file"}}},
	{unix.SYS_OPENAT2, []any{theDir, "below", []uint64{unix.O_RDWR, 0, 0}, 24}, []Event{{0, "openat2", Write, "DIR/sub/below"}}},
	{unix.SYS_OPENAT2, []any{theDir, "/../below", []uint64{0, 0, unix.RESOLVE_IN_ROOT}, 24}, []Event{{0, "openat2", Read, "DIR/sub/below"}}},
	{unix.SYS_OPENAT2, []any{at1, "file", wild, 24}, nil},
	{unix.SYS_NEWFSTATAT, []any{at1, "none", buffer, 0}, []Event{{0, "newfstatat", Read, "DIR/none"}}},
	{unix.SYS_NEWFSTATAT, []any{theFile, "", buffer, unix.AT_EMPTY_PATH}, nil},
	{unix.SYS_NEWFSTATAT, []any{at1, "", buffer, unix.AT_EMPTY_PATH}, nil},
	{unix.SYS_NEWFSTATAT, []any{at1, "file", buffer, unix.AT_EMPTY_PATH}, []Event{{0, "newfstatat", Read, "DIR/file"}}},
	{unix.SYS_STATX, []any{at1, "file", unix.AT_EMPTY_PATH, 0, buffer}, []Event{{0, "statx", Read, "DIR/file"}}},
	{unix.SYS_STATX, []any{theFile, "", unix.AT_EMPTY_PATH, 0, buffer}, nil},
	{unix.SYS_READLINKAT, []any{at1, "/proc/self/fd/1", buffer, 8}, []Event{{0, "readlinkat", Read, "/proc/self/fd/1"}}},
	{unix.SYS_FACCESSAT, []any{at1, "file", unix.R_OK}, []Event{{0, "faccessat", Read, "DIR/file"}}},
	{unix.SYS_FACCESSAT, []any{at1, "file", unix.W_OK}, []Event{{0, "faccessat", Write, "DIR/file"}}},
	{unix.SYS_FACCESSAT2, []any{at1, "file", unix.X_OK, 0}, []Event{{0, "faccessat2", Exec, "DIR/file"}}},
	{unix.SYS_EXECVE, []any{"none", 0, 0}, []Event{{0, "execve", Exec, "DIR/none"}}},
	{unix.SYS_EXECVEAT, []any{theDir, "none", 0, 0, 0}, []Event{{0, "execveat", Exec, "DIR/sub/none"}}},
	{unix.SYS_EXECVEAT, []any{theFile, "", 0, 0, unix.AT_EMPTY_PATH}, []Event{{0, "execveat", Exec, "DIR/file"}}},
	{unix.SYS_EXECVEAT, []any{theFile, "", 0, 0, 0}, nil},
	{unix.SYS_MKDIRAT, []any{theDir, "made/", 0o700}, []Event{{0, "mkdirat", Write, "DIR/sub/made"}}},
	{unix.SYS_UNLINKAT, []any{theDir, "made", unix.AT_REMOVEDIR}, []Event{{0, "unlinkat", Write, "DIR/sub/made"}}},
	{unix.SYS_MKNODAT, []any{at1, "node", unix.S_IFREG | 0o600, 0}, []Event{{0, "mknodat", Write, "DIR/node"}}},
	{unix.SYS_RENAMEAT, []any{at1, "node", theDir, "node"}, []Event{{0, "renameat", Write, "DIR/node"}, {0, "renameat", Write, "DIR/sub/node"}}},
	{unix.SYS_RENAMEAT2, []any{theDir, "node", at1, "node", 0}, []Event{{0, "renameat2", Write, "DIR/sub/node"}, {0, "renameat2", Write, "DIR/node"}}},
	{unix.SYS_RENAMEAT2, []any{theDir, wild, at1, "other", 0}, []Event{{0, "renameat2", Write, "DIR/other"}}},
	{unix.SYS_LINKAT, []any{at1, "node", theDir, "linked", 0}, []Event{{0, "linkat", Read, "DIR/node"}, {0, "linkat", Write, "DIR/sub/linked"}}},
	{unix.SYS_LINKAT, []any{theFile, "", theDir, "linked", unix.AT_EMPTY_PATH}, []Event{{0, "linkat", Write, "DIR/sub/linked"}}},
	{unix.SYS_SYMLINKAT, []any{"anything", theDir, "soft"}, []Event{{0, "symlinkat", Write, "DIR/sub/soft"}}},
	{unix.SYS_FCHMODAT, []any{at1, "node", 0o600}, []Event{{0, "fchmodat", Write, "DIR/node"}}},
	{unix.SYS_FCHMODAT2, []any{at1, "node", 0o600, 0}, []Event{{0, "fchmodat2", Write, "DIR/node"}}},
	{unix.SYS_FCHOWNAT, []any{at1, "node", -1, -1, 0}, []Event{{0, "fchownat", Write, "DIR/node"}}},
	{unix.SYS_UTIMENSAT, []any{at1, "node", 0, 0}, []Event{{0, "utimensat", Write, "DIR/node"}}},
	{unix.SYS_UTIMENSAT, []any{theFile, 0, 0, 0}, nil},
	{unix.SYS_TRUNCATE, []any{"node", 0}, []Event{{0, "truncate", Write, "DIR/node"}}},
	{unix.SYS_SETXATTR, []any{"node", "user.a", 0, 0, 0}, []Event{{0, "setxattr", Write, "DIR/node"}}},
	{unix.SYS_LSETXATTR, []any{"node", "user.a", 0, 0, 0}, []Event{{0, "lsetxattr", Write, "DIR/node"}}},
	{unix.SYS_REMOVEXATTR, []any{"node", "user.a"}, []Event{{0, "removexattr", Write, "DIR/node"}}},
	{unix.SYS_LREMOVEXATTR, []any{"node", "user.a"}, []Event{{0, "lremovexattr", Write, "DIR/node"}}},
	{unix.SYS_SETXATTRAT, []any{at1, "node", 0, "user.a", 0, 0}, []Event{{0, "setxattrat", Write, "DIR/node"}}},
	{unix.SYS_REMOVEXATTRAT, []any{at1, "node", 0, "user.a"}, []Event{{0, "removexattrat", Write, "DIR/node"}}},
	{unix.SYS_CLOSE, []any{-1}, nil},
}

// makeCalls makes the rows' calls on the calling thread, which gets a directory of its own.
func makeCalls(req request, _ *answer) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Chdir(req.Dir); err != nil {
		return err
	}
	values, err := markers()
	if err != nil {
		return err
	}
	for _, row := range slices.Concat(rows, archRows) {
		var args [6]uintptr
		var keep []any
		for i, arg := range row.args {
			switch arg := arg.(type) {
			case int:
				args[i] = uintptr(arg)
			case marker:
				args[i] = values[arg]
			case string:
				text := append([]byte(arg), 0)
				keep, args[i] = append(keep, text), uintptr(unsafe.Pointer(&text[0]))
			case []uint64:
				keep, args[i] = append(keep, arg), uintptr(unsafe.Pointer(&arg[0]))
			}
		}
		fd, _, errno := unix.Syscall6(row.nr, args[0], args[1], args[2], args[3], args[4], args[5])
		runtime.KeepAlive(keep)
		if errno == unix.ENOSYS && row.nr < unix.SYS_SETXATTRAT && row.nr != unix.SYS_FCHMODAT2 {
			return fmt.Errorf("call %d: %w", row.nr, errno)
		}
		if errno == 0 && fd > 2 && (row.nr == unix.SYS_OPENAT || row.nr == unix.SYS_OPENAT2) {
			unix.Close(int(fd))
		}
	}
	return nil
}

// markers prepares what markers stand for. It makes two calls that are reported.
func markers() (map[marker]uintptr, error) {
	page := os.Getpagesize()
	pages, err := unix.Mmap(-1, 0, 6*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	base := uintptr(unsafe.Pointer(&pages[0]))
	put := func(end int, text string) uintptr {
		copy(pages[end-len(text):], text)
		return base + uintptr(end-len(text))
	}
	long := strings.Repeat("./", 2046) + "abc"
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	values := map[marker]uintptr{
		atEnd:  put(page, "file\x00"),
		across: put(3*page+3, "./file\x00"),
		cut:    put(5*page, "file"),
		wild:   base + uintptr(page) + 5,
		closed: 999,
		aPipe:  uintptr(pipe[0]),
		buffer: base + 2*uintptr(page),
	}
	for m, text := range map[marker]string{longest: long + "\x00", tooLong: long + "d\x00"} {
		kept := []byte(text)
		memory = append(memory, kept)
		values[m] = uintptr(unsafe.Pointer(&kept[0]))
	}
	for _, gone := range []int{1, 5} {
		if err := unix.Mprotect(pages[gone*page:(gone+1)*page], unix.PROT_NONE); err != nil {
			return nil, err
		}
	}
	for m, path := range map[marker]string{theDir: "sub", theFile: "file"} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		values[m] = uintptr(fd)
	}
	return values, nil
}

var memory [][]byte

func TestCalls(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		dir := newDir(t, uid)
		writable(t, uid, filepath.Join(dir, "file"), false)
		writable(t, uid, filepath.Join(dir, "sub"), true)
		writable(t, uid, filepath.Join(dir, "sub/below"), false)
		var want []Event
		for _, row := range slices.Concat(rows, archRows) {
			for _, e := range row.want {
				e.Path = strings.Replace(e.Path, "DIR", dir, 1)
				want = append(want, e)
			}
		}
		got := watched(t, uid, request{Do: "calls", Dir: dir}).Events
		if threads := takePids(got); len(threads) != 1 || threads[0] == 0 {
			t.Errorf("the events are of threads %v", threads)
		}
		if diff := cmp.Diff(want, got[min(2, len(got)):]); diff != "" { // after those of markers
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// writable makes a file or a directory that the user may write.
func writable(t *testing.T, uid int, path string, dir bool) {
	t.Helper()
	var err error
	if dir {
		err = os.Mkdir(path, 0o755)
	} else {
		err = os.WriteFile(path, []byte("text"), 0o644)
	}
	if err == nil && uid != os.Getuid() {
		err = os.Chown(path, uid, uid)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// takePids clears and returns the different threads of events.
func takePids(events []Event) (pids []int) {
	for i := range events {
		if pid := events[i].Pid; !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
		events[i].Pid = 0
	}
	return pids
}
