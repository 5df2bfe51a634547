package run_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/review"
	"bourn/internal/run"
	"bourn/internal/run/runtest"

	"github.com/google/go-cmp/cmp"
)

const oneRule = `{"id":"env","type":"path","match":"exact","pattern":"PROJECT/.env","operations":["read"]}`

// Everything that is not what this host's control plane published, each in the place of it.
var notPublished = []struct {
	name string
	make func(t *testing.T, h *host)
	says string // in the error
	mend string // in the hint
}{
	{"removed", func(t *testing.T, h *host) { h.remove(t, review.SnapshotName) }, "missing", "bourn serve"},
	{"without the key", func(t *testing.T, h *host) { h.remove(t, "identity.pub") }, "public key", "bourn serve"},
	{"another key", func(t *testing.T, h *host) {
		text := h.u.Read(h.at(review.SnapshotName))
		newHost(t, h.u)
		h.write(review.SnapshotName, text)
	}, "not signed", "bourn serve"},
	{"a key that is none", func(t *testing.T, h *host) {
		h.write("identity.pub", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
	}, "no Ed25519", "bourn serve"},
	{"changed", func(t *testing.T, h *host) {
		text := []byte(h.u.Read(h.at(review.SnapshotName)))
		i := bytes.Index(text, []byte(`"signature"`)) - 20
		text[i] ^= 1
		h.write(review.SnapshotName, string(text))
	}, "", ""},
	{"empty", func(_ *testing.T, h *host) { h.write(review.SnapshotName, "") }, "cannot be read", ""},
	{"huge", func(_ *testing.T, h *host) { h.write(review.SnapshotName, strings.Repeat(" ", 17<<20)) }, "longer than", "bourn serve"},
	{"not valid", func(t *testing.T, h *host) {
		text, err := review.Publish(h.key, 9, review.Boundaries{}, false)
		if err != nil {
			t.Fatal(err)
		}
		h.write(review.SnapshotName, string(text))
	}, "version 9) are not valid", "bourn boundaries set"},
	{"a symlink to the right one", func(t *testing.T, h *host) {
		h.u.Write(h.u.Home+"/real.json", h.u.Read(h.at(review.SnapshotName)))
		h.remove(t, review.SnapshotName)
		h.u.Symlink(h.u.Home+"/real.json", h.at(review.SnapshotName))
	}, "symlink", "bourn serve"},
	{"a symlink to nothing", func(t *testing.T, h *host) {
		h.remove(t, review.SnapshotName)
		h.u.Symlink("nothing", h.at(review.SnapshotName))
	}, "symlink", "bourn serve"},
	{"a directory", func(t *testing.T, h *host) {
		h.remove(t, review.SnapshotName)
		h.u.Mkdir(h.at(review.SnapshotName))
	}, "", "bourn serve"},
	{"for others to write", func(t *testing.T, h *host) {
		if err := os.Chmod(h.at(review.SnapshotName), 0o666); err != nil {
			t.Fatal(err)
		}
	}, "others", "bourn serve"},
	{"a key for others to write", func(t *testing.T, h *host) {
		if err := os.Chmod(h.at("identity.pub"), 0o666); err != nil {
			t.Fatal(err)
		}
	}, "others", "bourn serve"},
	{"unreadable", func(t *testing.T, h *host) {
		if h.u.UID == 0 {
			h.remove(t, review.SnapshotName) // root reads everything
			return
		}
		if err := os.Chmod(h.at(review.SnapshotName), 0); err != nil {
			t.Fatal(err)
		}
	}, "", "bourn serve"},
}

func (h *host) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(h.at(name)); err != nil {
		t.Fatal(err)
	}
}

// Nothing starts, and nothing is said of what would hold, by rules that are not the host's.
func TestPublishedMustBeTheHosts(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(".env", secret)
		for _, tt := range notPublished {
			h := newHost(t, u)
			os.RemoveAll(h.at(review.SnapshotName))
			h.publish(t, oneRule)
			if r := u.Bourn("run", "-q", "--", "cat", ".env"); r.Status != 1 || strings.Contains(r.Out, secret) {
				t.Fatalf("%s: as published it does not close: status %d, %s%s", tt.name, r.Status, r.Out, r.Err)
			}
			tt.make(t, h)
			for _, line := range [][]string{{"run", "--", "touch", "ran"}, {"plan"}, {"explain", "read", ".env"}, {"boundaries", "show"}, {"boundaries", "test", "ls"}} {
				r := u.Bourn(line...)
				want := bourn.CodeDenied.ExitStatus()
				if line[0] == "run" {
					want = 125
				}
				if r.Status != want || !strings.Contains(r.Err, "cannot follow the hard blocks in "+h.at(review.SnapshotName)) ||
					!strings.Contains(r.Err, tt.says) || !strings.Contains(r.Err, "\nhint: ") || !strings.Contains(r.Err, tt.mend) {
					t.Errorf("%s: bourn %s: status %d\n%s%s", tt.name, line[0], r.Status, r.Out, r.Err)
				}
			}
			if _, err := os.Lstat(u.Path("ran")); err == nil {
				t.Fatalf("%s: it ran", tt.name)
			}
		}
	})
}

// A host on which nobody ever saved a rule has no file, and one on which the last rule was
// taken away has none that closes.
func TestPublishedNone(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(".env", "open")
		if r := u.Bourn("run", "-q", "--", "cat", ".env"); r.Out != "open" {
			t.Errorf("%+v", r)
		}
		newHost(t, u).publish(t, "")
		if r := u.Bourn("run", "-q", "--", "cat", ".env"); r.Out != "open" {
			t.Errorf("%+v", r)
		}
	})
}

// The agent itself does not reach what closes it.
func TestPublishedIsOutOfReach(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		h := newHost(t, u)
		h.publish(t, oneRule)
		at := h.at(review.SnapshotName)
		ops := []string{"read " + at, "openw " + at, "unlink " + at, "read " + h.at("identity.pub"), "create " + h.at("x"), "openw " + h.at("journal.jsonl")}
		try(t, u, nil, ops...).refused(t, ops...)
	})
}

// Every operation of every rule is an item, with the fate that the kernel gives it.
func TestBlockItems(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	u.Write("file", "x")
	u.Mkdir("dir/in")
	newHost(t, u).publish(t, `
		{"id":"mask","type":"path","match":"prefix","pattern":"PROJECT/dir","operations":["read","write","execute"],"reason":"because"},
		{"id":"alone","type":"path","match":"exact","pattern":"PROJECT/dir","operations":["read","write","delete"]},
		{"id":"ro","type":"path","match":"exact","pattern":"PROJECT/file","operations":["write","delete","delegate"]},
		{"id":"far","type":"path","match":"prefix","pattern":"/srv/nowhere","operations":["write","delete"]},
		{"id":"system","type":"path","match":"prefix","pattern":"/usr/share","operations":["write"]},
		{"id":"glob","type":"path","pattern":"PROJECT/**/*.pem","operations":["read"]},
		{"id":"whole","type":"path","match":"prefix","pattern":"/","operations":["delete"]},
		{"id":"off","enabled":false,"type":"path","match":"exact","pattern":"PROJECT/file","operations":["read"]},
		{"id":"cmd","type":"command","match":"prefix","pattern":"git push","operations":["execute"]}`)
	var got []string
	for _, it := range items(t, u.Bourn("plan", "--json")) {
		if !it.Blocks() {
			continue
		}
		line := string(it.Kind) + " " + strings.TrimPrefix(it.From, "boundary:")
		for _, o := range it.Operations {
			line += " " + string(o)
		}
		line += " " + string(it.Fate) + " " + strings.Join(it.By, "+")
		if it.GateOnly() {
			line += "gate"
		}
		got = append(got, line)
	}
	slices.Sort(got)
	want := []string{
		"deny alone read write dropped gate", "deny cmd execute dropped gate", "deny glob read dropped gate", "deny mask execute dropped gate",
		"deny mask read write enforced mount", "deny ro delegate dropped gate", "deny whole delete dropped gate",
		"protect alone delete enforced mount", "protect far write delete enforced namespace+landlock",
		"protect ro write delete enforced mount", "protect system write enforced namespace+landlock",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The answer to a question names the rule, and no grant or removal that would not help.
func TestBlockExplains(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	u.Write(".env", secret)
	u.Write("VERSION", "1")
	u.Mkdir("data")
	newHost(t, u).publish(t, oneRule+`,{"id":"version","type":"path","match":"exact","pattern":"PROJECT/VERSION","operations":["write"]},
		{"id":"data","type":"path","match":"prefix","pattern":"PROJECT/data","operations":["write"]},
		{"id":"far","type":"path","match":"prefix","pattern":"/srv/far","operations":["write"]}`)
	for _, tt := range []struct{ op, target, flag, answer, from string }{
		{"read", ".env", "", "denied", "boundary:env"},
		{"read", ".env", "--deny=.env", "denied", "boundary:env"},
		{"write", ".env", "", "denied", "boundary:env"},
		{"read", "VERSION", "", "allowed", "default"},
		{"write", "VERSION", "", "denied", "boundary:version"},
		{"write", "data/x", "", "denied", "boundary:data"},
		{"write", "data/x", "--write=data", "denied", "boundary:data"},
		{"read", "data/x", "--write=data", "allowed", "flag"},
		{"write", "/srv/far/x", "", "denied", "boundary:far"},
		{"read", "/srv/far/x", "", "denied", "default"},
		{"write", "other", "", "allowed", "default"},
	} {
		line := []string{"explain"}
		if tt.flag != "" {
			line = append(line, tt.flag)
		}
		r := u.Bourn(append(line, tt.op, tt.target)...)
		first, _, _ := strings.Cut(r.Out, ":")
		if first != tt.answer || !strings.Contains(r.Out, "from "+tt.from) {
			t.Errorf("%v:\n%s%s", tt, r.Out, r.Err)
		}
		if id, is := strings.CutPrefix(tt.from, "boundary:"); is && (!strings.Contains(r.Out, "the hard block "+id+" of this host's administrator decides") || strings.Contains(r.Out, "to mend it")) {
			t.Errorf("%v: it names no administrator, or what does not mend it:\n%s", tt, r.Out)
		}
	}
}

// A rule is part of the seal's generation, and a grant in what it closes is no grant.
func TestBlocksInTheRecord(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("VERSION", "1")
		h := newHost(t, u)
		generation := func() string {
			r := u.Bourn("run", "-q", "--report", u.Path("r.json"), "--", "true")
			if r.Status != 0 {
				t.Fatalf("%s%s", r.Out, r.Err)
			}
			var rep run.Report
			read(t, u.Path("r.json"), &rep)
			return rep.Generation
		}
		seen := map[string]string{}
		for _, rules := range []string{"", oneRule,
			`{"id":"v","type":"path","match":"exact","pattern":"PROJECT/VERSION","operations":["write"]}`,
			`{"id":"v","type":"path","match":"exact","pattern":"PROJECT/VERSION","operations":["write","delete"]}`,
			`{"id":"c","type":"command","match":"prefix","pattern":"git push","operations":["execute"]}`} {
			h.publish(t, rules)
			g := generation()
			if g != generation() {
				t.Errorf("%s: two starts have two generations", rules)
			}
			if other, known := seen[g]; known {
				t.Errorf("%s and %s have one generation", rules, other)
			}
			seen[g] = rules
		}
		h.publish(t, `{"id":"w","type":"path","match":"prefix","pattern":"PROJECT","operations":["write"]}`)
		r := u.Bourn("run", "--", "sh", "-c", "cat VERSION; echo 2 >VERSION")
		if !strings.Contains(r.Out, "1") || u.Read("VERSION") != "1" || !strings.Contains(r.Err, "nothing writable") || !strings.Contains(r.Err, "boundary:w") {
			t.Errorf("%s%s", r.Out, r.Err)
		}
	})
}
