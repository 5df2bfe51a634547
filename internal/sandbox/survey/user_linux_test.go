package survey

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const childEnv = "BOURN_SURVEY_CHILD"

// TestAsOrdinaryUser runs all other tests once more without privilege.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root")
	}
	cmd := exec.Command("/proc/self/exe", "-test.count=1", "-test.short", "-rapid.checks=50")
	cmd.Env = []string{childEnv + "=user", "TMPDIR=/tmp", "PATH=/usr/bin:/bin", "HOME=/nonexistent"}
	if seed, ok := os.LookupEnv("RAPID_SEED"); ok {
		cmd.Env = append(cmd.Env, "RAPID_SEED="+seed)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
