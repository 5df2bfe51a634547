package seccomp

import "golang.org/x/net/bpf"

// Opcodes of classic BPF, as far as seccomp knows and the filter uses them
// (Documentation/networking/filter.rst).
const (
	opLoad   = 0x20 // ld [k]
	opAnd    = 0x54 // and #k
	opGoto   = 0x05 // ja +k
	opEqual  = 0x15 // jeq #k
	opAtMin  = 0x35 // jge #k
	opAnySet = 0x45 // jset #k
	opReturn = 0x06 // ret #k
)

// farthest is how far a conditional jump may reach. The format has eight bits; some are
// kept back as a trampoline for one branch lengthens the other.
const farthest = 250

// A program is written from its end to its beginning, because jumps lead forward only:
// whatever an instruction leads to is there before it is, and every distance is known.
type program struct {
	reversed []bpf.RawInstruction
}

// A point is an instruction of a program, counted from its end.
type point int

func (p *program) add(op uint16, yes, no uint8, k uint32) point {
	p.reversed = append(p.reversed, bpf.RawInstruction{Op: op, Jt: yes, Jf: no, K: k})
	return point(len(p.reversed) - 1)
}

// distance is the offset from the instruction that would be added now.
func (p *program) distance(to point) int { return len(p.reversed) - 1 - int(to) }

// ret returns a point that returns the value: a near one that exists, or a new one.
func (p *program) ret(value uint32) point {
	for i := len(p.reversed) - 1; i >= 0 && p.distance(point(i)) <= farthest; i-- {
		if ins := p.reversed[i]; ins.Op == opReturn && ins.K == value {
			return point(i)
		}
	}
	return p.add(opReturn, 0, 0, value)
}

// near returns a point that a conditional jump can reach and that leads to another.
func (p *program) near(to point) point {
	if p.distance(to) <= farthest {
		return to
	}
	return p.add(opGoto, 0, 0, uint32(p.distance(to)))
}

// branch adds a conditional jump.
func (p *program) branch(op uint16, k uint32, yes, no point) point {
	yes, no = p.near(yes), p.near(no)
	return p.add(op, uint8(p.distance(yes)), uint8(p.distance(no)), k)
}

// then adds an instruction that goes on to a point.
func (p *program) then(op uint16, k uint32, next point) point {
	if p.distance(next) != 0 {
		p.add(opGoto, 0, 0, uint32(p.distance(next)))
	}
	return p.add(op, 0, 0, k)
}

// oneOf goes to one point when the loaded word is one of the values, else to another.
func (p *program) oneOf(values []uint32, yes, no point) point {
	for i := len(values) - 1; i >= 0; i-- {
		no = p.branch(opEqual, values[i], yes, no)
	}
	return no
}

// A span is a range of loaded words, from one up to the next span's, that lead to a point.
type span struct {
	from uint32
	to   point
}

// search adds a balanced tree of comparisons. The first span must begin at 0.
func (p *program) search(spans []span) point {
	if len(spans) == 1 {
		return spans[0].to
	}
	half := len(spans) / 2
	high := p.search(spans[half:])
	low := p.search(spans[:half])
	return p.branch(opAtMin, spans[half].from, high, low)
}

// instructions returns the program in the order in which it runs.
func (p *program) instructions() []bpf.RawInstruction {
	n := len(p.reversed)
	out := make([]bpf.RawInstruction, n)
	for i, ins := range p.reversed {
		out[n-1-i] = ins
	}
	return out
}
