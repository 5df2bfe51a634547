package skill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"bourn"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"---\nname: a\ndescription: Do it.\n---\nText.\n":         "Do it.",
		"---\ndescription: >\n  Do it\n  well.\n---\n":            "Do it well.",
		"---\r\ndescription: Do it.\r\nother: 1\r\n---\r\nText\n": "Do it.",
		"---\ndescription: \"a \\e[2J b\"\n---\n":                 "a \x1b[2J b",
	} {
		s, err := Parse("a", []byte(text))
		if err != nil || s.Description != want || s.Name != "a" || s.Text != text {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
	for text, want := range map[string]string{
		"":                                    "does not begin with a front matter",
		"Text.\n":                             "does not begin with a front matter",
		"---\ndescription: x\n":               "does not begin with a front matter",
		"---\n---\n":                          "has no description",
		"---\nname: a\n---\n":                 "has no description",
		"---\ndescription: \"\\n\"\n---\n":    "has no description",
		"---\nname: b\ndescription: x\n---\n": `is of another skill, "b"`,
		"---\n[\n---\n":                       "cannot be read",
		"---\ndescription: {a: b}\n---\n":     "cannot be read",
		"---\n- a\n---\n":                     "cannot be read",
	} {
		if _, err := Parse("a", []byte(text)); !errors.Is(err, bourn.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// What ships can be chosen by name, says when to use it, and names no tool that there is not.
func TestBuiltIn(t *testing.T) {
	var names []string
	for _, s := range BuiltIn() {
		names = append(names, s.Name)
		if _, err := bourn.ParseAgentName(s.Name); err != nil {
			t.Errorf("a profile cannot name the skill %s: %v", s.Name, err)
		}
		if !strings.Contains(s.Text, "\nname: "+s.Name+"\n") || !strings.Contains(s.Description, "Use it ") || len(s.Description) > maxDescription {
			t.Errorf("%s is described as %q", s.Name, s.Description)
		}
		if !IsBuiltIn(s.Name) {
			t.Errorf("%s is not known", s.Name)
		}
		for n, line := range strings.Split(s.Text, "\n") {
			if len(line) > 110 && !strings.HasPrefix(line, "description: ") || strings.TrimRight(line, " \t") != line || bourn.Printable(line) != line {
				t.Errorf("%s:%d: %q", s.Name, n+1, line)
			}
		}
		for _, found := range regexp.MustCompile("`((?:files|git|shell)_[a-z]+)`").FindAllStringSubmatch(s.Text, -1) {
			if _, err := os.Stat(filepath.Join("..", "tool", found[1]+".go")); err != nil {
				t.Errorf("%s names the tool %s: %v", s.Name, found[1], err)
			}
		}
	}
	if want := []string{"boundaries", "delegate", "patch", "review", "verify"}; !slices.Equal(names, want) {
		t.Errorf("built in are %v, want %v", names, want)
	}
	for _, name := range []string{"", "nope", ".", "..", "../builtin", "review/SKILL.md"} {
		if IsBuiltIn(name) {
			t.Errorf("%q is one", name)
		}
	}
}

func write(t *testing.T, at, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, at string) string {
	t.Helper()
	data, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Whatever stood there, what is laid down is what shipped, and nothing else is touched.
func TestLay(t *testing.T) {
	home := t.TempDir()
	at := filepath.Join(home, "skills/review", FileName)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	write(t, elsewhere, "kept")
	want := BuiltIn()[slices.IndexFunc(BuiltIn(), func(s Skill) bool { return s.Name == "review" })].Text
	for name, before := range map[string]func() error{
		"nothing":            func() error { return nil },
		"the same":           func() error { return nil },
		"another text":       func() error { return os.WriteFile(at, []byte("x"), 0o600) },
		"more of it":         func() error { return os.WriteFile(at, []byte(want+"x"), 0o644) },
		"a mode":             func() error { return os.Chmod(at, 0o666) },
		"a symlink":          func() error { return errors.Join(os.RemoveAll(at), os.Symlink(elsewhere, at)) },
		"a symlink's target": func() error { return errors.Join(os.RemoveAll(at), os.Symlink("../../x", at)) },
		"closed directories": func() error { return os.Chmod(filepath.Dir(at), 0o700) },
	} {
		if err := Lay(home, "review"); err != nil {
			t.Fatal(err)
		}
		if err := before(); err != nil {
			t.Fatal(err)
		}
		if err := Lay(home, "review"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		info, err := os.Lstat(at)
		if err != nil || info.Mode() != 0o644 || text(t, at) != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		dir, err := os.Lstat(filepath.Dir(at))
		if err != nil || dir.Mode().Perm() != 0o755 {
			t.Errorf("%s: its directory is %v, %v", name, dir, err)
		}
	}
	before, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := Lay(home, "review"); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(at); err != nil || !os.SameFile(before, after) {
		t.Errorf("what is right is written anew (%v)", err)
	}
	entries, err := os.ReadDir(filepath.Join(home, "skills"))
	if err != nil || len(entries) != 1 || text(t, elsewhere) != "kept" {
		t.Errorf("left: %v, %v; the other file %q", entries, err, text(t, elsewhere))
	}
}

// What is not Bourn's to replace is an error, and nothing outside is written.
func TestLayRefuses(t *testing.T) {
	other := t.TempDir()
	for name, before := range map[string]func(home string) error{
		"skills is a symlink": func(home string) error { return os.Symlink(other, filepath.Join(home, "skills")) },
		"skills is a file":    func(home string) error { return os.WriteFile(filepath.Join(home, "skills"), nil, 0o600) },
		"the skill is a symlink": func(home string) error {
			return errors.Join(os.Mkdir(filepath.Join(home, "skills"), 0o700), os.Symlink(other, filepath.Join(home, "skills/review")))
		},
		"the text is a directory": func(home string) error {
			return os.MkdirAll(filepath.Join(home, "skills/review", FileName, "x"), 0o700)
		},
		"there is no $BOURN_HOME yet": os.Remove,
	} {
		home := t.TempDir()
		if err := before(home); err != nil {
			t.Fatal(err)
		}
		if err := Lay(home, "review"); !errors.Is(err, bourn.ErrUnavailable) || bourn.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(other); err != nil || len(entries) != 0 {
		t.Errorf("written outside: %v, %v", entries, err)
	}
	if err := Lay(t.TempDir(), "nope"); !errors.Is(err, bourn.ErrNotFound) {
		t.Errorf("a skill that does not ship: %v", err)
	}
}

// agentDir makes the context of agent mur, with an own skill and one that leads elsewhere.
func agentDir(t *testing.T) (home, context string) {
	home = t.TempDir()
	context = filepath.Join(home, "agents/mur/context")
	write(t, filepath.Join(context, instructionsName), "Be brief.\r\n\tAlways \x1b[2J.\n")
	write(t, filepath.Join(context, "skills/own", FileName), "---\ndescription: \"My own\\e way.\"\n---\n")
	write(t, filepath.Join(context, "skills/review", FileName), "---\ndescription: Better.\n---\n")
	write(t, filepath.Join(context, "skills/broken", FileName), "nothing\n")
	write(t, filepath.Join(home, "secret", FileName), "---\ndescription: SECRET\n---\n")
	if err := errors.Join(os.Symlink("../../../../secret", filepath.Join(context, "skills/led")),
		os.Mkdir(filepath.Join(context, "skills/inside"), 0o700), os.Symlink("../own/"+FileName, filepath.Join(context, "skills/inside", FileName))); err != nil {
		t.Fatal(err)
	}
	return home, context
}

func TestFind(t *testing.T) {
	home, context := agentDir(t)
	for name, want := range map[string]string{
		"own": context + "/skills/own", "review": context + "/skills/review", "broken": context + "/skills/broken",
		"led": context + "/skills/led", "verify": home + "/skills/verify", "nope": context + "/skills/nope",
	} {
		dir, builtIn := Find(home, "mur", name)
		if dir != want || builtIn != (name == "verify") {
			t.Errorf("%s: %s, %v", name, dir, builtIn)
		}
		if part, is := Classify(home, "mur", dir); part != OfSkill || is != builtIn {
			t.Errorf("%s is %s, %v", dir, part, is)
		}
	}
	for at, want := range map[string]Part{
		context + "/instructions.md": Instructions, context: Root, context + "/skills": Root, context + "/skills/own/x": Root,
		context + "/artifacts": Root, home + "/agents/other/context/skills/own": Root, home + "/agents/other/context/instructions.md": Root, "/srv": Root,
	} {
		if part, _ := Classify(home, "mur", at); part != want {
			t.Errorf("%s is %s, want %s", at, part, want)
		}
	}
}

func TestLoad(t *testing.T) {
	home, context := agentDir(t)
	if err := Lay(home, "verify"); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		context + "/skills/own":    "",
		home + "/skills/verify":    "",
		context + "/skills/broken": "front matter",
		context + "/skills/led":    "led is a symlink, and none is followed here",
		context + "/skills/inside": "SKILL.md is a symlink",
		context + "/skills/nope":   "no SKILL.md",
		home + "/secret":           "is no skill of the agent's",
		context + "/../../x":       "escapes",
	} {
		_, err := Load(home, "mur", at)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", at, err, want)
		}
	}
	// Also where a directory above is one.
	if err := errors.Join(os.Rename(context, filepath.Join(home, "moved")), os.Symlink(filepath.Join(home, "moved"), context)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(home, "mur", context+"/skills/own"); err == nil || !strings.Contains(err.Error(), "context is a symlink") {
		t.Errorf("a context that is a symlink: %v", err)
	}
	if _, _, err := LoadInstructions(home, "mur"); err == nil || !strings.Contains(err.Error(), "context is a symlink") {
		t.Errorf("its instructions: %v", err)
	}
}

func TestTell(t *testing.T) {
	home, context := agentDir(t)
	instructions := context + "/instructions.md"
	want := "The person who runs you wrote these instructions for you:\n\nBe brief.\n\tAlways \\x1b[2J.\n\n" +
		"Skills that you are offered. Read the file of one when what it says fits your task:\n" +
		"- own: My own\\x1b way. (" + context + "/skills/own/SKILL.md)\n"
	if got := Tell(home, "mur", []string{instructions, context + "/skills/own", context + "/skills/led", context + "/skills/gone", "/srv/project"}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, shown := range [][]string{nil, {"/srv"}, {context + "/skills/led"}, {home + "/agents/other/context/instructions.md"}} {
		if got := Tell(home, "mur", shown); got != "" {
			t.Errorf("%v: %q", shown, got)
		}
	}
	write(t, instructions, "x"+strings.Repeat("ä", MaxInstructions))
	got := Tell(home, "mur", []string{instructions})
	if !utf8.ValidString(got) || len(got) > MaxInstructions+300 || len(got) < MaxInstructions-300 || !strings.Contains(got, "… (the rest is in "+instructions+")") || strings.Contains(got, `\x`) {
		t.Errorf("long instructions: %d bytes, ending in %q", len(got), got[len(got)-100:])
	}
	write(t, filepath.Join(context, "skills/own", FileName), "---\ndescription: "+strings.Repeat("x", 5000)+"\n---\n")
	if got := Tell(home, "mur", []string{context + "/skills/own"}); len(got) > maxDescription+300 {
		t.Errorf("a long description: %d bytes", len(got))
	}
}

func TestShown(t *testing.T) {
	home, context := agentDir(t)
	item := func(kind, from, fate, target string) string {
		return fmt.Sprintf(`{"kind":%q,"target":%q,"from":%q,"fate":%q}`, kind, target, from, fate)
	}
	write(t, filepath.Join(home, "agents/mur/runs/r1.json"), `{"version":1,"items":[`+strings.Join([]string{
		item("read", "profile", "enforced", "/a"), item("read", "context", "enforced", context+"/skills/own"),
		item("read", "context", "dropped", context+"/skills/led"), item("write", "context", "enforced", "/b"),
		item("read", "context", "recorded", "/c"), item("read", "context", "enforced", "/d")}, ",")+"]}\n")
	got, err := Shown(home, "mur", "r1")
	if want := []string{context + "/skills/own", "/d"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := Shown(home, "", "r1"); got != nil || err != nil {
		t.Errorf("a run without an agent: %v, %v", got, err)
	}
	if _, err := Shown(home, "mur", "r2"); err == nil {
		t.Error("a run without a record is one that shows something")
	}
}
