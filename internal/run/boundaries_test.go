package run_test

import (
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/policy"
	"bourn/internal/review"
	"bourn/internal/run"
	"bourn/internal/run/runtest"
)

// publicPrefix is the DER before an Ed25519 public key (RFC 8410, section 4).
var publicPrefix = []byte{0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}

// A host publishes hard blocks as a control plane does.
type host struct {
	u   *runtest.User
	key ed25519.PrivateKey
}

func newHost(t testing.TB, u *runtest.User) *host {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{u, private}
	h.mkdir(t)
	os.RemoveAll(h.at("identity.pub"))
	h.write("identity.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: append(publicPrefix[:len(publicPrefix):len(publicPrefix)], public...)})))
	return h
}

func (h *host) mkdir(t testing.TB) {
	t.Helper()
	if err := os.Chmod(h.u.Mkdir(h.at("")), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (h *host) at(name string) string { return filepath.Join(h.u.Home, ".bourn", name) }

func (h *host) write(name, text string) {
	h.u.Write(h.at(name), text)
}

// text is what is published of a list of rules, with PROJECT for the work directory.
func (h *host) text(t testing.TB, rules string) []byte {
	t.Helper()
	document := `{"version":1,"hardBlocks":[` + strings.ReplaceAll(rules, "PROJECT", h.u.Work) + `]}`
	b, problems := review.Parse([]byte(document), review.Base{Root: "/", Home: h.u.Home})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	text, err := review.Publish(h.key, 3, b, true)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (h *host) publish(t testing.TB, rules string) {
	t.Helper()
	h.write(review.SnapshotName, string(h.text(t, rules)))
	h.write(review.ConfiguredName, "")
}

// A file that may not be written: no way of writing, removing, renaming or replacing it, or
// a directory above it, gains anything.
func TestBlockedWriteByEveryOperation(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		at := u.Write("conf/deep/VERSION", "v1")
		other := u.Write("conf/deep/other", "other")
		newHost(t, u).publish(t, `{"id":"v","type":"path","match":"exact","pattern":"PROJECT/conf/deep/VERSION","operations":["write","delete"]}`)
		dir, above := filepath.Dir(at), u.Path("conf")
		ops := []string{"readrdwr " + at, "openw " + at, "write " + at, "append " + at, "trunc " + at, "unlink " + at,
			"rename " + at + " " + u.Path("moved"), "rename " + other + " " + at, "exchange " + other + " " + at,
			"link " + at + " " + u.Path("linked"), "linkfd " + at + " " + u.Path("linked2"), "link " + at + " " + dir + "/linked3",
			"chmod " + at, "utime " + at, "setxattr " + at, "chown " + at, "create " + at, "mkdir " + at, "symlink x " + at,
			"umount " + at, "umount " + dir, "mount " + other + " " + at, "tmpfs " + dir,
			"rename " + dir + " " + u.Path("conf/d2"), "rename " + above + " " + u.Path("c2"), "rmdir " + dir,
			"openw conf/../conf/deep/VERSION", "remount " + at}
		before := tree(t, u.Work)
		got := try(t, u, nil, ops...)
		got.refused(t, ops...)
		unchanged(t, "the project", before, tree(t, u.Work))
		// It can be read, what is beside it be written, and outside all of it works.
		got = try(t, u, nil, "read "+at, "write "+other, "create "+dir+"/new")
		got.are(t, "ok*", "read "+at, "write "+other, "create "+dir+"/new")
		outside(t, u, ops[:5]...).are(t, "ok*", ops[:5]...)
	})
}

// What may not be read: as for a deny, and the directories above keep their names, since
// another agent would find it under the new one.
func TestBlockedReadByEveryOperation(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		at := u.Write("conf/deep/key", secret)
		newHost(t, u).publish(t, `{"id":"k","type":"path","match":"prefix","pattern":"PROJECT/conf/deep/key","operations":["read"]}`)
		dir, above := filepath.Dir(at), u.Path("conf")
		ops := []string{"read " + at, "readrdwr " + at, "openw " + at, "mmap " + at, "splice " + at, "unlink " + at,
			"rename " + at + " " + u.Path("moved"), "link " + at + " " + u.Path("linked"), "chmod " + at, "handle " + at, "umount " + at, "run " + at,
			"rename " + dir + " " + u.Path("conf/d2"), "rename " + above + " " + u.Path("c2")}
		before := tree(t, u.Work)
		got := try(t, u, nil, ops...)
		got.refused(t, ops...)
		got.noSecret(t)
		unchanged(t, "the project", before, tree(t, u.Work))
	})
}

// Other names of what may not be written: hard links, symlinks in the pattern and in the
// grant.
func TestBlockedWriteByOtherNames(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		at := u.Write("real/VERSION", "v1")
		link := u.Path("hard")
		if err := os.Link(at, link); err != nil {
			t.Fatal(err)
		}
		u.Symlink("real", "soft")
		newHost(t, u).publish(t, `{"id":"v","type":"path","match":"exact","pattern":"PROJECT/soft/VERSION","operations":["write"]}`)
		ops := []string{"openw " + at, "trunc " + at, "openw " + link, "trunc " + link, "unlink " + link, "rename " + link + " " + u.Path("h2"),
			"openw " + u.Path("soft/VERSION"), "rename " + u.Path("real") + " " + u.Path("r2")}
		links := 0
		for _, it := range items(t, u.Bourn("plan", "--json")) {
			if it.Blocks() && it.Target == u.Path("soft/VERSION") {
				links++
			}
			if it.Blocks() && it.Target == u.Path("soft/VERSION") && !strings.Contains(it.Caveat, u.Path("soft")+" on the way to it is a symlink that can be replaced") {
				t.Errorf("%+v", it)
			}
		}
		if links != 1 {
			t.Errorf("%d items", links)
		}
		got := try(t, u, nil, ops...)
		got.refused(t, ops...)
		if u.Read("hard") != "v1" {
			t.Errorf("it was written: %q", u.Read("hard"))
		}
	})
}

// A rule about deleting keeps a name; what the name stands for can be written.
func TestBlockedDelete(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		file, dir := u.Write("a/log", "x"), u.Mkdir("a/kept")
		other := u.Write("a/other", "o")
		newHost(t, u).publish(t, `{"id":"f","type":"path","match":"prefix","pattern":"PROJECT/a/log","operations":["delete"]},
			{"id":"d","type":"path","match":"exact","pattern":"PROJECT/a/kept","operations":["delete"]}`)
		ops := []string{"unlink " + file, "rename " + file + " " + u.Path("l2"), "rename " + other + " " + file, "exchange " + other + " " + file,
			"rmdir " + dir, "rename " + dir + " " + u.Path("k2"), "rename " + u.Path("a") + " " + u.Path("b"), "umount " + file}
		got := try(t, u, nil, ops...)
		got.refused(t, ops...)
		got = try(t, u, nil, "append "+file, "create "+dir+"/new", "unlink "+dir+"/new")
		got.are(t, "ok*", "append "+file, "create "+dir+"/new", "unlink "+dir+"/new")
	})
}

// A grant in, of and above what may not be written.
func TestBlockedWriteAndGrants(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Mkdir("data/in")
		u.Mkdir("free")
		newHost(t, u).publish(t, `{"id":"data","type":"path","match":"prefix","pattern":"PROJECT/data","operations":["write"]}`)
		for _, grants := range [][]string{{"."}, {"data"}, {"data/in"}, {".", "data/in"}, {"free", "data/in"}} {
			flags := []string{}
			for _, g := range grants {
				flags = append(flags, "--write", g)
			}
			in := u.Path("data/in")
			got := try(t, u, flags, "create "+in+"/x", "mkdir "+in+"/y", "rmdir "+in, "list "+in)
			got.refused(t, "create "+in+"/x", "mkdir "+in+"/y", "rmdir "+in)
			got.are(t, "ok*", "list "+in)
			if grants[0] == "." || grants[0] == "free" {
				got := try(t, u, flags, "create "+u.Path("free")+"/x", "unlink "+u.Path("free")+"/x")
				got.are(t, "ok*", "create "+u.Path("free")+"/x")
			}
		}
		// With spawn dirs, of which each is a mount of its own.
		got := try(t, u, []string{"--write", ".", "--spawn-dir", "data/in"}, "create "+u.Path("data/in/x"), "create "+u.Path("data/x"))
		got.refused(t, "create "+u.Path("data/in/x"), "create "+u.Path("data/x"))
	})
}

// What does not exist yet is closed when it appears, and the report says no more.
func TestBlockedLater(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		newHost(t, u).publish(t, `{"id":"later","type":"path","match":"exact","pattern":"PROJECT/later","operations":["write"]},
			{"id":"key","type":"path","match":"exact","pattern":"PROJECT/key","operations":["read"]}`)
		for _, it := range items(t, u.Bourn("plan", "--json")) {
			if it.Blocks() && (it.Fate != policy.Dropped || !strings.Contains(it.Reason, "watched, not prevented")) {
				t.Errorf("%+v", it)
			}
		}
		r := u.Sh("echo 1 >later; i=0; while echo 2 2>/dev/null >>later && [ $i -lt 5000 ]; do i=$((i+1)); done; [ $i -lt 5000 ]")
		if r.Status != 0 {
			t.Errorf("it can still be written: %s%s", r.Out, r.Err)
		}
		if got := u.Sh("echo 3 >later"); got.Status == 0 {
			t.Error("the next start does not keep it")
		}
	})
}

// items reads a report.
func items(t testing.TB, r runtest.Result) []policy.Item {
	t.Helper()
	var rep run.Report
	if err := json.Unmarshal([]byte(r.Out), &rep); err != nil {
		t.Fatalf("%v: %s%s", err, r.Out, r.Err)
	}
	return rep.Items
}

// read reads a file of JSON.
func read(t testing.TB, at string, into any) {
	t.Helper()
	data, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// What may not be written, through second mounts of it and of what is above, made before the
// start in a mount namespace that this test made.
func TestBlockedThroughSecondMount(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("deep/VERSION", "v1")
		u.Write("data/in/file", "x")
		for _, dir := range []string{"alias", "dataalias"} {
			u.Mkdir(dir)
		}
		u.Write("filealias", "")
		second := u.Mkdir(filepath.Join(u.Dir, "second"))
		newHost(t, u).publish(t, `{"id":"v","type":"path","match":"exact","pattern":"PROJECT/deep/VERSION","operations":["write","delete"]},
			{"id":"d","type":"path","match":"prefix","pattern":"PROJECT/data","operations":["write"]}`)
		host, err := os.Readlink("/proc/self/ns/mnt")
		if err != nil {
			t.Fatal(err)
		}
		script := `set -e
test "$(readlink /proc/self/ns/mnt)" != "` + host + `"
mount --bind deep alias
mount --bind . ` + second + `
mount --bind deep/VERSION filealias
mount --bind data dataalias
exec "$@"`
		ops := []string{"openw deep/VERSION", "openw alias/VERSION", "unlink alias/VERSION", "openw " + second + "/deep/VERSION", "openw filealias", "trunc filealias",
			"create data/x", "create dataalias/x", "openw dataalias/in/file", "create " + second + "/data/in/x", "umount alias"}
		free := []string{"create alias/new", "create " + second + "/free"}
		for _, grants := range [][]string{{"--write", ".", "--write", second}, {"--write", ".", "--write", second, "--write", "dataalias/in"}} {
			args := []string{"-m", "sh", "-c", script, "sh", runtest.Binary(t)}
			if u.UID != 0 {
				args[0] = "-Urm"
			}
			args = append(args, sealed(t, grants, append([]string{"try"}, append(ops, free...)...)...)...)
			got := parse(t, u.Do("unshare", args...))
			got.refused(t, ops...)
			got.are(t, "ok*", free...)
			for _, made := range []string{"deep/new", "free"} {
				if err := os.Remove(u.Path(made)); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
