package policy

import (
	"errors"
	"net/netip"
	"testing"

	"bourn"
)

func TestParseHost(t *testing.T) {
	for text, want := range map[string]string{
		"api.example.com":           "api.example.com",
		"API.Example.COM.":          "api.example.com",
		"api.example.com:8443":      "api.example.com:8443",
		"*.example.org:443":         "*.example.org:443",
		"localhost:5432":            "localhost:5432",
		"192.0.2.7":                 "192.0.2.7",
		"192.0.2.7:22":              "192.0.2.7:22",
		"2001:db8::1":               "2001:db8::1",
		"[2001:DB8::1]:22":          "[2001:db8::1]:22",
		"[::ffff:192.0.2.7]:22":     "192.0.2.7:22",
		"bücher.example":            "xn--bcher-kva.example",
		"r3---sn-x.example.com":     "r3---sn-x.example.com",
		"_service.example.com":      "_service.example.com",
		"xn--bcher-kva.example:443": "xn--bcher-kva.example:443",
	} {
		h, err := ParseHost(text)
		if err != nil || h.String() != want {
			t.Errorf("ParseHost(%q) = %s, %v; want %s", text, h, err, want)
		}
	}
	for _, text := range []string{
		"", ".", "*", "*.com", "*.", "a*.example.com", "a.*.example.com", "https://example.com", "example.com/", "u@example.com",
		"example.com:", "example.com:0", "example.com:65536", "example.com:+1", "example.com:x", "example.com:1:2", "exa mple.com",
		"-", "a..b", "127.1", "0x7f.1", "0177.0.0.1", "2130706433", "0x7f000001", "1.2.3.4.5", "example.1", "example.0x1", "127.0.0.1.", "*.1",
		"0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "fe80::1%eth0", "[192.0.2.7]:22", "[::1", "[::1]22", "[example.com]:22", "\x1b[31m.com", "a\x00b", "example\xff.com",
	} {
		if h, err := ParseHost(text); !errors.Is(err, bourn.ErrInvalid) {
			t.Errorf("ParseHost(%q) = %s, %v; want an error", text, h, err)
		}
	}
}

func network(t *testing.T, grants, denies []string) *Network {
	t.Helper()
	n := &Network{Mode: NetworkRestricted}
	for i, list := range [][]string{grants, denies} {
		for _, text := range list {
			h, err := ParseHost(text)
			if err != nil {
				t.Fatal(err)
			}
			rule := HostRule{Host: h, Item: i*100 + len(n.Grants)}
			if i == 0 {
				n.Grants = append(n.Grants, rule)
			} else {
				n.Denies = append(n.Denies, rule)
			}
		}
	}
	return n
}

func TestJudge(t *testing.T) {
	n := network(t, []string{"api.example.com", "*.example.org:443", "192.0.2.7:22", "localhost:5432", "[2001:db8::1]:22", "localhost:7720"},
		[]string{"secret.example.org", "api.example.com:80"})
	for _, c := range []struct {
		host    string
		port    uint16
		allowed bool
	}{
		{"api.example.com", 443, true},
		{"API.EXAMPLE.com.", 443, true},
		{"api.example.com", 80, false}, // denied
		{"api.example.com", 8080, false},
		{"example.com", 443, false},
		{"x.api.example.com", 443, false},
		{"a.example.org", 443, true},
		{"a.b.example.org", 443, true},
		{"example.org", 443, false},
		{"badexample.org", 443, false},
		{"a.example.org", 80, false},
		{"secret.example.org", 443, false},
		{"192.0.2.7", 22, true},
		{"::ffff:192.0.2.7", 22, true},
		{"192.0.2.7", 23, false},
		{"192.0.2.8", 22, false},
		{"2001:db8::1", 22, true},
		{"localhost", 5432, true},
		{"127.0.0.1", 5432, true},
		{"::1", 5432, true},
		{"127.0.0.1", 5433, false},
		{"localhost", 7720, false},
		{"127.0.0.1", 7720, false},
	} {
		target, err := ParseTarget(c.host, c.port)
		if err != nil {
			t.Fatal(err)
		}
		if r := n.Judge(target); r.Allowed != c.allowed || !r.Allowed && r.Reason == "" {
			t.Errorf("%s: %+v, want allowed %v", target, r, c.allowed)
		}
	}
}

func TestJudgeAddress(t *testing.T) {
	n := network(t, []string{"api.example.com", "db.example.com:5432", "10.0.0.5:5432", "localhost:5432"}, []string{"93.184.216.34", "93.184.216.36"})
	for _, c := range []struct {
		host, addr string
		port       uint16
		allowed    bool
	}{
		{"api.example.com", "1.1.1.1", 443, true},
		{"api.example.com", "2606:4700::1111", 443, true},
		{"api.example.com", "93.184.216.34", 443, false},
		{"api.example.com", "::ffff:93.184.216.34", 443, false},
		{"api.example.com", "127.0.0.1", 443, false},
		{"api.example.com", "127.0.0.1", 5432, false},
		{"api.example.com", "::ffff:127.0.0.1", 443, false},
		{"api.example.com", "10.1.2.3", 443, false},
		{"api.example.com", "169.254.169.254", 80, false},
		{"api.example.com", "168.63.129.16", 80, false},
		{"api.example.com", "64:ff9b::7f00:1", 443, false},
		{"api.example.com", "64:ff9b::101:101", 443, true},
		{"api.example.com", "2002:7f00:1::", 443, false},
		{"api.example.com", "::10.0.0.1", 443, false},
		{"api.example.com", "64:ff9b::5db8:d824", 443, false}, // a denied address, as NAT64 has it
		{"api.example.com", "2002:5db8:d824::1", 443, false},
		{"api.example.com", "fe80::1%lo", 443, false},
		{"api.example.com", "::1%lo", 443, false},
		{"api.example.com", "fd00::1", 443, false},
		{"api.example.com", "fe80::1", 443, false},
		{"api.example.com", "0.0.0.0", 443, false},
		{"api.example.com", "100.64.0.1", 443, false},
		{"db.example.com", "10.0.0.5", 5432, true},
		{"db.example.com", "10.0.0.6", 5432, false},
		{"api.example.com", "10.0.0.5", 443, false},
		{"localhost", "127.0.0.1", 5432, true},
		{"127.0.0.1", "127.0.0.1", 5432, true},
		{"127.0.0.1", "127.0.0.1", 5433, false},
		{"10.0.0.5", "10.0.0.5", 5432, true},
		{"localhost", "10.0.0.9", 5432, false},
		{"localhost", "::1", 7720, false},
	} {
		target, err := ParseTarget(c.host, c.port)
		if err != nil {
			t.Fatal(err)
		}
		if r := n.JudgeAddress(target, netip.MustParseAddr(c.addr)); r.Allowed != c.allowed || !r.Allowed && r.Reason == "" {
			t.Errorf("%s at %s: %+v, want allowed %v", target, c.addr, r, c.allowed)
		}
	}
}

// A mirror in a private network that the person's own configuration names is reached, and
// nothing else that its name leads to.
func TestJudgePrivate(t *testing.T) {
	n := network(t, []string{"mirror.example.com:443", "other.example.com:443"}, nil)
	n.Grants[0].Private = true
	for _, c := range []struct {
		host, addr string
		port       uint16
		allowed    bool
	}{
		{"mirror.example.com", "10.0.0.5", 443, true},
		{"mirror.example.com", "fd00::5", 443, true},
		{"mirror.example.com", "10.0.0.5", 444, false},
		{"mirror.example.com", "127.0.0.1", 443, false},
		{"mirror.example.com", "169.254.169.254", 443, false},
		{"mirror.example.com", "169.254.1.1", 443, false},
		{"other.example.com", "10.0.0.5", 443, false},
	} {
		target, err := ParseTarget(c.host, c.port)
		if err != nil {
			t.Fatal(err)
		}
		if r := n.JudgeAddress(target, netip.MustParseAddr(c.addr)); r.Allowed != c.allowed {
			t.Errorf("%s at %s: %+v, want allowed %v", target, c.addr, r, c.allowed)
		}
	}
}
