package seccomp

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// errnoProgram returns an executable that makes one call and exits with its errno.
func errnoProgram(call ...byte) []byte {
	code := append(call,
		0xf7, 0xd8, // neg eax
		0x89, 0xc7, // mov edi, eax
		0xb8, 60, 0, 0, 0, // mov eax, SYS_exit
		0x0f, 0x05) // syscall
	const base, headers = 0x400000, 64 + 56
	le := binary.LittleEndian
	elf := []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, half := range []uint16{2, 62, 1, 0} { // ET_EXEC, EM_X86_64, version
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

// TestForeignCalls makes i386 calls for real, and a native one to see that a program is
// under the filter of the thread that ran it.
func TestForeignCalls(t *testing.T) {
	dir, err := os.MkdirTemp("", "seccomp") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := func(name string, call ...byte) try {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, errnoProgram(call...), 0o755); err != nil {
			t.Fatal(err)
		}
		return try{Do: "program", Argv: []string{path}}
	}
	i386 := program("i386",
		0xb8, 6, 0, 0, 0, // mov eax, close
		0xbb, 0xff, 0xff, 0xff, 0xff, // mov ebx, -1
		0xcd, 0x80) // int 0x80
	native := program("native",
		0xb8, 0xb3, 0x01, 0, 0, // mov eax, SYS_clone3
		0xbf, 1, 0, 0, 0, // mov edi, 1
		0x31, 0xf6, // xor esi, esi
		0x0f, 0x05) // syscall
	x32 := try{Nr: 0x40000000 | unix.SYS_GETPID}
	asEachUser(t, func(t *testing.T, uid int) {
		got := sealed(t, uid, request{NoNewPrivs: true, Install: true, Tries: []try{i386, native, x32}})
		if diff := cmp.Diff([]string{"exit 38", "exit 38", enosys}, got.Errnos); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.Err, diff)
		}
		plain := sealed(t, uid, request{Tries: []try{i386, native}})
		need(t, "i386 emulation", plain.Errnos[0] != "killed by SIGSEGV")
		if diff := cmp.Diff([]string{"exit 9", "exit 22"}, plain.Errnos); diff != "" {
			t.Errorf("without a filter (-want +got):\n%s", diff)
		}
	})
}
