package run_test

import (
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

func TestDeniedFileIsClosed(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(".env", "SECRET")
		u.Write("src/main.c", "int main(void) { return 0; }\n")
		r := u.Sh("cat .env; echo made > new; cat src/main.c", "--deny", ".env")
		if strings.Contains(r.Out, "SECRET") || !strings.Contains(r.Err, "Permission denied") {
			t.Errorf("the denied file: out %q, err %q", r.Out, r.Err)
		}
		if !strings.Contains(r.Out, "int main") || u.Read("new") != "made\n" {
			t.Errorf("ordinary work: out %q, err %q", r.Out, r.Err)
		}
	})
}
