package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"bourn/internal/posix"

	"golang.org/x/sys/unix"
)

// dialer returns what connects to the database as a person. The helper becomes the person,
// connects, and passes the connection on: from then on the control plane speaks on it, and the
// database has seen who connected.
func (p *people) dialer(person string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		if err := p.still(ctx, person); err != nil {
			return nil, err
		}
		x, err := p.runner.execute(posix.Request{Verb: posix.VerbDial, Person: person})
		if err != nil {
			return nil, unavailable("start the control plane again", fmt.Sprintf("the helper cannot be executed: %v", err))
		}
		defer x.conn.Close()
		ctx, cancel := context.WithTimeout(ctx, helperWithin)
		defer cancel()
		defer context.AfterFunc(ctx, func() { _ = x.conn.Close() })()
		conn, err := takePassed(x.conn)
		if err == nil {
			return conn, nil
		}
		select {
		case end := <-x.done:
			if why := helperProblem(end, x.said.bytes()); why != nil {
				return nil, why
			}
			return nil, unavailable("see that helper and control plane are of one version", fmt.Sprintf("the helper ended with status %d: %v", end.Status, err))
		case <-ctx.Done():
			return nil, unavailable("look at the host: the helper does not end", "the helper took too long")
		}
	}
}

// takePassed takes the one descriptor that the helper passes, with a byte 0.
func takePassed(from net.Conn) (net.Conn, error) {
	u, is := from.(*net.UnixConn)
	if !is {
		return nil, errors.New("it is no unix socket")
	}
	buf, rights := make([]byte, 2), make([]byte, unix.CmsgSpace(4*4))
	n, rn, _, _, err := u.ReadMsgUnix(buf, rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rn])
	var fds []int
	for _, m := range messages {
		got, parseErr := unix.ParseUnixRights(&m)
		fds, err = append(fds, got...), errors.Join(err, parseErr)
	}
	if err == nil && (n != 1 || buf[0] != 0 || len(fds) != 1) {
		err = fmt.Errorf("it passes %d descriptors with %d bytes", len(fds), n)
	}
	if err != nil {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil, err
	}
	file := os.NewFile(uintptr(fds[0]), "database")
	defer file.Close()
	return net.FileConn(file)
}
