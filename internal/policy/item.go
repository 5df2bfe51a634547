package policy

import "bourn"

// A Kind says what an item of a plan or report is about.
type Kind string

// Kinds, in the order in which they are listed.
const (
	KindRead     Kind = "read"
	KindWrite    Kind = "write"
	KindDeny     Kind = "deny"
	KindProtect  Kind = "protect"
	KindHost     Kind = "host"
	KindUnix     Kind = "unix"
	KindSpawnDir Kind = "spawn_dir"
	KindEnv      Kind = "env"
	KindTool     Kind = "tool"
	KindRecords  Kind = "records"
	KindDoor     Kind = "door"
	KindLimit    Kind = "limit"
	KindDefault  Kind = "default"
)

// A Fate says what became of an item. The zero value is no fate and is never shown.
type Fate string

const (
	// Enforced: a mechanism that the item names keeps it.
	Enforced Fate = "enforced"
	// Dropped: it has no effect, for the reason given.
	Dropped Fate = "dropped"
	// Recorded: it is declared, and nothing runs that it could bind.
	Recorded Fate = "recorded"
)

// An Item is one line of a plan or report: what was declared, or what Bourn adds by
// itself, and its fate.
type Item struct {
	Kind   Kind     `json:"kind"`
	Target string   `json:"target"`
	From   string   `json:"from"` // profile, preset:N, repository, host, context, boundary:ID, flag or default
	Fate   Fate     `json:"fate"`
	By     []string `json:"by,omitempty"`     // the mechanisms that keep it
	Reason string   `json:"reason,omitempty"` // why it was dropped
	Caveat string   `json:"caveat,omitempty"` // what an enforced item does not cover
	// Operations are those of the hard block that the item is about; none for other items.
	Operations []bourn.Operation `json:"operations,omitempty"`
}
