package terminal

import "golang.org/x/sys/unix"

// controllingTerminal is not opened anew on macOS, whose poll(2) does not support
// /dev/tty ("BUGS: poll() currently does not support devices").
const controllingTerminal = ""

func readModes(fd int) (*unix.Termios, error) {
	return unix.IoctlGetTermios(fd, unix.TIOCGETA)
}

// setModes is tcsetattr(3) with TCSANOW. On a master it sets the modes of the slave.
func setModes(fd int, t *unix.Termios) error {
	return unix.IoctlSetTermios(fd, unix.TIOCSETA, t)
}
