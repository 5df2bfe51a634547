package store

// Query is the statement that finds a filter's lines.
func (f LogFilter) Query() (string, []any) { return f.query() }

// Low is where the next step begins.
func (c *Chainer) Low() int64 { return c.low }
