package bourn_test

import (
	"strings"
	"testing"

	"bourn/internal/store/storetest"
)

// testHost is a shared host from the package on: its units start, with nothing in their
// place, a person is added, and root looks after the database.
func testHost(t *testing.T, debs ...string) {
	storetest.Need(t)
	m := start(t, debs...)
	m.dpkg("--install", "/given/0.deb")
	m.do("umount", "--lazy", "/proc/sys") // as in testUnits
	m.sh("bourn people add ann; systemctl start bourn.service")
	m.is("active", "systemctl is-active "+theUnits, "active\nactive\nactive")
	m.is("where it answers", "stat -c '%A %U %n' /run/bourn/bourn.sock /run/bourn-db/.s.PGSQL.5432",
		"srw-rw-rw- bourn /run/bourn/bourn.sock\nsrwxrwxrwx bourn-db /run/bourn-db/.s.PGSQL.5432")
	const ann = "setpriv --reuid 66016 --regid 66016 --groups $(getent group bc_shared | cut -d: -f3) env HOME=/tmp "
	well := func(who, through string) {
		t.Helper()
		said := m.sh(through + "bourn serve --status")
		for _, want := range []string{"the control plane is ok", "people      ok", "the PostgreSQL of bourn db serve, at /run/bourn-db"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s is told\n%s", who, said)
			}
		}
	}
	well("root", "")
	well("ann", ann)
	m.is("nobody else is served", `for u in nobody bourn; do
setpriv --reuid $u --regid $(id -g $u) --clear-groups env HOME=/tmp bourn serve --status 2>&1 || true
done | grep -c 'is no member'`, "2")

	const members = `bourn db psql -- -Atc 'select name, os_uid = 0, administrator from auth.members order by name' 2>/dev/null`
	m.is("the members", members, "ann|f|f\nroot|t|t")
	m.is("the database", "bourn db status | sed -n 's/^state *//p'", "running, as bourn-db")
	m.sh(`bourn db psql records -- -c 'create role bc_m_other login in role bc_person' 2>/dev/null`)
	m.is("ann there", ann+"sh -c 'for role in bc_m_jgiv4dl5jn bc_m_other bourn_app postgres; do psql -h /run/bourn-db -U $role -d records -Atc \"select current_user\" 2>/dev/null || echo no; done'",
		"bc_m_jgiv4dl5jn\nno\nno\nno")

	m.sh("bourn db backup /root/b.tar")
	refused := func(what, script, want string) {
		t.Helper()
		if said := m.sh(script + " 2>&1 && exit 97 || true"); !strings.Contains(said, want) {
			t.Errorf("%s: it says\n%s", what, said)
		}
	}
	const restore = "bourn db restore /root/b.tar"
	refused("while it runs", restore, "systemctl stop bourn.service")
	m.sh("systemctl stop bourn.service")
	refused("over what is there", restore, "is not empty")
	refused("to put it aside", restore+" --replace", "systemctl stop bourn-db.service && mv ")
	m.sh("systemctl stop bourn-db.service")
	refused("without a server", restore, "systemctl start bourn-db.service")
	m.is("the database is stopped", "bourn db status | sed -n 's/^state *//p'", "stopped, as bourn-db")
	m.sh("mv /var/lib/bourn/postgres /var/lib/bourn/postgres.replaced; systemctl start bourn-db.service; " + restore + "; systemctl start bourn.service")
	m.is("restored", members, "ann|f|f\nroot|t|t")
	m.is("whose the home is", "find /var/lib/bourn/workspace/.bourn ! -user bourn", "")
	well("root, restored", "")

	// The database is killed: all of it starts again.
	m.sh("systemctl kill --signal=KILL bourn-db.service")
	well("root, after a kill", "timeout 50 sh -c 'until test -n \"$(bourn db status | grep running)\" && bourn serve --status >/dev/null; do :; done' 2>/dev/null; ")
	m.dpkg("--install", "/given/1.deb")
	m.do("systemctl", "start", "bourn.service")
	well("root, upgraded", "")
	m.is("upgraded", "systemctl is-active "+theUnits, "active\nactive\nactive")
}
