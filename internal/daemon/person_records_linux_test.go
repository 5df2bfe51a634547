package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn/internal/store/cluster"
)

const worldDatabaseUID = worldFirst + 2

// serveWorldDatabase serves the database of the world as its own user, as bourn-db.service does.
func serveWorldDatabase(t testing.TB) (stop func()) {
	t.Helper()
	passwd, err := os.ReadFile("/etc/passwd")
	must(t, err)
	if !strings.Contains(string(passwd), "\nbourn-db:") {
		put(t, "/etc/passwd", fmt.Appendf(passwd, "bourn-db:x:%d:%d::%s:/usr/sbin/nologin\n", worldDatabaseUID, worldDatabaseUID, worldPrefix+"/db"), 0, 0, 0o644)
		directory(t, worldPrefix+"/db", worldDatabaseUID, worldDatabaseUID, 0o700, false)
		directory(t, SharedDatabaseSocket, worldDatabaseUID, worldDatabaseUID, 0o711, false)
	}
	said := &said{}
	cmd := exec.Command(worldPrefix+"/bin/bournd", "db", "serve", "--directory", worldPrefix+"/db", "--socket-directory", SharedDatabaseSocket, "--control-user", "bourn")
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + worldPrefix + "/db", "LANG=C"}
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = "/", said, credentialOf(worldDatabaseUID)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the database: %v\n%s", err, said)
		}
		if t.Failed() {
			t.Logf("the database said:\n%s", said)
		}
	}
	t.Cleanup(stop)
	if line, err := bufio.NewReader(out).ReadString('\n'); !strings.Contains(line, "database ready") {
		t.Fatalf("the database does not serve: %q %v\n%s", line, err, said)
	}
	return stop
}

// sql is the input of records_query.
func sql(text string, parameters ...any) args {
	if parameters == nil {
		return args{"sql": text}
	}
	return args{"sql": text, "parameters": parameters}
}

// TestPersonRecords: on a shared host the agent of a person queries records as that person's own
// role, through the helper, and nobody is anybody else.
func TestPersonRecords(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		stopDatabase := serveWorldDatabase(t)
		putProfile(t, "clerk", "records: write\nfilesystem: {write: [~/src]}\n")
		putProfile(t, "reader", "records: read\nfilesystem: {write: [~/src]}\n")
		plane := serveSharedAs(t, false, "env", "BOURN_DATABASE_SOCKET="+SharedDatabaseSocket)
		ann, bob := plane.caller(annUID, "clerk", annWork), plane.caller(bobUID, "clerk", bobWork)

		ann.does("bc_m_aaaaaaaaaa | "+annMember, "records_query", sql("select session_user, auth.me()"))
		bob.does("bc_m_bbbbbbbbbb | "+bobMember, "records_query", sql("select session_user, auth.me()"))
		ann.does("INSERT 0 1", "records_query", sql("insert into record (collection, body) values ($1, $2)", "note", map[string]any{"of": "ann", "n": 9007199254740993}))
		ann.does("9007199254740993", "records_query", sql("select body->>'n' from record where body->>'of' = 'ann'"))
		bob.does("(0 rows)", "records_query", sql("select * from record"))

		// A token in another's connection is nothing, and so is another's role.
		token := lastLineOf(ann.does("", "records_query", sql("select 'token ' || current_setting('app.session')")), "token ")
		if len(token) != 43 {
			t.Fatalf("ann's token is %q", token)
		}
		bob.does("nobody", "records_query", sql("select set_config('app.session', '"+token+"', false); select coalesce(auth.me()::text, 'nobody') as is, count(*) from record"))
		bob.refused("records_query", sql("set role bc_m_aaaaaaaaaa"), "sqlstate_42501")
		bob.refused("records_query", sql("set session authorization bc_m_aaaaaaaaaa"), "sqlstate_42501")
		bob.refused("records_query", sql("select nothing from record"), `sqlstate_42703): column "nothing" does not exist`)

		checkDoor(t, plane, ann)
		checkOwnQuery(t)
		checkRecordsLog(t)
		checkSessionEnds(t, bob)
		checkLeaver(t, plane, ann, bob)

		stopDatabase()
		bob.refused("records_query", sql("select 1"), "unavailable")
	})
}

// lastLineOf is what stands behind a word in a text.
func lastLineOf(text, behind string) string {
	_, rest, _ := strings.Cut(text, "\n "+behind)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// checkDoor: without the door nothing is opened, with one for reading nothing is written, and
// what a profile says holds from the next call on.
func checkDoor(t *testing.T, plane *sharedPlane, clerk caller) {
	t.Helper()
	plane.caller(annUID, "builder", annWork).refused("records_query", sql("select 1"), "records_not_granted")
	reader := plane.caller(annUID, "reader", annWork)
	reader.does("note", "records_query", sql("select collection from record"))
	reader.refused("records_query", sql("insert into record (collection) values ('x')"), "sqlstate_25006")
	reader.refused("records_query", sql("set transaction read write; insert into record (collection) values ('x')"), "sqlstate_42501")
	reader.does("UPDATE 0", "records_query", sql("set transaction read write; update record set body = '{}'"))
	putProfile(t, "clerk", "records: read\nfilesystem: {write: [~/src]}\n")
	clerk.refused("records_query", sql("insert into record (collection) values ('x')"), "sqlstate_25006")
	putProfile(t, "clerk", "filesystem: {write: [~/src]}\n")
	clerk.refused("records_query", sql("select 1"), "records_not_granted")
	putProfile(t, "clerk", "records: write\nfilesystem: {write: [~/src]}\n")
	clerk.does("INSERT 0 1", "records_query", sql("insert into record (collection) values ('later')"))
}

// checkOwnQuery: a person queries as themselves, and who is no person does not.
func checkOwnQuery(t *testing.T) {
	t.Helper()
	status, answer := askAs(t, annUID, "POST", "/v1/records/query", `{"sql":"select session_user, count(*) from record where collection = $1","parameters":["note"]}`)
	var got struct {
		Statements []struct {
			Rows [][]string `json:"rows"`
			Tag  string     `json:"tag"`
		} `json:"statements"`
	}
	if err := json.Unmarshal([]byte(answer), &got); status != 200 || err != nil || fmt.Sprint(got.Statements) != "[{[[bc_m_aaaaaaaaaa 1]] SELECT 1}]" {
		t.Errorf("ann: %d %s", status, answer)
	}
	if status, answer := askAs(t, bobUID, "POST", "/v1/records/query", `{"sql":"select count(*) from record"}`); status != 200 || !strings.Contains(answer, `[["0"]]`) {
		t.Errorf("bob: %d %s", status, answer)
	}
	if status, answer := askAs(t, bobUID, "POST", "/v1/records/query", `{"sql":"selekt 'hunter2'"}`); status != 422 || !strings.Contains(answer, "at line 1, column 1") {
		t.Errorf("bob's mistake: %d %s", status, answer)
	}
	for _, uid := range []int{0, 65534} {
		if status, answer := askAs(t, uid, "POST", "/v1/records/query", `{"sql":"select 1"}`); status < 400 {
			t.Errorf("user %d: %d %s", uid, status, answer)
		}
	}
}

// checkRecordsLog: the log has what was run by its digest, and what came of it, and no text.
func checkRecordsLog(t *testing.T) {
	t.Helper()
	status, answer := askAs(t, 0, "GET", "/v1/log?newest=true", "")
	if status != 200 || strings.Contains(answer, "hunter2") || strings.Contains(answer, "insert into") || strings.Contains(answer, "does not exist") {
		t.Errorf("the log: %d\n%s", status, answer)
	}
	for _, has := range []string{`"what":"records_query"`, `"target":"SQL"`, `"what":"records query"`, `"reason":"SQLSTATE 42703"`, `"tags":["INSERT 0 1"]`, `records are not open to this run`} {
		if !strings.Contains(strings.ReplaceAll(answer, `": `, `":`), has) {
			t.Errorf("the log has no %s", has)
		}
	}
}

// checkSessionEnds: with a person's run ends the session that its typed tools have used.
func checkSessionEnds(t *testing.T, bob caller) {
	t.Helper()
	live := func() string {
		return worldSQL(t, "select count(*) from auth.sessions where member_id = '"+bobMember+"' and db_role = 'bourn_app' and kind = 'agent' and revoked_at is null")
	}
	bob.does("records", "records_list", args{})
	if n := live(); n != "1" {
		t.Fatalf("bob's run has %s sessions", n)
	}
	r := worldPeople()
	r.People[1].Groups = []uint32{sharedGID}
	setPeople(t, r)
	for began := time.Now(); live() != "0"; {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the session of a run that has ended is live")
		}
	}
	setPeople(t, worldPeople())
	for began := time.Now(); ; { // until all that bob ran has ended
		text, ok := bob.call("records_list", args{})
		if ok {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal(text)
		}
	}
}

// checkLeaver: who is made inactive loses what runs, within a second, and gets nothing new.
func checkLeaver(t *testing.T, plane *sharedPlane, ann, bob caller) {
	t.Helper()
	type end struct {
		text string
		ok   bool
		at   time.Time
	}
	ended := make(chan end, 1)
	go func() {
		text, ok := ann.call("records_query", sql("select pg_sleep(25), count(*) from record"))
		ended <- end{text, ok, time.Now()}
	}()
	for n := ""; n != "1"; { // until it runs
		status, answer := askAs(t, bobUID, "GET", "/v1/health", "")
		if status != 200 {
			t.Fatal(answer)
		}
		n = worldSQL(t, "select count(*) from pg_stat_activity where usename = 'bc_m_aaaaaaaaaa' and wait_event = 'PgSleep'")
	}
	r := worldPeople()
	r.People[0].Active, r.People[0].Groups = false, nil
	left := time.Now()
	setPeople(t, r)
	for worldSQL(t, "select count(*) from pg_stat_activity where usename = 'bc_m_aaaaaaaaaa'") != "0" {
		if time.Since(left) > 3*time.Second {
			t.Fatal("a leaver's backend goes on")
		}
	}
	took := time.Since(left)
	got := <-ended
	t.Logf("the backend was gone after %s, who asked was told after %s: %s", took, got.at.Sub(left), got.text)
	if took > 1500*time.Millisecond || got.ok || strings.Contains(got.text, "row)") {
		t.Errorf("a leaver's statement ends after %s: %v %s", took, got.ok, got.text)
	}
	if worldSQL(t, "select rolcanlogin from pg_roles where rolname = 'bc_m_aaaaaaaaaa'") != "f" {
		t.Error("a leaver's role logs in")
	}
	ann.refused("records_query", sql("select 1"), "identity_missing", "401", "403", "denied")
	bob.does("bc_m_bbbbbbbbbb", "records_query", sql("select session_user"))
	// A registry that cannot be used lets nobody in.
	put(t, "/etc/bourn/people.json", []byte("{}"), 0, 0, 0o644)
	for began := time.Now(); worldSQL(t, "select count(*) from pg_roles where rolname like 'bc\\_m\\_%' and rolcanlogin") != "0"; {
		if time.Since(began) > 3*time.Second {
			t.Fatal("a registry that cannot be used lets people in")
		}
	}
	setPeople(t, worldPeople())
	for began := time.Now(); worldSQL(t, "select count(*) from pg_roles where rolname like 'bc\\_m\\_%' and rolcanlogin") != "2"; {
		if time.Since(began) > 3*time.Second {
			t.Fatal("people who came back have no role")
		}
	}
}

// worldSQL asks the world's database as its administrator.
func worldSQL(t testing.TB, text string) string {
	t.Helper()
	cmd := exec.Command(psqlOf(t), "-XAtq", "-h", SharedDatabaseSocket, "-U", "postgres", "-d", "records", "-c", text)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C"}
	cmd.SysProcAttr, cmd.Dir = credentialOf(worldDatabaseUID), "/" // not all may enter this one
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v %s", text, err, out)
	}
	return strings.TrimSpace(string(out))
}

func psqlOf(t testing.TB) string {
	t.Helper()
	programs, err := cluster.Find(t.Context(), nil, 0)
	must(t, err)
	return filepath.Join(programs.Dir, "psql")
}
