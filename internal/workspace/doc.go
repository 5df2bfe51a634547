// Package workspace is the actor: the process that performs actions on files and programs
// as the person's user, under the agent's seal; and the protocol by which it is asked.
//
//	control plane                               actor (sealed, as the person)
//	   │ ◀───────────── hello ───────────────────  │ protocol, version, pid
//	   │ ── rules ───────────────────────────────▶ │ the hard blocks that hold from here on
//	   │ ── call 1: request, review ─────────────▶ │ the same bytes give the same action;
//	   │                                           │ the path of what was opened is judged;
//	   │ ◀───────────── chunk 1 ─────────────────  │ output as it comes, 16 pieces ahead at most
//	   │ ── taken 1 ─────────────────────────────▶ │ one more may come
//	   │ ── cancel 1 ────────────────────────────▶ │
//	   │ ◀───────────── done 1: result, problem ─  │ exactly one for each call
//	   ╳ the owner goes away                       ╳ so does the actor, with all it started
//
// A frame is two lengths of four bytes, big endian, and that many bytes of JSON and of
// content: what is read, written or printed stands behind the JSON as it is.
//
// # What it upholds
//
// An action is performed only with an allowed review of exactly that action, by the rules
// that the actor has, and only if the actor's own verdict is no stricter. It judges what it
// has opened: the path that a file is found at, the directory and the name of one that is
// made, deleted or moved, every path in a directory that is moved, the program and the
// directory of a command. What was opened is what is read. What is written replaces exactly
// the file that was read, in one step, or is refused: a file that another program has
// changed or swapped meanwhile is not overwritten. Links of /proc are not followed, and what
// the kernel shows of a process is no file: the actor's own is its memory.
//
// A patch is applied whole or not at all. A call that ends, however it ends, has ended what
// it had started: see family.
//
// Status and diff of a repository execute nothing that the repository's configuration names:
// no filter, textconv, external diff, hook, monitor, pager, remote.
//
// # What it does not
//
// It does not contain what it executes: the seal does. The rules are about paths, and a file
// may have several: one that is a hard link is judged by the name that it was opened by, and
// the seal's masks are by name too. Replacing such a file leaves the other names what they
// were. Extended attributes of a file that is replaced are lost; its mode stays, its group
// where that may be. A file of another owner, or in a directory that takes no new file, is
// written in place, and who reads it meanwhile may read a part.
//
// An actor that is killed in the middle of writing leaves each file whole, old or new, but
// of a patch perhaps some old and some new, and beside them files named .bourn-write- with
// twelve digits: old content, or new that was not yet in place. They may be deleted.
// Nothing is forced to disk.
//
// What a command starts and puts into another session, with another environment, orphaned,
// is told apart from another call's no more: it ends when no call is running. What is
// started by a killed actor's children ends with the seal's pid namespace.
//
// A text that is no UTF-8 is refused in a request; a name that is none is reached by a patch
// or a command alone.
//
// # Needs
//
// Linux, /proc mounted; nothing that a seal takes away, so no openat2.
package workspace
