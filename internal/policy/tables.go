package policy

import (
	"path"
	"slices"
	"strings"
)

// mightySockets are sockets through which whoever speaks to them gets more than the seal
// holds, by the end of their path.
var mightySockets = []struct{ end, what string }{
	{"/docker.sock", "whoever speaks to it is as good as root on this host"},
	{"/podman.sock", "whoever speaks to it runs containers as its owner, outside this seal"},
	{"/containerd.sock", "whoever speaks to it is as good as root on this host"},
	{"/crio.sock", "whoever speaks to it is as good as root on this host"},
	{"/libvirt-sock", "whoever speaks to it is as good as root on this host"},
	{"/snapd.socket", "whoever speaks to it can change what is installed on this host"},
	{"/lxd/unix.socket", "whoever speaks to it is as good as root on this host"},
	{"/system_bus_socket", "it leads to the host's services"},
	{"/bus", "it leads to the session's services, which start programs outside this seal"},
	{"/systemd/private", "it starts programs outside this seal"},
	{"/.X11-unix/X0", "it reads and types in every window"},
}

// SystemPaths are readable and executable for every agent, where they exist.
var SystemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
}

// EtcFiles are the entries of /etc that programs need. Everything else there is absent:
// shadow, sudoers, ssh host keys and private keys among it.
var EtcFiles = []string{
	"/etc/alternatives", "/etc/bash.bashrc", "/etc/bash_completion.d", "/etc/bashrc", "/etc/ca-certificates",
	"/etc/ca-certificates.conf", "/etc/chromium", "/etc/chromium.d", "/etc/crypto-policies", "/etc/debian_version", "/etc/default/locale",
	"/etc/fedora-release", "/etc/fonts", "/etc/gai.conf", "/etc/gitattributes", "/etc/gitconfig", "/etc/group",
	"/etc/host.conf", "/etc/hostname", "/etc/hosts", "/etc/inputrc", "/etc/issue", "/etc/java-11-openjdk",
	"/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/locale.alias", "/etc/locale.conf", "/etc/localtime", "/etc/lsb-release", "/etc/magic", "/etc/mailcap",
	"/etc/manpath.config", "/etc/maven", "/etc/mime.types", "/etc/nanorc", "/etc/networks", "/etc/npmrc", "/etc/nsswitch.conf",
	"/etc/os-release", "/etc/passwd", "/etc/perl", "/etc/pip.conf", "/etc/pki/ca-trust/extracted", "/etc/pki/tls/cert.pem",
	"/etc/pki/tls/certs", "/etc/profile", "/etc/profile.d", "/etc/protocols", "/etc/redhat-release", "/etc/resolv.conf",
	"/etc/rpc", "/etc/services", "/etc/shells", "/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf",
	"/etc/terminfo", "/etc/timezone", "/etc/vim", "/etc/wgetrc", "/etc/xdg/git", "/etc/zsh", "/etc/zshrc",
}

// A Protected path is one that no agent may ever be granted.
type Protected struct {
	Path   string // absolute, or ~/… below any person's home
	Reason string
	Write  bool // only writing is refused
}

// ProtectedPaths is the table of them. $BOURN_HOME and the bourn program stand in the
// request, since they differ from host to host.
var ProtectedPaths = []Protected{
	{Path: "/proc", Reason: "it shows other processes and kernel settings; every run has its own"},
	{Path: "/sys", Reason: "it holds kernel and device settings"},
	{Path: "/dev", Reason: "it holds devices and other people's terminals; every run has its own"},
	{Path: "/run", Reason: "it holds the sockets of the host's services; name single sockets in network.unix"},
	{Path: "/var/run", Reason: "it holds the sockets of the host's services; name single sockets in network.unix"},
	{Path: "/boot", Reason: "it starts the host", Write: true},
	{Path: "/etc/shadow", Reason: "it holds password hashes"},
	{Path: "/etc/gshadow", Reason: "it holds password hashes"},
	{Path: "/etc/sudoers", Reason: "it decides who becomes root"},
	{Path: "/etc/sudoers.d", Reason: "it decides who becomes root"},
	{Path: "/etc/ssh", Reason: "it holds the host's private keys"},
	{Path: "/etc/ssl/private", Reason: "it holds private keys"},
	{Path: "/etc/bourn", Reason: "it is this host's policy for agents"},
	{Path: "/etc/cron.d", Reason: "what stands there is started by cron", Write: true},
	{Path: "/etc/crontab", Reason: "what stands there is started by cron", Write: true},
	{Path: "/var/spool/cron", Reason: "what stands there is started by cron", Write: true},
	{Path: "/etc/systemd", Reason: "what stands there is started with the host", Write: true},
	{Path: "/usr/lib/systemd", Reason: "what stands there is started with the host", Write: true},
	{Path: "/etc/profile", Reason: "it runs when a shell starts", Write: true},
	{Path: "/etc/profile.d", Reason: "it runs when a shell starts", Write: true},
	{Path: "~/.config/systemd/user", Reason: "what stands there is started at sign-in", Write: true},
	{Path: "~/.local/share/systemd/user", Reason: "what stands there is started at sign-in", Write: true},
	{Path: "~/.config/autostart", Reason: "what stands there is started at sign-in", Write: true},
	{Path: "~/.config/environment.d", Reason: "it is read at sign-in", Write: true},
	{Path: "~/Library/LaunchAgents", Reason: "what stands there is started at sign-in", Write: true},
	{Path: "~/.bashrc", Reason: "it runs when a shell starts", Write: true},
	{Path: "~/.bash_profile", Reason: "it runs when a shell starts", Write: true},
	{Path: "~/.bash_login", Reason: "it runs when a shell starts", Write: true},
	{Path: "~/.bash_logout", Reason: "it runs when a shell ends", Write: true},
	{Path: "~/.profile", Reason: "it runs when a shell starts", Write: true},
	{Path: "~/.zshrc", Reason: "it runs when a shell starts", Write: true},
	{Path: "~/.zshenv", Reason: "it runs when a shell starts", Write: true},
	{Path: "~/.zprofile", Reason: "it runs when a shell starts", Write: true},
	{Path: "~/.zlogin", Reason: "it runs when a shell starts", Write: true},
	{Path: "~/.config/fish", Reason: "it runs when a shell starts", Write: true},
	{Path: "~/.pam_environment", Reason: "it is read at sign-in", Write: true},
	{Path: "~/.xprofile", Reason: "it runs at sign-in", Write: true},
	{Path: "~/.xinitrc", Reason: "it runs at sign-in", Write: true},
	{Path: "~/.ssh/authorized_keys", Reason: "it decides who may sign in", Write: true},
	{Path: "~/.ssh/rc", Reason: "it runs at sign-in", Write: true},
}

// broadPaths may not be granted as a whole: a grant there is a mistake.
var broadPaths = []string{
	"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt", "/opt", "/proc",
	"/root", "/run", "/run/media", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var", "/var/lib", "/var/tmp", "/Users",
	"/Volumes", "/System", "/Library", "/private", "/private/tmp", "/private/var",
}

// A volume's root is a direct child of one of these.
var volumeParents = []string{"/media", "/run/media", "/Volumes"}

// GuardedDirs are config directories inside a write grant: what they name runs code
// on the host later. The directory itself is pinned so that it cannot be renamed away.
var GuardedDirs = []struct {
	Dir     string
	Entries []string
	Reason  string
}{
	{".git", []string{"hooks", "config", "config.worktree", "commondir", "info/attributes"}, "git runs or obeys it on the host"},
	{".vscode", []string{"tasks.json", "settings.json"}, "the editor runs it on the host"},
	{".claude", []string{"settings.json", "settings.local.json", "hooks"}, "the agent's hooks run on the host"},
	{".bourn", []string{"profile.yaml"}, "it proposes what runs here are granted"},
}

// GuardedFiles are such files that stand in a write grant by themselves.
var GuardedFiles = []struct{ Name, Reason string }{
	{".mcp.json", "it names programs that are started on the host"},
	{".envrc", "direnv runs it on the host"},
}

// under reports whether p is dir or lies below it.
func under(p, dir string) bool {
	if dir == "/" {
		return strings.HasPrefix(p, "/")
	}
	return p == dir || len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

// InSystem reports whether the clean absolute path p lies in a system path.
func InSystem(p string) bool {
	return slices.ContainsFunc(SystemPaths, func(s string) bool { return under(p, s) })
}

// Under reports whether the clean absolute path p is dir or lies below it.
func Under(p, dir string) bool { return under(p, dir) }

// Broad returns why a grant of p would be too broad, or "". Homes are the home
// directories of the host's people.
func Broad(p string, homes []string) string {
	for _, b := range broadPaths {
		if p == b {
			return "too broad: grant a directory below it"
		}
	}
	for _, v := range volumeParents {
		if path.Dir(p) == v || v == "/run/media" && path.Dir(path.Dir(p)) == v {
			return "too broad: it is the root of a volume"
		}
	}
	for _, h := range homes {
		if h != "/" && under(h, p) {
			return "too broad: it covers the home directory " + h
		}
	}
	return ""
}

// protection returns the table row that forbids granting p for kind, if any. A row
// forbids its path and everything below it.
func protection(p string, kind Kind, req *Request) (Protected, bool) {
	if under(p, req.BournDir) && req.BournDir != "" {
		return Protected{Path: req.BournDir, Reason: "it holds the keys and profiles of agents"}, true
	}
	if kind == KindUnix && (under(p, "/run/bourn") || under(p, "/var/run/bourn")) {
		return Protected{Path: "/run/bourn", Reason: OwnControlPlane}, true
	}
	if p == req.Program && kind == KindWrite {
		return Protected{Path: p, Reason: "it is the program that seals", Write: true}, true
	}
	if reason := guardedName(p); kind != KindRead && reason != "" {
		return Protected{Path: p, Reason: reason, Write: true}, true
	}
	for _, row := range ProtectedPaths {
		if row.Write && kind != KindWrite || kind == KindUnix && row.Path != "/proc" {
			continue
		}
		for _, at := range row.Expand(req.Homes) {
			if under(p, at) {
				row.Path = at
				return row, true
			}
		}
	}
	return Protected{}, false
}

// guardedName returns why writing to a path that is, or lies in, a guarded place cannot
// be granted by itself, or "".
func guardedName(p string) string {
	parts := strings.Split(p, "/")
	for i, part := range parts {
		for _, row := range GuardedFiles {
			if part == row.Name {
				return row.Reason
			}
		}
		for _, row := range GuardedDirs {
			if part != row.Dir {
				continue
			}
			rest := "/" + strings.Join(parts[i+1:], "/") + "/"
			for _, e := range row.Entries {
				if strings.Contains(rest, "/"+e+"/") {
					return row.Reason
				}
			}
		}
	}
	return ""
}

// Expand returns the row's path, for ~/… once for each home.
func (row Protected) Expand(homes []string) []string {
	rest, ok := strings.CutPrefix(row.Path, "~/")
	if !ok {
		return []string{row.Path}
	}
	var all []string
	for _, h := range homes {
		all = append(all, path.Join(h, rest))
	}
	return all
}
