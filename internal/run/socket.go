package run

import (
	"io/fs"
	"os"
	"path/filepath"

	"bourn/api"
	"bourn/internal/sandbox/survey"
)

// Socket is where the control plane is asked: at $BOURN_HOME's own local socket or, where that
// is not there, at the shared host's, if nobody can have put it there whom root has not let.
func (h *Home) Socket() string {
	own := filepath.Join(h.Dir, api.SocketName)
	if _, err := os.Lstat(own); err == nil || !sharedSocket(api.SharedSocket) {
		return own
	}
	return api.SharedSocket
}

// sharedSocket reports whether the socket is that of a service. What root has in directories
// of its own that only root can write is whom root gave it to: the directory of the socket is
// root's or the service's, nobody else can write in it, and the socket is the same one's or root's.
func sharedSocket(at string) bool {
	info, err := os.Lstat(at)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	socket, err := survey.Stat(at)
	if err != nil {
		return false
	}
	dir := filepath.Dir(at)
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return false
	}
	holds, err := survey.Stat(dir)
	if err != nil || holds.Mode&0o022 != 0 || socket.Uid != 0 && socket.Uid != holds.Uid {
		return false
	}
	for dir != "/" {
		dir = filepath.Dir(dir)
		above, err := survey.Stat(dir)
		if err != nil || above.Uid != 0 || above.Mode&0o022 != 0 {
			return false
		}
	}
	return true
}
