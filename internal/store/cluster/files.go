package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
)

// settings are what every cluster has: no TCP, no statement or parameter in the log (it
// may hold a secret), plans that do not surprise.
var settings = map[string]string{
	"listen_addresses":                  "",
	"port":                              "5432",
	"jit":                               "off",
	"log_min_error_statement":           "panic",
	"log_parameter_max_length":          "0",
	"log_parameter_max_length_on_error": "0",
	"log_destination":                   "stderr",
	"logging_collector":                 "off",
	"log_line_prefix":                   "%m [%p] %q%u@%d ",
	"max_connections":                   "100",
	"random_page_cost":                  "1.1", // what is asked for often is in memory, and few disks turn
	"password_encryption":               "scram-sha-256",
	"unix_socket_permissions":           "0777", // the directory's mode says who comes near
}

// prepare makes the directories, for the server's user alone.
func (c *Cluster) prepare() error {
	if err := os.MkdirAll(filepath.Dir(c.config.Dir), 0o700); err != nil {
		return fmt.Errorf("cannot make the cluster: %w", err)
	}
	for _, dir := range []string{c.config.Dir, c.config.SocketDir} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("cannot make the cluster: %w", err)
		}
		if err := c.own(dir); err != nil {
			return err
		}
	}
	return nil
}

// own gives a directory to the server's user. What is already another's is refused: it
// would be a way to make root give files away.
func (c *Cluster) own(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|openDirNoFollow, 0)
	if err != nil {
		return fmt.Errorf("cannot make the cluster: %w", err)
	}
	defer d.Close()
	owner, err := ownerOf(d)
	if err != nil {
		return fmt.Errorf("cannot make the cluster: %w", err)
	}
	want := uint32(os.Geteuid())
	if c.config.User != nil {
		want = c.config.User.UID
	}
	switch owner {
	case want:
		return nil
	case uint32(os.Geteuid()):
		if err := d.Chown(int(want), int(c.config.User.GID)); err != nil {
			return fmt.Errorf("cannot make the cluster: %w", err)
		}
		return nil
	}
	return bourn.WithHint(
		fmt.Errorf("%w: %s belongs to user %d, and the database runs as user %d", bourn.ErrConflict, dir, owner, want),
		"start bourn as the user that made it, or set BOURN_HOME to another directory")
}

// initialise makes the cluster in a directory beside its place and moves it there when
// it is complete, so that what is cut short is made anew.
func (c *Cluster) initialise(ctx context.Context) error {
	making := filepath.Join(c.config.Dir, "data.new")
	if err := os.RemoveAll(making); err != nil {
		return fmt.Errorf("cannot make the cluster: %w", err)
	}
	said, err := c.run(ctx, "initdb", "-D", making, "-U", Admin, "--auth-local=peer", "--auth-host=reject",
		"--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums")
	if err != nil {
		return bourn.WithHint(fmt.Errorf("%w: cannot make the cluster: %w: %s", bourn.ErrUnavailable, err, bourn.Printable(lastLine(said))),
			"is the disk full, or "+c.config.Dir+" on a file system without owners?")
	}
	if err := os.Rename(making, c.config.data()); err != nil {
		return fmt.Errorf("cannot make the cluster: %w", err)
	}
	return nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// configure writes who may come in. It is written at each start: a hand's change does
// not last, and a newer version's rules hold at once.
func (c *Cluster) configure() error {
	rules := []string{
		"# Written by bourn at each start. What no line fits is refused.",
		"local all " + Admin + " peer map=bourn",
	}
	rules = append(rules, c.config.Rules...)
	idents := []string{"# Written by bourn at each start."}
	for _, i := range c.config.Ident {
		idents = append(idents, fmt.Sprintf("bourn %s %s", quotedIdent(i.OS), quotedIdent(i.Role)))
	}
	for name, lines := range map[string][]string{"pg_hba.conf": rules, "pg_ident.conf": idents} {
		if err := c.write(filepath.Join(c.config.data(), name), strings.Join(lines, "\n")+"\n"); err != nil {
			return fmt.Errorf("cannot configure the cluster: %w", err)
		}
	}
	return nil
}

// quotedIdent writes a name as pg_hba.conf wants it.
func quotedIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// arguments are those of the server.
func (c *Cluster) arguments() []string {
	all := maps.Clone(settings)
	maps.Copy(all, c.config.Set)
	all["unix_socket_directories"] = c.config.SocketDir
	args := []string{"-D", c.config.data()}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}
