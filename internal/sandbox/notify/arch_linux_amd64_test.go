package notify

import "golang.org/x/sys/unix"

var archRows = []row{
	{unix.SYS_OPEN, []any{"file", unix.O_RDONLY}, []Event{{0, "open", Read, "DIR/file"}}},
	{unix.SYS_OPEN, []any{"file", unix.O_RDWR}, []Event{{0, "open", Write, "DIR/file"}}},
	{unix.SYS_CREAT, []any{"made", 0o600}, []Event{{0, "creat", Write, "DIR/made"}}},
	{unix.SYS_STAT, []any{"none", buffer}, []Event{{0, "stat", Read, "DIR/none"}}},
	{unix.SYS_LSTAT, []any{"file", buffer}, []Event{{0, "lstat", Read, "DIR/file"}}},
	{unix.SYS_ACCESS, []any{"file", unix.F_OK}, []Event{{0, "access", Read, "DIR/file"}}},
	{unix.SYS_ACCESS, []any{"file", unix.R_OK | unix.X_OK}, []Event{{0, "access", Exec, "DIR/file"}}},
	{unix.SYS_READLINK, []any{"/proc/self/exe", buffer, 8}, []Event{{0, "readlink", Read, "/proc/self/exe"}}},
	{unix.SYS_MKDIR, []any{"d1", 0o700}, []Event{{0, "mkdir", Write, "DIR/d1"}}},
	{unix.SYS_RMDIR, []any{"d1"}, []Event{{0, "rmdir", Write, "DIR/d1"}}},
	{unix.SYS_MKNOD, []any{"n1", unix.S_IFREG | 0o600, 0}, []Event{{0, "mknod", Write, "DIR/n1"}}},
	{unix.SYS_RENAME, []any{"n1", "n2"}, []Event{{0, "rename", Write, "DIR/n1"}, {0, "rename", Write, "DIR/n2"}}},
	{unix.SYS_LINK, []any{"n2", "n3"}, []Event{{0, "link", Read, "DIR/n2"}, {0, "link", Write, "DIR/n3"}}},
	{unix.SYS_SYMLINK, []any{"anything", "n4"}, []Event{{0, "symlink", Write, "DIR/n4"}}},
	{unix.SYS_CHMOD, []any{"n2", 0o600}, []Event{{0, "chmod", Write, "DIR/n2"}}},
	{unix.SYS_CHOWN, []any{"n2", -1, -1}, []Event{{0, "chown", Write, "DIR/n2"}}},
	{unix.SYS_LCHOWN, []any{"n2", -1, -1}, []Event{{0, "lchown", Write, "DIR/n2"}}},
	{unix.SYS_UTIME, []any{"n2", 0}, []Event{{0, "utime", Write, "DIR/n2"}}},
	{unix.SYS_UTIMES, []any{"n2", 0}, []Event{{0, "utimes", Write, "DIR/n2"}}},
	{unix.SYS_FUTIMESAT, []any{theDir, "below", 0}, []Event{{0, "futimesat", Write, "DIR/sub/below"}}},
	{unix.SYS_UNLINK, []any{"n2"}, []Event{{0, "unlink", Write, "DIR/n2"}}},
}
