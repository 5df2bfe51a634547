package terminal

import "golang.org/x/sys/unix"

const controllingTerminal = "/dev/tty"

func readModes(fd int) (*unix.Termios, error) {
	return unix.IoctlGetTermios(fd, unix.TCGETS)
}

// setModes is tcsetattr(3) with TCSANOW. On a master it sets the modes of the slave.
func setModes(fd int, t *unix.Termios) error {
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}
