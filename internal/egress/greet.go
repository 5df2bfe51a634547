package egress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// TLS records and messages (RFC 8446, 4 and 5.1).
const (
	tlsFirst, tlsChangeCipher, tlsAlert, tlsHandshake, tlsLast = 20, 20, 21, 22, 24

	tlsVersion  = 3 // the second byte of a record
	recordHead  = 5
	maxRecord   = 1<<14 + 256
	helloType   = 1
	messageHead = 4
	maxHello    = 1 << 16
	maxHellos   = 4
	maxSkipped  = 16 // records beside greetings
)

// A greeter passes on how a TLS client begins, record by record, as long as it is in plain
// text: every greeting is checked before any of it goes out, since a server may ask for a
// second one and obey that (HelloRetryRequest).
type greeter struct {
	link  *link
	early []byte // said, and not passed on
	check func(name string) (reason string)

	at     int    // how far early has been looked at
	hello  []byte // of a message that is not complete
	hellos int
	spare  int // records that were no part of a greeting
}

var errNoGreeting = refused{"what it sends begins like TLS and is not a client's greeting"}

// greet returns what the client has said beyond its greetings.
func (g *greeter) greet() ([]byte, error) {
	_ = g.link.client.SetReadDeadline(time.Now().Add(requestTime))
	if idle, _, half := g.link.silence(); half {
		_ = g.link.client.SetReadDeadline(time.Now().Add(min(idle, requestTime)))
	}
	defer g.link.client.SetReadDeadline(time.Time{})
	for g.hellos <= maxHellos && g.spare <= maxSkipped {
		over, err := g.record()
		switch {
		case errors.Is(err, io.EOF) && g.hellos > 0 && len(g.hello) == 0:
			return g.early, nil
		case errors.Is(err, io.EOF) && g.hellos == 0 && len(g.early) < recordHead && g.early[0] != tlsHandshake:
			return g.early, nil // too short for a record, be it TLS or not
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil && g.hellos == 0 && !errors.As(err, new(refused)):
			return nil, errors.Join(errNoGreeting, err)
		case over || err != nil:
			return g.early, err
		}
	}
	return nil, errNoGreeting
}

// record looks at the next record. It reports whether nothing behind it can be a greeting
// in plain text.
func (g *greeter) record() (over bool, err error) {
	if err := g.fill(recordHead); err != nil {
		return false, err
	}
	head := g.early[g.at:]
	kind, version, size := head[0], head[1], int(binary.BigEndian.Uint16(head[3:]))
	switch {
	case g.hellos == 0 && kind != tlsHandshake && !(version == tlsVersion || kind == tlsAlert && version < 16 && size == 2):
		return true, nil // another protocol, which begins with such a byte
	case kind != tlsHandshake && kind != tlsChangeCipher && kind != tlsAlert:
		if g.hellos == 0 || len(g.hello) > 0 {
			return false, errNoGreeting
		}
		return true, nil
	case size > maxRecord, version >= 16, kind != tlsHandshake && len(g.hello) > 0,
		g.hellos == 0 && kind == tlsChangeCipher, g.hellos == 0 && kind == tlsAlert && size != 2:
		return false, errNoGreeting
	}
	if kind != tlsHandshake || size == 0 {
		g.spare++
	}
	if err := g.fill(recordHead + size); err != nil {
		return false, err
	}
	body := g.early[g.at+recordHead : g.at+recordHead+size]
	g.at += recordHead + size
	if kind == tlsHandshake {
		if over, err := g.messages(body); over || err != nil {
			return over, err
		}
	}
	if len(g.hello) > 0 || g.hellos == 0 {
		return false, nil
	}
	return false, g.pass()
}

// messages checks the greetings that a handshake record completes.
func (g *greeter) messages(body []byte) (over bool, err error) {
	g.hello = append(g.hello, body...)
	for len(g.hello) >= messageHead {
		if g.hello[0] != helloType {
			if g.hellos == 0 {
				return false, errNoGreeting
			}
			return true, nil
		}
		size := messageHead + int(g.hello[1])<<16 + int(binary.BigEndian.Uint16(g.hello[2:]))
		if size > maxHello {
			return false, errNoGreeting
		}
		if len(g.hello) < size {
			return false, nil
		}
		name, err := serverName(&message{Reader: bytes.NewReader(inRecords(g.hello[:size]))})
		if err != nil {
			return false, errNoGreeting
		}
		if reason := g.check(name); reason != "" {
			return false, refused{reason}
		}
		g.hello = g.hello[size:]
		g.hellos++
	}
	if len(g.hello) > 0 && g.hello[0] != helloType && g.hellos > 0 {
		return true, nil
	}
	return false, nil
}

// inRecords puts a message into records.
func inRecords(text []byte) []byte {
	var out []byte
	for len(text) > 0 {
		n := min(len(text), 1<<14)
		out = append(out, tlsHandshake, tlsVersion, 1)
		out = binary.BigEndian.AppendUint16(out, uint16(n))
		out, text = append(out, text[:n]...), text[n:]
	}
	return out
}

// pass sends what has been looked at. From then on the client may take its time: it waits
// for the server.
func (g *greeter) pass() error {
	if _, err := g.link.server.Write(g.early[:g.at]); err != nil {
		return err
	}
	g.early, g.at = g.early[g.at:], 0
	if _, _, half := g.link.silence(); !half {
		_ = g.link.client.SetReadDeadline(time.Time{})
	}
	return nil
}

// fill reads until n bytes are there behind what has been looked at.
func (g *greeter) fill(n int) error {
	for len(g.early) < g.at+n {
		more := make([]byte, headSize)
		got, err := g.link.listen(more)
		if g.early = append(g.early, more[:got]...); got == 0 && err != nil {
			return err
		}
	}
	return nil
}

// A message reads as a connection on which a client has said that and no more.
type message struct {
	net.Conn
	*bytes.Reader
}

func (m *message) Read(p []byte) (int, error)       { return m.Reader.Read(p) }
func (m *message) Write(p []byte) (int, error)      { return len(p), nil }
func (m *message) Close() error                     { return nil }
func (m *message) SetWriteDeadline(time.Time) error { return nil }
