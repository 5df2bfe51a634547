package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// said is what a client is told when it begins, by the answer, be it an event.
func said(t *testing.T, answer string) string {
	t.Helper()
	answer = answer[max(0, strings.Index(answer, "{")):]
	var a struct{ Result struct{ Instructions string } }
	if err := json.NewDecoder(strings.NewReader(answer)).Decode(&a); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return a.Result.Instructions
}

// offered makes agent mur, to whom instructions, a skill of its own and one of Bourn's are
// offered, besides what is denied or leads elsewhere. It returns mur's context.
func offered(t *testing.T, u *runtest.User) string {
	t.Helper()
	succeeds(t, u, "agent", "create", "mur", "--write", ".", "--", "sleep", "600")
	at := filepath.Join(u.Home, ".bourn/agents/mur/context")
	u.Write(filepath.Join(at, "instructions.md"), "Be brief.\n\tAnd \x1b[31mkind.\n")
	u.Write(filepath.Join(at, "skills/own/SKILL.md"), "---\nname: own\ndescription: Mine.\n---\nmine\n")
	u.Write(filepath.Join(at, "skills/closed/SKILL.md"), "---\ndescription: CLOSED\n---\n")
	u.Write("led/SKILL.md", "---\ndescription: LED\n---\n")
	u.Symlink(u.Path("led"), filepath.Join(at, "skills/led"))
	profile := filepath.Join(u.Home, ".bourn/agents/mur/profile.yaml")
	u.Write(profile, strings.Replace(u.Read(profile), "deny: []", "deny: ["+at+"/skills/closed]", 1)+"context: {instructions: true, skills: [review, own, closed, led]}\n")
	return at
}

// TestContextIsTold has clients of a run's tools told what the run shows of its agent's
// context, as it reads at that moment.
func TestContextIsTold(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		at := offered(t, u)
		c := toolServer(t, u, "run", "-q", "--agent", "mur", "--", "/run/bourn/bourn", "mcp", "serve")
		c.mustSay("mine", "files_read", `{"path":"`+at+`/skills/own/SKILL.md"}`)
		c.mustSay("# Review", "files_read", `{"path":"`+u.Home+`/.bourn/skills/review/SKILL.md"}`)
		c.mustSay("denied", "files_write", `{"path":"`+at+`/instructions.md","content":"x"}`)
		c.mustSay("", "shell_exec", `{"command":"echo x >`+at+`/skills/own/SKILL.md"}`)
		if got := u.Read(filepath.Join(at, "skills/own/SKILL.md")); !strings.Contains(got, "mine") {
			t.Errorf("the skill is %q", got)
		}
		c.leaves()
		outside := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		outside.leaves()
		want := "\n\nThe person who runs you wrote these instructions for you:\n\nBe brief.\n\tAnd \\x1b[31mkind.\n\n" +
			"Skills that you are offered. Read the file of one when what it says fits your task:\n"
		for what, got := range map[string]string{"inside": c.hello, "outside": outside.hello} {
			got = said(t, got)
			if !strings.HasPrefix(got, "These tools act in your workspace") || !strings.Contains(got, want) ||
				!strings.Contains(got, "- own: Mine. ("+at+"/skills/own/SKILL.md)\n") || !strings.Contains(got, "- review: Review a change") {
				t.Errorf("%s: %q", what, got)
			}
			if strings.Contains(got, "LED") || strings.Contains(got, "CLOSED") || strings.Contains(got, "\x1b") {
				t.Errorf("%s is told of what its run does not show: %q", what, got)
			}
		}
	})
}

// TestContextIsToldAnew: over HTTP, where clients share what serves them, each is told what
// the texts say when it begins.
func TestContextIsToldAnew(t *testing.T) {
	controlledHTTP(t, func(t *testing.T, u *runtest.User, base string) {
		at := offered(t, u)
		token := newToken(t, u, "mur")
		hi := func() string {
			t.Helper()
			_, text := post(t, t.Context(), base+"/mcp", token, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
			return said(t, text)
		}
		if got := hi(); !strings.Contains(got, "Be brief.") || !strings.Contains(got, "- own: Mine.") {
			t.Errorf("%q", got)
		}
		u.Write(filepath.Join(at, "instructions.md"), "Be kind.\n")
		if got := hi(); strings.Contains(got, "Be brief.") || !strings.Contains(got, "Be kind.") {
			t.Errorf("after an edit: %q", got)
		}
		// What is put in their place meanwhile is not followed.
		if err := os.RemoveAll(filepath.Join(at, "skills/own")); err != nil {
			t.Fatal(err)
		}
		u.Symlink(u.Path("led"), filepath.Join(at, "skills/own"))
		if got := hi(); strings.Contains(got, "LED") || !strings.Contains(got, "- review: ") {
			t.Errorf("through a symlink: %q", got)
		}
	})
}
