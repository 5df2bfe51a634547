package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bourn"
	"bourn/internal/archive"
	"bourn/internal/audit"
	"bourn/internal/daemon"
	"bourn/internal/daemon/instance"
	"bourn/internal/operation"
	"bourn/internal/store"
	"bourn/internal/store/cluster"

	"github.com/spf13/cobra"
)

// restored is what is said of a restore.
type restored struct {
	File     string    `json:"file"`
	Made     time.Time `json:"made"`
	Aside    string    `json:"aside,omitempty"` // where the cluster before it is now
	Entries  int64     `json:"entries"`         // of the log
	Problems []string  `json:"problems"`        // of the log, [] for none
	Notes    []string  `json:"notes"`           // what a person has to do
}

func dbRestore(cmd *cobra.Command, f operation.Database, args []string) error {
	a, err := archive.Open(args[0])
	if err != nil {
		return err
	}
	defer a.Close()
	dir, err := home()
	if err != nil {
		return err
	}
	shared, err := findShared(dir, f)
	if err != nil {
		return err
	}
	if shared != nil {
		dir = shared.Home
	} else if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make %s: %w", dir, err)
	}
	var release func()
	if err := daemon.AsOwner(dir, func() (err error) { release, err = instance.Hold(dir); return err }); err != nil {
		if shared != nil && errors.Is(err, bourn.ErrConflict) {
			err = bourn.WithHint(err, "systemctl stop bourn.service")
		}
		return err
	}
	defer release()
	r := restore{home: dir, archive: a, out: restored{File: args[0], Made: a.Manifest.Made, Problems: []string{}, Notes: []string{}}}
	if admin := adminURL(f); admin != "" {
		err = r.intoGiven(cmd.Context(), admin, f)
	} else if shared != nil {
		err = r.restoreShared(cmd.Context(), shared, f)
	} else {
		err = r.intoPrivate(cmd.Context(), f)
	}
	if err != nil {
		return err
	}
	return r.say(cmd, f)
}

// A restore is one on its way.
type restore struct {
	home    string
	archive *archive.Archive
	out     restored
}

func (r *restore) say(cmd *cobra.Command, f operation.Database) error {
	for _, n := range r.out.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "bourn: %s\n", bourn.Printable(n))
	}
	if f.JSON {
		if err := printJSON(cmd.OutOrStdout(), r.out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "the backup of %s is restored: %d entries of the log\n", r.out.Made.Format(time.RFC3339), r.out.Entries)
	}
	if len(r.out.Problems) == 0 {
		return nil
	}
	for _, p := range r.out.Problems {
		fmt.Fprintf(cmd.ErrOrStderr(), "bourn: the log: %s\n", bourn.Printable(p))
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "bourn: all is restored, and its log is not as it was signed")
	fmt.Fprintln(cmd.ErrOrStderr(), "hint: compare it with a checkpoint that was kept elsewhere, and with another backup")
	return &exitStatus{bourn.CodeConflict.ExitStatus()}
}

func (r *restore) intoGiven(ctx context.Context, admin string, f operation.Database) error {
	if f.Replace {
		return bourn.WithHint(fmt.Errorf("%w: --replace is about the private server", errUsage), "on a server that others run, drop the databases control and records yourself")
	}
	s, err := others(ctx, admin)
	if err != nil {
		return err
	}
	r.out.Notes = append(r.out.Notes, "bourn db migrate with the same --admin-url gives the roles their passwords")
	return r.into(ctx, s)
}

// intoPrivate restores into the private server, with --replace into a new one: the one
// before it comes back when that fails.
func (r *restore) intoPrivate(ctx context.Context, f operation.Database) error {
	config, err := daemon.ClusterConfig(ctx, r.home, given(f.DatabaseUser, operation.DatabaseUser))
	if err != nil {
		return err
	}
	major, err := cluster.Major(config.Dir)
	if err != nil {
		return err
	}
	if f.Replace && major != 0 {
		r.out.Aside = config.Dir + ".replaced-" + time.Now().UTC().Format("20060102T150405Z")
		if err := cluster.Move(ctx, config.Dir, r.out.Aside); err != nil {
			return err
		}
		r.out.Notes = append(r.out.Notes, "the database before it is in "+r.out.Aside+"; remove it when you need it no more")
	}
	err = r.start(ctx, config)
	if err == nil || r.out.Aside == "" {
		return err
	}
	last := context.WithoutCancel(ctx)
	failed := r.out.Aside + ".failed"
	back := cluster.Move(last, config.Dir, failed)
	if back == nil {
		back = errors.Join(os.RemoveAll(failed), os.Rename(r.out.Aside, config.Dir))
	}
	if back != nil {
		return fmt.Errorf("%w; and the database before it is in %s: %w", err, r.out.Aside, back)
	}
	return err
}

func (r *restore) start(ctx context.Context, config cluster.Config) (err error) {
	own, err := cluster.Start(ctx, config)
	if err != nil {
		return err
	}
	s := private(own.SocketDir(), own.Programs())
	s.own = own
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	return r.into(ctx, s)
}

// into restores into a server and looks at what is there then.
func (r *restore) into(ctx context.Context, s *server) error {
	if err := store.Recreate(ctx, s.admin); err != nil {
		return err
	}
	for _, part := range []struct{ name, database string }{{archive.Control, store.ControlDatabase}, {archive.Records, store.RecordsDatabase}} {
		cmd, err := s.command("pg_restore", part.database, "--exit-on-error", "--single-transaction")
		if err != nil {
			return err
		}
		if err := runTool(ctx, cmd, r.archive.Part(part.name), io.Discard, "cannot restore the database "+part.database); err != nil {
			return err
		}
	}
	if err := store.Prepare(ctx, s.admin); err != nil {
		return err
	}
	if err := r.check(ctx, s); err != nil {
		return err
	}
	return daemon.AsOwner(r.home, r.keepHead)
}

// check verifies the log against the checkpoint that was backed up with it, and writes in
// it that it was restored.
func (r *restore) check(ctx context.Context, s *server) error {
	st, err := store.Open(ctx, func(_, database string) string { return s.admin(database) })
	if err != nil {
		return err
	}
	defer st.Close()
	key, err := r.key()
	if err != nil {
		return err
	}
	kept, end, err := st.KeptLog(ctx)
	if err != nil {
		return err
	}
	verified, err := audit.Verify(kept, key, r.checkpoints())
	end()
	if err != nil {
		return fmt.Errorf("cannot verify the log: %w", err)
	}
	r.out.Entries = verified.Entries
	for _, p := range verified.Problems {
		r.out.Problems = append(r.out.Problems, fmt.Sprintf("at %d: %s", p.Position, p.What))
	}
	if own, err := os.ReadFile(daemon.IdentityFile(r.home)); err != nil || !bytes.Equal(own, r.part(archive.Identity)) {
		r.out.Notes = append(r.out.Notes, "the log is signed by another key than this home has: put identity.key and identity.pub of the home that was backed up into "+r.home+" before bourn serve")
	}
	e := audit.Entry{Kind: audit.KindChange, Who: "host", What: "database restored", Target: filepath.Base(r.out.File) + " of " + r.out.Made.Format(time.RFC3339), Outcome: audit.Done}
	body, err := e.Encode(time.Now())
	if err != nil {
		return err
	}
	return st.AppendLog(ctx, []store.EncodedEntry{{ID: e.ID, At: e.At, Body: body}})
}

func (r *restore) part(name string) []byte {
	text, err := io.ReadAll(r.archive.Part(name))
	if err != nil {
		return nil // it was read before, and is not there now: nothing fits
	}
	return text
}

func (r *restore) key() (ed25519.PublicKey, error) {
	block, _ := pem.Decode(r.part(archive.Identity))
	if block == nil {
		return nil, fmt.Errorf("%w: the backup holds no key to verify its log by", bourn.ErrInvalid)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: the backup's key cannot be read: %w", bourn.ErrInvalid, err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%w: the backup's key is none of the log's", bourn.ErrInvalid)
	}
	return key, nil
}

// checkpoints is the one that was backed up.
func (r *restore) checkpoints() []audit.Signed {
	var s audit.Signed
	if err := json.Unmarshal(r.part(archive.Checkpoint), &s); err != nil || len(s.Bytes) == 0 {
		return nil
	}
	return []audit.Signed{s}
}

// keepHead makes the backup's checkpoint the home's. A newer one is of a log that is no
// more, and is put aside.
func (r *restore) keepHead() error {
	at := daemon.HeadFile(r.home)
	text := r.part(archive.Checkpoint)
	old, err := os.ReadFile(at)
	if err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err == nil {
		aside := at + ".replaced-" + time.Now().UTC().Format("20060102T150405Z")
		if err := os.Rename(at, aside); err != nil {
			return fmt.Errorf("cannot put the log's newest checkpoint aside: %w", err)
		}
		r.out.Notes = append(r.out.Notes, "the checkpoint before it is in "+aside+": it shows what the restored log lacks")
	}
	if len(r.checkpoints()) == 0 {
		return nil
	}
	if err := daemon.ReplaceFile(at, text, 0o600); err != nil {
		return fmt.Errorf("cannot keep the log's newest checkpoint: %w", err)
	}
	return nil
}
