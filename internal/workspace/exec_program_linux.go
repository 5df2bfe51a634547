package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bourn"

	"golang.org/x/sys/unix"
)

// A judged is a file that was opened and judged to be executed, as it was then.
type judged struct {
	*place
	st unix.Stat_t
}

// maxInterpreters is how many scripts may be each other's interpreters, as for the kernel
// (execve(2)).
const maxInterpreters = 4

// pin makes what was opened and judged what is executed: a program by its descriptor, which
// the program does not get. A script has its interpreter executed in its stead, in the same
// way, and is named to it by its real path: what it looks for beside itself is there. Its
// path is all that the interpreter has, so that it is compared afterwards: see check.
func (w *work) pin(ctx context.Context, pr *program) error {
	p, _, err := w.program(pr.argv[0], pr.env, pr.dir)
	for err == nil {
		j := &judged{place: p}
		pr.opened = append(pr.opened, j)
		if err = j.note(ctx); err != nil {
			break
		}
		line, script := j.interpreter()
		if !script {
			pr.path, pr.scripts = procPath(j.File), len(pr.opened)-1
			if err := pr.watch(); err != nil {
				return err
			}
			return w.named(bourn.Command{Argv: pr.argv}, pr)
		}
		if len(line) == 0 {
			return notExecutable(pr.argv[0], unix.ENOEXEC)
		}
		if len(pr.opened) > maxInterpreters {
			return notExecutable(pr.argv[0], unix.ELOOP)
		}
		if !filepath.IsAbs(line[0]) && !strings.Contains(line[0], "/") {
			line[0] = "./" + line[0] // it is a path, whatever it looks like
		}
		pr.argv = append(append(line, j.at), pr.argv[1:]...)
		p, _, err = w.program(line[0], pr.env, pr.dir)
	}
	return err
}

// tick is longer than the time that a file system's clock may stand still.
const tick = 20 * time.Millisecond

// note looks at what was opened, once every later change gives it another ctime.
func (j *judged) note(ctx context.Context) error {
	if err := unix.Fstat(int(j.Fd()), &j.st); err != nil {
		return notExecutable(j.at, err)
	}
	if wait := tick - time.Since(time.Unix(j.st.Ctim.Unix())); wait > 0 {
		timer := time.NewTimer(min(wait, tick))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return cancelled
		}
	}
	return nil
}

// same reports whether a file is the one that was judged, unchanged. Renaming it changes its
// ctime too.
func (j *judged) same(st *unix.Stat_t) bool {
	return st.Dev == j.st.Dev && st.Ino == j.st.Ino && st.Ctim == j.st.Ctim && st.Size == j.st.Size && st.Mode == j.st.Mode
}

// interpreter returns the words of the first line of a script, as the kernel reads it
// (fs/binfmt_script.c): the interpreter, and perhaps one argument; none where it names none.
func (j *judged) interpreter() (line []string, script bool) {
	fd, err := unix.Open(procPath(j.File), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, false // no interpreter could read it either
	}
	defer unix.Close(fd)
	var head [lineSize]byte
	_, _ = unix.Pread(fd, head[:], 0)
	return firstLine(head)
}

// lineSize is how much of a script the kernel reads (BINPRM_BUF_SIZE); zeros fill it up.
const lineSize = 256

func firstLine(head [lineSize]byte) (line []string, script bool) {
	if head[0] != '#' || head[1] != '!' {
		return nil, false
	}
	rest, whole := head[2:lineSize-1], false
	if end := bytes.IndexByte(head[:], '\n'); end >= 0 {
		rest, whole = head[2:end], true
	}
	rest = bytes.TrimLeft(bytes.TrimRight(rest, " \t"), " \t")
	end := bytes.IndexAny(rest, " \t\x00")
	switch {
	case end == 0 || len(rest) == 0, end < 0 && !whole:
		return nil, true // it names none, or one that may go on
	case end < 0:
		return []string{string(rest)}, true
	case rest[end] == 0:
		return []string{string(rest[:end])}, true
	}
	arg, _, _ := bytes.Cut(bytes.TrimLeft(rest[end:], " \t"), []byte{0})
	return []string{string(rest[:end]), string(arg)}, true
}

// check reports what is another file by now than the one that was judged, or has changed:
// of a script what its path leads to, of a program what was opened.
func (pr *program) check() error {
	for i, j := range pr.opened {
		var now unix.Stat_t
		err := unix.Fstat(int(j.Fd()), &now)
		if i < pr.scripts {
			err = unix.Lstat(j.at, &now)
		}
		if err != nil || !j.same(&now) || pr.moves.any() {
			return j.replaced()
		}
	}
	return nil
}

func (j *judged) replaced() error {
	return &Problem{Code: bourn.CodeConflict, Reason: "changed_meanwhile",
		Text: fmt.Sprintf("%q was changed or replaced while it was started; what was started of it was ended", j.at), Hint: "run it again"}
}

// moves tells whether one of the directories was moved that lead to a script, and be it back
// again (inotify(7)). A name alone does not tell.
type moves struct{ *os.File }

// watch begins to tell of the directories above each script. One whose parent takes no change
// from this process takes none from what it executes.
func (pr *program) watch() error {
	if pr.scripts == 0 {
		return nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return unwatched(err)
	}
	pr.moves = moves{os.NewFile(uintptr(fd), "inotify")}
	for _, j := range pr.opened[:pr.scripts] {
		if err := j.watch(fd); err != nil {
			return err
		}
	}
	return nil
}

func (j *judged) watch(inotify int) error {
	dir, err := openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return unwatched(err)
	}
	defer func() { unix.Close(dir) }()
	at := func(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
	for name := range strings.SplitSeq(filepath.Dir(j.at), "/") {
		if name == "" {
			continue
		}
		next, err := openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			return j.replaced()
		}
		changes := unix.Access(at(dir), unix.W_OK) == nil
		unix.Close(dir)
		dir = next
		if !changes {
			continue
		}
		if _, err := unix.InotifyAddWatch(inotify, at(dir), unix.IN_MOVE_SELF|unix.IN_DELETE_SELF); err != nil {
			return unwatched(err)
		}
	}
	return nil
}

func unwatched(err error) error {
	return &Problem{Code: bourn.CodeUnavailable, Reason: "operation_failed", Text: fmt.Sprintf("cannot watch what leads to the script: %v", err),
		Hint: "fs.inotify.max_user_instances and max_user_watches bound it, and each directory must be readable"}
}

// any reports whether one was moved or deleted since watch.
func (m moves) any() bool {
	if m.File == nil {
		return false
	}
	var events [4096]byte
	n, err := unix.Read(int(m.Fd()), events[:])
	return n > 0 || !errors.Is(err, unix.EAGAIN)
}

// openedWithin is when scripts are compared for the last time: their interpreters have read
// them by then. One that ends before is compared at its end.
const openedWithin = 250 * time.Millisecond

// later returns what compares once more, and notes what it finds; nil where nothing can have
// changed any more: what was executed by its descriptor is what runs.
func (pr *program) later(another *error) func() bool {
	if pr.scripts == 0 {
		return nil
	}
	return func() bool {
		if *another == nil {
			*another = pr.check()
		}
		pr.unwatch() // there are not many to be had
		return *another == nil
	}
}

func (pr *program) unwatch() {
	if pr.moves.File != nil {
		pr.moves.Close()
		pr.moves = moves{}
	}
}

func (pr *program) close() {
	pr.unwatch()
	for _, j := range pr.opened {
		j.Close()
	}
}

// named judges the programs that a command names, also within a shell's text: what each word
// that names one leads to, from the command's own directory and PATH. One that leads nowhere
// is none: a function, a command of the shell's own, or what is there only later.
func (w *work) named(command bourn.Command, pr *program) error {
	for _, name := range w.rules.Programs(command) {
		for _, at := range pr.candidates(name) {
			resolved, ok := executableAt(at)
			if !ok {
				continue
			}
			if err := w.opened(at, resolved, bourn.Execute); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// defaultPath is where a shell looks that has no PATH (dash(1)).
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// candidates are where a shell looks for a program, in order (execvp(3)).
func (pr *program) candidates(name string) []string {
	from := func(at string) string {
		if filepath.IsAbs(at) {
			return at
		}
		return filepath.Join(pr.dir.at, at)
	}
	if rest, ok := cutHome(name); ok {
		return []string{from(filepath.Join(valueOf(pr.env, "HOME"), rest))}
	}
	if strings.Contains(name, "/") {
		return []string{from(name)}
	}
	list := defaultPath
	if has(pr.env, "PATH") {
		list = valueOf(pr.env, "PATH")
	}
	var all []string
	for d := range strings.SplitSeq(list, ":") {
		all = append(all, filepath.Join(from(d), name))
	}
	return all
}

func has(env []string, name string) bool {
	for _, v := range env {
		if strings.HasPrefix(v, name+"=") {
			return true
		}
	}
	return false
}

// executableAt opens what a path leads to, through links of /proc too, and returns its real
// path where it can be executed.
func executableAt(at string) (resolved string, ok bool) {
	fd, err := openat(unix.AT_FDCWD, at, unix.O_PATH)
	if err != nil {
		return "", false
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	if !executable(f) {
		return "", false
	}
	resolved, err = pathOf(f)
	return resolved, err == nil
}

// executable reports whether an open file is a regular one that this process may execute.
func executable(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Access(procPath(f), unix.X_OK) == nil
}
