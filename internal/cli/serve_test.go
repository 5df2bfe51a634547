package cli_test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/api"
	"bourn/internal/run/runtest"
)

// answers stands in for a control plane, which answers with a status.
func answers(t *testing.T, u *runtest.User, s api.Status) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(u.Mkdir(u.Home+"/.bourn"), "bourn.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(s); err != nil {
			t.Error(err)
		}
	})}
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
}

// A control plane that is failing is shown so, with what to do, and is exit status 1.
func TestServeStatus(t *testing.T) {
	parts := func(status, detail, hint string) api.Health {
		return api.Health{Status: status, Version: "v1", Components: []api.Component{{Name: "database", Status: status, Detail: detail, Hint: hint}}}
	}
	for _, tt := range []struct {
		health api.Health
		status int
		says   []string
		doctor string
	}{
		{parts("ok", "", ""), 0, []string{"the control plane is ok (process 7, version v1)", "  database    ok\n", "socket, tcp"}, "it is version v1, and this bourn is "},
		{parts("degraded", "half", "mend it"), 0, []string{"is degraded", "degraded: half", "mend: mend it"}, "it is version v1"},
		{parts("failing", "it does not\x1b answer", "see \x1b there"), 1, []string{"is FAILING", `FAILING: it does not\x1b answer`, `mend: see \x1b there`}, "it is version v1"},
	} {
		t.Run(tt.health.Status, func(t *testing.T) {
			u := runtest.NewUser(t, os.Getuid())
			answers(t, u, api.Status{Health: tt.health, Pid: 7, Listens: []string{"socket", "tcp"}})
			r := u.Bourn("serve", "--status")
			for _, want := range tt.says {
				if !strings.Contains(r.Out, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if asJSON := u.Bourn("serve", "--status", "--json"); r.Status != tt.status || asJSON.Status != tt.status || !json.Valid([]byte(asJSON.Out)) {
				t.Errorf("status %d and %d, not %d\n%s%s", r.Status, asJSON.Status, tt.status, r.Out, r.Err)
			}
			if r := u.Bourn("doctor"); !strings.Contains(r.Out, "not ok          control plane    "+tt.doctor) {
				t.Errorf("doctor says\n%s", r.Out)
			}
		})
	}
}

// What a process that is no control plane leaves at the socket is not waited for.
func TestServeStatusOfNobody(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(u.Mkdir(u.Home+"/.bourn"), "bourn.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if r := u.Bourn("serve", "--status"); r.Status != 1 || !strings.Contains(r.Err, "does not answer") || !strings.Contains(r.Err, "hint: ") {
		t.Errorf("status %d\n%s", r.Status, r.Err)
	}
}
