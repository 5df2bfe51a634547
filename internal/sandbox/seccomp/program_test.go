package seccomp

import (
	"testing"

	"golang.org/x/net/bpf"
	"pgregory.net/rapid"
)

// TestLongJumps searches programs that are much longer than a conditional jump reaches.
func TestLongJumps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &program{}
		first := p.ret(7)
		spans := []span{{0, first}}
		want := []uint32{7}
		for range rapid.IntRange(0, 900).Draw(t, "spans") {
			v := rapid.Uint32Range(0, 9).Draw(t, "value")
			from := spans[len(spans)-1].from + rapid.Uint32Range(1, 3).Draw(t, "step")
			to := first
			if v != 7 {
				to = p.ret(v)
			}
			spans, want = append(spans, span{from, to}), append(want, v)
		}
		p.then(opLoad, 0, p.search(spans))
		insts, _ := bpf.Disassemble(p.instructions())
		vm, err := bpf.NewVM(insts)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for word := range spans[len(spans)-1].from + 2 {
			if at+1 < len(spans) && spans[at+1].from == word {
				at++
			}
			got, err := vm.Run([]byte{byte(word >> 24), byte(word >> 16), byte(word >> 8), byte(word)})
			if err != nil || uint32(got) != want[at] {
				t.Fatalf("word %d leads to %d, want %d (%v)", word, got, want[at], err)
			}
		}
	})
}

func TestThenReachesFar(t *testing.T) {
	p := &program{}
	right := p.ret(1)
	for value := range uint32(300) {
		p.add(opReturn, 0, 0, 1000+value)
	}
	p.then(opLoad, 0, right)
	insts, _ := bpf.Disassemble(p.instructions())
	vm, err := bpf.NewVM(insts)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := vm.Run(make([]byte, 4)); err != nil || got != 1 {
		t.Errorf("it leads to %d %v, want 1", got, err)
	}
}

func TestOneOfIsExact(t *testing.T) {
	p := &program{}
	yes, no := p.ret(1), p.ret(0)
	for range 400 { // push both out of reach
		p.add(opAnd, 0, 0, 1<<32-1)
	}
	p.then(opLoad, 0, p.oneOf([]uint32{3, 5, 1 << 31}, yes, no))
	insts, _ := bpf.Disassemble(p.instructions())
	vm, err := bpf.NewVM(insts)
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[uint32]int{0: 0, 3: 1, 4: 0, 5: 1, 1 << 31: 1, 1<<31 | 3: 0} {
		got, err := vm.Run([]byte{byte(word >> 24), byte(word >> 16), byte(word >> 8), byte(word)})
		if err != nil || got != want {
			t.Errorf("word %#x: %d %v, want %d", word, got, err, want)
		}
	}
}
