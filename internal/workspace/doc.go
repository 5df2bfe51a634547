// Package workspace is the actor: the process that performs actions on files and programs
// as the person's user, under the agent's seal; and the protocol by which it is asked.
//
//	control plane                               actor (sealed, as the person)
//	   │ ◀───────────── hello ───────────────────  │ protocol, version, pid
//	   │ ── rules ───────────────────────────────▶ │ the hard blocks that hold from here on
//	   │ ── call 1: request, review ─────────────▶ │ the same bytes give the same action;
//	   │                                           │ the path of what was opened is judged;
//	   │ ◀───────────── chunk 1 ─────────────────  │ output as it comes
//	   │ ── cancel 1 ────────────────────────────▶ │
//	   │ ◀───────────── done 1: result, problem ─  │ exactly one for each call
//	   ╳ the owner goes away                       ╳ so does the actor, with all it started
//
// Frames are a length of four bytes, big endian, and that many bytes of JSON.
//
// # What it upholds
//
// An action is performed only with an allowed review of exactly that action, and only if
// the actor's own verdict, which knows the path of what it has opened, is no stricter. A
// path is opened once, without following links out of what it names, and what was opened is
// what is read or written.
//
// # What it does not
//
// It does not contain what it executes: the seal does.
//
// # Needs
//
// Linux, /proc mounted.
package workspace
