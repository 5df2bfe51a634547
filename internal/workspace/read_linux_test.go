package workspace

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestReadParts: every part of a file is what os.ReadFile says, with its size, whether there is
// more, and a digest of what was read whole.
func TestReadParts(t *testing.T) {
	dir := tempDir(t)
	o := newOwner(t, dir)
	for _, size := range []int{0, 1, 4095, 4096, 4097, maxRead, maxRead + 1} {
		all := make([]byte, size)
		for i := range all {
			all[i] = byte(i % 251)
		}
		put(t, dir+"/f", string(all))
		for _, offset := range []int{0, 1, size - 1, size, size + 1, 1 << 40} {
			for _, limit := range []int{0, 1, size - offset - 1, size - offset, size - offset + 1, 1 << 62} {
				if offset < 0 || limit < 0 {
					continue
				}
				from := min(offset, size)
				to := from + min(size-from, maxRead)
				if limit > 0 {
					to = from + min(to-from, limit)
				}
				var r ReadResult
				o.must(Request{Verb: Read, Path: "f", Offset: int64(offset), Limit: int64(limit)}, &r)
				whole := ""
				if offset == 0 && to == size {
					whole = digest(all)
				}
				if !bytes.Equal(r.Content, all[from:to]) || r.Size != int64(size) || r.Offset != int64(offset) || r.Truncated != (to < size) || r.Digest != whole {
					t.Errorf("%d bytes, from %d, %d of them: %d bytes of %d, more: %v, digest %q", size, offset, limit, len(r.Content), r.Size, r.Truncated, r.Digest)
				}
			}
		}
	}
}

// TestReadBlocked: while some reads wait for a file system that does not answer, as a listener
// for permission to open a file has it, others are performed, and one is cancelled.
func TestReadBlocked(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/blocked", "a")
	put(t, dir+"/b", "b")
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		t.Skip(err) // only an administrator may
	}
	permission := os.NewFile(uintptr(fd), "fanotify") // given to all by closing it
	defer permission.Close()
	o := newOwner(t, dir)
	if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM, unix.AT_FDCWD, dir+"/blocked"); err != nil {
		t.Skip(err)
	}
	blocked := make(chan error, 3)
	for range cap(blocked) {
		go func() { blocked <- o.ask(Request{Verb: Read, Path: "blocked"}, nil) }()
	}
	for asked := 0; asked < cap(blocked); {
		if n, err := poll(fd, unix.POLLIN, 20*time.Second); n != 1 {
			t.Fatalf("%d of %d reads wait: %v", asked, cap(blocked), err)
		}
		asked += opened(t, fd)
	}
	o.must(Request{Verb: Read, Path: "b"}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := o.askFor(ctx, Request{Verb: Exec, Command: "sleep 600"}, nil, nil); reasonOf(err) != "cancelled" {
		t.Errorf("cancelled beside them: %v", err)
	}
	if len(blocked) > 0 {
		t.Error("one did not wait")
	}
	permission.Close()
	for range cap(blocked) {
		if err := <-blocked; err != nil {
			t.Error(err)
		}
	}
}

// opened reads who asks for permission to open a file, and returns how many do.
func opened(t *testing.T, fanotify int) (n int) {
	t.Helper()
	events := make([]byte, 4096)
	got, err := unix.Read(fanotify, events)
	if err != nil {
		t.Fatal(err)
	}
	for ; got > 0; n++ {
		e := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&events[0]))
		unix.Close(int(e.Fd))
		got -= int(e.Event_len)
		events = events[e.Event_len:]
	}
	return n
}
