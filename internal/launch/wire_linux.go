package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxFrame bounds a message: a plan with 100,000 denies stays below it.
const maxFrame = 64 << 20

// maxRights is how many descriptors one message carries (unix(7), SCM_MAX_FD).
const maxRights = 253

// A link is one end of the control socket.
type link struct {
	fd int
	mu sync.Mutex // held while a frame is written
}

func (l *link) send(m message, fds ...int) error {
	frame := encode(&m)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(frame) > 0 {
		n, err := unix.SendmsgN(l.fd, frame, rights, nil, unix.MSG_NOSIGNAL)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		frame, rights = frame[n:], nil
	}
	return nil
}

// limit bounds how long recv waits; zero is for ever.
func (l *link) limit(d time.Duration) error {
	tv := unix.NsecToTimeval(int64(d))
	return unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
}

// recv returns the next message and the descriptors that came with it, which the
// caller owns.
func (l *link) recv() (message, []int, error) {
	var head [4]byte
	fds, err := l.readFull(head[:])
	if err != nil {
		return message{}, nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return message{}, fds, fmt.Errorf("a frame of %d bytes is over the limit", size)
	}
	body := make([]byte, size)
	more, err := l.readFull(body)
	fds = append(fds, more...)
	if err != nil {
		return message{}, fds, err
	}
	m, err := decode(body)
	return m, fds, err
}

func (l *link) readFull(buf []byte) ([]int, error) {
	var fds []int
	oob := make([]byte, unix.CmsgSpace(4*maxRights))
	for len(buf) > 0 {
		n, oobn, _, _, err := unix.Recvmsg(l.fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fds, err
		}
		if n == 0 {
			return fds, io.EOF
		}
		if oobn > 0 {
			got, err := rights(oob[:oobn])
			fds = append(fds, got...)
			if err != nil {
				return fds, err
			}
		}
		buf = buf[n:]
	}
	return fds, nil
}

func rights(oob []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return fds, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}
