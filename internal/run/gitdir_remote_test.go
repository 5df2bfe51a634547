package run

import "testing"

func TestRemoteAt(t *testing.T) {
	for _, row := range []struct {
		text, host string
		port       uint16
	}{
		{"git@git.example.com:team/app.git", "git.example.com", 22},
		{"git.example.com:/srv/app", "git.example.com", 22},
		{"GIT.example.com:app", "git.example.com", 22},
		{"ssh://git@git.example.com/app", "git.example.com", 22},
		{"ssh://git@git.example.com:2222/app", "git.example.com", 2222},
		{"git://git.example.com/app", "git.example.com", 9418},
		{"https://user:token@git.example.com/app", "git.example.com", 0},
		{"https://git.example.com:8443/app", "git.example.com", 8443},
		{"/srv/app", "", 0},
		{"../app", "", 0},
		{"ext::sh -c true", "", 0},
		{"*.example.com:app", "", 0},
		{"", "", 0},
	} {
		if host, port := remoteAt(row.text); host != row.host || host != "" && port != row.port {
			t.Errorf("%q: %q %d, want %q %d", row.text, host, port, row.host, row.port)
		}
	}
}
