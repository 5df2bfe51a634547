package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

type operation func(a []string) (string, error)

var operations map[string]operation

func init() {
	operations = map[string]operation{
		"read":     func(a []string) (string, error) { return readAt(a[0], unix.O_RDONLY) },
		"readrdwr": func(a []string) (string, error) { return readAt(a[0], unix.O_RDWR) },
		"openw":    func(a []string) (string, error) { return "", openOnly(a[0], unix.O_WRONLY) },
		"openr":    func(a []string) (string, error) { return "", openOnly(a[0], unix.O_RDONLY|unix.O_NONBLOCK) },
		"write":    func(a []string) (string, error) { return "", writeTo(a[0], a[1], unix.O_WRONLY) },
		"append":   func(a []string) (string, error) { return "", writeTo(a[0], a[1], unix.O_WRONLY|unix.O_APPEND) },
		"create": func(a []string) (string, error) {
			return "", writeTo(a[0], a[1], unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
		},
		"trunc":  func(a []string) (string, error) { return "", unix.Truncate(a[0], 0) },
		"list":   list,
		"unlink": func(a []string) (string, error) { return "", unix.Unlink(a[0]) },
		"rmdir":  func(a []string) (string, error) { return "", unix.Rmdir(a[0]) },
		"rename": func(a []string) (string, error) { return "", unix.Rename(a[0], a[1]) },
		"exchange": func(a []string) (string, error) {
			return "", unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
		},
		"link":     func(a []string) (string, error) { return "", unix.Link(a[0], a[1]) },
		"linkfd":   linkFD,
		"symlink":  func(a []string) (string, error) { return "", unix.Symlink(a[0], a[1]) },
		"mkdir":    func(a []string) (string, error) { return "", unix.Mkdir(a[0], 0o755) },
		"chdir":    func(a []string) (string, error) { return "", chdir(a[0]) },
		"chmod":    func(a []string) (string, error) { return "", unix.Chmod(a[0], 0o777) },
		"chown":    func(a []string) (string, error) { return "", unix.Chown(a[0], os.Getuid(), os.Getgid()) },
		"utime":    func(a []string) (string, error) { return "", unix.Utimes(a[0], []unix.Timeval{{}, {}}) },
		"setxattr": func(a []string) (string, error) { return "", unix.Setxattr(a[0], "user.bourn", []byte("x"), 0) },
		"getxattr": func(a []string) (string, error) { return getxattr(a[0]) },
		"stat":     stat,
		"opath":    throughPath,
		"handle":   byHandle,
		"hunt":     hunt,
		"mmap":     mmap,
		"splice":   splice,
		"readlink": func(a []string) (string, error) { return os.Readlink(a[0]) },
		"fds":      fds,
		"fdread":   fdRead,
		"fdwrite":  fdWrite,
		"fdunlink": func(a []string) (string, error) { return "", unix.Unlinkat(number(a[0]), a[1], 0) },
	}
	for name, do := range attacks {
		operations[name] = do
	}
}

func readAt(path string, flags int) (string, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(string(buf[:n]), "\x00", " "), nil
}

func openOnly(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func writeTo(path, text string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if text == "" {
		text = "probe"
	}
	_, err = unix.Write(fd, []byte(text))
	return err
}

func list(a []string) (string, error) {
	entries, err := os.ReadDir(a[0])
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " "), err
}

func linkFD(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return "", unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, a[1], unix.AT_SYMLINK_FOLLOW)
}

func chdir(to string) error {
	back, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := unix.Chdir(to); err != nil {
		return err
	}
	return unix.Chdir(back)
}

func getxattr(path string) (string, error) {
	buf := make([]byte, 256)
	n, err := unix.Getxattr(path, "user.secret", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func stat(a []string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(a[0], &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("size=%d mode=%o nlink=%d uid=%d", st.Size, st.Mode, st.Nlink, st.Uid), nil
}

// throughPath opens without access and then again through /proc.
func throughPath(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return readAt("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY)
}

func byHandle(a []string) (string, error) {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, a[0], 0)
	if err != nil {
		return "", err
	}
	mount, err := unix.Open(filepath.Dir(a[0]), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(mount)
	fd, err := unix.OpenByHandleAt(mount, h, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	return "", unix.Close(fd)
}

func mmap(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	data, err := unix.Mmap(fd, 0, 6, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return "", err
	}
	return string(data), nil
}

func splice(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	n, err := unix.Splice(fd, nil, int(w.Fd()), nil, 256, 0)
	if err != nil {
		return "", err
	}
	buf := make([]byte, n)
	_, err = io.ReadFull(r, buf)
	return string(buf), err
}

// fds lists what is open beyond the standard streams and what the runtime opens.
func fds([]string) (string, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return "", err
	}
	var open []string
	for _, e := range entries {
		if n, _ := strconv.Atoi(e.Name()); n <= 2 {
			continue
		}
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(to, "anon_inode:[event") || strings.HasPrefix(to, "/proc/") {
			continue
		}
		open = append(open, e.Name()+"→"+to)
	}
	return strings.Join(open, " "), nil
}

// hunt looks through everything below a root, and in processes, for a text, which is given backwards so that it does not find its own command line.
func hunt(a []string) (string, error) {
	word := []byte(a[0])
	for i, j := 0, len(word)-1; i < j; i, j = i+1, j-1 {
		word[i], word[j] = word[j], word[i]
	}
	want := string(word)
	var found []string
	look := func(path string) {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), want) {
			found = append(found, path)
		}
	}
	root := a[1]
	if root == "" {
		root = "/"
	}
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case d.IsDir() && (path == "/proc" || path == "/usr" || path == "/dev" || path == "/sys" || strings.HasPrefix(path, "/root/")):
			return filepath.SkipDir
		case strings.Contains(path, want):
			found = append(found, path)
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && info.Size() < 1<<20 {
			look(path)
		}
		return nil
	})
	for _, pattern := range []string{"/proc/[0-9]*/environ", "/proc/[0-9]*/cmdline", "/proc/[0-9]*/task/*/environ", "/proc/[0-9]*/fd/*", "/proc/[0-9]*/map_files/*"} {
		at, _ := filepath.Glob(pattern)
		for _, path := range at {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				look(path)
			}
		}
	}
	if len(found) == 0 {
		return "", unix.ENODATA
	}
	return strings.Join(found, " "), nil
}

// fdOpen opens a path below an inherited descriptor.
func fdOpen(a []string, flags int) (int, error) {
	return unix.Openat(number(a[0]), a[1], flags|unix.O_CLOEXEC, 0)
}

func fdRead(a []string) (string, error) {
	fd, err := fdOpen(a, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	return string(buf[:max(n, 0)]), err
}

func fdWrite(a []string) (string, error) {
	fd, err := fdOpen(a, unix.O_WRONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("probe"))
	return "", err
}
