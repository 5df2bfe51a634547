package run_test

import "testing"

// goModule is a module that needs the standard library alone.
const goModule = `mkdir -p greet; printf 'module example.org/hello\n\ngo 1.21\n' > go.mod
printf 'package main\n\nimport (\n\t"os"\n\n\t"example.org/hello/greet"\n)\n\nfunc main() { os.Stdout.WriteString(greet.Text("world")) }\n' > main.go
printf 'package greet\n\n// Text greets.\nfunc Text(name string) string { return "hello " + name + "\\n" }\n' > greet/greet.go
printf 'package greet\n\nimport "testing"\n\nfunc TestText(t *testing.T) {\n\tif Text("x") != "hello x\\n" {\n\t\tt.Fatal(t.TempDir())\n\t}\n}\n' > greet/greet_test.go
`

// goVendored is a module with a dependency of its own making, vendored.
const goVendored = `mkdir v; cd v; printf 'module example.org/app\n\ngo 1.21\n\nrequire example.org/dep v1.0.0\n' > go.mod; mkdir -p vendor/example.org/dep
printf '# example.org/dep v1.0.0\n## explicit; go 1.21\nexample.org/dep\n' > vendor/modules.txt; printf 'package dep\n\nfunc Say() { println("dep") }\n' > vendor/example.org/dep/dep.go
printf 'package main\n\nimport "example.org/dep"\n\nfunc main() { dep.Say() }\n' > main.go; cd ..
`

const (
	goWork = `cd v; go build -o app; ./app 2>&1; go vet .; go run . 2>&1; go list -f '{{.Dir}}' ./vendor/example.org/dep | sed "s,$PWD/,,"; cd ..
case $(go env GOCACHE) in $HOME/*) echo default cache;; esac
`
	goWorkSays = "dep\ndep\nvendor/example.org/dep\ndefault cache\n"
)

// The default build cache stands in the empty home: everything is compiled anew, which
// is why the most of it is done as one user.
func TestCompatGo(t *testing.T) {
	chores(t, []chore{
		{name: "build, vet, test, run", needs: "go", only: "self", once: true, loose: true, before: goVendored + goModule,
			script: goWork + `go build -o hello .; ./hello; go vet .; go test -vet=off ./... | awk '{print $1, $2}'; gofmt -l .; go list -m; go mod tidy; GOPATH=$PWD/.gopath go install .; .gopath/bin/hello; GOPROXY=off go get example.org/none@v1 2>&1 | grep -o 'module lookup disabled'; go clean -testcache`,
			want:   goWorkSays + "hello world\n? example.org/hello\nok example.org/hello/greet\nexample.org/hello\nhello world\nmodule lookup disabled\n"},
		{name: "vendored", needs: "go", only: "user", once: true, loose: true, before: goVendored, script: goWork, want: goWorkSays},
	})
}

func TestCompatToolchains(t *testing.T) {
	chores(t, []chore{
		{name: "gcc and make", needs: "gcc make", before: `printf '#include <stdio.h>\n#include "h.h"\nint main(void) { return printf("%%s\\n", WHO) < 0; }\n' > main.c; printf '#define WHO "made"\n' > h.h
printf 'run: prog\n\t./prog\n\nprog: main.o\n\t$(CC) -o $@ $<\n\nmain.o: main.c h.h\n\t$(CC) -c -g $<\n\nclean:\n\trm -f prog *.o\n' > Makefile`,
			script: `make -s -j2; ./prog; touch -d '2 seconds' h.h; make -s run; make clean; ls`},
		{name: "shared library and archive", needs: "gcc", script: `printf 'int f(void) { return 7; }\n' > f.c; printf 'int f(void); int main(void) { return f(); }\n' > m.c
gcc -shared -fPIC -o libf.so f.c; gcc -o m m.c -L. -lf; LD_LIBRARY_PATH=. ./m || echo $?; gcc -c f.c; ar rcs f.a f.o; gcc -static -o s m.c f.a; ./s || echo $?`, loose: true},
		{name: "c++ and threads", needs: "g++", script: `printf '#include <thread>\n#include <iostream>\nint main() { int n = 0; std::thread t([&] { n = 5; }); t.join(); std::cout << n << "\\n"; }\n' > t.cc; g++ -pthread -pipe t.cc -o t; ./t; rm t`},
		{name: "compiler from standard input", needs: "gcc", script: `echo 'int main(void) { return 3; }' | gcc -x c - -o r -save-temps=obj; ./r || echo $?; gcc -dumpmachine; echo | gcc -E -v - 2>&1 | grep -c include`, loose: true},
		{name: "gdb", once: true, want: "$1 = 5\n#0  f (x=1) at p.c:1\n#1  0xADDR in main () at p.c:2\n", needs: "gdb gcc", script: `printf 'int g = 4; int f(int x) { return x + g; }\nint main(void) { return f(1); }\n' > p.c; gcc -g p.c -o p
gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'break f' -ex run -ex 'print x + g' -ex bt -ex kill ./p 2>&1 | grep -E '^\$1|^#' | sed 's/0x[0-9a-f]*/0xADDR/'`, loose: true},
		{name: "gdb attaches to its own child", once: true, want: "1\nbye\n", loose: true, needs: "gdb", script: `mkfifo p; cat p & gdb -nx -batch -p $! -ex 'info proc exe' -ex detach 2>&1 | grep -c "exe = '/usr/bin/cat'"; echo bye > p; wait`},
		{name: "strace", needs: "strace", script: `strace -f -o log -e trace=execve,exit_group bash -c '/bin/true; exit 3' || echo $?; grep -c execve log; grep -c 'exit_group(3)' log; rm log`},
		{name: "strace attaches to its own child", needs: "strace", script: `mkfifo p q; cat p > /dev/null & strace -o log -p $! 2> q & read -r line < q; echo "$line" | grep -c attached; echo bye > p; wait; grep -c exit_group log; rm log`},
		{name: "core of the debugger", needs: "gcc", script: `printf '#include <sys/ptrace.h>\n#include <sys/wait.h>\n#include <unistd.h>\n#include <stdio.h>\nint main(void) { int s; pid_t p = fork(); if (!p) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(19); _exit(6); } waitpid(p, &s, 0); long r = ptrace(PTRACE_CONT, p, 0, 0); waitpid(p, &s, 0); printf("%%ld %%d\\n", r, WEXITSTATUS(s)); }\n' > t.c; gcc -w -include signal.h t.c -o t; ./t; rm t`},
		{name: "java", needs: "java javac", once: true, want: "hello you\n/tmp\n", script: `printf 'public class Hello { public static void main(String[] a) throws Exception { var t = new Thread(() -> System.out.println("hello " + a[0])); t.start(); t.join(); java.nio.file.Files.createTempFile("x", "y"); System.out.println(System.getProperty("java.io.tmpdir")); } }\n' > Hello.java; javac Hello.java; java -cp . Hello you`, loose: true},
		{name: "perl", needs: "perl", script: `perl -e 'use POSIX; use File::Temp; use Socket; my ($f, $n) = File::Temp::tempfile(); print $f "x"; close $f; print -s $n, "\n"; print strftime("%Y", gmtime(0)), "\n"; print "$0 @ARGV\n"; system("true") == 0 or die; my $out = qx(echo sub); print $out; $SIG{ALRM} = sub { print "alarm\n" }; kill ALRM => $$;' a b; perl -pi -e 's/x/y/' /dev/null; perl -MConfig -e 'print "$Config{archname}\n"'`},
		{name: "cargo", needs: "cargo", only: "root", once: true, loose: true, env: []string{"HOME=/root"}, before: `command -v cargo; HOME=/root cargo --version`,
			script: `cargo init -q --vcs none --name hello --bin; cargo build -q --offline; ./target/debug/hello; cargo test -q --offline 2>&1 | grep -c 'test result: ok'; rustc --version | cut -d' ' -f1; cargo run -q --offline`, want: "Hello, world!\n1\nrustc\nHello, world!\n"},
		// As in the image of Docker's that has rust: /usr/local/rustup and /usr/local/cargo.
		{name: "a toolchain named by variables", needs: "cargo", only: "root", env: []string{"RUSTUP_HOME=/root/.rustup", "CARGO_HOME=/root/.cargo"}, script: `cargo --version`, loose: true},
		{name: "sqlite", needs: "sqlite3", script: `sqlite3 db 'pragma journal_mode=wal; create table t(a); insert into t values (1),(2); select sum(a) from t'; sqlite3 db 'select count(*) from t; vacuum; pragma integrity_check'`},
		{name: "openssl", needs: "openssl", script: `openssl rand -hex 8 | wc -c; echo x | openssl dgst -sha256; openssl req -x509 -newkey ed25519 -nodes -subj /CN=x -keyout k.pem -out c.pem -days 1 2> /dev/null; openssl verify -CAfile c.pem c.pem; stat -c %a k.pem`, loose: true},
		// Without an account ssh-keygen does nothing.
		{name: "ssh-keygen", needs: "ssh-keygen", only: "root", script: `ssh-keygen -q -t ed25519 -N '' -C c -f key; stat -c %a key key.pub; ssh-keygen -lf key.pub | awk '{print $1, $4}'; echo x | ssh-keygen -q -Y sign -f key -n file > sig 2> /dev/null; head -1 sig; ssh -G host > /dev/null`, loose: true},
		{name: "archives", needs: "tar gzip xz bzip2 zip unzip zstd", script: `mkdir d; echo x > d/f; ln d/f d/l; ln -s f d/s; mkfifo d/p; chmod 750 d; for z in gzip xz bzip2 zstd; do tar c --$z -f t d; mkdir o; tar x -C o -f t; ls -l o/d | awk '{print $1, $2, $9}'; rm -r o t; done; rm d/p; zip -qr z.zip d; mkdir o; unzip -q z.zip -d o; cat o/d/f; tar c d | tar t`, loose: true},
		{name: "rsync", needs: "rsync", script: `mkdir a; echo x > a/f; ln -s f a/l; rsync -a a/ b/; diff -r a b && echo same`},
		{name: "editors", needs: "vim ed", script: `printf 'one\ntwo\n' > f; vim -es -u NONE -c '%s/one/1/' -c wq f; cat f; printf '2s/two/2/\nw\nq\n' | ed -s f; cat f; vim -es -c q; ls -a`},
		{name: "jq, bc, xxd, file, curl of a file", needs: "jq bc xxd file curl", script: `echo '{"a":[1,2]}' | jq -c .a; echo '2^70' | bc; echo hi | xxd -p; file -b /usr/bin/env | cut -d, -f1; echo c > c; curl -s "file://$PWD/c"; man -w ls > /dev/null && echo man`, loose: true},
	})
}

func TestCompatPython(t *testing.T) {
	py := func(name, program string) chore {
		return chore{name: name, needs: "/usr/bin/python3", script: "/usr/bin/python3 - <<'EOF'\n" + program + "\nEOF\n", loose: true}
	}
	chores(t, []chore{
		{name: "venv", needs: "/usr/bin/python3", script: `/usr/bin/python3 -m venv --without-pip v; v/bin/python -c 'import sys; print(sys.prefix == sys.base_prefix, sys.version_info[0])'; . v/bin/activate; python -c 'import os; print(os.environ["VIRTUAL_ENV"] != "")'`, loose: true},
		// The shims of pyenv look for it in the home, which is not the test's.
		{name: "through the shims of pyenv", needs: "pyenv python3", only: "root", env: []string{"PYENV_ROOT=/root/.pyenv"}, script: `python3 -c 'import sys; print(sys.version, sys.prefix)'; pip --version; mkdir p; printf 'x = 4\n' > p/mod.py; PYTHONPATH=p python3 -c 'import mod; print(mod.x)'`, loose: true},
		py("multiprocessing", `
import multiprocessing as mp
from multiprocessing import shared_memory
def f(x): return x * x
with mp.Pool(2) as p: print(p.map(f, range(5)))
q = mp.Queue(); p = mp.Process(target=q.put, args=("said",)); p.start(); print(q.get()); p.join(); print(p.exitcode)
s = shared_memory.SharedMemory(create=True, size=64); s.buf[0] = 9; print(s.buf[0]); s.close(); s.unlink()
v = mp.Value('i', 3); l = mp.Lock()
with l: v.value += 1
print(v.value); m = mp.Manager(); d = m.dict(); d[1] = 2; print(dict(d))
import concurrent.futures as cf
with cf.ThreadPoolExecutor() as e: print(list(e.map(f, [1, 2])))`),
		py("subprocess, tempfile, sqlite3", `
import subprocess, tempfile, sqlite3, os, shutil, asyncio
print(subprocess.run(["sh", "-c", "echo out; exit 4"], capture_output=True))
print(subprocess.run("kill -9 $$", shell=True).returncode)
with tempfile.TemporaryDirectory() as d: print(os.path.isdir(d))
with tempfile.TemporaryFile() as f: f.write(b"x"); print(f.tell())
with tempfile.NamedTemporaryFile(dir=".") as f: print(os.path.exists(f.name))
c = sqlite3.connect("db"); c.execute("create table t(a)"); c.execute("insert into t values (1)"); c.commit(); print(c.execute("select * from t").fetchall())
async def main():
    p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1); print(await p.communicate(b"async"))
asyncio.run(main())
os.mkdir("d"); shutil.copytree("d", "e"); shutil.move("db", "e/db"); print(os.listdir("e")); print(os.cpu_count() > 0, os.getloadavg() is not None)`),
		py("pty", `
import pty, os, sys
out = b""
def read(fd):
    global out
    b = os.read(fd, 1024); out += b; return b""  if False else b
pid, fd = pty.fork()
if pid == 0: os.execvp("sh", ["sh", "-c", "tty > /dev/null && echo tty; stty size; test -r /dev/tty && echo own"])
try:
    while True:
        b = os.read(fd, 1024)
        if not b: break
        out += b
except OSError: pass
print(out, os.waitpid(pid, 0)[1]); sys.stdout.flush()
print(pty.spawn(["sh", "-c", "exit 5"]) >> 8)
m, s = pty.openpty(); print(os.ttyname(s).startswith("/dev/pts/"), os.isatty(s))`),
		py("sockets", `
import socket, threading, os, http.server, urllib.request
for family, at in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET6, ("::1", 0)), (socket.AF_UNIX, "sock")):
    s = socket.socket(family); s.bind(at); s.listen(); t = threading.Thread(target=lambda: s.accept()[0].sendall(b"hi")); t.start()
    c = socket.socket(family); c.connect(s.getsockname()); print(family.name, c.recv(9)); t.join()
a, b = socket.socketpair(); a.send(b"x"); print(b.recv(1))
d = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); d.bind("dgram"); e = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); e.sendto(b"d", "dgram"); print(d.recv(1))
d = socket.socket(socket.AF_UNIX); d.bind("\0abstract-bourn"); d.listen(); e = socket.socket(socket.AF_UNIX); e.connect("\0abstract-bourn"); print("abstract")
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); v.sendto(b"u", u.getsockname()); print(u.recv(1))
a, b = socket.socketpair(); f = os.open("sock2", os.O_CREAT | os.O_RDWR); socket.send_fds(a, [b"x"], [f]); print(len(socket.recv_fds(b, 1, 1)[1]))
h = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler); threading.Thread(target=h.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://127.0.0.1:%d/" % h.server_port).status); h.shutdown()
print(socket.getaddrinfo("localhost", 80, socket.AF_INET, socket.SOCK_STREAM)[0][4])`),
	})
}

func TestCompatNode(t *testing.T) {
	js := func(name, program string) chore {
		return chore{name: name, needs: "node", script: "cat > x.mjs <<'EOF'\n" + program + "\nEOF\nnode x.mjs\n", loose: true}
	}
	chores(t, []chore{
		js("fs, workers, children", `
import fs from 'node:fs'; import os from 'node:os'; import path from 'node:path'; import { once } from 'node:events';
import { Worker } from 'node:worker_threads'; import { execFileSync, fork, spawn } from 'node:child_process';
const d = fs.mkdtempSync(path.join(os.tmpdir(), 'x-')); fs.writeFileSync(d + '/f', 'x'); fs.renameSync(d + '/f', d + '/g'); fs.copyFileSync(d + '/g', 'g'); console.log(fs.readdirSync(d));
fs.mkdirSync('a/b/c', { recursive: true }); fs.symlinkSync('a', 'l'); console.log(fs.realpathSync('l') === fs.realpathSync('a')); fs.cpSync('a', 'z', { recursive: true }); fs.rmSync('a', { recursive: true });
await fs.promises.appendFile('g', 'y'); console.log(await fs.promises.readFile('g', 'utf8'), os.homedir() === process.env.HOME, os.cpus().length > 0, os.hostname().length > 0, os.userInfo !== undefined);
const w = new Worker('require("worker_threads").parentPort.postMessage(6 * 7)', { eval: true }); console.log((await once(w, 'message'))[0]);
console.log(execFileSync('sh', ['-c', 'echo child']).toString(), (await once(spawn('sh', ['-c', 'kill -9 $$']), 'exit')));
fs.writeFileSync('f.cjs', 'process.send({ pid: process.pid > 0 })'); console.log((await once(fork('./f.cjs'), 'message'))[0]);`),
		js("http and fetch", `
import http from 'node:http'; import net from 'node:net'; import { once } from 'node:events';
const s = http.createServer((q, r) => r.end('served ' + q.url)).listen(0, '127.0.0.1'); await once(s, 'listening');
console.log(await (await fetch('http://127.0.0.1:' + s.address().port + '/a')).text(), await (await fetch('http://localhost:' + s.address().port + '/b')).text()); s.close(); s.closeAllConnections();
const u = net.createServer(c => c.end('unix')).listen('./n.sock'); await once(u, 'listening'); console.log((await once(net.connect('./n.sock').setEncoding('utf8'), 'data'))[0]); u.close();`),
		js("fs.watch", `
import fs from 'node:fs'; import { once } from 'node:events';
fs.mkdirSync('w'); const w = fs.watch('w'); setImmediate(() => fs.writeFileSync('w/new', 'x')); console.log((await once(w, 'change'))); w.close();`),
		{name: "io_uring asked for", needs: "node", env: []string{"UV_USE_IO_URING=1"}, script: `UV_USE_IO_URING=1 node -e 'require("fs").promises.readFile("/etc/hostname").then(() => console.log("read"))'`},
		{name: "npm", needs: "npm node", loose: true, before: `mkdir dep; printf '{"name":"dep","version":"1.0.0","bin":{"dep":"cli.js"},"scripts":{"install":"echo installed > made"}}' > dep/package.json; printf '#!/usr/bin/env node\nconsole.log("dep ran", process.argv[2])\n' > dep/cli.js; chmod +x dep/cli.js`,
			script: `npm init -y > /dev/null; sed -i 's/"scripts": {/&"go": "dep arg", "fail": "exit 7",/' package.json; npm install --offline --no-audit --no-fund --install-links ./dep > /dev/null; ls node_modules node_modules/.bin; npm run -s go; npm run -s fail || echo $?; cat node_modules/dep/made; node -e 'console.log(require.resolve("dep/cli.js").endsWith("node_modules/dep/cli.js"))'`},
	})
}
