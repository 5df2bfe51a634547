package daemon

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"bourn"
)

// ownHosts are the names that this host's own loopback is asked by.
var ownHosts = []string{"localhost", "127.0.0.1", "::1"}

var (
	errHost = bourn.WithHint(fmt.Errorf("%w: the request names another host", bourn.ErrDenied),
		"ask localhost: a page elsewhere may have led a browser here (DNS rebinding)")
	errOrigin = bourn.WithHint(fmt.Errorf("%w: the request comes from another site's page", bourn.ErrDenied),
		"pages of other sites are not answered")
)

// local refuses over TCP what a page of another site leads a browser to ask: a host
// that is not this one, and an origin that is another. At the local socket there is no
// browser, and the host means nothing.
func (s *server) local(r *http.Request) error {
	if _, ok := r.Context().Value(peerKey).(Peer); ok {
		return nil
	}
	name := hostname(r.Host)
	if !slices.Contains(ownHosts, name) && !slices.Contains(s.config.Hosts, name) {
		return errHost
	}
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return errOrigin
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return errOrigin
	}
	if new(http.CrossOriginProtection).Check(r) != nil {
		return errOrigin
	}
	return nil
}

// hostname is the name in a Host header, without its port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return strings.ToLower(name)
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}
