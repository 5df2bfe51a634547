package run_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// proposing makes a repository that proposes to read a directory of the home, to pass a
// variable and to deny a file, and returns the file in that directory.
func proposing(u *runtest.User) string {
	u.Mkdir(".git")
	u.Write(".env", secret)
	u.Write(".bourn/profile.yaml", "version: 1\nfilesystem: {read: [~/lib], deny: [.env]}\nenv: {pass: [TOKEN]}\n")
	u.Env = append(u.Env, "TOKEN="+hunted)
	return u.Write(filepath.Join(u.Home, "lib/a"), "lib")
}

// accepted accepts what stands in the user's work directory, as a script would.
func accepted(t *testing.T, u *runtest.User) {
	t.Helper()
	var q struct{ Digest string }
	r := u.Bourn("accept", "--json")
	if err := json.Unmarshal([]byte(r.Out), &q); err != nil || r.Status != 3 || len(q.Digest) != 64 {
		t.Fatalf("accept --json: status %d, %s%s", r.Status, r.Out, r.Err)
	}
	if r := u.Bourn("accept", "--digest", q.Digest); r.Status != 0 {
		t.Fatalf("accept --digest: status %d, %s", r.Status, r.Err)
	}
}

// What a repository denies holds before anybody accepts it, what it grants does not; one
// byte more, or another directory, and it grants nothing again.
func TestProposalSealed(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		lib := proposing(u)
		read, env := "read "+lib, "read "+u.Path(".env")
		outside(t, u, read, env).are(t, "ok*", read, env)
		closed := func(what string, flags ...string) {
			t.Helper()
			got := try(t, u, flags, read, env)
			got.are(t, "EACCES", env)
			got.are(t, "ENOENT", read)
			got.noSecret(t)
			if r := u.Sh("printenv TOKEN", flags...); r.Status == 0 {
				t.Errorf("%s: the variable is passed", what)
			}
		}
		closed("not accepted")
		accepted(t, u)
		got := try(t, u, nil, read, env, "openw "+lib)
		got.are(t, "ok*", read)
		got.are(t, "EACCES", env)
		got.refused(t, "openw "+lib)
		if r := u.Sh("printenv TOKEN"); strings.TrimSpace(r.Out) != hunted {
			t.Errorf("the variable: %q, %s", r.Out, r.Err)
		}

		at := u.Path(".bourn/profile.yaml")
		text := u.Read(at)
		u.Write(at, text+"\n")
		closed("one byte more")
		u.Write(at, text)
		try(t, u, nil, read).are(t, "ok*", read)
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
		closed("gone")
		u.Write(at, text)

		copied := u.Mkdir(filepath.Join(u.Dir, "copy"))
		there := *u
		there.Work = copied
		there.Mkdir(".git")
		there.Write(".env", secret)
		there.Write(".bourn/profile.yaml", text)
		got = try(t, &there, nil, read, "read "+there.Path(".env"))
		got.are(t, "ENOENT", read)
		got.are(t, "EACCES", "read "+there.Path(".env"))

		try(t, u, []string{"--proposal", "none"}, read, env).are(t, "ok*", env)
	})
}

// An agent has its profile's grants, and what the repository takes away.
func TestProposalAndSealedAgent(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		lib := proposing(u)
		u.Write("src/a", "")
		agent(t, u, filepath.Join(u.Home, ".bourn"), "builder", "{write: ["+u.Work+"]}")
		accepted(t, u)
		got := try(t, u, []string{"--agent", "builder"}, "read "+lib, "read "+u.Path(".env"), "write "+u.Path("src/a"))
		got.are(t, "ENOENT", "read "+lib)
		got.are(t, "EACCES", "read "+u.Path(".env"))
		got.are(t, "ok*", "write "+u.Path("src/a"))
	})
}

// Nothing inside makes or changes a proposal unseen, and nothing inside accepts one.
func TestProposalIsNotTheRunsToWrite(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		proposing(u)
		at := u.Path(".bourn/profile.yaml")
		before := u.Read(at)
		ops := []string{"openw " + at, "unlink " + at, "rename " + u.Path(".bourn") + " " + u.Path("b"), "rename " + at + " " + at + "2",
			"link " + at + " " + u.Path("c"), "symlink /etc/passwd " + at}
		for _, flags := range [][]string{nil, {"--proposal", "none"}} {
			got := try(t, u, flags, ops...)
			got.refused(t, "openw "+at, "unlink "+at, "rename "+u.Path(".bourn")+" "+u.Path("b"), "rename "+at+" "+at+"2", "symlink /etc/passwd "+at)
		}
		if got := u.Read(at); got != before {
			t.Errorf("the proposal became %q", got)
		}
		if r := u.Sh("bourn accept", "--read", runtest.Binary(t)); r.Status != 3 || !strings.Contains(r.Err, "not possible inside a seal") {
			t.Errorf("accept inside: status %d, %s", r.Status, r.Err)
		}

		fresh := *u
		fresh.Work = u.Mkdir(filepath.Join(u.Dir, "fresh"))
		r := fresh.Bourn("run", "--", "sh", "-c", "mkdir .bourn; echo 'version: 1' >.bourn/profile.yaml")
		if !strings.Contains(r.Err, ".bourn/profile.yaml was created during the run") {
			t.Errorf("it is not said that a run made a proposal: %s", r.Err)
		}
	})
}

// A symlink on the way to a proposal stops the start.
func TestSymlinkedProposal(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("real/profile.yaml", "version: 1\n")
		for _, link := range [][2]string{{"real", ".bourn"}, {"../real/profile.yaml", "sub/.bourn/profile.yaml"}} {
			in := *u
			if in.Work = u.Path("."); strings.HasPrefix(link[1], "sub/") {
				in.Work = u.Mkdir("sub")
				u.Mkdir("sub/.bourn")
			}
			u.Symlink(link[0], link[1])
			r := in.Bourn("run", "--", "true")
			if r.Status != 125 || !strings.Contains(r.Err, "is a symlink") {
				t.Errorf("%v: status %d, %s", link, r.Status, r.Err)
			}
			if r := in.Bourn("run", "--proposal", "none", "--", "true"); r.Status != 0 {
				t.Errorf("%v, left out: status %d, %s", link, r.Status, r.Err)
			}
		}
	})
}
