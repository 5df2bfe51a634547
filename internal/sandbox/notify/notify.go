// Package notify watches the path-taking system calls of a process tree by seccomp user
// notification (seccomp_unotify(2)). It reports and decides nothing: every call that it
// sees is continued.
//
//	watched thread          kernel                      reader (Serve)
//	  openat ─────────────▶ filter: USER_NOTIF
//	    waits               queued ──────────────────▶ RECV
//	                                                    its memory, /proc/PID/cwd
//	                        still the same call? ◀──── ID_VALID
//	                                                    each(Event)
//	    runs the call ◀──── CONTINUE ◀──────────────── SEND
//
// # What it upholds
//
//   - After [Install] each call of the calling thread, and of every process and thread
//     that it starts, that is in the table is an [Event] before it runs, if it names a path
//     that the kernel can read.
//   - A call that another filter refuses is not reported, and stays refused: of all filters
//     the strictest answer counts, and ERRNO and KILL come before USER_NOTIF (seccomp(2)).
//     Continuing a call skips no check of the kernel's own: Landlock, modes and mounts judge
//     it afterwards.
//   - The event is of the process that it names: [Serve] asks the kernel whether the call
//     still waits after having read, so that a number that is used again misleads nobody.
//
// # What it does not
//
//   - It is no boundary. The path is read before the kernel reads it, and another thread
//     can change it in between (seccomp_unotify(2)). An event says that a call was made, not
//     how it ended.
//   - Paths are not resolved: neither links nor ".." through them, nor /proc/self, nor a
//     root that was changed. What is beneath a descriptor that was moved meanwhile, or whose
//     directory is gone, has the name that /proc shows (with " (deleted)").
//   - Calls through a descriptor are not reported, nor are chdir, chroot, statfs, inotify,
//     names of unix sockets, reading extended attributes, mounts, calls of another
//     architecture, io_uring, and calls that are newer than the table. stat and statx are
//     not if they have AT_EMPTY_PATH and a directory descriptor: that is how the C library
//     does fstat, so the filter lets it pass.
//   - A call with an empty path, with one that cannot be read or does not end within 4096
//     bytes, or relative to a descriptor that is closed or no file, is not reported: the
//     kernel refuses it.
//   - Only one filter of a thread may have a listener: what runs under this one gets EBUSY
//     when it asks for one. A filter of its own that answers TRACE or LOG is passed over for
//     calls in the table, as USER_NOTIF comes before those.
//   - A signal that comes before the reader has seen a call (before Linux 5.19: has answered
//     it) calls it off. With SA_RESTART it is made again, and may be reported twice; without,
//     it fails with EINTR, which open and its like do not otherwise.
//
// # When the reader ends
//
// A watched call waits, killable, until [Serve] answers it. While nobody serves, watched
// processes stand still. When the last copy of the descriptor is closed, because Serve
// returned, or its process panicked or was killed, the kernel answers ENOSYS to every
// watched call, for ever: the tree cannot open a file any more, but it does not hang.
//
// # Needs
//
// Linux 5.5 (SECCOMP_USER_NOTIF_FLAG_CONTINUE), amd64 or arm64. From 5.19 on a signal does
// not disturb a call that the reader has seen, and from 6.6 on the reader is woken on the
// caller's CPU, which about halves the cost. The reader needs a /proc of its own pid namespace,
// and the right to trace the watched processes (ptrace(2), PTRACE_MODE_ATTACH): the same
// user, or CAP_SYS_PTRACE in their user namespace, and no Landlock domain of its own.
// A process that it may not trace, as it is not dumpable, is continued all the same.
package notify

// An Event is one call, as its arguments were when it was looked at.
type Event struct {
	// Pid is the thread that made the call, as the reader's pid namespace numbers it.
	Pid int
	// Call is the kernel's name of the call, such as "openat".
	Call string
	Op   Op
	// Path is absolute and cleaned lexically. A relative one has been joined to the
	// caller's directory, or to that of its descriptor, as /proc showed it. It is empty
	// where the reader may not look into the caller.
	Path string
}

// An Op is what a call asks to do with its path.
type Op string

// A call asks for one of these. Moving a file is two events that write, linking to it one
// that reads the old name and one that writes the new.
const (
	Read  Op = "read"
	Write Op = "write"
	Exec  Op = "exec"
)

// Install adds to the calling thread, to which the goroutine must be locked, a filter that
// reports path-taking calls, and returns the listener's descriptor (close-on-exec).
// no_new_privs must be set. It must come before a filter that refuses seccomp(2); the one
// of package seccomp does not. It cannot be undone: from here on the thread's own calls
// wait for [Serve] too.
//
// An error says what is missing: no_new_privs, the table for this architecture, the kernel
// feature, or that a filter of the thread has a listener already (EBUSY).
func Install() (fd int, err error) { return install() }

// Serve hands every event to each until every process and thread under the filter has
// ended (before Linux 6.11: has also been waited for), and then returns nil. It closes fd
// in any case. The thread that called [Install] counts: it ends when a goroutine that is
// locked to it returns, unless it is the process's first.
//
// Events come one at a time, those of a thread in the order of its calls, and each before
// its call runs: whoever sees that a process ended has been given its events. Therefore
// each must be quick, must not wait for a watched process, and must not panic.
//
// An error means that the listener does not work, and leaves the tree without files.
func Serve(fd int, each func(Event)) error { return serve(fd, each) }

// Fork calls start, which starts a process (syscall.ForkExec) from a watched thread of the
// process that also serves it, so that the two cannot wait for each other. Go holds one of
// its GOMAXPROCS processors until the new process has made its execve, which waits for
// Serve: with no other processor, or a garbage collection that stops the world meanwhile,
// Serve could not go on. So GOMAXPROCS is at least 2 and no collection starts by itself
// while start runs; nothing else in the process may stop the world, as runtime.GC and
// runtime.ReadMemStats do, nor use Fork at the same time.
func Fork(start func() error) error { return fork(start) }
