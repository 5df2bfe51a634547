package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"bourn/internal/profile"
	"bourn/internal/run/runtest"
)

// maxHeader is what a run may say before its command starts, and maxAfter what it may say
// when the command has ended: ten notes, ten refusals with a hint each, how many more there
// are of either, and that the command has failed.
const maxHeader, maxAfter = 3, 33

// TestWhatARunSays counts the lines of runs that have much to say.
func TestWhatARunSays(t *testing.T) {
	seals := canSeal(t)
	t.Run("seals", func(t *testing.T) { runtest.Need(t, "userns", seals) })
	if !seals {
		return
	}
	var presets, drops, denies, hosts []string
	for _, p := range profile.Presets() {
		presets = append(presets, "--preset", p.Name)
	}
	for i := range 20 {
		drops = append(drops, "--read", fmt.Sprintf("/nowhere/%d", i), "--env", fmt.Sprintf("NOT_SET_%d", i))
		denies = append(denies, "--deny", fmt.Sprintf("later-%d", i))
		hosts = append(hosts, "--host", fmt.Sprintf("h%d.example.com", i))
	}
	saved := append(append(append([]string{}, presets...), denies...), hosts...)
	all := append(append([]string{}, drops...), saved...)
	for name, tt := range map[string]struct {
		flags  []string
		script string
		more   bool // that there is more is said before the command starts
	}{
		"nothing":  {nil, "", false},
		"presets":  {presets, "", true},
		"drops":    {drops, "", false},
		"all":      {all, "", true},
		"and save": {append([]string{"--save", "much"}, saved...), "", true},
		"changes": {nil, "mkdir -p .vscode .git/hooks .claude; touch .envrc .mcp.json .vscode/tasks.json .vscode/settings.json " +
			".claude/settings.json .claude/settings.local.json .pre-commit-config.yaml .gitmodules .idea; exit 1", false},
		"refusals": {[]string{"--watch"}, "for i in $(seq 100); do cat /var/tmp/*/away/$i /etc/shadow " + "$AWAY/$i; done 2>/dev/null; true", false},
	} {
		t.Run(name, func(t *testing.T) {
			u := runtest.NewUser(t, os.Getuid())
			for i := range 101 {
				u.Write(fmt.Sprintf("%s/away/%d", u.Dir, i), "")
			}
			script := strings.ReplaceAll(tt.script, "$AWAY", u.Dir+"/away")
			r := u.Bourn(append(append([]string{"run"}, tt.flags...), "--", "sh", "-c", "echo STARTED >&2; "+script)...)
			before, after, started := strings.Cut(r.Err, "STARTED\n")
			if !started {
				t.Fatalf("it is not started: %s", r.Err)
			}
			if n := strings.Count(before, "\n"); n < 1 || n > maxHeader {
				t.Errorf("%d lines before the command:\n%s", n, before)
			}
			if got := strings.Contains(before, " more to know (bourn plan shows it)\n"); got != tt.more {
				t.Errorf("that there is more is said: %t\n%s", got, before)
			}
			if n := strings.Count(after, "\n"); n > maxAfter || tt.script != "" && n == 0 {
				t.Errorf("%d lines after the command:\n%s", n, after)
			}
		})
	}
}
