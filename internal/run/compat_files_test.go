package run_test

import "testing"

func TestCompatFiles(t *testing.T) {
	py := func(name, program string) chore {
		return chore{name: name, needs: "/usr/bin/python3", script: "/usr/bin/python3 - <<'EOF'\n" + program + "\nEOF\n", loose: true}
	}
	chores(t, []chore{
		{name: "rename across directories", script: `mkdir -p a/b c; echo x > a/b/f; mv a/b/f c/g; mv a/b c/; mv c d; cat d/g; mkdir e; mv -T e d/b; mv -n d/g h; find . | sort`},
		{name: "rename over what exists", script: `echo 1 > a; echo 2 > b; mv a b; cat b; mkdir x y; mv -T x y; ls; ln -s b l; mv -T b l; cat l; : > "with space"; mv "with space" $'new\nline'; ls -b`},
		{name: "links", script: `echo x > f; mkdir d; ln f d/g; stat -c %h f; ln -s ../f d/s; cat d/s; readlink -f d/s | sed "s,$PWD/,,"; ln -s nowhere dangling; cp -al d e; rm f; stat -c %h d/g; cat d/s 2>&1 || true; readlink dangling`},
		{name: "fifo", script: `mkfifo -m 600 p; echo through > p & cat p; wait; stat -c '%F %a' p`},
		{name: "flock", needs: "flock", script: `: > l; flock l -c 'flock -n l true || echo held'; flock -s l -c 'flock -sn l echo shared'; exec 9>l; flock -n 9; flock -n l true || echo held; (exec 8<.; flock 8; echo directory)`},
		{name: "modes and umask", script: `umask; umask 077; : > f; mkdir d; stat -c %a f d; umask 002; : > g; stat -c %a g; chmod 2755 g; chmod +x f; chmod 3770 d; stat -c '%a %A' f g d; chmod 0 f; cat f 2>&1 || true; test -w f || echo not writable; chmod 600 f`, only: "user"},
		{name: "modes and umask", script: `umask; umask 077; : > f; mkdir d; stat -c %a f d; umask 002; : > g; stat -c %a g; chmod 2755 g; chmod +x f; chmod 3770 d; stat -c '%a %A' f g d`, only: "root"},
		{name: "umask from outside", outer: true, script: `umask 027; $RUN sh -c 'umask; : > f; mkdir d; stat -c %a f d'`},
		{name: "times", script: `touch -d '2001-02-03 04:05:06.789 UTC' f; stat -c '%Y %y' f; touch -r f g; stat -c %X g; touch -a -d @5 f; stat -c '%X %Y' f; cp -p f h; stat -c %Y h; test f -nt /etc/passwd || echo older; touch -hd @9 f; ln -s f l; touch -hd @7 l; stat -c %Y l f; TZ=Europe/Berlin date -r f; mkdir d; touch -d @1 d; stat -c %Y d`},
		{name: "big and sparse files", script: `truncate -s 20G big; stat -c '%s %b' big; dd if=/dev/zero of=big bs=1M seek=5000 count=4 conv=notrunc status=none; stat -c %s big; du -k big | cut -f1; fallocate -l 8M f 2> /dev/null && stat -c %s f; fallocate -p -o 0 -l 4M f && du -k f | cut -f1; cp --sparse=always f g; cp --reflink=auto f h; cmp f h; head -c 48M /dev/zero > z; stat -c %s z; sync z; rm big f g h z`},
		{name: "sort with files", script: `seq 60000 | rev | sort -n -S 128K | md5sum; seq 30000 | sort -r -S 64K -T . | tail -1; ls -A`, loose: true},
		{name: "temporary files", script: `f=$(mktemp); echo x > "$f"; cat "$f"; d=$(mktemp -d); test -d "$d"; mktemp -p . XXX > /dev/null; mktemp -t t.XXX > /dev/null; echo v > /var/tmp/bourn-compat-$$; rm /var/tmp/bourn-compat-$$ "$f"; rmdir "$d"; stat -c %a /tmp /var/tmp; printf '#!/bin/sh\necho ran\n' > /tmp/bourn-compat-$$; chmod +x /tmp/bourn-compat-$$; /tmp/bourn-compat-$$; rm /tmp/bourn-compat-$$`, loose: true},
		{name: "programs made here", script: `printf '#!/bin/sh\necho script "$@"\n' > s; chmod +x s; ./s 1 2; cp /bin/echo e; ./e copied; printf '#!/usr/bin/env bash\necho env\n' > b; chmod +x b; PATH=$PWD:$PATH b; printf 'echo no shebang\n' > n; chmod +x n; ./n; printf '#!/nowhere\n' > m; chmod +x m; ./m 2> /dev/null || echo $?; : > x; ./x 2> /dev/null || echo $?; ./none 2> /dev/null || echo $?; ln -s s l; ./l via`},
		{name: "find, xargs, sed, awk, patch, diff", needs: "patch", script: `mkdir -p a/b; for i in 1 2 3; do echo "line $i" > a/b/f$i; done; find . -name 'f*' -exec cat {} + | sort; find a -type f -print0 | xargs -0 -n1 -P2 wc -c | awk '{s += $1} END {print s}'; sed -i.bak 's/line/row/' a/b/f1; cat a/b/f1 a/b/f1.bak; cp -r a c; echo more >> c/b/f2; diff -ru a c > p || true; patch -s -p1 -d a < p; diff -r a c && echo same; find c -delete; grep -rn row a; tee x y < p > /dev/null; cmp x y; split -l 2 p; ls x*;  install -m 700 -d q/r; install -m 600 p q; stat -c %a q/p; comm -12 <(echo a) <(echo a); rm -rf a; ls`, loose: true},
		{name: "rm -rf, rmdir, cp -a of a tree", script: `mkdir -p t/{a,b}/{c,d}; for d in t/*/*; do echo x > $d/f; done; cp -a t u; chmod 555 u/a; diff -r t u; chmod 755 u/a; rm -rf t; find u | sort | wc -l; rmdir u 2> /dev/null || echo $?`},
		{name: "deep and long names", script: `n=$(printf 'x%.0s' $(seq 200)); for i in $(seq 30); do mkdir "$n"; cd "$n"; done; echo deep > f; cat f; pwd | wc -c | awk '{print ($1 > 4096)}'`, loose: true},
		{name: "many files", script: `mkdir m; cd m; seq 600 | xargs touch; ls | wc -l; echo * | wc -w; rm *; ls -A`},
		{name: "xattrs and locks of the file system", needs: "/usr/bin/python3", script: `/usr/bin/python3 -c '
import os
open("f", "w").close(); os.setxattr("f", "user.k", b"v"); print(os.getxattr("f", "user.k"), os.listxattr("f")); os.removexattr("f", "user.k"); os.mkdir("d"); os.setxattr("d", "user.d", b"w"); print(os.listxattr("d"))'`},
		{name: "chattr, df and du", script: `lsattr f 2> /dev/null || true; df --output=fstype . | tail -1; stat -f -c '%T %S' .; du -s --apparent-size . > /dev/null; df -h > /dev/null; findmnt -n -o FSTYPE -T . 2> /dev/null || true`},
		py("calls of the kernel", `
import os, mmap, fcntl, ctypes, struct, select, signal, tempfile, errno
f = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o644); os.write(f, b"tmpfile"); os.link("/proc/self/fd/%d" % f, "named", src_dir_fd=f, follow_symlinks=True); print(open("named").read(), os.stat("named").st_nlink)
m = mmap.mmap(f, 0); m[0:3] = b"TMP"; m.flush(); print(open("named").read()); m = mmap.mmap(-1, 4096); m[0] = 1
libc = ctypes.CDLL(None, use_errno=True)
i = libc.inotify_init1(0); assert libc.inotify_add_watch(i, b".", 0x100) > 0; open("seen", "w").close(); print(b"seen" in os.read(i, 4096))
fcntl.lockf(f, fcntl.LOCK_EX); fcntl.flock(f, fcntl.LOCK_EX); print("locked")
a = os.open("big", os.O_CREAT | os.O_RDWR); os.ftruncate(a, 1 << 33); os.pwrite(a, b"x", 1 << 32); print(os.pread(a, 1, 1 << 32), os.lseek(a, 0, os.SEEK_DATA)); os.posix_fallocate(a, 0, 4096); os.fdatasync(a)
print(os.copy_file_range(f, a, 3, 0, 0), os.sendfile(a, f, 0, 3))
open("x", "w").write("1"); open("y", "w").write("2"); print(libc.renameat2(-100, b"x", -100, b"y", 2), open("x").read()); print(libc.renameat2(-100, b"x", -100, b"y", 1))
d = os.memfd_create("m"); os.write(d, b"#!/bin/sh\necho memfd\n"); e = select.epoll(); r, w = os.pipe(); e.register(r, select.EPOLLIN); os.write(w, b"x"); print(e.poll(5)[0][1])
print(os.eventfd_read(os.eventfd(3)) if hasattr(os, "eventfd") else 3, os.pidfd_open(os.getpid()) > 0)
os.mknod("fifo", 0o644 | 0o010000); os.mknod("sock", 0o644 | 0o140000); print(os.path.exists("fifo"))
try: os.mknod("dev", 0o644 | 0o020000, os.makedev(1, 3))
except OSError as e: print(os.getuid() == 0 or e.errno == errno.EPERM)
else: print(True); os.unlink("dev")
s = signal.pthread_sigmask(signal.SIG_BLOCK, []); print(sorted(s)); os.sched_setaffinity(0, os.sched_getaffinity(0)); os.setpriority(os.PRIO_PROCESS, 0, 19); print(os.getpriority(os.PRIO_PROCESS, 0)); print(os.statvfs(".").f_namemax, os.getxattr is not None)
os.mkdir("cd"); dfd = os.open("cd", os.O_RDONLY); os.mkdir("in", dir_fd=dfd); os.rename("in", "out", src_dir_fd=dfd, dst_dir_fd=dfd); os.chdir("cd"); print(os.listdir("."), os.path.basename(os.getcwd())); print(len(os.getrandom(8)), os.getsid(0) >= 0)
fd = os.open("../named", os.O_PATH); print(os.readlink("/proc/self/fd/%d" % fd).endswith("/named")); print(os.access("../named", os.W_OK), os.access("/usr/bin/env", os.X_OK), os.access("/usr", os.W_OK) and os.getuid() != 0)
libc.shmget.restype = ctypes.c_int; shm = libc.shmget(0, 4096, 0o1600); print(shm >= 0, libc.shmctl(shm, 0, None)); print(libc.semget(0, 1, 0o1600) >= 0)
libc.mq_open.restype = ctypes.c_int`),
		// As root the run keeps the uid, but no capability.
		{name: "a set-user-ID program", script: `: > f; chmod 4755 f`, instead: "Operation not permitted"},
		{name: "giving files away", only: "root", script: `: > f; chown 12345:12345 f`, instead: "changing ownership"},
		{name: "an archive with other owners", only: "root", needs: "tar", before: `mkdir d; echo x > d/f; tar c --owner=1000 --group=1000 -f t d; rm -r d`, script: `tar xf t`, instead: "Cannot change ownership"},
		{name: "cp -a of system files", script: `cp -a /etc/hostname .; cp -a /usr/share/zoneinfo/UTC utc; cp -p /usr/bin/env .; cp --preserve=all /etc/passwd p; ls | sort`, loose: true},
		{name: "chown to oneself", script: `: > f; chown "$(id -u):$(id -g)" f; chgrp "$(id -g)" f; stat -c %u:%g f`},
	})
}
