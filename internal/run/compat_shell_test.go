package run_test

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bourn/internal/run/runtest"
)

func TestCompatShell(t *testing.T) {
	chores(t, []chore{
		{name: "pipelines and SIGPIPE", script: `set +e; seq 100000 | head -1; echo ${PIPESTATUS[@]}; yes | head -2; echo "${PIPESTATUS[0]}"; set -o pipefail; false | true; echo $?; seq 5 | tac | paste -sd,`},
		{name: "SIGPIPE through bourn", outer: true, script: `set +e; $RUN seq 1000000 | head -1; echo "${PIPESTATUS[0]}"; $RUN sh -c 'yes; echo $? >&2' | head -1; seq 10 | $RUN head -2; $RUN true | cat`},
		{name: "process substitution", script: `diff <(echo a) <(echo b) || true; cat <(seq 3); tee >(cat > out) <<< here > /dev/null; wait; paste <(seq 2) <(seq 2); ls -l /dev/fd/ > /dev/null; exec 5<<< five; cat <&5; cat /dev/fd/5`, loose: true},
		{name: "here-documents", script: "cat <<E\n$((6*7)) $(echo sub)\nE\ncat <<'E'\n$none\nE\ncat <<-E\n\ttab\n\tE\nsh -s arg <<'E'\necho \"$1\" | cat\nE\nhead -c 100000 /dev/zero | tr '\\0' x > big; cat <<E | wc -c\n$(cat big)\nE\n"},
		{name: "jobs", script: `set +e; (exit 3) & a=$!; (exit 4) & b=$!; wait $b; echo $?; wait $a; echo $?; cat < /dev/null & wait; mkfifo p; cat p & kill %1; wait %1; echo $?; true & wait -n; echo $?; coproc c { cat; }; echo co >&${c[1]}; read -r l <&${c[0]}; echo $l; exec {c[1]}>&-; set -m; cat p & kill -STOP %%; kill -CONT %%; kill %%; wait %%; echo $?`, loose: true},
		{name: "timeout, nohup, setsid, nice", script: `set +e; timeout 0.05 cat <(exec cat /dev/zero) > /dev/null; echo $?; timeout 5 sh -c 'exit 6'; echo $?; timeout -s KILL 0.05 tail -f /dev/null; echo $?; nohup echo nohup > out 2> /dev/null < /dev/null; cat out; setsid -w sh -c 'echo session; exit 2'; echo $?; nice -n 3 nice; env -i A=b env; stdbuf -oL echo buf; (cd /; pwd); time -p true 2> /dev/null; chrt -p $$ > /dev/null; echo $?; taskset -p $$ > /dev/null; echo $?; renice -n 1 $$ > /dev/null; echo $?; xargs -a /dev/null; ionice echo io`, loose: true},
		{name: "traps", script: `set +e; trap 'echo exit' EXIT; trap 'echo usr1' USR1; kill -USR1 $$; trap '' TERM; kill $$; echo alive; sh -c 'trap "echo int; exit 9" INT; kill -INT $$; exit 1'; echo $?; sh -c 'kill -KILL $$'; echo $?; sh -c 'kill -SEGV $$' 2> /dev/null; echo $?; (ulimit -c 0; sh -c 'kill -ABRT $$'); echo $?`, loose: true},
		{name: "status", script: `exit 42`, status: 42},
		{name: "killed by itself", script: `kill -KILL $$`, status: -1},
		{name: "terminated by itself", script: `kill -TERM $$`, status: -1},
		{name: "aborted", script: `ulimit -c 0; kill -ABRT $$`, status: -1},
		{name: "status of what is not there", outer: true, status: 127, script: `$RUN ./nowhere 2> /dev/null`},
		{name: "status of what cannot be executed", outer: true, status: 126, script: `: > f; $RUN ./f 2> /dev/null`},
		{name: "a directory as command", outer: true, status: 126, script: `mkdir d; $RUN ./d 2> /dev/null`},
		{name: "a script without shebang", outer: true, script: `echo 'echo "$0" "$1"' > s; chmod +x s; $RUN ./s arg`},
		{name: "arguments as they are", outer: true, script: `$RUN printf '<%s>' '' 'a b' '*' '$HOME' '--' '-x' $'new\nline' "it's"; $RUN bash -c 'echo $0 $#' name a b; a=$(head -c 100000 /dev/zero | tr '\0' x); $RUN printf %s "$a" | wc -c; $RUN printf %s {1..9000} | wc -c`},
		{name: "arguments that are not UTF-8", outer: true, script: `$RUN printf %s $'a\xffb' | od -An -tx1; $RUN sh -c 'echo > "$1"' sh $'\xe4'; ls | od -An -tx1`, loose: true},
		{name: "standard streams", outer: true, script: `echo in | $RUN cat; $RUN sh -c 'echo out; echo err >&2' 2> e > o; cat o e; printf 'one\ntwo\n' > f; { $RUN sh -c 'read -r x; echo "$x"'; cat; } < f; $RUN cat < /dev/null; $RUN sh -c 'echo a' >> o; cat o; head -c 3000000 /dev/zero | $RUN wc -c; $RUN head -c 3000000 /dev/zero | wc -c; $RUN sh -c 'echo 1; echo 2 >&2; echo 3' 2>&1 | cat; $RUN cat <<< string; $RUN cat - f < f`},
		{name: "standard streams by name", outer: true, script: `echo in | $RUN cat /dev/stdin | cat; $RUN sh -c 'echo out > /dev/stdout; echo err > /dev/stderr; echo one > /dev/fd/1; echo three > /dev/fd/1' 2>&1 | cat; $RUN tee /dev/stderr <<< t 2>&1 | cat`},
		{name: "standard streams by name, devices", outer: true, script: `$RUN cat /dev/stdin < /dev/null; $RUN sh -c 'echo > /dev/stdout; echo > /dev/stderr' > /dev/null 2>&1; head -c 3 /dev/zero > z; $RUN head -c 3 /dev/stdin < /dev/zero | cmp - z`},
		{name: "standard streams by name, to files of the project", outer: true, script: `echo in > i; $RUN cat /dev/stdin < i; $RUN sh -c 'echo out > /dev/stdout' > o; cat o; $RUN sh -c 'echo err > /dev/stderr' 2> o; cat o; $RUN sh -c 'echo 1 >> /dev/fd/1' >> o; cat o`},
		{name: "standard streams, files elsewhere", outer: true, script: `mkdir other p; echo in > other/i; cd p; $RUN cat < ../other/i; $RUN sh -c 'echo out' > ../other/o; cat ../other/o; $RUN sh -c 'echo more' >> ../other/o; cat ../other/o`},
		{name: "standard streams by name, to files elsewhere", outer: true, script: `mkdir other p; echo in > other/i; cd p; $RUN cat /dev/stdin < ../other/i; $RUN sh -c 'echo out > /dev/stdout' > ../other/o; cat ../other/o; $RUN sh -c 'echo err > /dev/stderr' 2> ../other/o; cat ../other/o`},
		// What is closed outside is /dev/null inside.
		{name: "closed standard streams", outer: true, once: true, want: "x\n", script: `$RUN cat <&-; $RUN /bin/echo x 2>&-; $RUN true >&-; $RUN /bin/echo y >&-`},
		{name: "signals that outside ignores", outer: true, script: `trap '' HUP; $RUN grep SigIgn /proc/self/status; $RUN sh -c 'kill -HUP $$; echo alive'`},
		{name: "signals by default", outer: true, script: `$RUN grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status`},
		{name: "background is over when the command is", outer: true, once: true, want: "started\n", script: `timeout 20 $RUN sh -c 'tail -f /dev/null & echo started'`},
		{name: "two at once", outer: true, script: `for i in 1 2 3 4; do $RUN sh -c "echo $i > f$i" & done; wait; cat f?; $RUN true & $RUN false || echo $?; wait`},
		{name: "one inside a pipeline of runs", outer: true, script: `$RUN seq 5 | $RUN tac | $RUN paste -sd,`},
	})
}

func TestCompatSystem(t *testing.T) {
	chores(t, []chore{
		{name: "devices", script: `echo x > /dev/null; head -c 3 /dev/zero | od -An -tx1; head -c 8 /dev/urandom | wc -c; head -c 8 /dev/random | wc -c; echo x 2>&1 > /dev/full || echo full; cat /dev/null; test -c /dev/null; dd if=/dev/zero of=/dev/null bs=1M count=2 status=none; stat -c %a /dev/null /dev/shm; echo x > /dev/shm/bourn-compat-$$; rm /dev/shm/bourn-compat-$$; ls /dev/fd > /dev/null; : > /dev/tcp/127.0.0.1/1 2> /dev/null || echo refused`, loose: true},
		{name: "no terminal", outer: true, script: `exec < /dev/null; setsid -w $RUN bash -c ': < /dev/tty' 2>&1 | grep -o 'No such device or address'; setsid -w $RUN bash -c 'tty; test -t 0 || echo none; stty size' 2>&1 | cat`},
		// Its input stays open: script would send the end of it, which may come before the terminal is raw.
		{name: "a terminal", outer: true, needs: "script tput stty", script: `export TERM=xterm; mkfifo p; exec 3<> p; script -qec "$RUN bash -c 'tty > /dev/null && echo tty; stty size; tput cols; tput colors; test -t 1 && echo one; : < /dev/tty; echo x > /dev/tty; ps -o tty= -p \$\$ | grep -c pts; stty -echo; stty echo; exit 3'" /dev/null <&3 || echo $?`, loose: true},
		{name: "script inside", needs: "script", script: `script -qec 'test -t 1 && echo terminal; stty rows 40; stty size; exit 5' log < /dev/null || echo $?; grep -c terminal log`, loose: true},
		{name: "tput and stty without one", script: `TERM=xterm tput bold | od -An -c; tput -T xterm-256color colors; stty -a < /dev/null 2>&1 || echo $?; clear -T xterm | wc -c; reset -q 2> /dev/null < /dev/null || true; infocmp xterm | wc -l`},
		{name: "who am I", script: `set +e; id; whoami; id -un; groups; getent passwd root; getent passwd "$(id -u)"; getent group root; hostname; uname -srmo; logname; echo ~; echo ~root; umask; nproc; getconf _NPROCESSORS_ONLN PAGESIZE; arch; getent hosts localhost; getent services http; getent protocols tcp; cat /etc/os-release; true`},
		{name: "ps", needs: "ps", script: `sh -c 'ps -o comm= -p $$; :'; ps -o uid= -p $$; ps aux > /dev/null; ps -ef | grep -q '[p]s -ef'; pgrep -x bash > /dev/null; kill -0 $$; cat /proc/$$/comm; tr '\0' ' ' < /proc/self/cmdline; readlink /proc/self/cwd | sed "s,$PWD,here,"; readlink /proc/self/exe; free > /dev/null; uptime > /dev/null; vmstat > /dev/null; top -bn1 > /dev/null; pstree $$ > /dev/null 2>&1 || true`, loose: true},
		{name: "facts of the machine", script: `grep -c ^processor /proc/cpuinfo; grep MemTotal /proc/meminfo; cat /proc/version; cat /proc/sys/kernel/ostype /proc/sys/fs/pipe-max-size /proc/sys/vm/overcommit_memory /proc/sys/kernel/random/boot_id; cat /proc/filesystems | wc -l; wc -l < /proc/self/limits; cut -d' ' -f1 /proc/stat | head -1; cat /proc/loadavg > /dev/null; cat /proc/self/oom_score_adj; getconf ARG_MAX; cat /proc/self/cgroup | wc -l; cat /proc/net/dev > /dev/null; ls /proc/self/task | wc -l`},
		{name: "dates and locales", script: `TZ=Europe/Berlin date -d @0; TZ=America/New_York date -d @1700000000 +%Z; date -u -d @0; date -d @0 +%c; locale; locale -a | sort | head -3; LC_ALL=C.UTF-8 printf '%s\n' ä | wc -m; echo ÄÖ | tr '[:upper:]' '[:lower:]'; printf 'b\nA\na\n' | sort; LC_ALL=C date -d '2024-02-29 +1 year' +%F; cal 2 2024 2> /dev/null || true; iconv -f latin1 -t utf8 < /dev/null; zdump UTC > /dev/null 2>&1 || true`},
		{name: "environment", env: []string{"SECRET_TOKEN=" + secret, "TZ=Asia/Tokyo", "LC_TIME=C", "TERM=vt100", "COLORTERM=truecolor", "LOGNAME=tester", "SHELL=/bin/bash", "LANGUAGE=en"},
			script: `for v in HOME USER LANG LOGNAME SHELL TERM COLORTERM TZ LC_TIME LANGUAGE PWD; do echo "$v=${!v}"; done; case $PATH in */usr/bin*) echo path;; esac; test -d "${TMPDIR-/tmp}"; cd; pwd; date -d @0 +%Z`, loose: true},
		{name: "limits", outer: true, script: `$RUN bash -c 'ulimit -a'; $RUN bash -c 'ulimit -Ha'; ulimit -Sn 300; ulimit -c 0; ulimit -s 4096; ulimit -f 2048; ulimit -v 40000000; $RUN bash -c 'ulimit -Sn; ulimit -c; ulimit -s; ulimit -f; ulimit -v; ulimit -u'; ulimit -Hn 512; $RUN bash -c 'ulimit -Sn; ulimit -Hn'; $RUN cat /proc/self/limits`},
		{name: "nice, affinity, oom score", outer: true, script: `nice -n 4 $RUN nice; taskset -c 0 $RUN nproc; echo 300 > /proc/self/oom_score_adj; $RUN cat /proc/self/oom_score_adj; chrt -b 0 $RUN chrt -p 0 | grep -o 'SCHED_.*'; ionice -c 3 $RUN ionice`},
		{name: "descriptors", outer: true, once: true, want: "4\nclosed\n", script: `$RUN sh -c 'ls /proc/self/fd | wc -l'; exec 7< /etc/hostname; $RUN sh -c 'test -e /proc/self/fd/7 || echo closed'`},
		{name: "programs of the system", script: `for p in ls cat env bash sh awk sed grep cut tr sort uniq wc head tail tee xargs find date stat dd od seq expr basename dirname realpath mktemp tar gzip; do command -v $p > /dev/null || echo $p; done; ls / > /dev/null; ls /usr/bin | wc -l; ldd /bin/ls | wc -l; ldconfig -p | wc -l; which ls; type -t cd; man --version > /dev/null; test -r /etc/ssl/certs/ca-certificates.crt && echo certificates; test -e /etc/ld.so.cache; bash -lc 'echo login' ; bash -ic 'echo interactive' 2> /dev/null`, loose: true},
		{name: "loopback", needs: "/usr/bin/python3 curl", loose: true, script: `/usr/bin/python3 -u -c '
import http.server
s = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler); print(s.server_port, flush=True); s.handle_request(); s.handle_request()' 2> /dev/null > port & until p=$(grep . port); do :; done; echo page > index.html; curl -s "http://127.0.0.1:$p/"; curl -s "http://localhost:$p/"; wait`},
	})
}

func TestCompatEnvironment(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Env = append(u.Env, "SECRET_TOKEN="+secret, "PLAIN=1", "BASH_ENV=/nowhere", "LD_PRELOAD_X=1")
		r := u.Bourn("run", "-q", "--", "env")
		noSecret(t, "env", r.Out, r.Err)
		if strings.Contains(r.Out, "PLAIN") || strings.Contains(r.Out, "BASH_ENV") {
			t.Errorf("passed without being asked to: %q", r.Out)
		}
		r = u.Bourn("run", "-q", "--env", "SECRET_TOKEN", "--env", "EMPTY_ONE", "--", "env")
		if !strings.Contains(r.Out, "SECRET_TOKEN="+secret+"\n") || strings.Contains(r.Out, "PLAIN") || strings.Contains(r.Out, "EMPTY_ONE") {
			t.Errorf("--env: out %q, err %q", r.Out, r.Err)
		}
		// No environment at all is one, too.
		cmd := u.Command(context.Background(), runtest.Binary(t), "run", "-q", "--", "sh", "-c", "echo $PATH; ls / > /dev/null && pwd")
		cmd.Env = []string{"HOME=" + u.Home}
		if r := u.Wait(cmd); r.Status != 0 || !strings.HasPrefix(r.Out, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") || !strings.HasSuffix(r.Out, u.Work+"\n") {
			t.Errorf("without an environment: %+v", r)
		}
		// A PATH of nonsense: relative, empty, missing, doubled entries.
		cmd = u.Command(context.Background(), runtest.Binary(t), "run", "-q", "--", "sh", "-c", "echo ran; tool")
		u.Write("bin/tool", "#!/bin/sh\necho tool\n")
		must(t, chmodX(u.Path("bin/tool")))
		cmd.Env = []string{"HOME=" + u.Home, "PATH=:bin::/nowhere:/usr/bin:/usr/bin/:/bin:/:~/x:" + filepath.Join(u.Dir, "none")}
		if r := u.Wait(cmd); r.Status != 0 || r.Out != "ran\ntool\n" {
			t.Errorf("with a PATH of nonsense: %+v", r)
		}
	})
}

// A tool in a directory of PATH outside the project works, and is not writable.
func TestCompatOwnTools(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		tool := u.Write(filepath.Join(u.Home, ".local/bin/tool"), "#!/bin/sh\necho tool \"$@\"\n")
		must(t, chmodX(tool))
		u.Symlink(tool, filepath.Join(u.Dir, "tools"))
		u.Env = append(u.Env, "PATH="+filepath.Dir(tool)+":/usr/bin:/bin")
		r := u.Sh("tool arg; echo x > " + tool + " || echo refused; ls -A ~ ~/.local")
		if r.Out != "tool arg\nrefused\n"+u.Home+":\n.local\n\n"+u.Home+"/.local:\nbin\n" {
			t.Errorf("%+v", r)
		}
		// A tool installed by symlink into a directory of PATH, as pipx, npm -g and others do.
		real := u.Write(filepath.Join(u.Home, ".local/share/app/app"), "#!/bin/sh\necho app\n")
		must(t, chmodX(real))
		u.Symlink("../share/app/app", filepath.Join(u.Home, ".local/bin/app"))
		if r := u.Sh("app"); r.Status != 0 || r.Out != "app\n" {
			t.Errorf("a tool behind a symlink: %+v", r)
		}
	})
}

func TestCompatSignals(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT} {
			name := strings.TrimPrefix(sigName[sig], "SIG")
			t.Run(name+" trapped", func(t *testing.T) {
				t.Parallel()
				u := runtest.NewUser(t, u.UID)
				l := startBourn(t, u, "run", "-q", "--", "bash", "-c", `trap 'echo trapped; exit 7' `+name+`; echo ready; while :; do read -r -t 0.05 x; done`)
				l.wait("ready")
				must(t, l.cmd.Process.Signal(sig))
				l.wait("trapped")
				if ws := l.end(); !ws.Exited() || ws.ExitStatus() != 7 {
					t.Errorf("it ended with %v, want status 7", l.cmd.ProcessState)
				}
			})
			t.Run(name+" not trapped", func(t *testing.T) {
				t.Parallel()
				u := runtest.NewUser(t, u.UID)
				l := startBourn(t, u, "run", "-q", "--", "sh", "-c", `ulimit -c 0; echo ready; exec cat`)
				l.wait("ready")
				must(t, l.cmd.Process.Signal(sig))
				if ws := l.end(); !ws.Signaled() || ws.Signal() != sig {
					t.Errorf("it ended with %v, want %v", l.cmd.ProcessState, sig)
				}
			})
		}
	})
}

var sigName = map[syscall.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT", syscall.SIGHUP: "SIGHUP",
	syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2", syscall.SIGQUIT: "SIGQUIT"}
