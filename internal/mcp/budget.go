package mcp

import "sync"

// A Budget bounds the bytes of requests that are not answered yet over many connections.
// A nil one bounds nothing.
type Budget struct {
	mu   sync.Mutex
	left int
}

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int) *Budget { return &Budget{left: bytes} }

func (b *Budget) take(n int) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *Budget) give(n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}
