package landlock

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestResult(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		n, err := ABI()
		if err != nil {
			t.Fatal(err)
		}
		base := newTree(t, uid)
		rules := append(treeRules(base), Rule{base + "/file", MakeDir}) // the last grants nothing
		ans := sealed(t, uid, request{NoNewPrivs: true, Restrict: true, Rules: rules})
		want := handled(n)
		want.TCP = false
		want.Rules = len(rules) - 1
		if diff := cmp.Diff(answer{Result: want}, ans); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestOlderKernel sees that an older version handles less and says so.
func TestOlderKernel(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		base := newTree(t, uid)
		abstract := fmt.Sprintf("@bourn-landlock-old-%d-%d", os.Getpid(), uid)
		listener(t, "unix", abstract)
		for _, tt := range []struct {
			abi                              int
			truncate, refer, ioctl, abstract string
		}{
			{1, "ok", "EXDEV", "ENOTTY", "ok"},
			{2, "ok", "ok", "ENOTTY", "ok"},
			{3, "EACCES", "ok", "ENOTTY", "ok"},
			{5, "EACCES", "ok", "EACCES", "ok"},
			{6, "EACCES", "ok", "EACCES", "EPERM"},
		} {
			if n, _ := ABI(); n < tt.abi {
				continue
			}
			ans := sealed(t, uid, request{
				NoNewPrivs: true, Restrict: true, Rules: treeRules(base), MaxABI: tt.abi,
				Tries: []try{
					{Do: "truncate", Path: base + "/out/f"},
					{Do: "link", Path: base + "/rw/f", To: fmt.Sprintf("%s/rw2/abi%d", base, tt.abi)},
					{Do: "ioctl", Path: "/dev/zero"},
					{Do: "connect", Path: abstract},
					{Do: "read", Path: base + "/out/f"},
				},
			})
			want := []string{tt.truncate, tt.refer, tt.ioctl, tt.abstract, "EACCES"}
			if diff := cmp.Diff(want, ans.Errnos); diff != "" {
				t.Errorf("ABI %d (-want +got):\n%s", tt.abi, diff)
			}
			wantResult := handled(tt.abi)
			wantResult.TCP, wantResult.Rules = false, len(treeRules(base))
			if diff := cmp.Diff(wantResult, ans.Result); diff != "" {
				t.Errorf("ABI %d: %s (-want +got):\n%s", tt.abi, ans.Err, diff)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		base := newTree(t, uid)
		for _, tt := range []struct {
			name     string
			req      request
			want     string
			notExist bool
		}{
			{"missing path", request{NoNewPrivs: true, Rules: []Rule{{base + "/nothing", Read}}},
				fmt.Sprintf("cannot grant access to %q: no such file or directory", base+"/nothing"), true},
			{"symbolic link", request{NoNewPrivs: true, Rules: []Rule{{base + "/toout", Read}}},
				fmt.Sprintf("cannot grant access to %q: it is a symbolic link", base+"/toout"), false},
			{"no access", request{NoNewPrivs: true, Rules: []Rule{{base, 0}}},
				fmt.Sprintf("cannot grant access 0x0 to %q: no such access", base), false},
			{"unknown access", request{NoNewPrivs: true, Rules: []Rule{{base, 1 << 50}}},
				fmt.Sprintf("cannot grant access 0x4000000000000 to %q: no such access", base), false},
			{"privileges can be gained", request{}, "cannot restrict a thread that has not set no_new_privs", false},
			{"no TCP", request{NoNewPrivs: true, TCP: &Ports{}, MaxABI: 3},
				"cannot restrict TCP: the kernel has Landlock ABI 3, and 4 is needed", false},
		} {
			t.Run(tt.name, func(t *testing.T) {
				tt.req.Restrict = true
				tt.req.Tries = []try{{Do: "read", Path: base + "/out/f"}}
				got := sealed(t, uid, tt.req)
				want := answer{Err: tt.want, NotExist: tt.notExist, Errnos: []string{"ok"}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	})
}

func TestProgramsInherit(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		base := newTree(t, uid)
		rules := treeRules(base)
		for _, path := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"} {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				rules = append(rules, Rule{real, Read | Exec})
			}
		}
		got := sealed(t, uid, request{NoNewPrivs: true, Restrict: true, Rules: rules, Tries: []try{
			{Do: "cat", Path: base + "/ro/f"},
			{Do: "cat", Path: base + "/out/f"},
		}})
		if diff := cmp.Diff([]string{"ok", "exit 1"}, got.Errnos); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.Err, diff)
		}
	})
}

func TestTCP(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		granted := listener(t, "tcp4", "127.0.0.1:0").Addr().(*net.TCPAddr).Port
		other := listener(t, "tcp4", "127.0.0.1:0").Addr().(*net.TCPAddr).Port
		tries := []try{{Do: "dial", Arg: granted}, {Do: "dial", Arg: other}, {Do: "listen", Arg: 0}, {Do: "listen", Arg: 40077}}
		for _, tt := range []struct {
			ports *Ports
			want  []string
		}{
			{nil, []string{"ok", "ok", "ok", "ok"}},
			{&Ports{}, []string{"EACCES", "EACCES", "EACCES", "EACCES"}},
			{&Ports{Connect: []uint16{uint16(granted)}, Bind: []uint16{0}}, []string{"ok", "EACCES", "ok", "EACCES"}},
		} {
			got := sealed(t, uid, request{NoNewPrivs: true, Restrict: true, TCP: tt.ports, Tries: tries})
			if diff := cmp.Diff(tt.want, got.Errnos); diff != "" || got.Result.TCP != (tt.ports != nil) {
				t.Errorf("%+v: %s handled=%v (-want +got):\n%s", tt.ports, got.Err, got.Result.TCP, diff)
			}
		}
	})
}

// TestKernelBits compares this package's constants with those of x/sys/unix.
func TestKernelBits(t *testing.T) {
	for _, tt := range []struct {
		got  Access
		want uint64
	}{
		{Execute, unix.LANDLOCK_ACCESS_FS_EXECUTE},
		{WriteFile, unix.LANDLOCK_ACCESS_FS_WRITE_FILE},
		{ReadFile, unix.LANDLOCK_ACCESS_FS_READ_FILE},
		{ReadDir, unix.LANDLOCK_ACCESS_FS_READ_DIR},
		{RemoveDir, unix.LANDLOCK_ACCESS_FS_REMOVE_DIR},
		{RemoveFile, unix.LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{MakeChar, unix.LANDLOCK_ACCESS_FS_MAKE_CHAR},
		{MakeDir, unix.LANDLOCK_ACCESS_FS_MAKE_DIR},
		{MakeReg, unix.LANDLOCK_ACCESS_FS_MAKE_REG},
		{MakeSock, unix.LANDLOCK_ACCESS_FS_MAKE_SOCK},
		{MakeFifo, unix.LANDLOCK_ACCESS_FS_MAKE_FIFO},
		{MakeBlock, unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK},
		{MakeSym, unix.LANDLOCK_ACCESS_FS_MAKE_SYM},
		{Refer, unix.LANDLOCK_ACCESS_FS_REFER},
		{Truncate, unix.LANDLOCK_ACCESS_FS_TRUNCATE},
		{IoctlDev, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
		{ResolveUnix, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX},
	} {
		if uint64(tt.got) != tt.want {
			t.Errorf("%v is %#x, want %#x", tt.got, uint64(tt.got), tt.want)
		}
	}
	if ScopeAbstractUnixSocket != unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET || ScopeSignal != unix.LANDLOCK_SCOPE_SIGNAL {
		t.Error("the scopes differ from the kernel's")
	}
}
