package workspace

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"bourn"
)

// Protocol is the version of what both sides speak. An actor of another one is refused.
const Protocol = 1

// maxFrame is the longest frame, in bytes: a file that is written whole fits.
const maxFrame = 24 << 20

// A Review is the control plane's verdict on exactly one action.
type Review struct {
	Outcome bourn.Outcome `json:"outcome"`
	Action  string        `json:"action"` // the action's digest
	Rules   string        `json:"rules"`  // the digest of the rules that it was judged by
}

// A Problem is why a call was not performed, or not to its end.
type Problem struct {
	Code   bourn.Code `json:"code"`
	Reason string     `json:"reason,omitempty"` // one word for programs, as in unreviewed
	Text   string     `json:"text"`
	Hint   string     `json:"hint,omitempty"`
}

func (p *Problem) Error() string { return p.Text }

// Unwrap returns the sentinel of the problem's code, with its hint.
func (p *Problem) Unwrap() error { return bourn.WithHint(p.Code.Err(), p.Hint) }

// message is a frame: exactly one of its fields is set, besides ID.
type message struct {
	ID     uint64 `json:"id,omitempty"`
	Hello  *hello `json:"hello,omitempty"`
	Rules  *rules `json:"rules,omitempty"`
	Call   *call  `json:"call,omitempty"`
	Cancel bool   `json:"cancel,omitempty"`
	Chunk  []byte `json:"chunk,omitempty"`
	Done   *done  `json:"done,omitempty"`
}

type hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	Pid      int    `json:"pid"`
	Cwd      string `json:"cwd"`
}

// rules are the hard blocks, forwarded in the actor's own channel.
type rules struct {
	Document json.RawMessage `json:"document,omitempty"` // none: they could not be read, and nothing is changed
}

type call struct {
	Request Request `json:"request"`
	Review  Review  `json:"review"`
}

type done struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Problem *Problem        `json:"problem,omitempty"`
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// A channel sends and receives frames. Sending is safe for several at once.
type channel struct {
	r  *bufio.Reader
	mu sync.Mutex
	w  io.Writer
}

func newChannel(rw io.ReadWriter) *channel {
	return &channel{r: bufio.NewReaderSize(rw, 64<<10), w: rw}
}

func (c *channel) send(m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("%w: a message of %d bytes; %d fit", bourn.ErrInvalid, len(body), maxFrame)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.w.Write(append(frame, body...))
	return err
}

// receive returns the next frame; io.EOF where the other side has gone between two.
func (c *channel) receive() (message, error) {
	var m message
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return m, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return m, fmt.Errorf("%w: a message of %d bytes; %d fit", bourn.ErrInvalid, n, maxFrame)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.r, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return m, err
	}
	return m, json.Unmarshal(body, &m)
}
