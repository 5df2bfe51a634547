package landlock

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// newTree makes the directories that the matrix uses, owned by uid.
func newTree(t *testing.T, uid int) string {
	t.Helper()
	base, err := os.MkdirTemp("", "landlock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"ro", "rw", "rw2", "rwx", "out"} {
		for _, sub := range []string{"sub", "empty"} {
			check(os.MkdirAll(filepath.Join(base, dir, sub), 0o755))
		}
		for _, file := range []string{"f", "g", "h", "i", "j", "sub/f"} {
			check(os.WriteFile(filepath.Join(base, dir, file), []byte("text"), 0o644))
		}
		check(os.WriteFile(filepath.Join(base, dir, "prog"), exitProgram(), 0o755))
	}
	check(os.WriteFile(filepath.Join(base, "file"), []byte("text"), 0o644))
	check(os.Symlink("out", filepath.Join(base, "toout")))
	check(filepath.Walk(base, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, -1)
	}))
	return base
}

// exitProgram returns an executable that does nothing but exit with status 0.
func exitProgram() []byte {
	var code []byte
	machine := uint16(62) // EM_X86_64
	switch runtime.GOARCH {
	case "amd64":
		code = []byte{0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05} // mov eax,60; xor edi,edi; syscall
	case "arm64":
		machine = 183
		for _, ins := range []uint32{0xd2800ba8, 0xd2800000, 0xd4000001} { // mov x8,93; mov x0,0; svc 0
			code = binary.LittleEndian.AppendUint32(code, ins)
		}
	}
	const base, headers = 0x400000, 64 + 56
	le := binary.LittleEndian
	elf := []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, half := range []uint16{2, machine, 1, 0} { // ET_EXEC, version
		elf = le.AppendUint16(elf, half)
	}
	for _, word := range []uint64{base + headers, 64, 0} { // entry, program and section headers
		elf = le.AppendUint64(elf, word)
	}
	for _, half := range []uint16{0, 0, 64, 56, 1, 0, 0, 0} {
		elf = le.AppendUint16(elf, half)
	}
	size := uint64(headers + len(code))
	elf = le.AppendUint64(elf, 1|5<<32) // PT_LOAD, read and execute
	for _, word := range []uint64{0, base, base, size, size, 0x1000} {
		elf = le.AppendUint64(elf, word)
	}
	return append(elf, code...)
}

func treeRules(base string) []Rule {
	return []Rule{
		{base + "/ro", Read},
		{base + "/rw", Read | Write},
		{base + "/rw2", Read | Write},
		{base + "/rwx", Read | Write | Exec},
		{base + "/file", Read | Write | Exec}, // rights on directories are left out
		{"/dev/null", Read | DevIO},
		{"/dev/zero", Read | WriteFile},
	}
}

// TestMatrix tries everything twice: restricted, and not, to see that it is the seal that
// refuses.
func TestMatrix(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		outsider := exec.Command("sleep", "60")
		if uid != os.Getuid() {
			id := uint32(uid)
			outsider.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
		}
		if err := outsider.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { outsider.Process.Kill(); outsider.Wait() }()
		abstract := fmt.Sprintf("@bourn-landlock-%d-%d", os.Getpid(), uid)
		listener(t, "unix", abstract)

		untraced := "ok"
		if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil && scope[0] != '0' && uid != 0 {
			untraced = "EPERM"
		}

		type row struct {
			try
			sealed string
			open   string // "" is ok
		}
		rows := func(base string) []row {
			at := func(name string) string { return filepath.Join(base, name) }
			one := func(do, path, sealed string) row { return row{try: try{Do: do, Path: at(path)}, sealed: sealed} }
			two := func(do, from, to, sealed string) row {
				return row{try: try{Do: do, Path: at(from), To: at(to)}, sealed: sealed}
			}
			return []row{
				one("read", "ro/f", "ok"),
				one("read", "ro/sub/f", "ok"),
				one("list", "ro", "ok"),
				one("write", "ro/f", "EACCES"),
				one("empty", "ro/f", "EACCES"),
				one("truncate", "ro/f", "EACCES"),
				one("create", "ro/new", "EACCES"),
				one("tmpfile", "ro", "EACCES"),
				one("mkdir", "ro/newdir", "EACCES"),
				one("rmdir", "ro/empty", "EACCES"),
				one("unlink", "ro/g", "EACCES"),
				one("symlink", "ro/newlink", "EACCES"),
				one("mkfifo", "ro/newfifo", "EACCES"),
				one("mksock", "ro/newsock", "EACCES"),
				one("whiteout", "ro/newdev", "EACCES"),
				one("exec", "ro/prog", "EACCES"),

				one("read", "rw/f", "ok"),
				one("list", "rw", "ok"),
				one("write", "rw/f", "ok"),
				one("empty", "rw/f", "ok"),
				one("truncate", "rw/f", "ok"),
				one("truncate-open", "rw/f", "ok"),
				one("create", "rw/new", "ok"),
				one("tmpfile", "rw", "ok"),
				one("mkdir", "rw/newdir", "ok"),
				one("rmdir", "rw/empty", "ok"),
				one("unlink", "rw/g", "ok"),
				one("symlink", "rw/newlink", "ok"),
				one("mkfifo", "rw/newfifo", "ok"),
				one("mksock", "rw/newsock", "ok"),
				one("whiteout", "rw/newdev", "ok"),
				one("exec", "rw/prog", "EACCES"),
				one("exec", "rwx/prog", "ok"),

				one("read", "out/f", "EACCES"),
				one("list", "out", "EACCES"),
				one("list", ".", "EACCES"),
				one("read", "toout/f", "EACCES"),
				one("read", "ro/../out/f", "EACCES"),
				one("write", "out/f", "EACCES"),
				one("truncate", "out/f", "EACCES"),
				one("create", "out/new", "EACCES"),
				one("mkdir", "out/newdir", "EACCES"),
				one("rmdir", "out/empty", "EACCES"),
				one("unlink", "out/g", "EACCES"),
				one("exec", "out/prog", "EACCES"),

				two("rename", "rw/h", "rw/h2", "ok"),
				two("rename", "rw/h2", "rw/sub/h", "ok"),
				two("rename", "rw/i", "rw2/i2", "ok"),
				two("rename", "rw/j", "rwx/j2", "EXDEV"), // would gain Exec
				two("rename", "rwx/j", "rw/j2", "ok"),
				two("rename", "rw/sub/f", "ro/f2", "EACCES"),
				two("rename", "rw2/sub/f", "out/f2", "EACCES"),
				two("rename", "ro/i", "rw/i3", "EACCES"),
				two("rename", "out/i", "rw/i4", "EACCES"),
				two("exchange", "ro/j", "rw2/j", "EACCES"),
				two("link", "rw/f", "rw2/l1", "ok"),
				two("link", "rw/f", "rwx/l1", "EXDEV"),
				two("link", "ro/f", "rw/l2", "EXDEV"), // would gain Write
				two("link", "out/f", "rw/l3", "EXDEV"),
				two("link", "rw/f", "out/l4", "EACCES"),

				one("read", "file", "ok"),
				one("write", "file", "ok"),
				two("rename", "file", "file2", "EACCES"),
				two("rename", "file2", "file", "ENOENT"), // only undoes it where there is no seal

				{try: try{Do: "read", Path: at("out/f"), Free: true}, sealed: "ok"}, // another thread

				{try: try{Do: "ioctl", Path: "/dev/null"}, sealed: "ENOTTY", open: "ENOTTY"},
				{try: try{Do: "ioctl", Path: "/dev/zero"}, sealed: "EACCES", open: "ENOTTY"},
				{try: try{Do: "connect", Path: abstract}, sealed: "EPERM"},
				{try: try{Do: "signal", Arg: outsider.Process.Pid}, sealed: "EPERM"},
				{try: try{Do: "signal", Arg: outsider.Process.Pid, Free: true}, sealed: "ok"},
				{try: try{Do: "trace", Arg: outsider.Process.Pid}, sealed: "EPERM", open: untraced},
			}
		}
		for _, restricted := range []bool{false, true} {
			t.Run(fmt.Sprintf("restricted=%v", restricted), func(t *testing.T) {
				base := newTree(t, uid)
				req := request{NoNewPrivs: true, Restrict: restricted, Rules: treeRules(base)}
				for _, r := range rows(base) {
					req.Tries = append(req.Tries, r.try)
				}
				ans := sealed(t, uid, req)
				if ans.Err != "" {
					t.Fatal(ans.Err)
				}
				if restricted && ans.Result.ABI < 6 {
					t.Skipf("the matrix is written for ABI 6, this is %d", ans.Result.ABI)
				}
				for i, r := range rows(base) {
					want := r.sealed
					if !restricted {
						want = r.open
						if want == "" {
							want = "ok"
						}
					}
					if got := ans.Errnos[i]; got != want {
						t.Errorf("%s %s %s (free=%v): %s, want %s", r.Do, strings.TrimPrefix(r.Path, base),
							strings.TrimPrefix(r.To, base), r.Free, got, want)
					}
				}
			})
		}
	})
}
