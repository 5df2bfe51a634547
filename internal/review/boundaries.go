// Package review judges an action before it is performed: the operator's hard blocks are
// held against every operation and target of it. It reads nothing, keeps nothing and asks
// nobody, so that the control plane and the actor come to the same verdict from the same
// bytes.
//
// # What it upholds
//
// A rule that matches a path, as given or resolved, or a command, as given or as one of the
// simple commands found in it, denies. What cannot be told apart from a match is asked
// about. Rules that cannot be read deny every action but reads. The work for one action is
// bounded; what would go beyond the bound is asked about.
//
// # What it does not
//
// A rule about text stops mistakes and many disguises. It does not stop a program that
// does the same thing another way: a script, an interpreter, a build tool. That is what
// the seal, the user and the database are for.
//
// # Needs
//
// Nothing of the host. See docs/boundaries.md for the format and for every disguise that
// is and is not seen through.
package review

import (
	"crypto/sha256"
	"encoding/hex"

	"bourn"
)

// A RuleType says what a rule is held against.
type RuleType string

// The types of rules.
const (
	PathRule    RuleType = "path"
	CommandRule RuleType = "command"
)

// A Match says how the pattern of a rule is compared.
type Match string

// The ways to match.
const (
	Exact    Match = "exact"
	Prefix   Match = "prefix"
	Glob     Match = "glob"
	Regex    Match = "regex"
	Contains Match = "contains"
)

// A HardBlock is one rule of the operator's: it refuses the actions it matches.
type HardBlock struct {
	ID         string
	Enabled    bool
	Type       RuleType
	Pattern    string
	Match      Match
	Operations []bourn.Operation // in the order of bourn.Operations, each once, at least one
	Reason     string            // for who is refused; may be empty
	Blocks     []string          // examples that the rule must match
	Passes     []string          // examples that it must not
}

// Boundaries are the hard blocks of a host, in order. The zero value is not an empty set:
// it is one that could not be read, and compiles to [Invalid]. NoRules is the empty set.
type Boundaries struct {
	Version    int
	HardBlocks []HardBlock
}

// NoRules returns boundaries without a rule.
func NoRules() Boundaries { return Boundaries{Version: version} }

// A Base is what the patterns of path rules are relative to.
type Base struct {
	Root     string // absolute: relative patterns and targets begin here
	Home     string // what "~/" in a pattern stands for; empty where that is an error
	FoldCase bool   // the file system does not tell upper from lower case
}

// Limits of a document.
const (
	version      = 1
	maxDocument  = 1 << 20 // bytes
	maxRules     = 10_000
	maxPattern   = 4 << 10 // bytes, of a pattern, a reason or an example
	maxExamples  = 100     // of each kind, for one rule
	maxRuleID    = 64      // bytes
	maxProblems  = 1_000   // are listed; then the list ends
	maxJSONDepth = 16
)

// Digest returns the SHA-256 of the canonical encoding in hexadecimal.
func (b Boundaries) Digest() string {
	sum := sha256.Sum256(b.Encode())
	return hex.EncodeToString(sum[:])
}
