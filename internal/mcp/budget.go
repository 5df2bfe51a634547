package mcp

import "sync"

// A Budget bounds bytes that many connections have the server hold: of requests that are not
// answered yet, or of answers that are not taken yet. A nil one bounds nothing.
type Budget struct {
	of   *Budget // which this one is a part of; nil for none
	mu   sync.Mutex
	left int
}

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int) *Budget { return &Budget{left: bytes} }

// Part returns a budget of so many bytes that come off b, too: who has it leaves others theirs.
func (b *Budget) Part(bytes int) *Budget { return &Budget{of: b, left: bytes} }

func (b *Budget) take(n int) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left || !b.of.take(n) {
		return false
	}
	b.left -= n
	return true
}

func (b *Budget) give(n int) {
	if b == nil {
		return
	}
	b.of.give(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}
