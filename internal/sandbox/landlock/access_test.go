package landlock

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestHandled(t *testing.T) {
	const scopes = ScopeAbstractUnixSocket | ScopeSignal
	for _, tt := range []struct {
		abi  int
		want Result
	}{
		{0, Result{}},
		{1, Result{ABI: 1, FS: 1<<13 - 1}},
		{2, Result{ABI: 2, FS: 1<<14 - 1}},
		{3, Result{ABI: 3, FS: 1<<15 - 1}},
		{4, Result{ABI: 4, FS: 1<<15 - 1, TCP: true}},
		{5, Result{ABI: 5, FS: 1<<16 - 1, TCP: true}},
		{6, Result{ABI: 6, FS: 1<<16 - 1, TCP: true, Scopes: scopes}},
		{7, Result{ABI: 7, FS: 1<<16 - 1, TCP: true, Scopes: scopes}},
		{8, Result{ABI: 8, FS: 1<<16 - 1, TCP: true, Scopes: scopes}},
		{9, Result{ABI: 9, FS: 1<<17 - 1, TCP: true, Scopes: scopes}},
		{99, Result{ABI: 99, FS: allAccess, TCP: true, Scopes: scopes}},
	} {
		if diff := cmp.Diff(tt.want, handled(tt.abi)); diff != "" {
			t.Errorf("handled(%d) (-want +got):\n%s", tt.abi, diff)
		}
	}
}

func TestLevelsCoverAllRights(t *testing.T) {
	if got := Read | Exec | Write | DevIO | Connect; got != allAccess {
		t.Errorf("the levels hold %v, want all of %v", got, allAccess)
	}
	if both := Write & (Read | Exec | IoctlDev | Connect); both != 0 {
		t.Errorf("Write also grants %v", both)
	}
}

func TestGrantedNeverWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked := Access(rapid.Uint64().Draw(t, "asked"))
		h := handled(rapid.IntRange(0, 12).Draw(t, "abi")).FS
		dir, file := granted(asked, h, true), granted(asked, h, false)
		if dir != asked&h {
			t.Errorf("directory: granted %v, want %v", dir, asked&h)
		}
		if file&^dir != 0 {
			t.Errorf("a file gets %v more than a directory", file&^dir)
		}
		if bad := file & (ReadDir | RemoveDir | RemoveFile | MakeReg | MakeDir | Refer); bad != 0 {
			t.Errorf("file: granted %v", bad)
		}
	})
}

func TestString(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Access(0).String(), ""},
		{(Read | Exec).String(), "execute,read_file,read_dir"},
		{(ResolveUnix | 1<<40).String(), "resolve_unix,unknown"},
		{Scope(3).String(), "abstract_unix_socket,signal"},
		{Scope(4).String(), "unknown"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
