// Package audit is the one signed log: what an entry is, how entries are chained and
// signed, and how a chain is verified. Where entries are kept is for others to know.
//
//	writer ──Append──▶ entry (committed before its effect)
//	                     │  once a second, by one chainer
//	                     ▼
//	                   link      hash over the link before and the entry's bytes
//	                     │
//	                     ▼
//	                   checkpoint   signed: place, hash, time; can be sent away
//
// # What it upholds
//
// A change to an entry that a checkpoint covers, one left out, one put in, and an end cut
// off before the last checkpoint that the verifier has, are found by [Verify].
//
// # What it does not
//
// It proves nothing against who holds both the signing key and the database, back to
// the last checkpoint that was sent away. An entry younger than a checkpoint's interval is
// not covered yet.
//
// # Needs
//
// Nothing but an Ed25519 key.
package audit
