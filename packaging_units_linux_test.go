package bourn_test

import (
	"fmt"
	"testing"

	"bourn/internal/store/storetest"
)

// testUnits starts the three units under a real systemd, with programs in the place of
// bourn's that look at what the options left them: the control plane's can run the setuid
// helper, make a user namespace and seal a run; the database's can run PostgreSQL, and only
// those who should can reach it.
func testUnits(t *testing.T, debs ...string) {
	storetest.Need(t)
	m := start(t, debs...)
	m.dpkg("--install", "/given/0.deb")
	m.is("verified", "systemd-analyze verify --man=no bourn.service bourn-db.service bourn-workspace.service 2>&1 | grep /bourn || true", "")
	m.do("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15", "/usr/lib/systemd/system/bourn-db.service")
	m.program("bourn-workspace.service", workspaceProgram)
	m.program("bourn-db.service", databaseProgram)
	m.program("bourn.service", "systemd-notify --ready\nexec sleep infinity")
	m.do("systemctl", "start", "bourn.service")
	m.is("active", "systemctl is-active "+theUnits, "active\nactive\nactive")
	m.is("the mount is everybody's", "grep -c ' /var/lib/bourn/workspace/circles ' /proc/self/mountinfo", "1")
	m.is("where the socket goes", "stat -c '%A %U' /run/bourn", "drwxr-xr-x bourn")

	pid := m.sh("systemctl show --property=MainPID --value bourn.service")
	// What this machine's own first process lacks, such as in a container, no other has.
	var has uint64
	if _, err := fmt.Sscanf(m.sh("grep CapBnd: /proc/1/status"), "CapBnd: %x", &has); err != nil {
		t.Fatal(err)
	}
	const setuid, setgid, setpcap, resource, chown = 1 << 7, 1 << 6, 1 << 8, 1 << 24, 1 << 0 // linux/capability.h
	m.is("the control plane is free", "grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' /proc/"+pid+"/status | tr -d '\\t'",
		fmt.Sprintf("CapEff:%016x\nCapBnd:%016x\nNoNewPrivs:0\nSeccomp:0", 0, has&(setuid|setgid|setpcap|resource|chown)))
	m.is("and in the host's namespaces", `for ns in mnt user pid; do if [ "$(readlink /proc/`+pid+`/ns/$ns)" = "$(readlink /proc/1/ns/$ns)" ]; then echo $ns; fi; done`,
		"mnt\nuser\npid")
	m.is("the database is not", "pid=$(systemctl show --property=MainPID --value bourn-db.service); grep -E '^(NoNewPrivs|Seccomp|CapBnd):' /proc/$pid/status | tr -d '\\t'",
		"CapBnd:0000000000000000\nNoNewPrivs:1\nSeccomp:2")
	m.is("nobody reaches the database",
		`setpriv --reuid nobody --regid nogroup --clear-groups stat /run/bourn-db/.s.PGSQL.5432 2>&1 | grep -c 'Permission denied'`, "1")

	// A sealed run mounts a /proc of its own, and the kernel lets it only where nothing hides parts of
	// this one (mount_namespaces(7)). systemd sets what it sets at its start.
	m.do("umount", "--lazy", "/proc/sys")
	m.is("what the control plane starts", m.inside(`mkdir /tmp/home /tmp/home/project && cd /tmp/home/project
HOME=/tmp/home bourn run -q -- sh -c 'echo sealed: no_new_privs $(sed -n "s/^NoNewPrivs:.//p" /proc/self/status)'
unshare --user --map-root-user --mount sh -c 'mount -t tmpfs tmpfs /mnt && echo a user namespace'
/usr/bin/python3 -c 'import os; os.openpty(); print("a terminal")'`),
		"sealed: no_new_privs 1\na user namespace\na terminal")
	m.is("the helper", m.inside(`/usr/bin/python3 -c '`+askHelper+`' | sed 's/ *$//'`),
		"dial 0 with a connection\nkill 0\nrevoke 0\ndial 66")
	m.dpkg("--install", "/given/1.deb")
	m.do("systemctl", "start", "bourn.service") // waits for what the upgrade has asked for
	m.is("upgraded, what ran runs anew", "systemctl is-active "+theUnits+"; test $(systemctl show --property=MainPID --value bourn.service) != "+pid, "active\nactive\nactive")
	m.do("systemctl", "stop", "bourn.service")
	m.is("the database goes on", "systemctl is-active bourn-db.service; ls /run/bourn 2>/dev/null || true", "active")
}

// workspaceProgram does by hand what `bourn people sync` does: a person, a mount, the registry.
const workspaceProgram = `workspace=/var/lib/bourn/workspace home=/var/lib/bourn/workspace/private/people/ann
mkdir -p $workspace/circles $workspace/.bourn $home
chmod 0711 $workspace $workspace/private $workspace/private/people
chmod 2770 $workspace/circles
mount --bind $workspace/circles $workspace/circles
chown bourn:bourn $workspace/.bourn
echo "bc_person_uk7ohixy4z:x:66016:" >>/etc/group
echo "bc_person_uk7ohixy4z:x:66016:66016::$home:/usr/sbin/nologin" >>/etc/passwd
chown root:66016 $home
chmod 2770 $home
shared=$(getent group bc_shared | cut -d: -f3)
cat >/etc/bourn/people.json <<END
{"version":1,"range":{"first":66000,"last":99999},"workspace":"$workspace","service":$(id -u bourn),"shared":$shared,
 "people":[{"id":"ann","name":"bc_person_uk7ohixy4z","uid":66016,"gid":66016,"groups":[$shared],"active":true}],"circles":[],"revoked":[]}
END`

// databaseProgram runs PostgreSQL as bournd would.
const databaseProgram = `bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n1) data=/var/lib/bourn/postgres/data
[ -e $data ] || "$bin/initdb" -D $data -U postgres --auth-local=peer --auth-host=reject >/dev/null
echo 'local all postgres peer map=bourn' >$data/pg_hba.conf
echo 'bourn bourn-db postgres' >$data/pg_ident.conf
"$bin/postgres" -D $data -c listen_addresses= -c jit=off -c unix_socket_directories=/run/bourn-db -c unix_socket_permissions=0777 &
until "$bin/psql" -h /run/bourn-db -U postgres -Atc 'select 1' postgres; do kill -0 $!; done
systemd-notify --ready
wait`

// askHelper calls the helper as the control plane does, and prints how each call ended.
const askHelper = `
import socket, subprocess
ann = "bc_person_uk7ohixy4z"
for words in ["dial", ann], ["kill", ann], ["revoke", ann], ["dial", ann]:
    ours, theirs = socket.socketpair()
    done = subprocess.run(["/usr/libexec/bourn/bourn-posix-helper"] + words, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE)
    theirs.close()
    ours.settimeout(5)
    data, passed, _, _ = ours.recvmsg(4096, socket.CMSG_SPACE(4))
    print(words[0], done.returncode, "with a connection" if passed else "", "" if done.returncode in (0, 66) else done.stderr.decode().strip())
`

// program has a unit start a script instead of bourn, with everything else as it is.
func (m machine) program(unit, script string) {
	m.t.Helper()
	m.do("sh", "-ec", `printf '#!/bin/sh\nset -e\n%s\n' "$1" >"/usr/local/bin/$0"
chmod 755 "/usr/local/bin/$0"
mkdir -p "/run/systemd/system/$0.d"
printf '[Service]\nExecStart=\nExecStart=/usr/local/bin/%s\nNotifyAccess=all\nStandardOutput=file:/given/%s.log\nStandardError=file:/given/%s.log\n' "$0" "$0" "$0" >"/run/systemd/system/$0.d/program.conf"
systemctl daemon-reload`, unit, script)
}

// inside returns a script that runs another one as the control plane's unit would: with its
// options, in a unit beside it.
func (m machine) inside(script string) string {
	m.t.Helper()
	m.do("sh", "-ec", `grep -vE '^(Type|Exec|Restart|RuntimeDirectory|WantedBy|Requires|Wants|After|\[Install)' /usr/lib/systemd/system/bourn.service >/run/systemd/system/inside.service
printf 'Type=oneshot\nExecStart=/usr/local/bin/inside\nStandardOutput=file:/given/inside.out\nStandardError=file:/given/inside.out\n' >>/run/systemd/system/inside.service
printf '#!/bin/sh\n%s\n' "$0" >/usr/local/bin/inside
chmod 755 /usr/local/bin/inside
: >/given/inside.out
systemctl daemon-reload`, script)
	return "systemctl start inside.service || true; cat /given/inside.out"
}
