package run

import (
	"os/exec"
	"testing"

	"bourn"
)

func TestShellQuote(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	for _, s := range []string{
		"", "/srv/app", "a b", "it's", `back\slash`, "$HOME", "`id`", "~/x", "new\nline", "\x1b[31m", "it's\n\\", "b\xff", "caf\u00e9", "x\u202ey",
	} {
		quoted := shellQuote(s)
		if bourn.Printable(quoted) != quoted {
			t.Errorf("shellQuote(%q) = %q, which is not printed as it is", s, quoted)
		}
		if s == "~/x" {
			continue // the shell expands it, and is meant to
		}
		out, err := exec.Command(bash, "-c", "printf %s "+quoted).Output()
		if err != nil || string(out) != s {
			t.Errorf("shellQuote(%q) = %q, which the shell reads as %q (%v)", s, quoted, out, err)
		}
	}
}
