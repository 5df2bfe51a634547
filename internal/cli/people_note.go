package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/posix"

	"github.com/spf13/cobra"
)

// The journal of a shared host is the service's, and so is the directory that it stands in:
// whoever is the service can put a link in its place. So it is the service that writes, in a
// process that has nothing else and gets what it writes on standard input.

// A noting is what that process reads.
type noting struct {
	Home  string      `json:"home"` // $BOURN_HOME of the service
	Entry audit.Entry `json:"entry"`
}

// maxNoting bounds it, in bytes.
const maxNoting = 64 << 10

// note notes a change in the service's journal. What gives something is not done where it
// cannot be noted; what takes away is, and it is said.
func (p *people) note(of said, gives bool) error {
	if p.root != "" {
		return nil // a control plane reads the log of the host that it runs on
	}
	r := p.registry()
	if r == nil {
		return nil // there is no service yet
	}
	home := filepath.Join(r.Workspace, ".bourn")
	if info, err := os.Lstat(home); err != nil || !info.IsDir() {
		return nil
	}
	err := noteAs(r.Service, noting{home, audit.Entry{Kind: audit.KindChange, Who: starter(), What: of.what, Target: of.target, Outcome: audit.Allowed}})
	if err != nil && !gives {
		p.say("this is done, and not noted in the log: %s", sentence(err))
		return nil
	}
	return err
}

// starter is how the log calls who starts bourn.
func starter() string { return fmt.Sprintf("uid:%d", os.Getuid()) }

// noteAs has a process of the service's write an entry.
func noteAs(service uint32, n noting) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	// By that name the service executes what it could not reach by its path (proc_pid_exe(5)).
	ctx, cancel := context.WithTimeout(context.Background(), noteWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "people", "note")
	cmd.WaitDelay = time.Second
	cmd.Dir, cmd.Env, cmd.Stdin = "/", []string{}, bytes.NewReader(text)
	account, err := user.LookupId(strconv.FormatUint(uint64(service), 10))
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = posix.AsUser(service, uint32(gid))
	out := &firstBytes{most: 4 << 10}
	cmd.Stderr = out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it took longer than %s", noteWithin)
		}
		return bourn.WithHint(fmt.Errorf("%w: cannot note the change in %s: %w: %s", bourn.ErrUnavailable, audit.JournalPath(n.Home), err, bourn.Printable(firstLine(out.kept))),
			"nothing is given that is not noted: look what stands there, and whether it has room")
	}
	return nil
}

// noteWithin is how long writing an entry may take: the service may stop the process that does,
// and must not keep anybody from being removed by that.
const noteWithin = 5 * time.Second

// firstBytes keeps the beginning of what is written.
type firstBytes struct {
	kept []byte
	most int
}

func (f *firstBytes) Write(b []byte) (int, error) {
	f.kept = append(f.kept, b[:min(len(b), f.most-len(f.kept))]...)
	return len(b), nil
}

func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return string(line)
}

func (p *people) noteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "note", Hidden: true, Args: takes, Short: "Write one entry of the log (started by bourn people)",
		Example: "  bourn people note",
		RunE: func(*cobra.Command, []string) error {
			text, err := io.ReadAll(io.LimitReader(p.Stdin, maxNoting+1))
			if err != nil {
				return err
			}
			var n noting
			if err := json.Unmarshal(text, &n); err != nil || len(text) > maxNoting || !filepath.IsAbs(n.Home) {
				return bourn.WithHint(fmt.Errorf("%w: what stands on standard input is no entry", bourn.ErrInvalid), "bourn people starts this itself")
			}
			return audit.Note(audit.JournalPath(n.Home), n.Entry)
		},
	}
}

// registry reads what the helper knows; nil where that cannot be used.
func (p *people) registry() *posix.Registry {
	r, err := posix.LoadRegistry(p.at(posix.RegistryPath))
	if err != nil {
		return nil
	}
	return &r
}
