package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"bourn"

	"golang.org/x/sys/unix"
)

// openDirNoFollow opens a directory that is none's link.
const openDirNoFollow = unix.O_DIRECTORY | unix.O_NOFOLLOW

// stopWithin is how long a server may take to end before it is killed. It recovers from
// that at its next start.
const stopWithin = 20 * time.Second

// lockWithin is how long the server of an owner that was killed may take to end.
const lockWithin = 30 * time.Second

// maxLog is the size beyond which a log is put aside at a start, in bytes.
const maxLog = 8 << 20

// process is a server that was started.
type process struct {
	pid    int
	handle *os.Process // signals this process only, also when its number is another's by now
	done   chan struct{}
}

func ownerOf(f *os.File) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	return st.Uid, nil
}

// lockDir takes the cluster's lock, which the server inherits. It waits for a server
// that is on its way out because its owner was killed.
func lockDir(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("cannot lock the cluster: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, bourn.WithHint(
				fmt.Errorf("%w: another server uses the cluster in %s", bourn.ErrConflict, filepath.Dir(path)),
				"stop it (bourn serve --stop), or set BOURN_HOME to another directory")
		}
	}
}

// credential is the user that programs run as, with no other groups.
func (c *Cluster) credential() *syscall.Credential {
	if c.config.User == nil {
		return nil
	}
	return &syscall.Credential{Uid: c.config.User.UID, Gid: c.config.User.GID}
}

// environment is built, not inherited: PGDATA, PGOPTIONS and the like of the caller
// mean another server.
func environment() []string {
	return []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/nonexistent"}
}

// run runs a program of the server's to its end and returns what it printed.
func (c *Cluster) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.programs.Dir, name), args...)
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.credential()}
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// write writes a file of the server's, in a directory of the server's: by no name that
// its owner could have led elsewhere.
func (c *Cluster) write(path, text string) error {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(path)
	if err := dir.Remove(name + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := dir.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if c.config.User != nil {
		if err := f.Chown(int(c.config.User.UID), int(c.config.User.GID)); err != nil {
			return err
		}
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return dir.Rename(name+".new", name)
}

// openLog opens the server's log; a long one is put aside.
func (c *Cluster) openLog() (*os.File, error) {
	if info, err := os.Lstat(c.Log()); err == nil && info.Size() > maxLog {
		if err := os.Rename(c.Log(), c.Log()+".1"); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(c.Log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err == nil && c.config.User != nil {
		err = f.Chown(int(c.config.User.UID), int(c.config.User.GID))
	}
	return f, err
}

// launch starts the server. Its death signal (PR_SET_PDEATHSIG) belongs to the thread
// that made it, which therefore waits for it.
func (c *Cluster) launch(lock *os.File) (*process, error) {
	log, err := c.openLog()
	if err != nil {
		return nil, fmt.Errorf("cannot open the log of PostgreSQL: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(c.programs.Dir, "postgres"), c.arguments()...)
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock}
	p := &process{done: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: c.credential(),
		Setsid:     true, // a Ctrl-C at the terminal is the daemon's
		Pdeathsig:  syscall.SIGINT,
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended stands in its log
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%w: cannot start PostgreSQL: %w", bourn.ErrUnavailable, err)
	}
	p.handle, p.pid = cmd.Process, cmd.Process.Pid
	return p, nil
}

// stop ends the server: at once for its clients, and killed if it hangs.
func (p *process) stop(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	_ = p.handle.Signal(syscall.SIGINT) // it may have ended by itself
	timer := time.NewTimer(stopWithin)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	_ = p.handle.Signal(syscall.SIGQUIT)
	<-p.done
	return nil
}
