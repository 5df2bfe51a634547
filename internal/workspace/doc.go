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
//	   │ ── input 1 ─────────────────────────────▶ │ what a command reads, 16 pieces ahead, and
//	   │ ◀───────────── taken 1 ─────────────────  │ the size of its terminal; see Client.Attach
//	   │ ── cancel 1 ────────────────────────────▶ │
//	   │ ◀───────────── done 1: result, problem ─  │ exactly one for each call
//	   ╳ the owner goes away                       ╳ so does the actor, with all it started
//
// A frame is two lengths of four bytes, big endian, and that many bytes of body and of
// content: what is read, written or printed stands behind the body as it is. A body is JSON,
// behind a few bytes where it is a call or a result; see wire.go.
//
// # What it upholds
//
// An action is performed only with an allowed review of exactly that action, by the rules
// that the actor has, and only if the actor's own verdict is no stricter. It judges what it
// has opened: the path that a file is found at, the directory and the name of one that is
// made, deleted or moved, every path in a directory that is moved, the program and the
// directory of a command. What was opened is what is read, and where there are rules what is
// executed: a program by its descriptor, which it does not get. What a shell's text names is
// looked for and judged before the shell starts. What is written replaces exactly
// the file that was read, in one step, or is refused: a file that another program has
// changed or swapped meanwhile is not overwritten. Links of /proc are not followed, and what
// the kernel shows of a process is no file: the actor's own is its memory.
//
// What is shared is a copy that is the circle's, with its group and mode 0660, whole or not at
// all. No link is followed on either side, nothing but files and directories is copied, and
// nothing that is there is replaced. Each path in a directory that is shared is judged.
//
// A patch is applied whole or not at all. A call that ends, however it ends, has ended what
// it had started: see family.
//
// Status and diff of a repository execute nothing that the repository's configuration names:
// no filter, textconv, external diff, hook, monitor, pager, remote. Git is kept from starting
// any other program, so that it does not matter when the configuration changes. Where its
// directory, its index, its objects and its alternates are is judged, and holds while it runs.
//
// What a request can ask for is bounded in time and memory by what it holds, or ends with
// its call. What a rule keeps from being read is not read beside its place, either.
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
// A script is executed by its interpreter, which was opened and judged, and which opens the
// script by its real path. It is compared (device, inode, ctime, size, mode) right before and
// right after the start, and once more 250 ms later or at the end, and the directories above it
// are watched for moves; when it is another, or was for a while, all that was started is killed
// and the answer is changed_meanwhile. What is left: a script that is swapped in between the
// first comparison and the interpreter's opening runs until the next one; one that is swapped
// in after the last comparison, before an interpreter that takes longer has opened it, is not
// noticed; nor is a text that is changed through a mapping whose ctime comes later. The loader
// of a program (ld.so) and what it loads are not judged.
//
// A program that is executed by its descriptor has a number for its name in /proc/PID/comm, and
// AT_EXECFN is a path that it cannot open. What is neither ELF nor a script, and runs by binfmt_misc,
// does so only where that hands its interpreter the open file (flag O). A script that is called
// by a link sees its real path in $0. Without rules nothing of this is so.
//
// The names in a shell's text are looked for when it has not begun: it can find others.
//
// Within a repository's own directory it judges no link below those named above: who can make
// one, and knows what something is called that is not to be read, has git read it.
//
// A text that is no UTF-8 is refused in a request; a name that is none is reached by a patch
// or a command alone.
//
// # Needs
//
// Linux, /proc mounted, system call filters for git, inotify for scripts under rules; nothing that a seal takes away, so no
// openat2.
package workspace
