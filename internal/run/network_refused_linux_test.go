package run_test

import (
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/run/nettest"
	"bourn/internal/run/runtest"
)

// rejected is what the ways say of what is refused: the proxy, SOCKS, a listener that
// resets, a port on which nothing listens, a name that does not exist or has no address, no route.
const rejected = "no 403 |socks 2|socks 4|reset|connection refused|no such host|unreachable|EOF"

// everyWay returns an attempt for each way to a target.
func everyWay(host, port, want string) (out []attempt) {
	for _, via := range []string{"connect", "socks", "direct"} {
		out = append(out, attempt{Via: via, Host: host, Port: port, want: want})
	}
	return out
}

// TestNetworkReach tries what is granted, and everything beside it, by every way. In the
// world every address leads to a server: what gets out is seen.
func TestNetworkReach(t *testing.T) {
	inWorld(t, func(t *testing.T, w *nettest.World) {
		w.ServeWeb("80", "443")
		w.Serve(w.Echo, "8080", "5432", "5000", "5001", "22", "7720")
		runtest.Users(t, func(t *testing.T, u *runtest.User) {
			t.Run("names and ports", func(t *testing.T) { namesAndPorts(t, w, u) })
			t.Run("raw addresses", func(t *testing.T) { rawAddresses(t, w, u) })
			t.Run("names of what is not public", func(t *testing.T) { notPublic(t, w, u) })
			t.Run("granted addresses", func(t *testing.T) { grantedAddresses(t, w, u) })
			t.Run("one port of many kinds", func(t *testing.T) { onePort(t, w, u) })
			t.Run("web", func(t *testing.T) { webNames(t, w, u) })
			t.Run("other protocols", func(t *testing.T) { otherProtocols(t, w, u) })
			t.Run("own control plane", func(t *testing.T) { ownControl(t, w, u) })
		})
	})
}

func namesAndPorts(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	w.Asked()
	all := slices.Concat(
		everyWay("good.example", "8080", "at 93.184.216.34:8080"),
		everyWay("GOOD.Example", "8080", "at 93.184.216.34:8080"),
		everyWay("good.example.", "8080", "at 93.184.216.34:8080"),
		everyWay("a.wild.example", "5432", "at 93.184.216.40:5432"),
		everyWay("a.b.wild.example", "5432", "at 93.184.216.40:5432"),
		everyWay("v6.example", "8080", "at [2606:2800:220:1::36]:8080"),
		everyWay("internal", "8080", "at 93.184.216.38:8080"),
		everyWay("xn--bcher-kva.example", "8080", "at 93.184.216.39:8080"),
		everyWay("under_score.example", "8080", "at 93.184.216.45:8080"),
		// Another port, also one that another name is granted on.
		everyWay("good.example", "5432", rejected), everyWay("good.example", "22", rejected), everyWay("good.example", "80", rejected),
		everyWay("a.wild.example", "8080", rejected),
		// Other names.
		everyWay("other.example", "8080", rejected), everyWay("www.good.example", "8080", rejected), everyWay("evilgood.example", "8080", rejected),
		everyWay("good.example.evil.test", "8080", rejected), everyWay("wild.example", "5432", rejected), everyWay("*.wild.example", "5432", rejected),
		everyWay(".wild.example", "5432", rejected), everyWay("example", "8080", rejected), everyWay("good.example..", "8080", rejected),
		everyWay("93.184.216.34.example", "8080", rejected), everyWay("good.example\x00.evil.test", "8080", rejected+"|400|invalid|missing"),
		everyWay("missing.good.example", "8080", rejected),
		// The run's own.
		everyWay("localhost", "8080", rejected), everyWay("sub.localhost", "8080", rejected), everyWay("127.0.0.1", "5000", rejected),
		everyWay("198.18.0.1", "8080", rejected), everyWay("198.18.3.7", "8080", rejected),
	)
	r := reaches(t, u, hosts("good.example:8080", "*.wild.example:5432", "v6.example:8080", "internal:8080", "bücher.example:8080", "under_score.example:8080"), all)
	only(t, w, "93.184.216.34", "93.184.216.40", "2606:2800:220:1::36", "93.184.216.38", "93.184.216.39", "93.184.216.45")
	for _, name := range w.Asked() {
		granted := strings.HasSuffix(name, ".wild.example") || slices.Contains([]string{"good.example", "v6.example", "internal", "xn--bcher-kva.example", "under_score.example"}, name)
		if !granted {
			t.Errorf("the name server was asked for %q, which is not granted", name)
		}
	}
	record := recorded(t, u, "")
	for _, want := range []refusal{
		{Operation: "connect", Target: "good.example:5432", Reason: "port 5432 is not granted", Grant: "--host good.example:5432 -- COMMAND"},
		{Operation: "connect", Target: "good.example:80", Reason: "port 80 is not granted", Grant: "--host good.example -- COMMAND"},
		{Operation: "connect", Target: "other.example:8080", Reason: "not granted", Grant: "--host other.example:8080 -- COMMAND"},
		{Operation: "connect", Target: "other.example", Reason: "not granted", Grant: "--host other.example -- COMMAND"},
	} {
		if !slices.ContainsFunc(record, func(got refusal) bool {
			mends := strings.HasPrefix(got.Grant, "bourn run ") && strings.HasSuffix(got.Grant, want.Grant)
			want.Count, got.Grant = got.Count, want.Grant
			return mends && got == want && got.Count > 0
		}) {
			t.Errorf("the record has no %+v in %+v", want, record)
		}
	}
	said := refusedLine.FindAllStringSubmatch(r.Err, -1)
	if len(said) != 10 {
		t.Errorf("%d refusals are said, want 10: %s", len(said), r.Err)
	}
	for _, line := range said {
		if !slices.ContainsFunc(record, func(got refusal) bool {
			return bourn.Printable(got.Target) == line[2] && strings.HasPrefix(line[3], bourn.Printable(got.Reason))
		}) {
			t.Errorf("said and not recorded: %s", line[0])
		}
	}
}

// rawAddresses tries the address of a granted name by itself, and others, in every spelling.
func rawAddresses(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	var all []attempt
	for _, addr := range []string{
		"93.184.216.34", "1572395042", "0x5db8d822", "0135.0270.0330.042", "93.184.55330", "0x5d.184.216.34", "::ffff:93.184.216.34", "::ffff:5db8:d822",
		"2606:2800:220:1::34", "2606:2800:0220:0001:0000:0000:0000:0034", "2606:2800:220:1::34%lo", "93.184.216.034", "93.184.216.34.",
		"127.0.0.1", "127.1", "127.0.0.2", "0.0.0.0", "0", "::1", "::", "::ffff:127.0.0.1", "2130706433", "0x7f.1", "017700000001",
		"169.254.169.254", "fd00:ec2::254", "10.0.0.5", "64:ff9b::7f00:1", "255.255.255.255", "224.0.0.1", "8.8.8.8", "１２７.0.0.1",
	} {
		all = append(all, everyWay(addr, "8080", rejected+"|400|socks 8|no suitable address|invalid|network is unreachable|permission denied|i/o timeout")...)
	}
	reaches(t, u, hosts("good.example:8080", "v6.example:8080"), all)
	only(t, w)
}

// notPublic grants names whose addresses are not of the public internet: none is reached.
func notPublic(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	names := []string{"private", "private6", "loop", "loop6", "metadata", "metadata6", "link", "link6", "zero", "zero6", "mapped", "mappedloop", "nat64",
		"sixtofour", "compatible", "cgnat", "multicast", "benchmark", "empty", "control", "localhost"}
	var all []attempt
	var flags []string
	for _, n := range names {
		flags = append(flags, hosts(n+".example:8080")...)
		all = append(all, everyWay(n+".example", "8080", rejected)...)
		all = append(all, attempt{Via: "get", Host: n + ".example", Port: "8080", want: rejected})
	}
	flags = append(flags, hosts("mixed.example:8080", "flip.example:8080", "rebound.example:8080", "metadata.google.internal", "sub.localhost:8080", "localhost:5432")...)
	all = slices.Concat(all, everyWay("mixed.example", "8080", "at 93.184.216.37:8080"), everyWay("metadata.google.internal", "80", rejected), everyWay("sub.localhost", "8080", rejected),
		everyWay("loop.example", "5432", rejected))
	for range 10 {
		for _, name := range []string{"flip.example", "rebound.example"} {
			for _, a := range everyWay(name, "8080", "") {
				a.want = "no such want" // either will do, only not the loopback
				all = append(all, a)
			}
		}
	}
	said, _ := reach(t, u, flags, all)
	for i, a := range all {
		either := a.want == "no such want" && slices.Contains([]string{"at 93.184.216.51:8080", "at 93.184.216.52:8080"}, said[i])
		if a.want == "no such want" {
			a.want = rejected
		}
		if !either && !a.met(said[i]) {
			t.Errorf("%s %s port %s: %q, want %q", a.Via, a.Host, a.Port, said[i], a.want)
		}
	}
	only(t, w, "93.184.216.37", "93.184.216.51", "93.184.216.52")
	for _, r := range recorded(t, u, "") {
		if r.Target == "private.example:8080" && (r.Reason != "10.1.2.3 is private, and it is not granted as an address" || r.Grant != "") {
			t.Errorf("%+v", r)
		}
	}
}

// grantedAddresses reaches what is granted as an address, and what is named so.
func grantedAddresses(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	reaches(t, u, hosts("93.184.216.77:8080", "[2606:2800:220:1::77]:8080", "10.1.2.3:5432", "private.example:5432", "mapped.example:5432", "169.254.169.254:8080", "localhost:5000", "[::1]:5001", "127.0.0.2:5432"), slices.Concat(
		everyWay("93.184.216.77", "8080", "at 93.184.216.77:8080"),
		everyWay("::ffff:93.184.216.77", "8080", "at 93.184.216.77:8080"),
		everyWay("2606:2800:220:1::77", "8080", "at [2606:2800:220:1::77]:8080"),
		everyWay("2606:2800:220:1:0::77", "8080", "at [2606:2800:220:1::77]:8080"),
		everyWay("10.1.2.3", "5432", "at 10.1.2.3:5432"),
		everyWay("private.example", "5432", "at 10.1.2.3:5432"),
		everyWay("mapped.example", "5432", "at 10.1.2.3:5432"),
		everyWay("169.254.169.254", "8080", "at 169.254.169.254:8080"),
		everyWay("localhost", "5000", "at 127.0.0.1:5000|at [::1]:5000"),
		everyWay("127.0.0.1", "5000", "at 127.0.0.1:5000"),
		everyWay("::1", "5000", "at [::1]:5000"),
		everyWay("::1", "5001", "at [::1]:5001"),
		everyWay("127.0.0.2", "5432", "at 127.0.0.2:5432"),
		everyWay("127.0.0.1", "8080", rejected), everyWay("127.0.0.1", "5432", rejected), []attempt{{Via: "direct", Host: "127.0.0.3", Port: "5000", want: rejected}},
		everyWay("10.1.2.3", "8080", rejected), everyWay("10.1.2.4", "5432", rejected), everyWay("93.184.216.78", "8080", rejected),
		everyWay("loop.example", "5000", rejected),
	))
	only(t, w, "93.184.216.77", "2606:2800:220:1::77", "10.1.2.3", "169.254.169.254:8080", "127.0.0.1:5000", "[::1]:5000", "[::1]:5001", "127.0.0.2:5432")
}

// onePort grants the same port of names, addresses of both families and the loopback: their
// listeners must not stand in each other's way.
func onePort(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	reaches(t, u, hosts("good.example:8080", "93.184.216.77:8080", "[2606:2800:220:1::77]:8080", "localhost:8080", "127.0.0.2:8080", "[::1]:8080", "good.example:53", "good.example:61080"), slices.Concat(
		everyWay("good.example", "8080", "at 93.184.216.34:8080"), everyWay("2606:2800:220:1::77", "8080", "at [2606:2800:220:1::77]:8080"),
		everyWay("93.184.216.77", "8080", "at 93.184.216.77:8080"), everyWay("127.0.0.2", "8080", "at 127.0.0.2:8080"),
		everyWay("127.0.0.1", "8080", "at 127.0.0.1:8080"), everyWay("::1", "8080", "at [::1]:8080"), everyWay("localhost", "8080", "at 127.0.0.1:8080|at [::1]:8080"),
		everyWay("2606:2800:220:1::78", "8080", rejected), everyWay("93.184.216.78", "8080", rejected),
	))
	only(t, w, "93.184.216.34", "93.184.216.77", "2606:2800:220:1::77", "127.0.0.1", "127.0.0.2", "::1")
}

// webNames are what HTTP and TLS say beside the address that is connected to.
func webNames(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	const page, secure = "at 93.184.216.34:80 host good.example", "at 93.184.216.34:443 host good.example"
	flags := hosts("good.example", "*.wild.example")
	reaches(t, u, flags, []attempt{
		{Via: "get", Host: "good.example", Port: "80", want: page + ":80"},
		{Via: "get", Host: "GOOD.example.", Port: "80", want: "at 93.184.216.34:80 host GOOD.example.:80"},
		{Via: "get", Host: "good.example", Port: "80", Say: "other.example", want: page + ":80"},
		{Via: "get", Host: "other.example", Port: "80", Say: "good.example", want: "no 403"},
		{Via: "get", Host: "good.example", Port: "8080", want: "no 403"},
		{Via: "get", Host: "good.example@other.example", Port: "80", want: "no 403|400"},
		{Via: "get", Host: "other.example#good.example", Port: "80", want: "no 403|400"},
		{Via: "tls", Host: "good.example", Port: "443", Say: "good.example", want: secure},
		{Via: "tls", Host: "good.example", Port: "443", Say: "-", want: secure},
		{Via: "tls", Host: "good.example", Port: "443", Say: "a.wild.example", want: secure},
		{Via: "tls", Host: "good.example", Port: "443", Say: "other.example", want: rejected},
		{Via: "tls", Host: "good.example", Port: "443", Say: "evil.good.example", want: rejected},
		{Via: "tls", Host: "good.example", Port: "80", Say: "other.example", want: rejected},
		{Via: "tlsproxy", Host: "good.example", Port: "443", Say: "good.example", want: secure},
		{Via: "tlsproxy", Host: "good.example", Port: "443", Say: "GOOD.EXAMPLE", want: secure},
		{Via: "tlsproxy", Host: "good.example", Port: "443", Say: "other.example", want: rejected},
	})
	record := recorded(t, u, "")
	if !slices.ContainsFunc(record, func(r refusal) bool {
		return r.Target == "good.example:443" && strings.Contains(r.Reason, "TLS server name") && strings.Contains(r.Reason, "other.example") && r.Count == 2
	}) {
		t.Errorf("the other server name is not in the record twice: %+v", record)
	}
	for _, second := range []string{`GET http://other.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n`, `GET / HTTP/1.1\r\nHost: other.example\r\n\r\n`} {
		said, _ := reach(t, u, flags, []attempt{{Via: "smuggle", Host: "good.example", Port: "80", Say: second}})
		if !strings.HasPrefix(said[0], "200 then 40") {
			t.Errorf("a second request over one connection, %q: %q", second, said[0])
		}
	}
	for _, v := range w.Visits() {
		if v.At.Addr().String() != "93.184.216.34" || strings.Contains(v.SNI+v.Host, "other") || strings.Contains(v.SNI, "evil") {
			t.Errorf("a server was asked for another host: %+v", v)
		}
	}
}

// otherProtocols are what is no plain TCP connection.
func otherProtocols(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	w.Asked()
	const silent = "no refused|timeout|unreachable|permitted|unsupported|supported"
	reaches(t, u, hosts("good.example:8080", "*.wild.example:8080"), []attempt{
		{Via: "udp", Host: "good.example", Port: "8080", want: silent},
		{Via: "udp", Host: "93.184.216.34", Port: "8080", want: silent},
		{Via: "udp", Host: "8.8.8.8", Port: "53", want: silent},
		{Via: "udp", Host: "2606:2800:220:1::34", Port: "443", want: silent},
		{Via: "udp", Host: "127.0.0.1", Port: "53", want: silent},
		{Via: "mptcp", Host: "good.example", Port: "8080", want: silent},
		{Via: "mptcp", Host: "127.0.0.1", Port: "8080", want: silent},
		{Via: "fastopen", Host: "93.184.216.34", Port: "8080", Say: "x", want: silent},
		{Via: "fastopen", Host: "127.0.0.1", Port: "8080", Say: "x", want: silent + "|reset"},
		{Via: "dns", Host: "good.example", want: "[198.18.1.0]"},
		{Via: "dns", Host: "secret-1.good.example", want: "no no such host"},
		{Via: "dns", Host: "secret-2.evil.test", want: "no no such host"},
		{Via: "dns", Host: "localhost", want: "[127.0.0.1 ::1]"},
		{Via: "rawdns", Host: "198.18.0.1", Port: "16", Say: "good.example.", want: "RCodeSuccess with 0 answers"},
		{Via: "rawdns", Host: "198.18.0.1", Port: "28", Say: "good.example.", want: "RCodeSuccess with 0 answers"},
		{Via: "rawdns", Host: "198.18.0.1", Port: "1", Say: "GOOD.example.", want: "RCodeSuccess with 1 answers"},
		{Via: "rawdns", Host: "198.18.0.1", Port: "1", Say: "secret-3.evil.test.", want: "RCodeNameError with 0 answers"},
		{Via: "rawdns", Host: "198.18.0.1", Port: "16", Say: "secret-4.evil.test.", want: "RCodeNameError with 0 answers"},
		{Via: "rawdns", Host: "198.18.0.1", Port: "12", Say: "34.216.184.93.in-addr.arpa.", want: "RCodeNameError with 0 answers"},
		{Via: "rawdns", Host: "198.18.0.1", Port: "1", Say: "a b.evil.test.", want: "RCodeNameError with 0 answers"},
		{Via: "rawdns", Host: "127.0.0.1", Port: "1", Say: "good.example.", want: silent},
		{Via: "rawdns", Host: "8.8.8.8", Port: "1", Say: "good.example.", want: silent},
		{Via: "listen", Host: "127.0.0.1", Port: "0", want: "at own"},
		{Via: "listen", Host: "::1", Port: "0", want: "at own"},
		{Via: "listen", Host: "0.0.0.0", Port: "0", Say: "127.0.0.1", want: "at own"},
		{Via: "listen", Host: "::", Port: "0", Say: "::1", want: "at own"},
		{Via: "listen", Host: "::", Port: "0", Say: "127.0.0.1", want: "at own"},
		{Via: "listen", Host: "127.0.0.5", Port: "3000", Say: "127.0.0.5", want: "at own"},
		{Via: "listen", Host: "0.0.0.0", Port: "9999", Say: "127.0.0.1", want: "at own"},
		{Via: "listen", Host: "0.0.0.0", Port: "8080", Say: "127.0.0.1", want: "no address already in use"},
	})
	only(t, w)
	for _, name := range w.Asked() {
		if name != "good.example" {
			t.Errorf("the name server was asked for %q", name)
		}
	}
}

// ownControl tries the port of Bourn's own control plane: it is refused whatever is granted.
func ownControl(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	for _, host := range []string{"localhost:7720", "127.0.0.1:7720", "127.9.9.9:7720", "[::1]:7720", "LOCALHOST.:7720"} {
		r := u.Bourn("run", "--host", host, "--", "true")
		if r.Status != 2 && r.Status != 125 || !strings.Contains(r.Err, "can never be granted") {
			t.Errorf("--host %s: status %d, %q", host, r.Status, r.Err)
		}
	}
	reaches(t, u, hosts("localhost:5000", "control.example:7720", nettest.OwnAddress+":7720", "loop.example:7720", "127.0.0.1", "good.example:7720"), slices.Concat(
		everyWay("control.example", "7720", rejected), everyWay(nettest.OwnAddress, "7720", rejected), everyWay("loop.example", "7720", rejected),
		everyWay("localhost", "7720", rejected), everyWay("127.0.0.1", "7720", rejected), everyWay("::1", "7720", rejected),
		everyWay("good.example", "7720", "at 93.184.216.34:7720"),
	))
	only(t, w, "93.184.216.34")
	// What explain says is what becomes of it.
	for target, grants := range map[string][]string{
		nettest.OwnAddress + ":7720": {nettest.OwnAddress + ":7720"}, "control.example:7720": {"control.example:7720", nettest.OwnAddress + ":7720"}, "localhost:7720": {"localhost"}} {
		args := append(append([]string{"explain"}, hosts(grants...)...), "connect", target)
		if r := u.Bourn(args...); r.Status != 3 {
			t.Errorf("%q: status %d, %q", args, r.Status, r.Out)
		}
	}
}
