package notify

import (
	"path"
	"testing"

	"pgregory.net/rapid"
)

// TestJoin compares with package path.
func TestJoin(t *testing.T) {
	names := rapid.StringMatching(`([a.]{0,3}|/{0,2}){0,9}`)
	rapid.Check(t, func(t *rapid.T) {
		base, name := "/"+names.Draw(t, "base"), names.Draw(t, "name")
		want := path.Clean(base + "/" + name)
		if name != "" && name[0] == '/' {
			want = path.Clean(name)
		}
		if got := string(join(make([]byte, 0, 4), []byte(base), []byte(name))); got != want {
			t.Errorf("join(%q, %q) = %q, want %q", base, name, got, want)
		}
	})
}
