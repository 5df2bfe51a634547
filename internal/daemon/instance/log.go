package instance

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
)

// MaxLog is the size at which a log is put aside, in bytes; the one before it goes then.
const MaxLog = 8 << 20

// A Log is a file that is put aside, with .1 behind its name, when it has grown to a size.
// What the program says when it crashes goes there as well.
type Log struct {
	path string
	most int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLog opens the log at path, for this user alone.
func OpenLog(path string, most int64) (*Log, error) {
	l := &Log{path: path, most: most}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("cannot open the log: %w", err)
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.size = f, info.Size()
	return debug.SetCrashOutput(f, debug.CrashOptions{})
}

// Write implements io.Writer. A log that cannot be put aside grows on.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > l.most {
		if err := os.Rename(l.path, l.path+".1"); err == nil {
			_ = l.open() // what cannot be opened anew is written to as it was
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// Close closes the log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
