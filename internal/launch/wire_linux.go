package launch

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"bourn/internal/policy"

	"golang.org/x/sys/unix"
)

// A message is one frame on the control socket: four bytes of length, big endian, and a
// gob. JSON would not do: paths, arguments and variables are bytes. Which fields are used
// depends on the kind.
type message struct {
	Kind   kind
	Order  *order
	Data   []byte
	Step   string
	Detail string
	Errno  int
	Number int
	Status uint32
	Notice *Notice
}

type kind string

const (
	// parent to child
	kindOrder      kind = "order"
	kindReport     kind = "report"
	kindGo         kind = "go"
	kindSignal     kind = "signal" // to the command's process
	kindGroup      kind = "group"  // to the command's process group
	kindContinue   kind = "continue"
	kindForeground kind = "foreground" // and continue
	// child to parent
	kindReady   kind = "ready"  // carries the gate listener and, with a terminal, the master
	kindFailed  kind = "failed" // a step of the seal
	kindSealed  kind = "sealed"
	kindNoExec  kind = "noexec"
	kindStarted kind = "started"
	kindStopped kind = "stopped"
	kindExited  kind = "exited"
	kindNotice  kind = "notice"
)

// An order is the plan and what else the child must know.
type order struct {
	Plan     *policy.Plan
	Program  string
	Terminal [3]bool // which standard streams are terminals
	// Lazy starts the command in the background of its terminal: another program of the
	// pipeline may be the one that reads. It gets the terminal when it wants to read.
	Lazy bool
	// Outside identifies the parent's mount namespace, which must not be the child's.
	Outside policy.Object
}

func (o *order) terminal() bool { return o.Terminal[0] || o.Terminal[1] || o.Terminal[2] }

// maxFrame bounds a message: a plan with 100,000 denies stays below it.
const maxFrame = 64 << 20

// A link is one end of the control socket.
type link struct {
	fd int
	mu sync.Mutex // held while a frame is written
}

func (l *link) send(m message, fds ...int) error {
	var buf bytes.Buffer
	buf.Write(make([]byte, 4))
	if err := gob.NewEncoder(&buf).Encode(m); err != nil {
		return err
	}
	frame := buf.Bytes()
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
	var m message
	err = gob.NewDecoder(bytes.NewReader(body)).Decode(&m)
	return m, fds, err
}

func (l *link) readFull(buf []byte) ([]int, error) {
	var fds []int
	oob := make([]byte, unix.CmsgSpace(4*4))
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
