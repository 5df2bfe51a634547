package run

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"bourn/internal/policy"
)

// The hosts of a repository's remotes are not granted: its config may be whatever a run
// before made of it. They only say which port a refused name was meant for.

// scpLike is ssh's short form of a remote, [USER@]HOST:PATH (git-fetch(1), Git URLs).
var scpLike = lazily(`^(?:[^@/:]+@)?([^@/:]+):(?:[^/:]|/[^/])`)

// schemePorts are those that a grant without a port does not open.
var schemePorts = map[string]uint16{"ssh": 22, "git+ssh": 22, "ssh+git": 22, "git": 9418}

// remotePort returns the port on which a remote of the repository that is worked in has a
// host, or 0 where none says so or a grant without a port opens it.
func (p *Prepared) remotePort(name string) uint16 {
	config := filepath.Join(gitTop(p.Options.Cwd), ".git/config")
	if l := p.linkOfCwd(); l != (gitLink{}) {
		config = filepath.Join(l.common, "config")
	}
	if !p.Whole.Shows(config) {
		return 0
	}
	text := ""
	if err := p.asUser(func() error { text = gitFile(config); return nil }); err != nil {
		return 0
	}
	port := uint16(0)
	readGitConfig(strings.NewReader(text), func(section, key, value string) {
		if strings.HasPrefix(section, "remote ") && (key == "url" || key == "pushurl") {
			if host, at := remoteAt(value); host == name {
				port = at
			}
		}
	})
	return port
}

// remoteAt returns the host of a remote and the port that must be granted by number.
func remoteAt(text string) (string, uint16) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		m := scpLike().FindStringSubmatch(text)
		if m == nil {
			return "", 0
		}
		return hostName(m[1]), 22
	}
	port := schemePorts[u.Scheme]
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		port = uint16(n)
	}
	return hostName(u.Hostname()), port
}

// hostName returns a name as grants have it, or "".
func hostName(text string) string {
	h, err := policy.ParseHost(text)
	if err != nil || h.Suffix {
		return ""
	}
	return h.Name
}
