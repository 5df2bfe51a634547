package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const bournName = "bourn"

// peers are the columns, Bourn's first: everything is taken against it.
var peers = []peer{
	{name: bournName, version: []string{"--version"}, run: runBourn,
		profile: "its default: a root of its own, the directory writable, system paths readable, no network"},
	{name: bwrapName, program: "bwrap", version: []string{"--version"}, run: runBwrap,
		profile: "the same root, spelt out in flags; every namespace; no capabilities"},
	{name: "go-landlock", program: "bin/golandlock", run: runGoLandlock,
		profile: "rules for the same paths; a library, here in the least program, `bench/peers/golandlock.go`"},
	{name: "landrun", program: "bin/landrun", version: []string{"--version"}, run: runLandrun,
		profile: "rules for the same paths"},
	{name: "firejail", program: "firejail", version: []string{"--version"}, run: runFirejail,
		profile: "the host's root read-only, the directory writable, no network, no capabilities, its filter of system calls"},
	{name: "codex", program: codexProgram(), version: []string{"--version"}, run: runCodex, proxied: true,
		profile: "the host's root read-only, the directory writable, no network; the native program, not the script before it"},
	{name: "fence", program: "bin/fence", version: []string{"--version"}, run: runFence, proxied: true,
		profile: "the host's root readable, the directory writable, no host allowed; its list of forbidden commands off"},
	{name: "sandbox-runtime", program: srtProgram, version: []string{"--version"}, run: runSrt, proxied: true,
		profile: "the host's root readable, the directory writable, no host allowed"},
	{name: "greywall", program: "bin/greywall", run: notAsked,
		profile: "not asked: the bench has no profile for it"},
	{name: "nono", program: "bin/nono", run: notAsked,
		profile: "not asked: the bench has no profile for it"},
}

func notAsked(*bench, string, ask, []string) (command, error) {
	return command{}, fmt.Errorf("the bench has no profile for it")
}

func runBourn(b *bench, _ string, a ask, cmd []string) (command, error) {
	flags := denyFlags(a.deny)
	if a.glob != "" {
		flags = append(flags, "--deny", filepath.Join(a.write, a.glob))
	}
	if a.port != "" {
		flags = append(flags, "--host", "localhost:"+a.port)
	}
	return command{args: b.bournRun(a.write, flags, cmd...)}, nil
}

func runBwrap(b *bench, _ string, a ask, cmd []string) (command, error) {
	switch {
	case a.glob != "":
		return command{}, cannot("it has no patterns")
	case a.port != "":
		return command{}, cannot("a network is shared whole or not at all")
	}
	return command{args: b.bwrapRun(a.write, a.deny, cmd...)}, nil
}

// readable are the paths outside the directory that every seal of Bourn's shows, links
// of /bin and the like included.
func readable() []string {
	var all []string
	for _, dir := range systemDirs {
		if _, err := os.Stat(dir); err == nil {
			all = append(all, dir)
		}
	}
	for _, file := range etc {
		if _, err := os.Stat("/etc/" + file); err == nil {
			all = append(all, "/etc/"+file)
		}
	}
	return append(all, "/proc")
}

func allowsOnly(a ask) error {
	if a.deny != nil || a.glob != "" {
		return cannot("Landlock has no denies: what is granted is granted with all below it")
	}
	return nil
}

func runGoLandlock(_ *bench, program string, a ask, cmd []string) (command, error) {
	args := []string{program, "-ro", strings.Join(readable(), ":"), "-rw", a.write + ":/dev/null"}
	if a.port != "" {
		args = append(args, "-connect", a.port)
	}
	return command{args: slices.Concat(args, []string{"--"}, cmd)}, allowsOnly(a)
}

func runLandrun(_ *bench, program string, a ask, cmd []string) (command, error) {
	args := []string{program, "--best-effort", "--env", "PATH", "--env", "HOME", "--rwx", a.write, "--rw", "/dev/null"}
	for _, path := range readable() {
		flag := "--rox"
		if strings.HasPrefix(path, "/etc/") || path == "/proc" {
			flag = "--ro"
		}
		args = append(args, flag, path)
	}
	if a.port != "" {
		args = append(args, "--connect-tcp", a.port)
	}
	return command{args: slices.Concat(args, []string{"--"}, cmd)}, allowsOnly(a)
}

// runFirejail names the denied files in a profile: it takes no more than 128 arguments.
func runFirejail(b *bench, program string, a ask, cmd []string) (command, error) {
	if a.port != "" {
		return command{}, cannot("a network is given by interface and address, not by host")
	}
	lines := []string{"caps.drop all", "nonewprivs", "seccomp", "net none", "read-only /", "read-write " + a.write}
	for _, file := range a.deny {
		lines = append(lines, "blacklist "+file)
	}
	if a.glob != "" {
		lines = append(lines, "blacklist "+filepath.Join(a.write, a.glob))
	}
	file, err := b.settings("bench.profile", []byte(strings.Join(lines, "\n")+"\n"))
	return command{args: slices.Concat([]string{program, "--quiet", "--profile=" + file, "--"}, cmd)}, err
}

// runCodex makes it a home of its own: not below /tmp, where it puts no helpers.
func runCodex(b *bench, program string, a ask, cmd []string) (command, error) {
	var text strings.Builder
	if a.port != "" { // without it the domains below are not looked at
		text.WriteString("default_permissions = \"bench\"\n[features]\nnetwork_proxy = true\n")
	}
	fmt.Fprintf(&text, "[permissions.bench.filesystem]\n\":root\" = \"read\"\n%q = \"write\"\n", a.write)
	for _, file := range a.deny {
		fmt.Fprintf(&text, "%q = \"deny\"\n", file)
	}
	if a.glob != "" {
		fmt.Fprintf(&text, "glob_scan_max_depth = 8\n%q = \"deny\"\n", filepath.Join(a.write, a.glob))
	}
	fmt.Fprintf(&text, "[permissions.bench.network]\nenabled = %v\n", a.port != "")
	if a.port != "" {
		text.WriteString("allow_local_binding = true\n[permissions.bench.network.domains]\n\"127.0.0.1\" = \"allow\"\nlocalhost = \"allow\"\n")
	}
	home, err := b.codexHome(text.String())
	return command{
		args: slices.Concat([]string{program, "sandbox", "-P", "bench", "--"}, cmd),
		env:  []string{"CODEX_HOME=" + home},
	}, err
}

// codexHome returns a home with this configuration, made once; the bench removes it.
func (b *bench) codexHome(config string) (string, error) {
	for home, written := range b.written {
		if written == config {
			return home, nil
		}
	}
	if err := os.MkdirAll(b.peers, 0o755); err != nil {
		return "", err
	}
	home, err := os.MkdirTemp(b.peers, "codex-home.")
	if err != nil {
		return "", err
	}
	b.written[home] = config
	b.remove = append(b.remove, home)
	return home, os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o644)
}

// runFence spells the pattern without the directory: with it, it matches nothing.
func runFence(b *bench, program string, a ask, cmd []string) (command, error) {
	type object = map[string]any
	deny := slices.Clone(a.deny)
	if a.glob != "" {
		deny = append(deny, a.glob)
	}
	network := object{"allowedDomains": []string{}}
	if a.port != "" {
		network = object{"allowedDomains": []string{"localhost", "127.0.0.1"}, "allowLocalOutbound": true}
	}
	file, err := b.settingsJSON("fence.json", object{
		"network":    network,
		"filesystem": object{"allowWrite": []string{a.write}, "denyRead": orNone(deny)},
		"command":    object{"useDefaults": false},
	})
	return command{args: slices.Concat([]string{program, "--settings", file, "--"}, cmd)}, err
}

func runSrt(b *bench, program string, a ask, cmd []string) (command, error) {
	type object = map[string]any
	deny := slices.Clone(a.deny)
	if a.glob != "" {
		deny = append(deny, filepath.Join(a.write, a.glob))
	}
	var hosts []string
	if a.port != "" {
		hosts = []string{"localhost", "127.0.0.1"}
	}
	file, err := b.settingsJSON("srt.json", object{
		"network":    object{"allowedDomains": orNone(hosts), "deniedDomains": []string{}},
		"filesystem": object{"denyRead": orNone(deny), "allowWrite": []string{a.write}, "denyWrite": []string{}},
	})
	return command{args: slices.Concat(interpreter(program), []string{"--settings", file, "--"}, cmd)}, err
}

// orNone returns an empty list for none: JSON has both.
func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
