package run_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"bourn/internal/run/nettest"
	"bourn/internal/run/runtest"

	"github.com/google/go-cmp/cmp"
)

// An errand is work over the network. With grants it must say inside what it says outside
// and reach the same pages; without them it must fail, and no server may see it.
type errand struct {
	name   string
	needs  string // programs, separated by spaces
	hosts  string // grants that it needs, separated by spaces
	script string // for bash -eu
	want   string // what it prints
}

// errandEnv is set for every errand, outside and inside; $CA is the authority's file.
var errandEnv = []string{
	"SSL_CERT_FILE=$CA", "CURL_CA_BUNDLE=$CA", "GIT_SSL_CAINFO=$CA", "NODE_EXTRA_CA_CERTS=$CA", "npm_config_cafile=$CA",
	"npm_config_registry=https://npm.example/", "npm_config_update_notifier=false", "npm_config_fetch_retries=0",
	"GOPROXY=https://goproxy.example", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOFLAGS=-modcacherw", "GOMODCACHE=", "GIT_TERMINAL_PROMPT=0",
}

const plainPage, securePage = "at 93.184.216.34:80 host good.example\n", "at 93.184.216.34:443 host good.example\n"

var errands = []errand{
	{"curl", "curl", "good.example", `curl -sSf http://good.example/ https://good.example/ https://GOOD.example/`, plainPage + securePage + "at 93.184.216.34:443 host GOOD.example\n"},
	{"curl without the proxy", "curl", "good.example", `curl -sSf --noproxy '*' http://good.example/ https://good.example/`, plainPage + securePage},
	{"curl to another port", "curl", "good.example:8000 good.example:8443", `curl -sSf http://good.example:8000/; curl -sSf --noproxy '*' https://good.example:8443/`,
		"at 93.184.216.34:8000 host good.example:8000\nat 93.184.216.34:8443 host good.example:8443\n"},
	{"curl to a host that has IPv6 alone", "curl", "v6.example", `curl -sSf --noproxy '*' http://v6.example/; curl -sSf https://v6.example/`,
		"at [2606:2800:220:1::36]:80 host v6.example\nat [2606:2800:220:1::36]:443 host v6.example\n"},
	{"curl to an address", "curl", "93.184.216.77", `curl -sSf http://93.184.216.77/; curl -sSf --noproxy '*' https://93.184.216.77/`,
		"at 93.184.216.77:80 host 93.184.216.77\nat 93.184.216.77:443 host 93.184.216.77\n"},
	{"curl posts and follows", "curl", "good.example *.wild.example", `head -c 3000000 /dev/zero | curl -sSfL --data-binary @- http://good.example/count; curl -sSfL http://good.example/away`, "3000000\nat 93.184.216.40:443 host a.wild.example\n"},
	{"git", "git", "git.example", `git clone -q http://git.example/repo.git one; git clone -q --depth 1 https://git.example/repo.git two; cat one/file two/file; cd one; git fetch -q; git ls-remote -q origin HEAD | cut -f2`, "content\ncontent\nHEAD\n"},
	{"git without the proxy", "git", "git.example", `git -c http.proxy= clone -q https://git.example/repo.git one; cat one/file`, "content\n"},
	{"git's own protocol", "git", "git.example:9418", `git clone -q git://git.example/repo.git one; cat one/file`, "content\n"},
	{"go", "go", "goproxy.example", `printf 'module m\n\ngo 1.21\n' > go.mod; go get example.org/dep@latest 2>&1; cat go.mod; cat "$(go list -m -f '{{.Dir}}' example.org/dep)/dep.go"`,
		"go: downloading example.org/dep v1.0.0\ngo: added example.org/dep v1.0.0\nmodule m\n\ngo 1.21\n\nrequire example.org/dep v1.0.0 // indirect\npackage dep\n"},
	{"npm", "npm node", "npm.example", `echo '{"name":"m","version":"1.0.0"}' > package.json; npm install --no-audit --no-fund --loglevel=error hello > log || cat log; node -e 'console.log(require("hello"))'`, "hello from npm\n"},
	{"python", "/usr/bin/python3", "good.example", `/usr/bin/python3 -c '
import urllib.request, socket, ssl, http.client
for url in ("http://good.example/", "https://good.example/"): print(urllib.request.urlopen(url).read().decode(), end="")
s = socket.create_connection(("good.example", 80)); s.sendall(b"GET / HTTP/1.0\r\nHost: good.example\r\n\r\n"); print(s.makefile().read().splitlines()[-1])
c = http.client.HTTPSConnection("good.example", context=ssl.create_default_context()); c.request("GET", "/"); print(c.getresponse().read().decode(), end="")
print(socket.getaddrinfo("good.example", 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][1], socket.gethostbyname("localhost"))'`,
		plainPage + securePage + plainPage + securePage + "80 127.0.0.1\n"},
	{"node's fetch, which knows no proxy", "node", "good.example", `node -e '(async () => { for (const s of ["http", "https"]) process.stdout.write(await (await fetch(s + "://good.example/")).text()) })()'`, plainPage + securePage},
	{"node's fetch through the proxy", "node", "good.example", `NODE_USE_ENV_PROXY=1 node -e '(async () => { for (const s of ["http", "https"]) process.stdout.write(await (await fetch(s + "://good.example/")).text()) })()'`, plainPage + securePage},
	{"node asks for many at once", "node", "good.example", `node -e '(async () => { const all = await Promise.all(Array.from({length: 50}, async () => (await fetch("https://good.example/")).text())); console.log(all.length, new Set(all).size) })()'`, "50 1\n"},
	{"bash", "bash", "good.example", `exec 3<> /dev/tcp/good.example/80; printf 'GET / HTTP/1.0\r\nHost: good.example\r\n\r\n' >&3; tail -n 1 <&3`, plainPage},
	{"wget", "wget", "good.example", `wget -qO- --ca-certificate="$SSL_CERT_FILE" http://good.example/ https://good.example/`, plainPage + securePage},
	{"perl", "perl", "good.example", `perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("good.example:80") or die; print $s "GET / HTTP/1.0\r\nHost: good.example\r\n\r\n"; @l = <$s>; print $l[-1]'`, plainPage},
	{"openssl", "openssl", "good.example", `printf 'GET / HTTP/1.0\r\nHost: good.example\r\n\r\n' | openssl s_client -quiet -verify_return_error -CAfile "$SSL_CERT_FILE" -connect good.example:443 2> /dev/null | tail -n 1`, securePage},
	{"getent", "getent", "good.example", `getent hosts good.example > /dev/null && getent ahostsv4 good.example | head -1 | wc -w`, "3\n"},
}

// TestNetworkTools does ordinary work over the network with ordinary programs.
func TestNetworkTools(t *testing.T) {
	inWorld(t, func(t *testing.T, w *nettest.World) {
		w.ServeWeb("80", "443")
		w.ServeWeb("8000", "8443")
		pages(t, w)
		runtest.Users(t, func(t *testing.T, u *runtest.User) {
			for _, e := range errands {
				t.Run(e.name, func(t *testing.T) { e.do(t, w, runtest.NewUser(t, u.UID)) })
			}
		})
	})
}

func (e errand) do(t *testing.T, w *nettest.World, u *runtest.User) {
	has(t, u, e.needs)
	ca := filepath.Join(u.Dir, "work", "ca.pem")
	var flags []string
	for _, v := range errandEnv {
		name, _, _ := strings.Cut(v, "=")
		u.Env = append(u.Env, strings.ReplaceAll(v, "$CA", ca))
		flags = append(flags, "--env", name)
	}
	perform := func(args ...string) (runtest.Result, []string) {
		must(t, exec.Command("rm", "-rf", u.Work).Run())
		u.Mkdir(u.Work)
		u.Write("ca.pem", string(w.CA))
		w.Visits()
		r := u.Do(args[0], args[1:]...)
		return r, requests(w)
	}
	script := []string{"bash", "-c", "set -euo pipefail\n" + e.script}
	outside, wantSeen := perform(script...)
	if outside.Status != 0 || outside.Out != e.want {
		t.Fatalf("it does not work outside: status %d, out %q, want %q, err %q", outside.Status, outside.Out, e.want, outside.Err)
	}
	run := slices.Concat([]string{runtest.Binary(t), "run"}, flags)
	inside, seen := perform(slices.Concat(run, hosts(strings.Fields(e.hosts)...), []string{"--"}, script)...)
	if inside.Status != 0 || inside.Out != e.want {
		t.Errorf("inside: status %d, out %q, want %q, err %q", inside.Status, inside.Out, e.want, inside.Err)
	}
	if diff := cmp.Diff(wantSeen, seen); diff != "" {
		t.Errorf("what the servers saw (-outside +inside):\n%s", diff)
	}
	if len(refusedLine.FindAllString(inside.Err, -1)) > 0 {
		t.Errorf("something was refused: %s", inside.Err)
	}
	for _, grants := range [][]string{hosts("granted.example", "localhost:9"), nil} {
		w.Visits()
		r, _ := perform(slices.Concat(run, grants, []string{"--"}, script)...)
		if r.Status == 0 {
			t.Errorf("with %q: it succeeds, out %q", grants, r.Out)
		}
		if grants != nil && len(refusedLine.FindAllString(r.Err, -1)) == 0 && !strings.Contains(e.hosts, "93.") {
			t.Errorf("with %q: no refusal is said: %s", grants, r.Err)
		}
		only(t, w)
	}
}

// requests returns the requests that servers have seen, in an order of their own.
func requests(w *nettest.World) (out []string) {
	for _, v := range w.Visits() {
		if v.Host != "" {
			out = append(out, fmt.Sprintf("%+v", v))
		}
	}
	slices.Sort(out)
	return out
}

// pages serves a git repository, a Go module, an npm package and a few pages.
func pages(t *testing.T, w *nettest.World) {
	w.Web.HandleFunc("good.example/count", func(rw http.ResponseWriter, r *http.Request) {
		var n bytes.Buffer
		size, _ := n.ReadFrom(r.Body)
		fmt.Fprintln(rw, size)
	})
	w.Web.Handle("good.example/away", http.RedirectHandler("https://a.wild.example/", http.StatusFound))
	git := program(t, "git")
	dir := t.TempDir()
	r := runtest.NewUser(t, syscall.Getuid()).Do("bash", "-c", `set -eu; cd "$1"; export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x
git init -q -b main work; echo content > work/file; git -C work add file; git -C work commit -qm first; git clone -q --bare work repo.git`, "bash", dir)
	if r.Status != 0 {
		t.Fatalf("cannot make a repository: %q", r.Err)
	}
	path, err := exec.Command(git, "--exec-path").Output()
	must(t, err)
	w.Web.Handle("git.example/", &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"}})
	w.Serve(func(c net.Conn) {
		daemon := exec.Command(git, "daemon", "--inetd", "--export-all", "--base-path="+dir)
		daemon.Stdin, daemon.Stdout = c, c
		_ = daemon.Run()
	}, "9418")
	module(w)
	npmPackage(t, w)
}

// module serves example.org/dep as a module proxy does (go.dev/ref/mod#goproxy-protocol).
func module(w *nettest.World) {
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for name, text := range map[string]string{"go.mod": "module example.org/dep\n", "dep.go": "package dep\n"} {
		f, err := z.Create("example.org/dep@v1.0.0/" + name)
		if err == nil {
			_, _ = f.Write([]byte(text))
		}
	}
	z.Close()
	for name, text := range map[string]string{
		"@v/list": "v1.0.0\n", "@latest": `{"Version":"v1.0.0","Time":"2024-01-02T03:04:05Z"}`, "@v/v1.0.0.info": `{"Version":"v1.0.0","Time":"2024-01-02T03:04:05Z"}`,
		"@v/v1.0.0.mod": "module example.org/dep\n", "@v/v1.0.0.zip": packed.String(),
	} {
		w.Web.HandleFunc("goproxy.example/example.org/dep/"+name, func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, text) })
	}
	w.Web.Handle("goproxy.example/", http.NotFoundHandler())
}

// npmPackage serves the package hello.
func npmPackage(t *testing.T, w *nettest.World) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	archive := tar.NewWriter(z)
	for _, f := range [][2]string{{"package.json", `{"name":"hello","version":"1.0.0","main":"index.js"}`}, {"index.js", `module.exports = "hello from npm"`}} {
		must(t, archive.WriteHeader(&tar.Header{Name: "package/" + f[0], Mode: 0o644, Size: int64(len(f[1]))}))
		_, err := archive.Write([]byte(f[1]))
		must(t, err)
	}
	must(t, archive.Close())
	must(t, z.Close())
	sum := sha512.Sum512(packed.Bytes())
	w.Web.HandleFunc("npm.example/hello", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"name":"hello","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"hello","version":"1.0.0","main":"index.js","dist":{"tarball":"https://npm.example/hello/-/hello-1.0.0.tgz","integrity":"sha512-%s"}}}}`,
			base64.StdEncoding.EncodeToString(sum[:]))
	})
	w.Web.HandleFunc("npm.example/hello/-/hello-1.0.0.tgz", func(rw http.ResponseWriter, r *http.Request) { _, _ = rw.Write(packed.Bytes()) })
}
