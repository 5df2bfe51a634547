package workspace

import (
	"testing"
	"time"
)

// TestRelief: who is busy for too long is relieved, once, and knows it, also when who relieved it
// is busy.
func TestRelief(t *testing.T) {
	r := relief{after: time.Millisecond}
	for range 10 {
		relieved := make(chan uint64, 2)
		first := r.begin(func() { relieved <- r.begin(func() {}) })
		select {
		case next := <-relieved:
			if !r.end(first) {
				t.Error("it was relieved, and does not know")
			}
			r.end(next)
		case <-time.After(10 * time.Second):
			t.Fatal("a long call is not relieved")
		}
		if len(relieved) > 0 {
			t.Error("it was relieved twice")
		}
	}
}

// TestNoRelief: who is not busy for long is left alone, however many calls there are.
func TestNoRelief(t *testing.T) {
	r := relief{after: time.Minute}
	for range 1000 {
		if r.end(r.begin(func() { t.Error("a short call is relieved") })) {
			t.Fatal("a short call was relieved")
		}
		r.late() // as if the time were over
	}
}
