package run_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// tool puts a program of that name into a directory of its own in front of PATH, outside
// every grant.
func tool(u *runtest.User, name, script string) {
	dir := u.Mkdir(filepath.Join(u.Dir, "tools"))
	at := u.Write(filepath.Join(dir, name), "#!/bin/sh\n"+script)
	_ = os.Chmod(at, 0o755)
	for i, kv := range u.Env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			u.Env[i] = "PATH=" + dir + ":" + path
			return
		}
	}
}

func TestPresetOfCommand(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(filepath.Join(u.Home, ".ssh/id_ed25519"), "key\n")
		u.Env = append(u.Env, "ANTHROPIC_API_KEY=k", "SECRET=s", "ANTHROPIC_BASE_URL=https://models.example.net:8443/v1")
		tool(u, "claude", `cat ~/.ssh/id_ed25519; echo state >> ~/.claude/history; cat ~/.claude.json; echo "$ANTHROPIC_API_KEY-$SECRET-$DISABLE_AUTOUPDATER"`)
		want := func(r runtest.Result, out string, says ...string) {
			t.Helper()
			if r.Out != out || r.Status != 0 {
				t.Errorf("status %d, printed %q, said\n%s\nwant %q", r.Status, r.Out, r.Err, out)
			}
			for _, s := range says {
				if !strings.Contains(r.Err, s) {
					t.Errorf("it does not say %q:\n%s", s, r.Err)
				}
			}
		}

		// A plan makes nothing.
		plan := u.Bourn("plan", "--", "claude")
		if _, err := os.Lstat(filepath.Join(u.Home, ".claude")); err == nil {
			t.Error("a plan made ~/.claude")
		}
		for _, s := range []string{"api.anthropic.com:443", "models.example.net:8443", "ANTHROPIC_API_KEY"} {
			if !strings.Contains(plan.Out, s) {
				t.Errorf("the plan lacks %s:\n%s", s, plan.Out)
			}
		}

		want(u.Bourn("run", "--", "claude"), "{}\nk--1\n", "preset claude-code is applied", "No such file or directory")
		if got := u.Read(filepath.Join(u.Home, ".claude/history")); got != "state\n" {
			t.Errorf("what the tool kept is %q", got)
		}
		r := u.Bourn("run", "--preset", "none", "--", "claude")
		if strings.Contains(r.Err, "preset") || !strings.Contains(r.Err, "no network") {
			t.Errorf("--preset none says\n%s", r.Err)
		}
		r = u.Bourn("run", "--preset", "no-such", "--", "true")
		if r.Status != 125 || !strings.Contains(r.Err, `no preset "no-such"`) || !strings.Contains(r.Err, "claude-code") {
			t.Errorf("status %d:\n%s", r.Status, r.Err)
		}

		// What the run can write selects nothing, by whatever name.
		script := u.Write("claude", "#!/bin/sh\ncat ~/.claude.json\n")
		_ = os.Chmod(script, 0o755)
		if r := u.Bourn("run", "--", "./claude"); strings.Contains(r.Err, "preset") || r.Out != "" {
			t.Errorf("a program of the project selected a preset: printed %q, said\n%s", r.Out, r.Err)
		}
		// Nor does a file of the project that is named like a preset's program elsewhere.
		if r := u.Bourn("run", "--", "sh", "-c", "cat ~/.claude.json"); r.Out != "" {
			t.Errorf("a shell read %q", r.Out)
		}
	})
}

func TestPresetOfProfile(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	u.Write(filepath.Join(u.Home, ".codex/auth.json"), "login\n")
	if r := u.Bourn("agent", "create", "coder", "--write", u.Work); r.Status != 0 {
		t.Fatal(r.Err)
	}
	profile := filepath.Join(u.Home, ".bourn/agents/coder/profile.yaml")
	u.Write(profile, u.Read(profile)+"presets: [codex]\n")
	r := u.Bourn("run", "--agent", "coder", "--", "sh", "-c", "cat ~/.codex/auth.json; ls -A ~")
	if r.Out != "login\n.codex\n" || !strings.Contains(r.Err, "api.openai.com") {
		t.Errorf("printed %q, said\n%s", r.Out, r.Err)
	}
	list := u.Bourn("agent", "perm", "list-hosts", "coder")
	if !strings.Contains(list.Out, "api.openai.com:443") {
		t.Errorf("list-hosts prints\n%s", list.Out)
	}
	// A mode that the profile names stays.
	u.Write(profile, u.Read(profile)+"network: {mode: none}\n")
	if r := u.Bourn("run", "--agent", "coder", "--", "true"); !strings.Contains(r.Err, "no network") {
		t.Errorf("with mode none it says\n%s", r.Err)
	}
}

// Hosts of packages are read from the toolchain's own configuration, and not from what a
// run can write.
func TestPresetRegistries(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	tool(u, "go", "true\n")
	tool(u, "npm", "true\n")
	tool(u, "pip", "true\n")
	tool(u, "cargo", "true\n")
	u.Write(filepath.Join(u.Home, ".config/go/env"), "GOPROXY=https://goproxy.example.com|https://second.example.com:8443,direct\nGOSUMDB=sum.example.com\n")
	u.Write(filepath.Join(u.Home, ".npmrc"), "registry=https://npm.example.com/path/\n@team:registry = https://team.example.com\n")
	u.Write(filepath.Join(u.Home, ".config/pip/pip.conf"), "[global]\nindex-url = https://pip.example.com/simple\nextra-index-url=http://more.example.com/x\n")
	u.Write(filepath.Join(u.Home, ".cargo/config.toml"), "[registries.own]\nindex = \"sparse+https://crates.example.com/index/\"\n")
	u.Write(".npmrc", "registry=https://evil.example.com\n")
	for command, hosts := range map[string][]string{
		"go":    {"goproxy.example.com:443", "second.example.com:8443", "sum.example.com:443"},
		"npm":   {"npm.example.com:443", "team.example.com:443"},
		"pip":   {"pip.example.com:443", "more.example.com:80"},
		"cargo": {"crates.example.com:443"},
	} {
		r := u.Bourn("plan", "--", command)
		_, list, _ := strings.Cut(r.Out, "HOST\n")
		list, _, _ = strings.Cut(list, "\n\n")
		for _, h := range hosts {
			if !strings.Contains(list, h) {
				t.Errorf("%s: %s is not granted:\n%s", command, h, list)
			}
		}
		if n := strings.Count(list, "✓"); n != len(hosts) {
			t.Errorf("%s: %d hosts are granted, not %d:\n%s", command, n, len(hosts), list)
		}
	}
	// A configuration that an agent can write is not believed.
	if r := u.Bourn("agent", "create", "sly", "--write", filepath.Join(u.Home, ".config/go")); r.Status != 0 {
		t.Fatal(r.Err)
	}
	if r := u.Bourn("plan", "--", "go"); strings.Contains(r.Out, "goproxy.example.com") {
		t.Errorf("a configuration that an agent can write is believed:\n%s", r.Out)
	}
}

// A relative directory of PATH is the project's: what is found there, as the command will be,
// selects no preset.
func TestPresetOfRelativePath(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	for _, at := range []string{filepath.Join(u.Home, ".local/bin/claude"), "bin/claude", "claude"} {
		u.Write(at, "#!/bin/sh\necho ran $0\n")
		if err := os.Chmod(u.Path(at), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	honest := filepath.Join(u.Home, ".local/bin") + ":/usr/bin:/bin"
	for _, path := range []string{honest, "bin:" + honest, ".:" + honest, ":" + honest, "./bin:" + honest} {
		in := *u
		in.Env = append(slices.Clone(u.Env), "PATH="+path)
		r := in.Bourn("run", "--", "claude")
		applied, ran := strings.Contains(r.Err, "preset claude-code is applied"), strings.Contains(r.Out, u.Home+"/.local")
		if r.Status != 0 || applied != (path == honest) || ran != applied {
			t.Errorf("PATH=%s: status %d, %q, %q", path, r.Status, r.Out, r.Err)
		}
	}
}
