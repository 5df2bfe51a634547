//go:build amd64 || arm64

package notify

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// verdict runs the filter on a call, in a machine that is big-endian.
func verdict(t *testing.T, vm *bpf.VM, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	data := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, nr), arch)
	data = append(data, make([]byte, 8)...)
	for i := range 6 {
		var arg uint64
		if i < len(args) {
			arg = args[i]
		}
		data = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(data, uint32(arg)), uint32(arg>>32))
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func TestFilter(t *testing.T) {
	raw, err := filter()
	if err != nil {
		t.Fatal(err)
	}
	program, _ := bpf.Disassemble(raw)
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	calls := slices.Concat(table[:], archTable[:])
	numbers := map[uint32]string{}
	for _, c := range calls {
		if other, twice := numbers[c.nr]; twice {
			t.Errorf("%s and %s have one number", c.name, other)
		}
		numbers[c.nr] = c.name
	}
	for nr := range uint32(2000) {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if numbers[nr] != "" {
			want = unix.SECCOMP_RET_USER_NOTIF
		}
		if got := verdict(t, vm, auditArch, nr); got != want {
			t.Errorf("number %d: %#x, want %#x", nr, got, want)
		}
		for _, other := range []struct{ arch, nr uint32 }{{unix.AUDIT_ARCH_I386, nr}, {auditArch ^ 1, nr}, {auditArch, nr | 0x40000000}} {
			if got := verdict(t, vm, other.arch, other.nr); got != unix.SECCOMP_RET_ALLOW {
				t.Errorf("number %#x on %#x: %#x", other.nr, other.arch, got)
			}
		}
	}
	const cwd, high = 1<<32 + unix.AT_FDCWD, 1 << 40
	for _, row := range []struct {
		nr   uint32
		args []uint64
		want uint32
	}{
		{unix.SYS_NEWFSTATAT, []uint64{5, 0, 0, unix.AT_EMPTY_PATH}, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_NEWFSTATAT, []uint64{5, 0, 0, unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | high}, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_NEWFSTATAT, []uint64{cwd, 0, 0, unix.AT_EMPTY_PATH}, unix.SECCOMP_RET_USER_NOTIF},
		{unix.SYS_NEWFSTATAT, []uint64{5, 0, 0, unix.AT_SYMLINK_NOFOLLOW | unix.AT_EMPTY_PATH<<32}, unix.SECCOMP_RET_USER_NOTIF},
		{unix.SYS_STATX, []uint64{5, 0, unix.AT_EMPTY_PATH}, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_STATX, []uint64{cwd | high, 0, unix.AT_EMPTY_PATH}, unix.SECCOMP_RET_USER_NOTIF},
		{unix.SYS_STATX, []uint64{5, 0, 0, unix.AT_EMPTY_PATH}, unix.SECCOMP_RET_USER_NOTIF},
		{unix.SYS_OPENAT, []uint64{5, 0, unix.AT_EMPTY_PATH, unix.AT_EMPTY_PATH}, unix.SECCOMP_RET_USER_NOTIF},
	} {
		if got := verdict(t, vm, auditArch, row.nr, row.args...); got != row.want {
			t.Errorf("number %d %#x: %#x, want %#x", row.nr, row.args, got, row.want)
		}
	}
}

// TestReadMemory reads this process in both ways.
func TestReadMemory(t *testing.T) {
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(proc)
	page := os.Getpagesize()
	pages, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(pages)
	copy(pages[page-4:], "text")
	if err := unix.Mprotect(pages[page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	start := uint64(uintptr(unsafe.Pointer(&pages[0])))
	for name, read := range map[string]func(int, uint32, uint64, []byte) (int, error){"call": readMemory, "file": readMemoryFile} {
		into := make([]byte, 4)
		if n, err := read(proc, uint32(os.Getpid()), start+uint64(page)-4, into); err != nil || string(into[:n]) != "text" {
			t.Errorf("%s: %q %v", name, into[:n], err)
		}
		for _, address := range []uint64{8, 1<<64 - 4096, start + uint64(page)} {
			if name == "file" && address == start+uint64(page) {
				continue // /proc/PID/mem overrides protection
			}
			if n, err := read(proc, uint32(os.Getpid()), address, into); n != 0 || !errors.Is(err, unix.EFAULT) {
				t.Errorf("%s of %#x: %d %v", name, address, n, err)
			}
		}
		if _, err := read(proc, 1<<22+1, start, into); !errors.Is(err, unix.ESRCH) {
			t.Errorf("%s of nobody: %v", name, err)
		}
	}
}
