// Package survey gathers facts about the host's file system for the planner: what a path is, where it really leads, what deny globs match,
// under which other names an object can be reached. It holds no policy and changes nothing; its results are data for the pure planner.
//
// # What it upholds
//
//   - Walks never follow a symbolic link: every directory is opened beneath one already open with all links refused (openat2(2)
//     RESOLVE_NO_SYMLINKS, else O_NOFOLLOW by component), so a directory that turns into a link meanwhile is not entered.
//   - Nothing but directories is opened for reading; a fifo or device is never opened, only named (O_PATH) or examined.
//   - What could not be read is reported, never dropped in silence; "missing" and "may not look" are different answers.
//   - Names are bytes: newlines, invalid UTF-8 and paths longer than PATH_MAX are walked and reported as they are.
//
// # What it does not
//
//   - It is no snapshot. A tree that is renamed about during a walk can hide from it, and a directory that vanishes between being
//     listed and being opened is passed over.
//   - Two mounts of one network or FUSE file system, and the layers of an overlay, look like different file systems: their aliases
//     are not found.
//
// # Needs
//
// Linux 5.6 or later for speed (openat2), 4.11 for birth times (statx), /proc for mounts. It works without them, slower; as an
// ordinary user it sees what that user sees.
package survey
