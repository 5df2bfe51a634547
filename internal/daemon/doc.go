// Package daemon is the control plane: it owns the database server, writes and signs the
// log, keeps the hard blocks, and answers on the local socket and over HTTP.
//
//	bourn.sock ──peer credentials──▶ ┐
//	                                 ├─▶ identify ─▶ admit ─▶ handler ─▶ store
//	http://localhost:7720 ──bearer─▶ ┘
//
// # What it upholds
//
// Who is asking comes from the kernel or from a token's hash, and a request that presents
// a bearer is that bearer's or nobody's. A sealed process gets nothing. What changes
// something is in the log before it holds. What cannot be read, logged or judged is
// refused; what was sent is never in an answer that refuses it.
//
// # What it does not
//
// It does not contain an agent: the seal does.
//
// # Needs
//
// Linux for the local socket; PostgreSQL.
package daemon
