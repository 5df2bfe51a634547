package workspace

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Two people in a circle, and the circle's group. No host has these numbers.
const (
	shareAnn   = 88216
	shareBob   = 88217
	shareSales = 88218
)

const shareVariable = "BOURN_TEST_SHARE_WORLD"

// onCircle runs f as root in a mount namespace of its own, with a file system in memory at
// /mnt: a home of ann's, one of bob's, and the directory of the circle that both are in.
func onCircle(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if outside := os.Getenv(shareVariable); outside != "" {
		if inside, err := os.Readlink("/proc/thread-self/ns/mnt"); err != nil || inside == outside {
			t.Fatalf("this is no world of its own: %s %v", inside, err)
		}
		mustDo(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		mustDo(t, unix.Mount("world", "/mnt", "tmpfs", 0, "mode=755"))
		makeDir(t, "/mnt/ann", shareAnn, shareAnn, 0o700)
		makeDir(t, "/mnt/bob", shareBob, shareBob, 0o700)
		makeDir(t, "/mnt/sales", 0, shareSales, 0o2770)
		self, err := os.ReadFile("/proc/self/exe") // where it was built, others may not go
		mustDo(t, err)
		mustDo(t, os.WriteFile("/mnt/program", self, 0o755))
		f(t)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, who is two people")
	}
	outside, err := os.Readlink("/proc/self/ns/mnt")
	mustDo(t, err)
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), shareVariable+"="+outside, quickly)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func makeDir(t testing.TB, at string, uid, gid int, mode uint32) {
	t.Helper()
	mustDo(t, os.Mkdir(at, 0o700))
	mustDo(t, os.Chown(at, uid, gid))
	mustDo(t, unix.Chmod(at, mode))
}

// actorAs starts an actor as a user with a umask that gives nobody anything.
func actorAs(t *testing.T, uid int, groups []uint32, hardBlocks ...string) *owner {
	t.Helper()
	a := &Actor{Version: "test", Cwd: map[int]string{shareAnn: "/mnt/ann", shareBob: "/mnt/bob"}[uid], Env: []string{"PATH=/usr/bin:/bin"}}
	config, err := json.Marshal(a)
	mustDo(t, err)
	conn, theirs := socketpair(t)
	cmd := exec.Command("/bin/sh", "-c", "umask 0777; exec /mnt/program")
	cmd.Env, cmd.Dir = []string{actorVariable + "=" + string(config), quickly}, a.Cwd
	cmd.ExtraFiles, cmd.Stderr = []*os.File{theirs}, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), Groups: groups}, Pdeathsig: syscall.SIGKILL}
	mustDo(t, cmd.Start())
	theirs.Close()
	c, err := Dial(t.Context(), conn)
	mustDo(t, err)
	t.Cleanup(func() { c.Close(); _ = cmd.Wait() })
	o := &owner{Client: c, t: t, cmd: cmd, conn: net.Conn(conn), cwd: a.Cwd}
	o.setRules(a.base(), hardBlocks...)
	return o
}

// whose is a path's owner, group, mode and number of names.
func whose(t testing.TB, at string) string {
	t.Helper()
	var st unix.Stat_t
	mustDo(t, unix.Lstat(at, &st))
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode&0o7777)
	}
	return fmt.Sprintf("%d:%d %o %d", st.Uid, st.Gid, st.Mode&0o7777, st.Nlink)
}

// files puts files of ann's.
func annsFiles(t *testing.T, all map[string]string) {
	t.Helper()
	for at, text := range all {
		put(t, "/mnt/ann/"+at, text)
	}
	mustDo(t, exec.Command("chown", "-hR", fmt.Sprintf("%d:%d", shareAnn, shareAnn), "/mnt/ann").Run())
	mustDo(t, exec.Command("chmod", "-R", "go=,u+rwX", "/mnt/ann").Run())
}

func TestShare(t *testing.T) {
	onCircle(t, func(t *testing.T) {
		annsFiles(t, map[string]string{"plan": "of sales\n", "d/a": "a", "d/e/b": "bb", "d/e/empty": ""})
		mustDo(t, os.Mkdir("/mnt/ann/d/none", 0o700))
		mustDo(t, os.Chown("/mnt/ann/d/none", shareAnn, shareAnn))
		ann := actorAs(t, shareAnn, []uint32{shareSales})
		var r ShareResult
		ann.must(Request{Verb: Share, Path: "plan", To: "/mnt/sales/plan"}, &r)
		if want := (ShareResult{Path: "/mnt/sales/plan", Files: 1, Bytes: 9, After: digest([]byte("of sales\n"))}); r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
		r = ShareResult{}
		ann.must(Request{Verb: Share, Path: "d", To: "/mnt/sales/d"}, &r)
		if want := (ShareResult{Path: "/mnt/sales/d", Files: 3, Directories: 3, Bytes: 3}); r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
		ann.must(Request{Verb: Share, Path: "plan", To: "/mnt/sales/d/e/plan"}, nil)
		file, dir := fmt.Sprintf("%d:%d 660 1", shareAnn, shareSales), fmt.Sprintf("%d:%d 2770", shareAnn, shareSales)
		for at, want := range map[string]string{"plan": file, "d": dir, "d/a": file, "d/e": dir, "d/e/b": file, "d/e/empty": file, "d/e/plan": file, "d/none": dir} {
			if got := whose(t, "/mnt/sales/"+at); got != want {
				t.Errorf("%s: %s, want %s", at, got, want)
			}
		}
		if got, want := fmt.Sprint(tree(t, "/mnt/sales")), "map[.:(directory) d:(directory) d/a:a d/e:(directory) d/e/b:bb d/e/empty: d/e/plan:of sales\n d/none:(directory) plan:of sales\n]"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		// Bob, who is in the circle, has it: to change as well.
		bob := actorAs(t, shareBob, []uint32{shareSales})
		bob.must(Request{Verb: Edit, Path: "/mnt/sales/d/e/b", Old: "bb", New: "b of bob"}, nil)
		bob.must(Request{Verb: Write, Path: "/mnt/sales/d/e/of bob", Content: []byte("x")}, nil)
		bob.refused(Request{Verb: Share, Path: "/mnt/ann/plan", To: "/mnt/sales/another"}, "permission_denied")
		if content(t, "/mnt/ann/d/e/b") != "bb" {
			t.Error("what was shared is not a copy")
		}
	})
}

func TestShareRefused(t *testing.T) {
	onCircle(t, func(t *testing.T) {
		annsFiles(t, map[string]string{"plan": "of ann", "fifo-in/a": "a", "link-in/a": "a", "private/key": "k", "deep/key": "k"})
		makeDir(t, "/mnt/open", 0, shareSales, 0o2775)
		makeDir(t, "/mnt/plain", shareAnn, shareSales, 0o770)
		makeDir(t, "/mnt/other", 0, shareBob, 0o2770)
		mustDo(t, unix.Mkfifo("/mnt/ann/fifo", 0o666))
		mustDo(t, unix.Mkfifo("/mnt/ann/fifo-in/fifo", 0o666))
		link(t, "plan", "/mnt/ann/link")
		link(t, "/mnt/bob", "/mnt/ann/link-in/bob")
		link(t, "private", "/mnt/ann/way")
		mustDo(t, os.Link("/mnt/ann/private/key", "/mnt/ann/hard"))
		mustDo(t, exec.Command("chown", "-hR", fmt.Sprintf("%d:%d", shareAnn, shareAnn), "/mnt/ann").Run())
		// What others have put into the circle.
		link(t, "/mnt/bob/caught", "/mnt/sales/dangling")
		link(t, "/mnt/other", "/mnt/sales/way")
		mustDo(t, unix.Mkfifo("/mnt/sales/fifo", 0o666))
		put(t, "/mnt/sales/there", "there")
		mustDo(t, os.Link("/mnt/sales/there", "/mnt/sales/hard"))
		mustDo(t, os.Mkdir("/mnt/sales/dir", 0o2770))
		before := fmt.Sprint(tree(t, "/mnt/sales"))

		ann := actorAs(t, shareAnn, []uint32{shareSales})
		for _, to := range []string{"dangling", "fifo", "there", "hard", "dir", "way"} {
			ann.refused(Request{Verb: Share, Path: "plan", To: "/mnt/sales/" + to}, "already_exists")
			ann.refused(Request{Verb: Share, Path: "private", To: "/mnt/sales/" + to}, "already_exists")
		}
		for from, reason := range map[string]string{
			"fifo": "invalid_path", "link": "invalid_path", "fifo-in": "invalid_path", "link-in": "invalid_path", "way/key": "invalid_path", "plan/": "invalid_path",
			"none": "not_found", "private/none": "not_found", "/mnt/bob": "permission_denied", "/mnt/bob/x": "permission_denied", "/proc/1/status": "invalid_path", "/proc/self/environ": "invalid_path",
		} {
			ann.refused(Request{Verb: Share, Path: from, To: "/mnt/sales/new"}, reason)
		}
		for to, reason := range map[string]string{
			"/mnt/sales/way/new": "invalid_path", "/mnt/open/new": "invalid_path", "/mnt/plain/new": "invalid_path", "/mnt/other/new": "permission_denied", "/mnt/ann/new": "invalid_path",
			"/mnt/none/new": "not_found", "/": "invalid_path", "/mnt/sales/.bourn-write-000000000000": "invalid_path",
		} {
			ann.refused(Request{Verb: Share, Path: "plan", To: to}, reason)
		}
		ann.must(Request{Verb: Share, Path: "hard", To: "/mnt/sales/of ann"}, nil) // no rule is about another name of it
		mustDo(t, os.Remove("/mnt/sales/of ann"))

		// Who is not in the circle any more; and rules, about what is below as well.
		actorAs(t, shareAnn, nil).refused(Request{Verb: Share, Path: "plan", To: "/mnt/sales/new"}, "permission_denied")
		ruled := actorAs(t, shareAnn, []uint32{shareSales}, rule("no", "exact", "/mnt/ann/deep/key", "read"), rule("new", "exact", "/mnt/sales/moved/key", "write"))
		ruled.refused(Request{Verb: Share, Path: "deep/key", To: "/mnt/sales/new"}, "owner")
		ruled.refused(Request{Verb: Share, Path: "deep", To: "/mnt/sales/new"}, blocked+"no")
		ruled.refused(Request{Verb: Share, Path: "private", To: "/mnt/sales/new"}, "unclear")
		mustDo(t, os.Remove("/mnt/ann/hard"))
		ruled.refused(Request{Verb: Share, Path: "private", To: "/mnt/sales/moved"}, blocked+"new")
		ruled.must(Request{Verb: Share, Path: "private", To: "/mnt/sales/new"}, nil)
		mustDo(t, os.RemoveAll("/mnt/sales/new"))
		if after := fmt.Sprint(tree(t, "/mnt/sales")); after != before {
			t.Errorf("what was refused has left something:\n%s\nbefore:\n%s", after, before)
		}
		if left := fmt.Sprint(tree(t, "/mnt/bob"), tree(t, "/mnt/other")); left != "map[.:(directory)] map[.:(directory)]" {
			t.Errorf("a link was followed: %s", left)
		}
	})
}

// TestShareBounds: a tree that holds too much, or goes too deep, leaves nothing.
func TestShareBounds(t *testing.T) {
	onCircle(t, func(t *testing.T) {
		annsFiles(t, map[string]string{"d/a": "a"})
		mustDo(t, os.Truncate("/mnt/ann/d/a", maxSharedBytes+1))
		for i := range maxShared + 1 {
			dir := fmt.Sprint("/mnt/ann/many/", i%2) // neither holds too much
			mustDo(t, os.MkdirAll(dir, 0o755))
			mustDo(t, os.WriteFile(fmt.Sprint(dir, "/", i), nil, 0o644))
		}
		mustDo(t, os.MkdirAll("/mnt/ann/deep"+strings.Repeat("/d", maxDepth), 0o755))
		makeDir(t, "/mnt/sales/own", shareAnn, shareSales, 0o2770)
		put(t, "/mnt/sales/own/x", "x")
		ann := actorAs(t, shareAnn, []uint32{shareSales})
		mustDo(t, exec.Command("chown", "-R", fmt.Sprintf("%d:%d", shareAnn, shareAnn), "/mnt/ann").Run())
		mustDo(t, unix.Mount("limit", "/mnt/bob", "tmpfs", 0, "size=1m,mode=700"))
		mustDo(t, os.Chown("/mnt/bob", 0, shareSales))
		mustDo(t, unix.Chmod("/mnt/bob", 0o2770))
		ann.refused(Request{Verb: Share, Path: "many", To: "/mnt/sales/new"}, "too_large")
		ann.refused(Request{Verb: Share, Path: "deep", To: "/mnt/sales/new"}, "too_large")
		ann.refused(Request{Verb: Share, Path: "d", To: "/mnt/sales/new"}, "too_large")
		mustDo(t, os.Truncate("/mnt/ann/d/a", 2<<20))
		ann.refused(Request{Verb: Share, Path: "d", To: "/mnt/bob/new"}, "operation_failed") // no room
		ann.refused(Request{Verb: Share, Path: "/mnt/sales/own", To: "/mnt/sales/own/below"}, "invalid_path")
		for dir, want := range map[string]string{"/mnt/sales": "map[.:(directory) own:(directory) own/x:x]", "/mnt/bob": "map[.:(directory)]"} {
			if got := fmt.Sprint(tree(t, dir)); got != want {
				t.Errorf("%s: %s", dir, got)
			}
		}
	})
}
