package run_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/policy"
	"bourn/internal/run/runtest"
	"bourn/internal/skill"
)

// offering makes agent mur with a context, and other with one of its own. It returns
// $BOURN_HOME and mur's context.
func offering(t *testing.T, u *runtest.User, context string) (home, at string) {
	t.Helper()
	home = filepath.Join(u.Home, ".bourn")
	if u.RunAs != "" {
		home = u.BournHome()
	}
	agent(t, u, home, "mur", "{write: ["+u.Mkdir("w")+"]}\ncontext: "+context)
	agent(t, u, home, "other", "{}\ncontext: {instructions: true}")
	at = filepath.Join(home, "agents/mur/context")
	u.Write(filepath.Join(at, "instructions.md"), "be brief\n")
	u.Write(filepath.Join(at, "skills/own/SKILL.md"), "---\ndescription: Mine.\n---\nmine\n")
	u.Write(filepath.Join(at, "skills/unchosen/SKILL.md"), "---\ndescription: Not chosen.\n---\n"+secret)
	u.Write(filepath.Join(at, "artifacts/a"), secret)
	u.Write(filepath.Join(home, "agents/other/context/instructions.md"), secret)
	u.Write(filepath.Join(home, "agents/other/context/skills/own/SKILL.md"), "---\ndescription: Other's.\n---\n"+secret)
	return home, at
}

// executable puts a program that can be run into a directory.
func executable(t *testing.T, u *runtest.User, at string) string {
	t.Helper()
	u.Write(at, "#!/bin/sh\necho it ran\n")
	if err := os.Chmod(u.Path(at), 0o755); err != nil {
		t.Fatal(err)
	}
	return u.Path(at)
}

// fateOf returns the fate of the item about a path, with its reason.
func fateOf(t *testing.T, u *runtest.User, target string) string {
	t.Helper()
	r := u.Bourn("plan", "--agent", "mur", "--json")
	var plan struct{ Items []policy.Item }
	if err := json.Unmarshal([]byte(r.Out), &plan); err != nil {
		t.Fatalf("%v: %s%s", err, r.Out, r.Err)
	}
	for _, it := range plan.Items {
		if it.Target == target && it.Kind == policy.KindRead {
			if it.From != "context" {
				t.Errorf("%s is from %s", target, it.From)
			}
			return strings.TrimSpace(string(it.Fate) + " " + it.Reason)
		}
	}
	return "no item"
}

// What is selected is read, by the paths that it has outside, and nothing else of $BOURN_HOME.
// Nothing of it is written or executed, and no other agent's is seen.
func TestContextIsReadAlone(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		docs := u.Mkdir("docs")
		u.Write("docs/a.md", "docs\n")
		home, at := offering(t, u, "{instructions: true, skills: [own, review], roots: ["+docs+"]}")
		own, review := filepath.Join(at, "skills/own"), filepath.Join(home, "skills/review")
		programs := []string{executable(t, u, "docs/prog"), executable(t, u, filepath.Join(own, "prog")), executable(t, u, "w/prog")}

		reads := []string{"read " + at + "/instructions.md", "read " + own + "/SKILL.md", "read " + review + "/SKILL.md", "read " + docs + "/a.md",
			"list " + own, "run " + programs[2]}
		var refused []string
		for _, dir := range []string{at, own, review, docs, home, home + "/skills", home + "/agents", home + "/agents/mur", at + "/skills"} {
			refused = append(refused, "create "+dir+"/x", "mkdir "+dir+"/x", "symlink /etc "+dir+"/x", "rmdir "+dir, "rename "+dir+" "+u.Path("w/moved"))
		}
		for _, file := range []string{at + "/instructions.md", own + "/SKILL.md", review + "/SKILL.md", docs + "/a.md"} {
			refused = append(refused, "openw "+file, "append "+file, "trunc "+file, "unlink "+file, "chmod "+file, "utime "+file,
				"rename "+u.Path("w/prog")+" "+file, "link "+file+" "+u.Path("w/linked"))
		}
		hidden := []string{"list " + at + "/skills/unchosen", "read " + at + "/skills/unchosen/SKILL.md", "read " + at + "/artifacts/a", "read " + home + "/agents/mur/profile.yaml",
			"read " + home + "/agents/mur/identity.key", "list " + home + "/agents/mur/home", "list " + home + "/agents/other", "read " + home + "/agents/other/context/instructions.md",
			"read " + home + "/agents/other/context/skills/own/SKILL.md", "hunt " + hunted, "list " + home + "/skills/verify"}
		execs := []string{"run " + programs[0], "run " + programs[1]}

		got := try(t, u, []string{"--agent", "mur"}, append(append(append(append([]string{}, reads...), refused...), hidden...), execs...)...)
		got.are(t, "ok*", reads...)
		got.refused(t, refused...)
		got.refused(t, hidden...)
		got.refused(t, execs...)
		got.noSecret(t)
		if said := got["run "+programs[2]]; !strings.Contains(said, "it ran") {
			t.Errorf("a program in the write grant: %q", said)
		}
		if u.RunAs == "" {
			outside(t, u, execs...).are(t, "ok*", execs...)
		}
		if r := u.Do("cat", docs+"/a.md"); r.Out != "docs\n" {
			t.Errorf("the host's file is %q", r.Out)
		}
	})
}

// What is no fit part of a context is dropped with its reason, and the run goes on.
func TestContextDropped(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		closed, inside := u.Mkdir("closed"), u.Mkdir("closed/docs")
		u.Write("closed/docs/s", secret)
		led := u.Symlink("closed", "led")
		home, at := offering(t, u, "{instructions: true, skills: [own, led, nope, bare, inner], roots: ["+
			strings.Join([]string{inside, led, u.Path("gone"), "~/.bourn", "~/.bourn/agents/other/context", "~/.bourn/agents/mur/home", "/proc", u.Home, "/home"}, ", ")+"]}")
		u.Symlink(filepath.Join(home, "agents/other/context/skills/own"), filepath.Join(at, "skills/led"))
		u.Mkdir(filepath.Join(at, "skills/bare"))
		u.Mkdir(filepath.Join(at, "skills/inner"))
		u.Symlink(filepath.Join(home, "agents/other/context/skills/own/SKILL.md"), filepath.Join(at, "skills/inner/SKILL.md"))
		profile := filepath.Join(home, "agents/mur/profile.yaml")
		u.Write(profile, strings.Replace(u.Read(profile), "filesystem: {", "filesystem: {deny: ["+closed+"], ", 1))

		for target, want := range map[string]string{
			at + "/instructions.md":        "enforced",
			at + "/skills/own":             "enforced",
			at + "/skills/led":             "dropped it is a symlink or lies behind one",
			at + "/skills/nope":            "dropped there is no skill of that name",
			at + "/skills/bare":            "dropped it has no SKILL.md",
			at + "/skills/inner":           "dropped skills/inner/SKILL.md is a symlink, and none is followed here",
			inside:                         "dropped denied by " + closed,
			led:                            "dropped now resolves to " + closed,
			u.Path("gone"):                 "dropped path does not exist on disk",
			home:                           "dropped protected: it holds the keys and profiles of agents",
			home + "/agents/other/context": "dropped protected: it holds the keys and profiles of agents",
			home + "/agents/mur/home":      "dropped protected: it holds the keys and profiles of agents",
			"/proc":                        "dropped protected: it shows other processes",
			u.Home:                         "dropped too broad",
		} {
			if got := fateOf(t, u, target); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s, want %s", target, got, want)
			}
		}
		ops := []string{"read " + inside + "/s", "list " + at + "/skills/led", "list " + at + "/skills/inner", "read " + at + "/skills/inner/SKILL.md",
			"read " + home + "/agents/other/context/instructions.md", "read " + led + "/docs/s", "hunt " + hunted}
		got := try(t, u, []string{"--agent", "mur"}, append(ops, "read "+at+"/skills/own/SKILL.md")...)
		got.refused(t, ops...)
		got.noSecret(t)
		got.are(t, "ok*", "read "+at+"/skills/own/SKILL.md")
	})
}

// A skill of Bourn's own is what the program holds, whatever stood in its place, and a plan
// writes nothing.
func TestBuiltInSkillIsLaidDown(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		home, _ := offering(t, u, "{skills: [review]}")
		dir := filepath.Join(home, "skills/review")
		if got := fateOf(t, u, dir); got != "enforced" {
			t.Errorf("before the first start: %s", got)
		}
		if _, err := os.Lstat(filepath.Dir(dir)); !os.IsNotExist(err) {
			t.Errorf("a plan has written: %v", err)
		}
		var want string
		for _, s := range skill.BuiltIn() {
			if s.Name == "review" {
				want = s.Text
			}
		}
		for _, before := range []string{"", "another text", want} {
			if before != "" {
				u.Write(filepath.Join(dir, "SKILL.md"), before)
			}
			if r := u.Sh("cat "+dir+"/SKILL.md", "--agent", "mur"); r.Status != 0 || r.Out != want {
				t.Errorf("after %.20q: status %d, out %q, err %q", before, r.Status, r.Out, r.Err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		u.Symlink(u.Mkdir("w/mine"), dir)
		if r := u.Sh("true", "--agent", "mur"); r.Status != 125 || !strings.Contains(r.Err, "review is a symlink") || !strings.Contains(r.Err, "hint: ") {
			t.Errorf("a symlink in its place: %+v", r)
		}
	})
}

// Whatever a run leaves in the agent's home, in the place of $BOURN_HOME, the next one is
// offered what the person chose, or does not start.
func TestContextIsNotTheAgents(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		home, at := offering(t, u, "{}")
		profile := filepath.Join(home, "agents/mur/profile.yaml")
		without, with := u.Read(profile), strings.Replace(u.Read(profile), "context: {}", "context: {instructions: true, skills: [own]}", 1)
		choose := func(text string) { u.Write(profile, text) }
		planted := `mkdir -p ~/.bourn/agents/mur/context/skills/evil ~/.bourn/agents/mur/context/skills/own && cd ~/.bourn/agents/mur/context &&
			echo evil >instructions.md && echo evil >skills/evil/SKILL.md && echo evil >skills/own/SKILL.md && echo evil >skills/own/more`
		if r := u.Sh(planted, "--agent", "mur"); r.Status != 0 {
			t.Fatalf("an agent without context has no home to plant in: %+v", r)
		}
		choose(with)
		look := "cat " + at + "/instructions.md " + at + "/skills/own/SKILL.md; find ~/.bourn -type f | sort"
		want := "be brief\n---\ndescription: Mine.\n---\nmine\n" + at + "/instructions.md\n" + at + "/skills/own/SKILL.md\n"
		if r := u.Sh(look, "--agent", "mur"); r.Status != 0 || r.Out != want {
			t.Errorf("what was planted is offered: %+v", r)
		}
		// From a run that has a context, too.
		if r := u.Sh(planted+"; mv ~/.bourn ~/gone", "--agent", "mur"); r.Status == 0 {
			t.Errorf("planted: %+v", r)
		}
		if r := u.Sh(look, "--agent", "mur"); r.Status != 0 || r.Out != want {
			t.Errorf("the next run: %+v", r)
		}
		for _, script := range []string{"ln -s w ~/.bourn", "echo x >~/.bourn", "mkdir -p ~/w && ln -s ~/w ~/.bourn"} {
			choose(without)
			if r := u.Sh("rm -rf ~/.bourn; "+script, "--agent", "mur"); r.Status != 0 {
				t.Fatalf("%s: %+v", script, r)
			}
			choose(with)
			r := u.Sh(look, "--agent", "mur")
			if r.Status != 125 || r.Out != "" || !strings.Contains(r.Err, "something stands in the place of a mount point") || !strings.Contains(r.Err, home+"/agents/mur/home/.bourn\nhint: ") {
				t.Errorf("after %s: %+v", script, r)
			}
			if err := os.RemoveAll(home + "/agents/mur/home/.bourn"); err != nil {
				t.Fatal(err)
			}
		}
		// While a run lives, its home holds one mount point for all of it, and none afterwards.
		l := serve(t, u, "--agent", "mur")
		if entries, err := os.ReadDir(home + "/agents/mur/home/.bourn"); err != nil || len(entries) != 0 {
			t.Errorf("in the agent's home: %v, %v", entries, err)
		}
		l.finish()
		if _, err := os.Lstat(home + "/agents/mur/home/.bourn"); !os.IsNotExist(err) {
			t.Errorf("a mount point is left in the agent's home: %v", err)
		}
		unchanged := u.Read(filepath.Join(at, "instructions.md")) + u.Read(filepath.Join(at, "skills/own/SKILL.md"))
		if unchanged != "be brief\n---\ndescription: Mine.\n---\nmine\n" {
			t.Errorf("the host's files are %q", unchanged)
		}
	})
}

// $BOURN_HOME in a write grant: what is selected is shown, and the rest stays closed.
func TestContextInsideGrant(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		home := u.Path("a/.bourn")
		u.Env = append(u.Env, "BOURN_HOME="+home)
		agent(t, u, home, "mur", "{write: ["+u.Work+"], deny: ["+home+"/secrets]}\ncontext: {instructions: true, skills: [review]}")
		at := filepath.Join(home, "agents/mur/context")
		u.Write(filepath.Join(at, "instructions.md"), "be brief\n")
		u.Write(filepath.Join(at, "skills/x/SKILL.md"), secret)
		before := tree(t, home)
		ops := []string{"read " + home + "/agents/mur/profile.yaml", "read " + home + "/agents/mur/identity.key", "list " + at + "/skills", "create " + home + "/x",
			"append " + at + "/instructions.md", "rename " + home + " " + u.Path("b"), "rename " + u.Path("a") + " " + u.Path("b"), "hunt " + hunted}
		good := []string{"read " + at + "/instructions.md", "read " + home + "/skills/review/SKILL.md", "create " + u.Path("made")}
		got := try(t, u, []string{"--agent", "mur"}, append(ops, good...)...)
		got.refused(t, ops...)
		got.are(t, "ok*", good...)
		got.noSecret(t)
		after := tree(t, home)
		for at := range after {
			if before[at] == "" {
				delete(after, at) // records, and what is laid down
			}
		}
		for at := range before {
			if at == home || at == home+"/agents/mur" {
				delete(before, at)
				delete(after, at)
			}
		}
		unchanged(t, "$BOURN_HOME", before, after)
	})
}

// Where the run becomes another user, what that one could not read is dropped, and says so.
func TestContextOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root starts runs of others")
	}
	u := runtest.NewAccount(t)
	_, at := offering(t, u, "{instructions: true, skills: [own, closed, file]}")
	own := filepath.Join(at, "skills/own")
	u.Write(filepath.Join(at, "skills/closed/SKILL.md"), "---\ndescription: x\n---\n")
	u.Write(filepath.Join(at, "skills/file/SKILL.md"), "---\ndescription: x\n---\n")
	for path, mode := range map[string]os.FileMode{at + "/instructions.md": 0o600, own + "/SKILL.md": 0o604, own: 0o705, at + "/skills/closed": 0o770, at + "/skills/file/SKILL.md": 0o640} {
		for _, err := range []error{os.Chown(path, 0, 0), os.Chmod(path, mode)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for target, want := range map[string]string{
		at + "/instructions.md": "dropped the user of run_as may not read it: " + at + "/instructions.md is closed to others",
		own:                     "enforced",
		at + "/skills/closed":   "dropped the user of run_as may not read it: " + at + "/skills/closed is closed to others",
		at + "/skills/file":     "dropped the user of run_as may not read it: " + at + "/skills/file/SKILL.md is closed to others",
	} {
		if got := fateOf(t, u, target); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	if r := u.Sh("cat "+own+"/SKILL.md && id -u", "--agent", "mur"); r.Status != 0 || !strings.HasSuffix(r.Out, "mine\n12345\n") {
		t.Errorf("%+v", r)
	}
	if err := os.Chown(at+"/instructions.md", u.UID, u.UID); err != nil {
		t.Fatal(err)
	}
	if got := fateOf(t, u, at+"/instructions.md"); got != "enforced" {
		t.Errorf("its own file: %s", got)
	}
}
