// Package instance is the one control plane of a home as those see it who start, find and
// end it: its program, its process, its log. It links nothing of the control plane itself.
//
//	bourn serve -d ──starts──▶ bournd ──lock──▶ $BOURN_HOME/bournd.lock   its pid
//	      ▲                       └──writes──▶ $BOURN_HOME/bournd.log
//	      └────── a pipe ─────────┘  one line: that it answers, or why not
//
// # What it upholds
//
// A program is executed only from where no other user can replace it. A signal reaches the
// process that holds the lock file open and whose number stands in it, also when numbers
// are used again (pidfd_open(2)).
//
// # What it does not
//
// A control plane in another pid namespace is seen to be there, and can be ended only there.
//
// # Needs
//
// Linux 5.3, and /proc.
package instance
