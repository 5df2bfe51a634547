package workspace

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"bourn"
)

// Protocol is the version of what both sides speak. An actor of another one is refused.
const Protocol = 3

// maxFrame is the longest frame, in bytes: a file that is written whole fits.
const maxFrame = 24 << 20

// window is how many chunks of one call are on their way at once: the actor sends no more
// until the owner has taken one, so that who does not read delays nobody else.
const window = 16

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
	Taken  bool   `json:"taken,omitempty"` // a chunk, or from an actor what a program reads
	Chunk  bool   `json:"chunk,omitempty"` // which is the blob
	Errs   bool   `json:"errs,omitempty"`  // it was printed to standard error
	Input  *input `json:"input,omitempty"` // of a program; the blob is what it reads
	Done   *done  `json:"done,omitempty"`

	// blob is what stands behind the JSON: the content of a call's request or of its result,
	// or a chunk.
	blob []byte
}

type hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	Pid      int    `json:"pid"`
	Cwd      string `json:"cwd"`
	Home     string `json:"home"`
}

// rules are the hard blocks, forwarded in the actor's own channel.
type rules struct {
	Document json.RawMessage `json:"document,omitempty"` // none: they could not be read, and nothing is changed
}

type call struct {
	Request Request `json:"request"`
	Review  Review  `json:"review"`
	Chunks  bool    `json:"chunks,omitempty"` // wanted
}

// input is what a program reads next, or the end of that, or the size of its terminal.
type input struct {
	End  bool  `json:"end,omitempty"`
	Size *Size `json:"size,omitempty"`
}

// A Size is that of a terminal, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

type done struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Problem *Problem        `json:"problem,omitempty"`
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// A channel sends and receives frames. Sending is safe for several at once, receiving for one.
type channel struct {
	r    *bufio.Reader
	text []byte // of the last frame that came; kept for the next

	mu  sync.Mutex
	w   io.Writer
	out []byte // the last frame that went; likewise
}

// kept is how long a buffer may be that is kept.
const kept = 128 << 10

func newChannel(rw io.ReadWriter) *channel {
	return &channel{r: bufio.NewReaderSize(rw, 64<<10), w: rw}
}

// headSize is the length of what precedes a frame: two lengths of four bytes. The upper bits
// of the first say what the body is, so that who speaks another version can be told so.
const headSize = 8

// The kinds of a body.
const (
	kindMessage = iota << lengthBits // a message, as JSON
	kindCall                         // see call.head
	kindResult                       // the call's id, and its result as JSON
)

const lengthBits = 28

// send sends a message.
func (c *channel) send(m message) error {
	kind, first, text, err := m.body()
	if err != nil {
		return err
	}
	body := len(first) + len(text)
	if body+len(m.blob) > maxFrame {
		return fmt.Errorf("%w: a message of %d bytes; %d fit", bourn.ErrInvalid, body+len(m.blob), maxFrame)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	frame := binary.BigEndian.AppendUint32(c.out[:0], kind|uint32(body))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(m.blob)))
	frame = append(append(frame, first...), text...)
	if len(m.blob) <= kept/2 {
		frame = append(frame, m.blob...)
		m.blob = nil
	}
	if cap(frame) <= kept {
		c.out = frame
	}
	if m.blob == nil {
		_, err = c.w.Write(frame)
		return err
	}
	both := net.Buffers{frame, m.blob}
	_, err = both.WriteTo(c.w)
	return err
}

// body returns a message's body: what precedes the JSON, and that. What comes often has a form
// that is read in one step: JSON in JSON is read twice.
func (m message) body() (kind uint32, first, text []byte, err error) {
	switch {
	case m.Call != nil:
		kind = kindCall
		if first, err = m.Call.head(binary.BigEndian.AppendUint64(nil, m.ID)); err == nil {
			text, err = json.Marshal(m.Call.Request)
		}
	case m.Done != nil && m.Done.Problem == nil:
		kind, first, text = kindResult, binary.BigEndian.AppendUint64(nil, m.ID), m.Done.Result
	default:
		text, err = json.Marshal(m)
	}
	return kind, first, text, err
}

// head appends what precedes the request of a call: whether chunks are wanted, the outcome of
// the review, and both digests, each behind its length of a byte.
func (c *call) head(first []byte) ([]byte, error) {
	chunks := byte(0)
	if c.Chunks {
		chunks = 1
	}
	first = append(first, chunks, byte(c.Review.Outcome))
	for _, d := range []string{c.Review.Action, c.Review.Rules} {
		if len(d) > 255 {
			return nil, fmt.Errorf("%w: a digest of %d bytes", bourn.ErrInvalid, len(d))
		}
		first = append(append(first, byte(len(d))), d...)
	}
	return first, nil
}

// read reads what body returned, and keeps nothing of it.
func (m *message) read(kind uint32, body []byte) error {
	if kind == kindMessage {
		return json.Unmarshal(body, m)
	}
	if len(body) < 8 {
		return io.ErrUnexpectedEOF
	}
	m.ID, body = binary.BigEndian.Uint64(body), body[8:]
	switch kind {
	case kindCall:
		m.Call = &call{}
		return m.Call.read(body)
	case kindResult:
		m.Done = &done{Result: bytes.Clone(body)}
		return nil
	}
	return fmt.Errorf("a body of kind %d", kind>>lengthBits)
}

func (c *call) read(body []byte) error {
	if len(body) < 2 {
		return io.ErrUnexpectedEOF
	}
	c.Chunks, c.Review.Outcome, body = body[0] != 0, bourn.Outcome(body[1]), body[2:]
	for _, d := range []*string{&c.Review.Action, &c.Review.Rules} {
		if len(body) == 0 || len(body) <= int(body[0]) {
			return io.ErrUnexpectedEOF
		}
		end := 1 + int(body[0])
		*d, body = string(body[1:end]), body[end:]
	}
	return json.Unmarshal(body, &c.Request)
}

// receive returns the next frame; io.EOF where the other side has gone between two.
func (c *channel) receive() (message, error) {
	var m message
	head, err := c.r.Peek(headSize)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return m, err
	}
	n, blob := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
	kind := n &^ (1<<lengthBits - 1)
	if n -= kind; n > maxFrame || blob > maxFrame || n+blob > maxFrame {
		return m, fmt.Errorf("%w: a message of %d and %d bytes; %d fit", bourn.ErrInvalid, n, blob, maxFrame)
	}
	_, _ = c.r.Discard(headSize) // it is there
	text := c.text[:0]
	if int(n) > cap(text) {
		text = make([]byte, 0, n)
	}
	text = text[:n]
	if n <= kept {
		c.text = text
	}
	if blob > 0 {
		m.blob = make([]byte, blob)
	}
	for _, part := range [][]byte{text, m.blob} {
		if _, err := io.ReadFull(c.r, part); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return m, err
		}
	}
	if err := m.read(kind, text); err != nil {
		return m, fmt.Errorf("%w: a message that cannot be read: %w", bourn.ErrInvalid, err)
	}
	return m, nil
}
