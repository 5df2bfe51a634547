package review

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A wrapper is a program that executes the command behind its own options and operands.
type wrapper struct {
	short    string // short options that take a value
	long     string // long options that take a value as a word of their own, without dashes
	text     string // short options whose value is the text of a command
	longText string // the long ones
	none     string // short options with which no command is executed
	operands int    // words before the command
	assigns  bool   // NAME=value may stand before the command
	plus     bool   // words that begin with + are options
	shell    bool   // without a command it executes a shell
}

// wrappers are the programs whose options are known. What is missing here and in loose is
// taken for a program that executes nothing else.
var wrappers = map[string]wrapper{
	"builtin": {}, "busybox": {}, "toybox": {}, "nohup": {}, "noglob": {}, "nocorrect": {}, "setsid": {}, "pkexec": {long: "user"},
	"command":      {none: "vV"},
	"exec":         {short: "a"},
	"nice":         {short: "n", long: "adjustment"},
	"ionice":       {short: "cnpPu", long: "class classdata pid pgid uid"},
	"chrt":         {short: "TPD", operands: 1},
	"taskset":      {operands: 1},
	"stdbuf":       {short: "ioe", long: "input output error"},
	"time":         {short: "fo", long: "format output"},
	"timeout":      {short: "sk", long: "signal kill-after", operands: 1},
	"sudo":         {shell: true, short: "ughpCDRTUrt", long: "user group host prompt close-from chdir chroot command-timeout other-user role type", none: "lvVK", assigns: true},
	"doas":         {shell: true, short: "uC"},
	"gosu":         {operands: 1},
	"su-exec":      {operands: 1},
	"chroot":       {shell: true, operands: 1},
	"su":           {shell: true, short: "gGsw", long: "group supp-group shell whitelist-environment", text: "c", longText: "command session-command", operands: 1 << 20},
	"runuser":      {shell: true, short: "ugGsw", long: "user group supp-group shell whitelist-environment", text: "c", longText: "command"},
	"flock":        {short: "wE", long: "timeout wait conflict-exit-code", text: "c", longText: "command", operands: 1},
	"script":       {shell: true, short: "EIOBTomt", text: "c", longText: "command", operands: 1 << 20},
	"caffeinate":   {short: "tw"},
	"eatmydata":    {},
	"fakeroot":     {short: "lsib"},
	"chronic":      {},
	"torsocks":     {},
	"proxychains4": {short: "f"},
	"proxychains":  {short: "f"},
	"choom":        {short: "np", long: "adjust pid"},
	"run0":         {shell: true, short: "uDg", long: "user group unit property description slice nice chdir setenv background machine"},
	"uclampset":    {short: "mMp", long: "util-min util-max pid"},
	"unbuffer":     {},
}

// loose are programs that execute a command which stands somewhere behind them, so that any
// word may begin it. Where words are listed, only behind one of these.
var loose = map[string]string{
	"arch": "", "asdf": "exec", "aws-vault": "exec", "bourn": "run start exec", "bundle": "exec", "bunx": "", "bwrap": "", "capsh": "", "catchsegv": "", "cgexec": "", "chpst": "", "cmd": "", "concurrently": "", "cargo-watch": "",
	"conda": "run", "cpulimit": "", "dbus-run-session": "", "direnv": "exec", "distrobox": "enter", "docker": "exec run", "docker-compose": "exec run",
	"doppler": "run", "dotenv": "", "dotenvx": "run", "elvish": "", "entr": "", "envdir": "", "expect": "", "flatpak-spawn": "", "gcloud": "ssh",
	"firejail": "", "gdb": "", "git": "bisect submodule rebase filter-branch for-each-repo difftool", "heroku": "run", "hyperfine": "",
	"i386": "", "ifne": "", "incus": "exec", "jobs": "-x", "just": "--command",
	"kubectl": "exec run debug", "limactl": "shell", "lldb": "", "linux32": "", "linux64": "", "ltrace": "", "lxc": "exec", "machinectl": "shell", "mamba": "run", "mosh": "", "mise": "exec x",
	"multipass": "exec", "nerdctl": "exec run", "nix": "run develop shell", "nix-shell": "", "nodemon": "", "nq": "", "nu": "",
	"npm": "exec x", "npx": "", "nsenter": "", "numactl": "", "op": "run", "parallel": "", "perf": "stat record trace",
	"pipenv": "run", "pipx": "run", "pnpm": "exec dlx", "podman": "exec run", "poetry": "run", "powershell": "", "please": "", "prlimit": "", "proot": "", "pwsh": "", "retry": "", "rlwrap": "", "rush": "",
	"rr": "record", "runcon": "", "rustup": "run", "screen": "", "setarch": "", "setpriv": "", "sg": "", "softlimit": "", "ssh-agent": "", "start-stop-daemon": "",
	"strace": "", "systemd-cat": "", "systemd-inhibit": "", "systemd-run": "", "tmux": "", "toolbox": "run", "trickle": "", "ts": "", "tsp": "", "unshare": "", "uv": "run", "uvx": "", "valgrind": "",
	"vagrant": "ssh", "watchexec": "", "winpty": "", "wsl": "", "xonsh": "", "xvfb-run": "", "yarn": "exec dlx",
}

// globals are the options that some programs take before the word that says what to do.
// They are skipped, with their values.
var globals = map[string]wrapper{
	"git":       {short: "Cc", long: "git-dir work-tree namespace exec-path config-env super-prefix attr-source list-cmds"},
	"kubectl":   {short: "ns", long: "namespace context kubeconfig cluster user server token as as-group request-timeout cache-dir profile profile-output v certificate-authority client-key client-certificate"},
	"helm":      {short: "n", long: "namespace kube-context kubeconfig kube-token registry-config repository-config"},
	"docker":    {short: "Hlc", long: "host context config log-level tlscacert tlscert tlskey"},
	"podman":    {short: "c", long: "url connection identity log-level root runroot storage-driver"},
	"npm":       {short: "Cw", long: "prefix registry workspace userconfig cache loglevel tag otp"},
	"pnpm":      {short: "CF", long: "dir filter"},
	"yarn":      {long: "cwd registry"},
	"cargo":     {plus: true, short: "CZ", long: "color config manifest-path"},
	"gh":        {short: "R", long: "repo hostname"},
	"aws":       {long: "profile region endpoint-url output query ca-bundle cli-read-timeout cli-connect-timeout color"},
	"gcloud":    {long: "project account configuration format verbosity billing-project impersonate-service-account"},
	"az":        {short: "o", long: "subscription output query"},
	"systemctl": {short: "HMpt", long: "host machine root image property type"},
	"terraform": {long: "chdir"},
	"tofu":      {long: "chdir"},
	"go":        {short: "C"},
	"make":      {short: "CfIjo", long: "directory file"},
	"vault":     {}, "nomad": {}, "consul": {}, "flyctl": {}, "heroku": {}, "apt-get": {short: "oct"}, "apt": {short: "oct"},
	"pip": {long: "python proxy cache-dir log"}, "brew": {}, "psql": {short: "hpUdvF"}, "redis-cli": {short: "hpaun"},
}

// specialOf returns how a program with a reading of its own is read, or nil.
func specialOf(name string) func(r *reading, ws []word, how string) {
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "yash", "oksh", "loksh", "hush":
		return (*reading).shell
	case "env":
		return (*reading).env
	case "eval":
		return (*reading).eval
	case "source", ".":
		return (*reading).source
	case "trap":
		return (*reading).trap
	case "xargs":
		return (*reading).xargs
	case "find":
		return (*reading).find
	case "fd", "fdfind":
		return (*reading).fd
	case "ssh", "autossh", "slogin":
		return (*reading).ssh
	case "at", "batch", "newgrp":
		return (*reading).later
	case "watch":
		return (*reading).watch
	case "alias":
		return (*reading).alias
	}
	return nil
}

// shell reads sh -c TEXT, and a shell that reads its commands.
func (r *reading) shell(ws []word, how string) {
	name := ws[0].text
	i, text, stdin := 1, false, false
	for ; i < len(ws); i++ {
		arg := ws[i].text
		if arg == "--" || arg == "-" {
			i++
			break
		}
		if len(arg) < 2 || arg[0] != '-' && arg[0] != '+' {
			break
		}
		if strings.HasPrefix(arg, "--") {
			if arg == "--rcfile" || arg == "--init-file" || arg == "--init-command" {
				if i++; i < len(ws) {
					r.source([]word{ws[0], ws[i]}, how)
				}
			}
			text = text || arg == "--command"
			continue
		}
		text = text || strings.Contains(arg, "c") && arg[0] == '-'
		stdin = stdin || strings.Contains(arg, "s")
		if last := arg[len(arg)-1]; last == 'o' || last == 'O' {
			i++
		}
	}
	switch {
	case text && i < len(ws):
		outer := r.given
		r.given = ws[i+1:]
		r.shellText(ws[i], how+" -c")
		r.given = outer
	case text:
	case i < len(ws) && !stdin && !isStandardInput(ws[i].text):
		if ws[i].inner != nil {
			r.fedBy(r.formsOf(ws[i].inner), name)
			r.cannotTell("the shell executes what another command prints")
		}
	default:
		r.standardInput(name, how)
	}
}

func isStandardInput(s string) bool {
	return s == "/dev/stdin" || s == "/dev/fd/0" || s == "/proc/self/fd/0"
}

func (r *reading) env(ws []word, how string) {
	w := wrapper{short: "uCa", long: "unset chdir argv0", text: "S", longText: "split-string", assigns: true}
	i, text := w.skip(ws)
	r.settings(ws[1:min(i, len(ws))], false, how)
	if text.text == "" {
		r.command(ws[min(i, len(ws)):], how)
		return
	}
	// env makes words of the text, without a shell: quotes count, variables are its own.
	e := append([]word{literal("env")}, literals(strings.Fields(text.text))...)
	if file, err := r.parse(text.text, syntax.LangBash); err == nil && len(file.Stmts) == 1 {
		if c := callOf(file.Stmts[0]); c != nil {
			inner, _ := words(c.Args, nil)
			e = append(e[:1], inner...)
		}
	}
	r.command(append(e, ws[min(i, len(ws)):]...), how+" -S")
}

// callOf returns the simple command that a statement is, or nil.
func callOf(s *syntax.Stmt) *syntax.CallExpr {
	c, _ := s.Cmd.(*syntax.CallExpr)
	return c
}

func (r *reading) eval(ws []word, how string) {
	if len(ws) > 1 && ws[1].text == "--" {
		ws = ws[1:]
	}
	text := word{known: true, text: joined(ws[1:])}
	for _, w := range ws[1:] {
		text.known = text.known && w.known
		if text.inner == nil {
			text.inner = w.inner
		}
	}
	r.shellText(text, how)
}

func (r *reading) source(ws []word, how string) {
	if len(ws) < 2 {
		return
	}
	switch {
	case ws[1].inner != nil:
		r.fedBy(r.formsOf(ws[1].inner), "sh")
		r.cannotTell("the shell executes what another command prints")
	case isStandardInput(ws[1].text):
		r.shell([]word{literal("sh")}, how)
	}
}

func (r *reading) trap(ws []word, how string) {
	i := 1
	for i < len(ws) && (ws[i].text == "--" || ws[i].text == "-l" || ws[i].text == "-p") {
		i++
	}
	if i+1 < len(ws) && ws[i].text != "-" {
		r.shellText(ws[i], how)
	}
}

func (r *reading) xargs(ws []word, how string) {
	w := wrapper{short: "ILnPsaEd", long: "arg-file delimiter max-args max-procs max-chars replace-str process-slot-var"}
	i, _ := w.skip(ws)
	if i >= len(ws) {
		return
	}
	replace := replacement(ws[1:i])
	inner := ws[i:]
	if replace != "" {
		r.command(replaced(inner, replace), how)
		return
	}
	from, outer := len(r.forms), r.stdin
	r.stdin = feed{} // xargs has read it
	if outer.kind == feedText {
		r.guessed(append(slices.Clone(inner), literals(strings.Fields(outer.text))...), how)
	}
	r.command(inner, how)
	r.stdin = outer
	for j := from; j < len(r.forms); j++ {
		r.forms[j].open = true
	}
	if s := specialOf(inner[0].text); s != nil && len(inner) > 1 && inner[len(inner)-1].text == "-c" {
		r.cannotTell("a shell is given a text that xargs reads")
	}
}

// replacement returns what xargs replaces by its input.
func replacement(options []word) string {
	for i, w := range options {
		switch {
		case w.text == "-I" && i+1 < len(options):
			return options[i+1].text
		case strings.HasPrefix(w.text, "-I"):
			return w.text[2:]
		case w.text == "-i" || w.text == "--replace":
			return "{}"
		case strings.HasPrefix(w.text, "-i"):
			return w.text[2:]
		case strings.HasPrefix(w.text, "--replace="):
			return strings.TrimPrefix(w.text, "--replace=")
		}
	}
	return ""
}

// replaced returns words with a mark in them as words that are not known.
func replaced(ws []word, mark string) []word {
	ws = slices.Clone(ws)
	for i, w := range ws {
		pre, suf, found := strings.Cut(w.text, mark)
		if !found {
			continue
		}
		if last := strings.LastIndex(suf, mark); last >= 0 {
			suf = suf[last+len(mark):]
		}
		ws[i].known, ws[i].pre, ws[i].suf = false, pre, suf
		ws[i].text = strings.ReplaceAll(w.text, mark, "$_")
	}
	return ws
}

func (r *reading) find(ws []word, how string) {
	for i := 1; i < len(ws); i++ {
		switch ws[i].text {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(ws) && ws[end].text != ";" && (ws[end].text != "+" || ws[end-1].text != "{}") {
				end++
			}
			r.command(replaced(ws[i+1:end], "{}"), how)
			i = end
		}
	}
}

func (r *reading) fd(ws []word, how string) {
	for i := 1; i < len(ws); i++ {
		switch ws[i].text {
		case "-x", "-X", "--exec", "--exec-batch":
			end := i + 1
			for end < len(ws) && ws[end].text != ";" {
				end++
			}
			from := len(r.forms)
			r.command(replaced(ws[i+1:end], "{}"), how)
			for j := from; j < len(r.forms); j++ {
				r.forms[j].open = true
			}
			i = end
		}
	}
}

// ssh reads the command for another host: it is a text for a shell there.
func (r *reading) ssh(ws []word, how string) {
	w := wrapper{short: "bcDEeFIiJLlmoOpQRSWwB", operands: 1}
	i, _ := w.skip(ws)
	for i < len(ws) && strings.HasPrefix(ws[i].text, "-") && len(ws[i].text) > 1 {
		used, _, _ := w.option(ws[i:]) // options may follow the host
		i += used
	}
	if i < len(ws) {
		r.eval(append([]word{ws[0]}, ws[i:]...), how)
		return
	}
	r.standardInput("sh", how)
}

// later reads a program that gives a shell what it reads.
func (r *reading) later(_ []word, how string) { r.standardInput("sh", how) }

func (r *reading) watch(ws []word, how string) {
	i, _ := wrapper{short: "nq", long: "interval equexit"}.skip(ws)
	if i < len(ws) {
		r.eval(append([]word{ws[0]}, ws[i:]...), how)
	}
}

func (r *reading) alias(ws []word, how string) {
	for _, w := range ws[1:] {
		name, value, ok := strings.Cut(w.text, "=")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		r.shellText(word{text: value, known: w.known}, how)
		if r.aliases == nil {
			r.aliases = map[string][]word{}
		}
		r.aliases[name] = literals(strings.Fields(value))
	}
}
