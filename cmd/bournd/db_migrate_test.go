package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/operation"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
)

// someonesServer starts a PostgreSQL as others run it: on TCP, with passwords. It returns
// its administrator's URL, and the server.
func someonesServer(t *testing.T) (string, *cluster.Cluster) {
	t.Helper()
	config := storetest.ClusterConfig(t)
	// An address of this host's own loopback that nothing else is likely to use.
	address := fmt.Sprintf("127.77.%d.%d", os.Getpid()/250%250, os.Getpid()%250+1)
	config.Set["listen_addresses"] = address
	config.Set["log_statement"] = "all"
	config.Rules = []string{"host all all 127.0.0.0/8 scram-sha-256"}
	c, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), c.ConnString(cluster.Admin, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "alter role postgres password 'admins own'"); err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", "admins own"), Host: address + ":5432", Path: "/postgres", RawQuery: "sslmode=disable"}
	return u.String(), c
}

// TestMigrate prepares a server that others run, and serves on it.
func TestMigrate(t *testing.T) {
	storetest.Need(t)
	h := newHost(t, os.Getuid())
	admin, server := someonesServer(t)
	h.refused(2, "no administrator of a server is named", "db", "migrate")
	h.refused(2, "is no URL of a PostgreSQL server", "db", "migrate", "--admin-url", "host=there password=secret")
	h.Env = append(h.Env, "BOURN_DATABASE_ADMIN_URL="+admin)
	r := h.Bourn("db", "migrate")
	if r.Status != 0 || strings.Contains(r.Out+r.Err, "admins") || !strings.Contains(r.Out, "next: bourn serve --database-url 'postgres://127.77.") {
		t.Fatalf("migrate: status %d\n%s%s", r.Status, r.Out, r.Err)
	}
	file := h.Home + "/.bourn/secrets/database.json"
	for at, mode := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700, filepath.Dir(filepath.Dir(file)): 0o700} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v: %v", at, info.Mode(), err)
		}
	}
	passwords := h.Read(file)
	var out struct {
		DatabaseURL string `json:"database_url"`
		NewFile     bool   `json:"new_file"`
	}
	if err := json.Unmarshal([]byte(h.ok("db", "migrate", "--json")), &out); err != nil || out.NewFile || h.Read(file) != passwords {
		t.Errorf("a second time: %+v, %v; the same passwords: %t", out, err, h.Read(file) == passwords)
	}
	checkSecrets(t, passwords, server)

	// The variable is one that the daemon has no use for.
	h.Env = h.Env[:len(h.Env)-1]
	if said := h.serve("--database-url", out.DatabaseURL); !strings.Contains(said, "runs in the background") {
		t.Errorf("serve says %s", said)
	}
	checkAgentRoles(t, h, admin)
	if said := h.ok("serve", "--status"); !strings.Contains(said, "the control plane is ok") || !strings.Contains(said, "run by others") {
		t.Errorf("status says %s", said)
	}
	var s operation.DatabaseStatus
	if err := json.Unmarshal([]byte(h.ok("db", "status", "--json", "--database-url", out.DatabaseURL)), &s); err != nil {
		t.Fatal(err)
	}
	if s.Private || s.State != "running" || len(s.Databases) != 2 || !strings.HasPrefix(s.Server, "127.77.") {
		t.Errorf("status: %+v", s)
	}
	h.refused(1, "there is no private database", "db", "backup", "b.tar")
	h.ok("db", "backup", "b.tar", "--admin-url", admin)
	h.ok("serve", "--stop")
	h.refused(2, "--replace is about the private server", "db", "restore", "--replace", "b.tar", "--admin-url", admin)
	h.refused(1, "is not empty", "db", "restore", "b.tar", "--admin-url", admin)
	h.ok("db", "psql", "--admin-url", admin, "--", "-Xqc", `\c postgres`, "-c", "drop database control with (force)", "-c", "drop database records with (force)")
	h.ok("db", "restore", "b.tar", "--admin-url", admin)
	h.serve("--database-url", out.DatabaseURL)
	h.ok("serve", "--status")
}

// checkAgentRoles sees that the member whom the control plane has made gets a role for agents,
// and that SQL is refused until there is a certificate for it, and says what to do.
func checkAgentRoles(t *testing.T, h host, admin string) {
	t.Helper()
	var out struct {
		AgentRoles   []string `json:"agent_roles"`
		Uncertified  []string `json:"uncertified"`
		Certificates string   `json:"certificates"`
	}
	if err := json.Unmarshal([]byte(h.ok("db", "migrate", "--json", "--admin-url", admin)), &out); err != nil || len(out.AgentRoles) != 1 || len(out.Uncertified) != 1 {
		t.Fatalf("the roles of agents: %+v, %v", out, err)
	}
	role := out.AgentRoles[0]
	if said := h.ok("db", "migrate", "--admin-url", admin); !strings.Contains(said, "agents cannot query records as "+role+" yet") {
		t.Errorf("migrate says %s", said)
	}
	r := h.Bourn("records", "query", "select 1")
	if r.Status != 1 || !strings.Contains(r.Err, "no client certificate for the role "+role) || !strings.Contains(r.Err, role+".crt and "+role+".key into "+h.Home+"/.bourn/secrets/database") {
		t.Errorf("records query: status %d\n%s%s", r.Status, r.Out, r.Err)
	}
}

// checkSecrets sees that a server that logs every statement has logged no password.
func checkSecrets(t *testing.T, passwords string, server *cluster.Cluster) {
	t.Helper()
	var all map[string]string
	if err := json.Unmarshal([]byte(passwords), &all); err != nil || len(all) != 3 {
		t.Fatalf("%d passwords: %v", len(all), err)
	}
	log, err := os.ReadFile(server.Log())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "alter role bourn_control password") {
		t.Error("the server's log does not hold what it should, so that nothing is shown")
	}
	for role, password := range all {
		if len(password) < 40 || strings.Contains(string(log), password) {
			t.Errorf("the password of %s has %d letters, or is in the server's log", role, len(password))
		}
	}
}
