// Package mcp speaks the Model Context Protocol: to agents' clients, whose calls it hands
// to whoever governs them. Both eras are served: 2025-11-25 and before it, which begin with
// initialize, and 2026-07-28, where each request says its version.
//
// # What it upholds
//
// A message says one thing to every reader: one with a duplicate key is refused, and so is
// one with a key that differs from a known one in its case only. What a client sends under
// Bourn's own keys of _meta is taken out. A line that is too long, or is no message, costs
// its own call and not the connection. What one connection, and all together, can make the
// server hold is bounded; a client that takes no answers is waited for, and holds up
// nobody else. A call whose client has gone, or cancels it, has its context ended.
//
// # What it does not
//
// It decides nothing. Results are text: a second copy as structured content would go to
// the model as well.
//
// # Needs
//
// Nothing.
package mcp
