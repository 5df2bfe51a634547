package daemon

import (
	"context"
	"fmt"
	"os/exec"
	"os/user"
	"strconv"
	"strings"

	"bourn"
	"bourn/internal/store/cluster"

	"golang.org/x/sys/unix"
)

// databaseUser returns the OS user of that name; root makes it where there is none. It is
// a system user without a password, a home or a shell.
func databaseUser(ctx context.Context, name string) (cluster.User, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if err := makeUser(ctx, name); err != nil {
			return cluster.User{}, err
		}
		if u, err = user.Lookup(name); err != nil {
			return cluster.User{}, fmt.Errorf("%w: the user %q was made and is not there", bourn.ErrWeakHost, name)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return cluster.User{}, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return cluster.User{}, err
	}
	if uid == 0 {
		return cluster.User{}, fmt.Errorf("%w: the database does not run as root", bourn.ErrInvalid)
	}
	return cluster.User{UID: uint32(uid), GID: uint32(gid)}, nil
}

// makeUser makes a system user with what the host has for it.
func makeUser(ctx context.Context, name string) error {
	ways := [][]string{
		{"useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", "--comment", "Bourn's database", name},
		{"adduser", "-S", "-D", "-H", "-h", "/nonexistent", "-s", "/sbin/nologin", name}, // BusyBox
	}
	var said string
	for _, way := range ways {
		program, err := exec.LookPath(way[0])
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, program, way[1:]...).CombinedOutput()
		if err == nil {
			return nil
		}
		said = strings.TrimSpace(string(out))
	}
	return bourn.WithHint(fmt.Errorf("%w: cannot make the user %q for the database: %s", bourn.ErrWeakHost, name, bourn.Printable(said)),
		"make it by hand, or name another with --database-user")
}

// ownerName is the name of the user that a directory belongs to, "" where there is none.
func ownerName(dir string) string {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil || st.Uid == 0 {
		return ""
	}
	return cluster.UserName(st.Uid)
}
