package bourn_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bourn/internal/posix"
	"bourn/internal/run/runtest"
)

// helperProgram is the setuid helper, beside the other programs. It is built there if it is missing.
func helperProgram(t *testing.T) string {
	t.Helper()
	at := filepath.Join(filepath.Dir(runtest.Binary(t)), "bourn-posix-helper")
	if _, err := os.Stat(at); err == nil {
		return at
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", at, "bourn/cmd/bourn-posix-helper")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the helper: %v\n%s", err, out)
	}
	return at
}

// noPackager is the status of scripts/deb.sh where nfpm cannot be had.
const noPackager = 69

// deb builds the package of a version and returns its path.
func deb(t *testing.T, version string) string {
	t.Helper()
	runtest.Daemon(t)
	bin, out := filepath.Dir(helperProgram(t)), t.TempDir()
	cmd := exec.Command("sh", "scripts/deb.sh", bin, out)
	cmd.Env = append(os.Environ(), "VERSION="+version)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	said, err := cmd.Output()
	if cmd.ProcessState.ExitCode() == noPackager {
		runtest.Need(t, "goproxy", false)
	}
	if err != nil {
		t.Fatalf("deb.sh: %v\n%s", err, complaint.String())
	}
	return strings.TrimSpace(string(said))
}

func dpkgDeb(t *testing.T, args ...string) string {
	t.Helper()
	_, err := exec.LookPath("dpkg-deb")
	runtest.Need(t, "dpkg", err == nil)
	out, err := exec.Command("dpkg-deb", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("dpkg-deb %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestDeb looks at what is in the package, with which owners and modes: everything is root's,
// and nothing is setuid before the group is there that it is for.
func TestDeb(t *testing.T) {
	at := deb(t, "v1.2.0-rc.1")
	if base := filepath.Base(at); !strings.HasPrefix(base, "bourn_1.2.0~rc.1_") {
		t.Errorf("it is %s", base)
	}
	modes := map[string]string{}
	for line := range strings.Lines(dpkgDeb(t, "--contents", at)) {
		// drwxr-xr-x root/root 0 2026-12-01 06:50 ./etc/
		f := strings.Fields(line)
		name := strings.TrimPrefix(f[5], ".")
		modes[name] = f[0]
		if f[1] != "root/root" {
			t.Errorf("%s is %s's", name, f[1])
		}
		if strings.ContainsAny(f[0][1:], "sSt") || f[0][5] == 'w' || f[0][8] == 'w' {
			t.Errorf("%s has the mode %s", name, f[0])
		}
	}
	for name, mode := range map[string]string{
		"/usr/bin/bourn":                                  "-rwxr-xr-x",
		"/usr/bin/bournd":                                 "-rwxr-xr-x",
		"/usr/libexec/bourn/bourn-posix-helper":           "-rwxr-x---",
		"/usr/lib/systemd/system/bourn.service":           "-rw-r--r--",
		"/usr/lib/systemd/system/bourn-db.service":        "-rw-r--r--",
		"/usr/lib/systemd/system/bourn-workspace.service": "-rw-r--r--",
		"/usr/lib/sysusers.d/bourn.conf":                  "-rw-r--r--",
		"/usr/lib/tmpfiles.d/bourn.conf":                  "-rw-r--r--",
		"/usr/share/bourn/apparmor":                       "-rw-r--r--",
		"/usr/share/man/man1/bourn-run.1.gz":              "-rw-r--r--",
		"/usr/share/man/man5/bourn-profile.5.gz":          "-rw-r--r--",
		"/usr/share/bash-completion/completions/bourn":    "-rw-r--r--",
		"/usr/share/zsh/vendor-completions/_bourn":        "-rw-r--r--",
		"/usr/share/fish/vendor_completions.d/bourn.fish": "-rw-r--r--",
		"/usr/share/doc/bourn/copyright":                  "-rw-r--r--",
		"/usr/share/doc/bourn/licences.gz":                "-rw-r--r--",
		"/usr/share/doc/bourn/shared-host.md":             "-rw-r--r--",
		"/etc/default/bourn":                              "-rw-r--r--",
	} {
		if modes[name] != mode {
			t.Errorf("%s has the mode %q, not %q", name, modes[name], mode)
		}
	}
	if got := dpkgDeb(t, "--field", at, "Version", "Depends", "Recommends"); !strings.Contains(got, "Version: 1.2.0~rc.1\n") || !strings.Contains(got, "postgresql-15") {
		t.Errorf("its fields are\n%s", got)
	}
	unpacked := filepath.Join(t.TempDir(), "e")
	dpkgDeb(t, "--control", at, unpacked)
	if conf, err := os.ReadFile(filepath.Join(unpacked, "conffiles")); err != nil || string(conf) != "/etc/bourn/database-socket\n/etc/default/bourn\n" {
		t.Errorf("its configuration files are %q, %v", conf, err)
	}
	licences, err := exec.Command("sh", "-c", `dpkg-deb --fsys-tarfile "$0" | tar -xO ./usr/share/doc/bourn/licences.gz | gzip -d`, at).Output()
	if err != nil || !bytes.Contains(licences, []byte("The Go standard library")) || !bytes.Contains(licences, []byte("github.com/jackc/pgx/v5 v")) {
		t.Errorf("licences: %v, %d bytes", err, len(licences))
	}
	if lintian, err := exec.LookPath("lintian"); err == nil {
		if out, err := exec.Command(lintian, "--fail-on", "error", "--suppress-tags", "statically-linked-binary,no-manual-page", at).CombinedOutput(); err != nil {
			t.Errorf("lintian: %v\n%s", err, out)
		}
	}
}

// TestDebVersion sees that dpkg orders versions as they were made.
func TestDebVersion(t *testing.T) {
	script, err := os.ReadFile("scripts/deb.sh")
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?s)version_of\(\) \{.*?\n\}\n`).FindString(string(script))
	if _, err := exec.LookPath("dpkg"); err != nil {
		runtest.Need(t, "dpkg", false)
	}
	before := ""
	for _, c := range []struct{ described, version string }{
		{"94c8520-dirty", ""}, {"v0.9.0", "0.9.0"}, {"v1.0.0-rc.1", "1.0.0~rc.1"}, {"v1.0.0-rc.1-4-gabcdef0", "1.0.0~rc.1+4.abcdef0"}, {"v1.0.0", "1.0.0"},
		{"v1.0.0-3-gabcdef0", "1.0.0+3.abcdef0"}, {"v1.0.0-12-g0123456-dirty", "1.0.0+12.0123456+dirty"}, {"v1.0.1", "1.0.1"},
	} {
		out, err := exec.Command("sh", "-c", function+`version_of "$0"`, c.described).Output()
		got := strings.TrimSpace(string(out))
		if err != nil || got == "" || c.version != "" && got != c.version {
			t.Errorf("%s becomes %q, not %q: %v", c.described, got, c.version, err)
		}
		if before != "" && exec.Command("dpkg", "--compare-versions", before, "lt", got).Run() != nil {
			t.Errorf("%q does not come before %q", before, got)
		}
		before = got
	}
}

// TestDebRefuses sees that no package is made of what would not work.
func TestDebRefuses(t *testing.T) {
	runtest.Daemon(t)
	dir := t.TempDir()
	for _, name := range []string{"bourn", "bournd"} {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(runtest.Binary(t)), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(says string) {
		t.Helper()
		cmd := exec.Command("sh", "scripts/deb.sh", dir, dir)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), says) || !strings.Contains(string(out), "hint: ") {
			t.Errorf("%v, not %q and a hint:\n%s", err, says, out)
		}
		if made, _ := filepath.Glob(filepath.Join(dir, "*.deb")); len(made) > 0 {
			t.Errorf("it makes %v", made)
		}
	}
	refused("cannot find " + dir + "/bourn-posix-helper")
	if err := os.WriteFile(filepath.Join(dir, "bourn-posix-helper"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	refused("bourn-posix-helper was not built for Linux with CGO_ENABLED=0")
}

// TestMaintainerScripts reads them with the shell and with shellcheck.
func TestMaintainerScripts(t *testing.T) {
	for _, name := range []string{"preinst", "postinst", "prerm", "postrm"} {
		at := filepath.Join("packaging", name)
		if out, err := exec.Command("sh", "-n", at).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if shellcheck, err := exec.LookPath("shellcheck"); err == nil {
			if out, err := exec.Command(shellcheck, "--shell=sh", at).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
	}
}

// noNewPrivileges are the options that set no_new_privs for a unit with User=, so that the
// setuid helper would stay what called it (systemd.exec(5), NoNewPrivileges=).
var noNewPrivileges = strings.Fields(`NoNewPrivileges DynamicUser LockPersonality MemoryDenyWriteExecute PrivateDevices
	ProtectClock ProtectHostname ProtectKernelLogs ProtectKernelModules ProtectKernelTunables RestrictAddressFamilies
	RestrictNamespaces RestrictRealtime RestrictSUIDSGID SystemCallArchitectures SystemCallFilter SystemCallLog`)

// namespaced are the options that give a unit a mount, user or pid namespace, or another root.
// The control plane serves only peers in its own ones, so it would serve nobody; what the
// workspace's unit mounts there, nobody else would see.
var namespaced = strings.Fields(`PrivateTmp PrivateMounts PrivateUsers PrivatePIDs PrivateIPC PrivateNetwork ProtectSystem ProtectHome ProtectProc
	ProcSubset ProtectControlGroups ReadOnlyPaths ReadWritePaths InaccessiblePaths ExecPaths NoExecPaths BindPaths
	BindReadOnlyPaths TemporaryFileSystem RootDirectory RootImage RootHash MountImages ExtensionImages ExtensionDirectories MountAPIVFS MountFlags
	NetworkNamespacePath IPCNamespacePath LogNamespace LoadCredential LoadCredentialEncrypted SetCredential SetCredentialEncrypted ImportCredential`)

// TestDatabaseSocket sees that the helper connects where the package's database listens, with and
// without the file that names the place.
func TestDatabaseSocket(t *testing.T) {
	for file, want := range map[string]string{
		"database-socket":  posix.DatabaseSocketDir + "/.s.PGSQL.5432\n",
		"bourn-db.service": " --socket-directory=" + posix.DatabaseSocketDir + " ",
		"bourn.service":    "\nEnvironment=BOURN_DATABASE_SOCKET=" + posix.DatabaseSocketDir + "\n",
		"tmpfiles.conf":    "\nd " + posix.DatabaseSocketDir + "  0710 bourn-db bc_shared -\n",
	} {
		text, err := os.ReadFile(filepath.Join("packaging", file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not have %q: %v", file, want, err)
		}
	}
}

// TestUnits keeps options out of units that would break them, and sees that the page says which.
func TestUnits(t *testing.T) {
	page, err := os.ReadFile("docs/shared-host.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range noNewPrivileges {
		if !bytes.Contains(page, []byte("`"+option+"=`")) {
			t.Errorf("docs/shared-host.md does not say that %s= breaks the helper", option)
		}
	}
	for unit, kept := range map[string][]string{
		// The helper refuses a caller that keeps capabilities over setuid.
		"bourn.service":           slices.Concat(noNewPrivileges, namespaced, []string{"SecureBits", "AmbientCapabilities", "IPAddressDeny"}),
		"bourn-workspace.service": append([]string{"RestrictSUIDSGID", "User", "SystemCallFilter"}, namespaced...),
		"bourn-db.service":        {"AmbientCapabilities"},
	} {
		f, err := os.Open(filepath.Join("packaging", unit))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		seen := map[string]string{}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			option, value, is := strings.Cut(lines.Text(), "=")
			if !is || strings.HasPrefix(option, "#") {
				continue
			}
			seen[option] = value
			if slices.Contains(kept, option) {
				t.Errorf("%s sets %s, which breaks it", unit, option)
			}
		}
		if !strings.HasPrefix(seen["ExecStart"], "/usr/bin/bourn") || seen["WantedBy"] != "multi-user.target" {
			t.Errorf("%s starts %q, wanted by %q", unit, seen["ExecStart"], seen["WantedBy"])
		}
	}
}
