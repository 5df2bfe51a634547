package launch

import (
	"encoding"
	"encoding/binary"
	"errors"
	"net/netip"

	"bourn/internal/policy"
)

// A codec writes or reads messages: the same function walks a message for both, so that
// the two cannot drift apart. Numbers are varints, strings and lists carry their length.
// A general encoding would do as well and costs each start most of a millisecond, since
// both processes must first learn the types.
type codec struct {
	buf     []byte
	reading bool
	err     error // the first one; nothing is read after it
}

var errShort = errors.New("a message is incomplete")

func encode(m *message) []byte {
	c := codec{buf: make([]byte, 4, 8<<10)}
	c.message(m)
	return c.buf
}

func decode(body []byte) (m message, err error) {
	c := codec{buf: body, reading: true}
	c.message(&m)
	if c.err == nil && len(c.buf) > 0 {
		c.err = errors.New("a message has something behind it")
	}
	return m, c.err
}

// uint carries one number.
func (c *codec) uint(n *uint64) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, *n)
		return
	}
	v, size := binary.Uvarint(c.buf)
	if c.err != nil || size <= 0 {
		c.fail()
		return
	}
	*n, c.buf = v, c.buf[size:]
}

func (c *codec) fail() {
	if c.err == nil {
		c.err = errShort
	}
	c.buf = nil
}

func number[T ~int | ~int64 | ~uint32 | ~uint64](c *codec, n *T) {
	v := uint64(*n)
	c.uint(&v)
	*n = T(v)
}

func text[T ~string](c *codec, s *T) {
	size := uint64(len(*s))
	c.uint(&size)
	if !c.reading {
		c.buf = append(c.buf, *s...)
		return
	}
	if size > uint64(len(c.buf)) {
		c.fail()
		return
	}
	*s, c.buf = T(c.buf[:size]), c.buf[size:]
}

func (c *codec) flag(b *bool) {
	var n uint64
	if *b {
		n = 1
	}
	c.uint(&n)
	*b = n != 0
}

// list carries the elements of a slice. An element takes a byte at least, which bounds
// what a length may claim.
func list[T any](c *codec, s *[]T, each func(*T)) {
	size := uint64(len(*s))
	c.uint(&size)
	if c.reading {
		if size > uint64(len(c.buf)) {
			c.fail()
			return
		}
		if size > 0 {
			*s = make([]T, size)
		}
	}
	for i := range *s {
		each(&(*s)[i])
	}
}

func texts(c *codec, s *[]string) { list(c, s, func(e *string) { text(c, e) }) }

// optional carries whether *p is set, and makes it when reading.
func optional[T any](c *codec, p **T, each func(*T)) {
	there := *p != nil
	c.flag(&there)
	if !there || c.err != nil {
		return
	}
	if c.reading {
		*p = new(T)
	}
	each(*p)
}

// binaryText carries a value that has a binary form of its own.
func binaryText[T any, P interface {
	*T
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}](c *codec, p P) {
	var s string
	if !c.reading {
		b, err := p.MarshalBinary()
		if err != nil && c.err == nil {
			c.err = err
		}
		s = string(b)
	}
	text(c, &s)
	if c.reading && c.err == nil {
		if err := p.UnmarshalBinary([]byte(s)); err != nil {
			c.fail()
		}
	}
}

func (c *codec) message(m *message) {
	text(c, &m.Kind)
	optional(c, &m.Order, c.order)
	text(c, &m.Data)
	text(c, &m.Step)
	text(c, &m.Detail)
	number(c, &m.Errno)
	number(c, &m.Number)
	number(c, &m.Status)
	optional(c, &m.Notice, func(n *Notice) { text(c, &n.Path); number(c, &n.Item); text(c, &n.Error) })
}

func (c *codec) order(o *order) {
	optional(c, &o.Plan, c.plan)
	text(c, &o.Program)
	for i := range o.Terminal {
		c.flag(&o.Terminal[i])
	}
	c.flag(&o.Lazy)
	c.flag(&o.Watch)
	c.object(&o.Outside)
}

func (c *codec) object(o *policy.Object) {
	number(c, &o.Dev)
	number(c, &o.Ino)
	number(c, &o.Born)
}

// plan carries what the child needs: not the items, nor what is looked at when the run
// ends, which are the parent's.
func (c *codec) plan(p *policy.Plan) {
	list(c, &p.Binds, func(b *policy.Bind) {
		text(c, &b.Path)
		c.flag(&b.Dir)
		c.flag(&b.Write)
		c.flag(&b.NoExec)
		text(c, &b.Source)
		c.object(&b.Object)
		number(c, &b.Item)
	})
	list(c, &p.Private, func(d *policy.Private) { text(c, &d.Path); c.flag(&d.NoExec) })
	list(c, &p.Links, func(l *policy.Link) { text(c, &l.At); text(c, &l.Target) })
	texts(c, &p.Copies)
	list(c, &p.Files, func(f *policy.File) { text(c, &f.Path); text(c, &f.Text) })
	text(c, &p.Network.Mode)
	list(c, &p.Local, func(a *netip.Addr) { binaryText(c, a) })
	list(c, &p.Listen, func(l *policy.Listen) { text(c, &l.Use); binaryText(c, &l.Addr) })
	texts(c, &p.Stubs)
	list(c, &p.Masks, func(m *policy.Mask) {
		text(c, &m.Path)
		c.flag(&m.Dir)
		c.flag(&m.Empty)
		c.object(&m.Object)
		number(c, &m.Item)
	})
	list(c, &p.Guards, func(g *policy.Guard) {
		text(c, &g.Path)
		c.flag(&g.Dir)
		c.flag(&g.Pin)
		c.object(&g.Object)
		number(c, &g.Item)
	})
	list(c, &p.Watches, func(w *policy.Watch) {
		text(c, &w.Dir)
		text(c, &w.Name)
		text(c, &w.Pattern)
		c.flag(&w.Empty)
		c.flag(&w.Guard)
		number(c, &w.Item)
	})
	text(c, &p.Exec)
	c.flag(&p.Nested)
	texts(c, &p.Command)
	text(c, &p.Cwd)
	texts(c, &p.Env)
	number(c, &p.Limits.Memory)
	number(c, &p.Limits.Processes)
	number(c, &p.Limits.OpenFiles)
	number(c, &p.Limits.Time)
	text(c, &p.GitUser)
	optional(c, &p.User, func(u *policy.User) {
		text(c, &u.Name)
		number(c, &u.UID)
		number(c, &u.GID)
		list(c, &u.Groups, func(g *int) { number(c, g) })
	})
}
