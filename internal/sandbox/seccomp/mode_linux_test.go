//go:build amd64 || arm64

package seccomp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// absent is the mode of what is not there.
const absent = ^uint32(0)

// A modeRow is a call on a path where there is a "file" of mode 0644, a "directory" of mode
// 0755, or "nothing".
type modeRow struct {
	name   string
	nr     uintptr
	there  string
	args   [6]uintptr
	want   string
	mode   uint32 // afterwards
	except uint32 // afterwards, without a filter
}

func modeRows() []modeRow {
	const here, high = ^uintptr(99), uintptr(0xffffffff_ffff0000) // AT_FDCWD
	const create, temporary = unix.O_CREAT | unix.O_WRONLY, unix.O_TMPFILE | unix.O_RDWR
	return append([]modeRow{
		{"fchmod u+s", unix.SYS_FCHMOD, "file", args(theFile, 0o4755), eperm, 0o644, 0o4755},
		{"fchmod u+s on a directory", unix.SYS_FCHMOD, "directory", args(theFile, 0o4755), eperm, 0o755, 0o4755},
		{"fchmodat u+s", unix.SYS_FCHMODAT, "file", args(here, thePath, 0o4755), eperm, 0o644, 0o4755},
		{"fchmodat ug+s", unix.SYS_FCHMODAT, "file", args(here, thePath, 0o6755), eperm, 0o644, 0o6755},
		{"fchmodat u+s with high bits", unix.SYS_FCHMODAT, "file", args(here, thePath, high|0o4755), eperm, 0o644, 0o4755},
		{"fchmodat2 u+s", unix.SYS_FCHMODAT2, "file", args(here, thePath, 0o4755, unix.AT_SYMLINK_NOFOLLOW), eperm, 0o644, 0o4755},
		{"openat", unix.SYS_OPENAT, "nothing", args(here, thePath, create, 0o4755), eperm, absent, 0o4755},
		{"openat with high bits", unix.SYS_OPENAT, "nothing", args(here, thePath, 1<<32|create, high|0o4755), eperm, absent, 0o4755},
		{"openat of a file that is there", unix.SYS_OPENAT, "file", args(here, thePath, create, 0o4755), eperm, 0o644, 0o644},
		{"openat temporary", unix.SYS_OPENAT, "directory", args(here, thePath, temporary, 0o4755), eperm, 0o755, 0o755},
		{"mknodat", unix.SYS_MKNODAT, "nothing", args(here, thePath, unix.S_IFREG|0o4755), eperm, absent, 0o4755},
		{"mkdirat", unix.SYS_MKDIRAT, "nothing", args(here, thePath, 0o4755), eperm, absent, 0o755},

		{"fchmod", unix.SYS_FCHMOD, "file", args(theFile, 0o711), ok, 0o711, 0o711},
		{"fchmodat", unix.SYS_FCHMODAT, "file", args(here, thePath, 0o755), ok, 0o755, 0o755},
		{"fchmodat with high bits", unix.SYS_FCHMODAT, "file", args(here, thePath, 0o4000<<16|0o755), ok, 0o755, 0o755},
		{"fchmodat +t on a directory", unix.SYS_FCHMODAT, "directory", args(here, thePath, 0o1777), ok, 0o1777, 0o1777},
		{"fchmodat g+s on a directory", unix.SYS_FCHMODAT, "directory", args(here, thePath, 0o2775), ok, 0o2775, 0o2775},
		{"fchmodat2", unix.SYS_FCHMODAT2, "file", args(here, thePath, 0o600, unix.AT_SYMLINK_NOFOLLOW), ok, 0o600, 0o600},
		{"openat under umask", unix.SYS_OPENAT, "nothing", args(here, thePath, create, 0o666), ok, 0o644, 0o644},
		{"openat of what is there", unix.SYS_OPENAT, "file", args(here, thePath, unix.O_WRONLY|unix.O_TRUNC, 0o4755), ok, 0o644, 0o644},
		{"openat ordinary temporary", unix.SYS_OPENAT, "directory", args(here, thePath, temporary, 0o600), ok, 0o755, 0o755},
		{"mknodat of a fifo", unix.SYS_MKNODAT, "nothing", args(here, thePath, unix.S_IFIFO|0o644), ok, 0o644, 0o644},
		{"mkdirat ordinary", unix.SYS_MKDIRAT, "nothing", args(here, thePath, 0o1777), ok, 0o1755, 0o1755},

		// What it does not uphold.
		{"fchmodat g+s", unix.SYS_FCHMODAT, "file", args(here, thePath, 0o2755), ok, 0o2755, 0o2755},
		{"openat g+s", unix.SYS_OPENAT, "nothing", args(here, thePath, create, 0o2755), ok, 0o2755, 0o2755},
	}, archModeRows...)
}

// TestSetUserID makes calls on files of the child's own.
func TestSetUserID(t *testing.T) {
	old := unix.Umask(0o022) // the child's
	t.Cleanup(func() { unix.Umask(old) })
	asEachUser(t, func(t *testing.T, uid int) {
		for _, filtered := range []bool{true, false} {
			dir, err := os.MkdirTemp("", "seccomp") // t.TempDir is closed to other users
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			rows := modeRows()
			req := request{NoNewPrivs: true, Install: filtered}
			for i, row := range rows {
				path := filepath.Join(dir, fmt.Sprint(i))
				switch row.there {
				case "file":
					err = os.WriteFile(path, nil, 0o644)
				case "directory":
					err = os.Mkdir(path, 0o755)
				}
				if err == nil && row.there != "nothing" {
					err = os.Chown(path, uid, uid)
				}
				if err != nil {
					t.Fatal(err)
				}
				req.Tries = append(req.Tries, try{Nr: row.nr, Args: row.args, Path: path})
			}
			if err := os.Chown(dir, uid, uid); err != nil {
				t.Fatal(err)
			}
			ans := sealed(t, uid, req)
			if ans.Err != "" {
				t.Fatal(ans.Err)
			}
			for i, row := range rows {
				wantErr, wantMode := row.want, row.mode
				if !filtered {
					wantErr, wantMode = ok, row.except
				}
				mode := absent
				var st unix.Stat_t
				if err := unix.Lstat(req.Tries[i].Path, &st); err == nil {
					mode = st.Mode & 0o7777
				}
				if got := ans.Errnos[i]; got != wantErr || mode != wantMode {
					t.Errorf("filter=%v %s: %s and mode %#o, want %s and %#o", filtered, row.name, got, mode, wantErr, wantMode)
				}
			}
		}
	})
}

// TestProgramsAndModes runs what people run, in a directory of the child's own.
func TestProgramsAndModes(t *testing.T) {
	scripts := []struct{ name, program, script, want string }{
		{"modes", "sh", `umask 027 && : >f && chmod u+x,go=r f && mkdir -m 1777 d && mkdir -m 2770 e && chmod g+s d && install -m 755 f g && cp -a f h && test -g d -a -g e -a -x g`, ok},
		{"chmod u+s", "sh", `: >f; chmod u+s f 2>&1 | grep -q 'not permitted' && ! test -u f`, ok},
		{"install u+s", "sh", `: >f; install -m 4755 f g`, "exit 1"},
		{"cp of a set-user-ID program", "sh", `cp /bin/su f && test -x f -a ! -u f`, ok},
		{"tar", "tar", `mkdir -m 2755 d && echo x >d/f && chmod 711 d/f && ln -s f d/l && tar cf t d && rm -r d && tar xpf t && test -g d -a -x d/f -a "$(cat d/l)" = x`, ok},
		{"git", "git", `export HOME=$PWD && git init -q --shared=group r && cd r && test -g .git/objects && echo x >f && git add f && git -c user.name=x -c user.email=x@x commit -qm x && git clone -q . ../c`, ok},
		{"python", "python3", `python3 -c "import os,tempfile,shutil; tempfile.TemporaryFile().write(b'x'); os.makedirs('a/b'); os.chmod('a', 0o2755); shutil.copytree('a','c'); shutil.rmtree('a')"`, ok},
		{"node", "node", `node -e "const fs=require('fs'); fs.mkdirSync('a'); fs.writeFileSync('a/f','x',{mode:0o700}); fs.cpSync('a','b',{recursive:true}); fs.rmSync('a',{recursive:true})"`, ok},
	}
	asEachUser(t, func(t *testing.T, uid int) {
		for _, tt := range scripts {
			t.Run(tt.name, func(t *testing.T) {
				_, err := exec.LookPath(filepath.Join("/usr/bin", tt.program))
				need(t, tt.program, err == nil)
				dir, err := os.MkdirTemp("", "seccomp")
				if err == nil {
					err = os.Chown(dir, uid, uid)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(dir) })
				argv := []string{"/bin/sh", "-c", "cd " + dir + " || exit 9\n" + tt.script}
				got := sealed(t, uid, request{NoNewPrivs: true, Install: true, Tries: []try{{Do: "program", Argv: argv}}})
				if diff := cmp.Diff([]string{tt.want}, got.Errnos); diff != "" {
					t.Errorf("%s (-want +got):\n%s", got.Err, diff)
				}
			})
		}
	})
}
