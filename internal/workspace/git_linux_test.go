package workspace

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// planted is a repository of somebody who wants git to execute something, whoever asks it for
// the status: every way leaves a file in canary.
func planted(t *testing.T, dir, canary string) {
	t.Helper()
	run := func(name string) string { return "touch " + canary + "/" + name + "; cat" }
	gitIn(t, dir, "init", "-q", "-b", "main")
	put(t, dir+"/a.txt", "one\n")
	put(t, dir+"/b.bin", "\x00one\n")
	put(t, dir+"/sub/c.txt", "c\n")
	put(t, dir+"/.gitattributes", "*.txt filter=evil diff=evil\n*.bin filter=e=v.il diff=evil\nd.* filter=proc\n")
	put(t, dir+"/d.x", "d\n")
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-q", "-m", "x")
	config := func(key, value string) { gitIn(t, dir, "config", key, value) }
	config("filter.evil.clean", run("clean"))
	config("filter.evil.smudge", run("smudge"))
	config("filter.evil.required", "true")
	config("filter.e=v.il.clean", run("equals"))
	config("filter.proc.process", run("process"))
	config("filter.proc.required", "true")
	config("diff.evil.textconv", run("textconv"))
	config("diff.evil.command", run("command"))
	config("diff.external", run("external"))
	config("diff.submodule", "diff")
	config("core.fsmonitor", run("fsmonitor"))
	config("core.hooksPath", dir+"/hooks")
	config("core.pager", run("pager"))
	config("pager.status", "true")
	config("pager.diff", run("pager2"))
	config("core.editor", run("editor"))
	config("core.sshCommand", run("ssh"))
	config("core.askPass", run("askpass"))
	config("credential.helper", "!"+run("credential"))
	config("alias.status", "!"+run("alias"))
	config("alias.diff", "!"+run("alias"))
	config("status.submoduleSummary", "true")
	config("interactive.diffFilter", run("interactive"))
	config("protocol.ext.allow", "always")
	for _, hook := range []string{"post-index-change", "fsmonitor-watchman", "post-checkout", "pre-auto-gc"} {
		for _, at := range []string{dir + "/hooks/", dir + "/.git/hooks/"} {
			put(t, at+hook, "#!/bin/sh\ntouch "+canary+"/hook-"+hook+"\n")
			if err := os.Chmod(at+hook, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(t, dir+"/a.txt", "two\n")
	put(t, dir+"/b.bin", "\x00two\n")
	put(t, dir+"/d.x", "e\n")
	put(t, dir+"/new.txt", "new\n")
}

func TestGitExecutesNothing(t *testing.T) {
	dir, canary := tempDir(t), tempDir(t)
	planted(t, dir, canary)
	// Seen red: git by itself does execute what was planted.
	cmd := exec.Command("git", "status")
	cmd.Dir = dir
	_ = cmd.Run()
	if entries, _ := os.ReadDir(canary); len(entries) == 0 {
		t.Fatal("nothing was planted")
	} else {
		for _, e := range entries {
			t.Logf("git status executes %s", e.Name())
			_ = os.Remove(canary + "/" + e.Name())
		}
	}
	// What has been looked at once is no longer looked at: make it look changed again.
	for _, f := range []string{"a.txt", "b.bin", "d.x", "sub/c.txt"} {
		put(t, dir+"/"+f, "three "+f)
	}
	// Variables of git's that the actor has, or is given, do not count.
	o := newOwnerOf(t, &Actor{Cwd: dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "GIT_DIR=/nonexistent", "GIT_EXTERNAL_DIFF=touch " + canary + "/variable", "GIT_CONFIG_PARAMETERS='core.fsmonitor'='touch " + canary + "/parameters'"}})
	for command, want := range map[string]string{
		"status":        "1 .M N... 100644 100644 100644",
		"diff":          "+three a.txt",
		"diff --staged": "",
	} {
		for _, at := range []string{"", "sub"} {
			var r ExecResult
			o.must(Request{Verb: Git, Path: at, Command: command, Env: []string{"GIT_DIR=/nonexistent"}}, &r)
			if r.Status != 0 || at == "" && !bytes.Contains(r.Stdout, []byte(want)) || len(r.Stderr) > 0 && !bytes.HasPrefix(r.Stderr, []byte("warning:")) {
				t.Errorf("%s in %q: %+v\n%s%s", command, at, r, r.Stdout, r.Stderr)
			}
		}
	}
	entries, err := os.ReadDir(canary)
	for _, e := range entries {
		t.Errorf("executed: %s", e.Name())
	}
	if err != nil {
		t.Error(err)
	}
}

// A clone without its blobs would fetch them, by what its configuration says.
func TestGitFetchesNothing(t *testing.T) {
	dir, canary := tempDir(t), tempDir(t)
	gitIn(t, dir, "init", "-q", "from")
	put(t, dir+"/from/a", "one\n")
	gitIn(t, dir+"/from", "add", "-A")
	gitIn(t, dir+"/from", "commit", "-q", "-m", "x")
	gitIn(t, dir+"/from", "config", "uploadpack.allowFilter", "true")
	gitIn(t, dir+"/from", "config", "uploadpack.allowAnySHA1InWant", "true")
	gitIn(t, dir, "-c", "protocol.file.allow=always", "clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+dir+"/from", "to")
	gitIn(t, dir+"/to", "read-tree", "HEAD")
	put(t, dir+"/to/a", "two\n")
	gitIn(t, dir+"/to", "config", "remote.origin.uploadpack", "touch "+canary+"/uploadpack; git-upload-pack")
	o := newOwner(t, dir)
	var r ExecResult
	o.must(Request{Verb: Git, Path: "to", Command: "diff"}, &r)
	if entries, _ := os.ReadDir(canary); len(entries) > 0 || r.Status == 0 {
		t.Errorf("%v: %+v %s", entries, r, r.Stdout)
	}
	gitIn(t, dir+"/to", "config", "remote.origin.url", "ext::sh -c touch% "+canary+"/ext")
	gitIn(t, dir+"/to", "config", "protocol.ext.allow", "always")
	o.must(Request{Verb: Git, Path: "to", Command: "diff"}, &r)
	if entries, _ := os.ReadDir(canary); len(entries) > 0 {
		t.Errorf("%v: %+v", entries, r)
	}
	cmd := exec.Command("git", "diff")
	cmd.Dir = dir + "/to"
	_ = cmd.Run()
	if entries, _ := os.ReadDir(canary); len(entries) == 0 {
		t.Error("nothing was planted")
	}
}

// A submodule's own configuration executes nothing either.
func TestGitSubmodule(t *testing.T) {
	dir, canary := tempDir(t), tempDir(t)
	gitIn(t, dir, "init", "-q", "sub")
	put(t, dir+"/sub/a", "one\n")
	gitIn(t, dir+"/sub", "add", "-A")
	gitIn(t, dir+"/sub", "commit", "-q", "-m", "x")
	gitIn(t, dir, "init", "-q", "top")
	gitIn(t, dir+"/top", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", dir+"/sub", "sub")
	gitIn(t, dir+"/top", "commit", "-q", "-m", "x")
	put(t, dir+"/top/sub/a", "two\n")
	gitIn(t, dir+"/top/sub", "commit", "-q", "-am", "y")
	put(t, dir+"/top/sub/a", "three\n")
	put(t, dir+"/top/sub/.gitattributes", "* filter=evil diff=evil\n")
	for key, value := range map[string]string{"filter.evil.clean": "clean", "diff.evil.textconv": "textconv", "diff.external": "external", "core.fsmonitor": "fsmonitor"} {
		gitIn(t, dir+"/top/sub", "config", key, "touch "+canary+"/"+value+"; cat")
	}
	gitIn(t, dir+"/top", "config", "diff.submodule", "diff")
	gitIn(t, dir+"/top", "config", "diff.ignoreSubmodules", "none")
	gitIn(t, dir+"/top", "config", "status.submoduleSummary", "true")
	o := newOwner(t, dir)
	for _, command := range []string{"status", "diff"} {
		var r ExecResult
		o.must(Request{Verb: Git, Path: "top", Command: command}, &r)
		if entries, _ := os.ReadDir(canary); len(entries) > 0 || r.Status != 0 || !bytes.Contains(r.Stdout, []byte("sub")) {
			t.Errorf("%s: %v: %+v %s %s", command, entries, r, r.Stdout, r.Stderr)
		}
	}
}

func TestGitRefuses(t *testing.T) {
	dir := tempDir(t)
	gitIn(t, dir, "init", "-q", "r")
	put(t, dir+"/r/secret", "one\n")
	put(t, dir+"/r/open", "one\n")
	put(t, dir+"/r/[odd]*", "one\n")
	put(t, dir+"/plain/x", "")
	gitIn(t, dir+"/r", "add", "-A")
	gitIn(t, dir+"/r", "commit", "-q", "-m", "x")
	for _, f := range []string{"secret", "open", "[odd]*"} {
		put(t, dir+"/r/"+f, "two\n")
	}
	put(t, dir+"/r/d/x", "new\n")
	o := newOwner(t, dir, rule("s", "exact", dir+"/r/secret", "read"), rule("o", "exact", dir+"/r/[odd]*", "read"))
	for _, command := range []string{"--output=/tmp/x", "diff --output=/tmp/x", "log", "status -s", "", "-c core.pager=x diff"} {
		o.refused(Request{Verb: Git, Path: "r", Command: command}, "invalid_git")
	}
	o.refused(Request{Verb: Git, Path: "plain", Command: "status"}, "invalid_git")
	o.refused(Request{Verb: Git, Path: "r/open", Command: "status"}, "not_found")
	o.refused(Request{Verb: Git, Path: "--output=x", Command: "status"}, "not_found")
	for _, command := range []string{"status", "diff"} {
		var r ExecResult
		o.must(Request{Verb: Git, Path: "r", Command: command}, &r)
		if r.Denied != 2 || bytes.Contains(r.Stdout, []byte("secret")) || bytes.Contains(r.Stdout, []byte("odd")) || !bytes.Contains(r.Stdout, []byte("open")) {
			t.Errorf("%s: %+v\n%s", command, r, r.Stdout)
		}
	}
	// A work tree elsewhere.
	put(t, dir+"/other/secret", "x")
	gitIn(t, dir+"/r", "config", "core.worktree", dir+"/other")
	err := o.ask(Request{Verb: Git, Path: "r", Command: "diff"}, nil)
	if reasonOf(err) != "invalid_git" || !strings.Contains(err.Error(), "elsewhere") && !strings.Contains(err.Error(), "work tree") {
		t.Error(err)
	}
}
