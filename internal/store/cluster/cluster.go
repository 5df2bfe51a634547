package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bourn"

	"github.com/jackc/pgx/v5/pgconn"
)

// Admin is the bootstrap superuser's role.
const Admin = "postgres"

// maxSocketDir is the longest directory that a server's socket can stand in: sun_path
// has 108 bytes (unix(7)), and PostgreSQL adds its own name and a lock file's ending.
const maxSocketDir = 107 - len("/"+socketName+".lock")

// socketName is what the server calls its socket, by its port.
const socketName = ".s.PGSQL.5432"

// Socket returns the server's socket in its directory.
func Socket(dir string) string { return filepath.Join(dir, socketName) }

// readyWithin is how long a server may take before it answers: recovery after a power
// loss reads what had not been settled.
const readyWithin = 2 * time.Minute

// Config says what a cluster is. It is read once, by Start.
type Config struct {
	// Dir holds all of it: data/, the log, the socket. It is made if it does not exist.
	Dir string
	// SocketDir is where the socket stands; empty means Dir/socket. At most 88 bytes.
	SocketDir string
	// Programs are where the server's programs may be; none means the usual places.
	Programs []string
	// User is the OS user that the server runs as. Nil means the user of this process,
	// which must not be root then; another can be named by root only.
	User *User
	// Ident are the lines of the ident map: which OS user may be which role.
	Ident []Ident
	// Rules are the lines of pg_hba.conf after the one that lets the administrator in,
	// as in "local control bourn_control peer map=bourn". What none fits is refused.
	Rules []string
	// Set are settings of the server, besides those that every cluster has.
	Set map[string]string
}

// A User is an OS user, by number.
type User struct{ UID, GID uint32 }

// An Ident lets an OS user in as a role. OS may be a regular expression that begins
// with a slash, and Role may then hold \1 (pg_ident.conf).
type Ident struct{ OS, Role string }

// A Cluster is a server that runs. Stop ends it.
type Cluster struct {
	config   Config
	programs Programs
	process  *process
}

// Start makes the cluster where there is none, starts it and returns once it answers.
// The server ends with this process, however that ends. Errors are ErrWeakHost where no
// fitting server is installed, ErrConflict where the cluster is another's, and
// ErrUnavailable where the server did not come up; they hold the end of its log.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if config.SocketDir == "" {
		config.SocketDir = filepath.Join(config.Dir, "socket")
	}
	if len(config.SocketDir) > maxSocketDir {
		return nil, bourn.WithHint(
			fmt.Errorf("%w: PostgreSQL's socket cannot stand in %s: the path has more than %d bytes", bourn.ErrInvalid, config.SocketDir, maxSocketDir),
			"set BOURN_HOME to a shorter path")
	}
	if config.User == nil && os.Geteuid() == 0 {
		return nil, fmt.Errorf("%w: PostgreSQL does not run as root, and no other user was named for it", bourn.ErrInvalid)
	}
	major, err := madeBy(config.data())
	if err != nil {
		return nil, err
	}
	programs, err := Find(ctx, config.Programs, major)
	if err != nil {
		return nil, err
	}
	c := &Cluster{config: config, programs: programs}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	lock, err := lockDir(ctx, filepath.Join(config.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	// The server holds the lock as well: it is free when both are gone.
	defer lock.Close()
	if major == 0 {
		if err := c.initialise(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.configure(); err != nil {
		return nil, err
	}
	if c.process, err = c.launch(lock); err != nil {
		return nil, err
	}
	if err := c.waitReady(ctx); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Version returns the server's version.
func (c *Cluster) Version() Version { return c.programs.Version }

// Programs returns the directory of the server's programs, pg_dump and psql among them.
func (c *Cluster) Programs() string { return c.programs.Dir }

// Done is closed when the server has ended, for whatever reason.
func (c *Cluster) Done() <-chan struct{} { return c.process.done }

// Pid returns the server's process id.
func (c *Cluster) Pid() int { return c.process.pid }

// Log returns the path of the server's log.
func (c *Cluster) Log() string { return c.config.log() }

// ConnString returns what a client connects by, as a role to a database.
func (c *Cluster) ConnString(role, database string) string {
	return ConnString(c.config.SocketDir, role, database)
}

// ConnString returns what a client connects by to the server whose socket is in dir.
func ConnString(dir, role, database string) string {
	return Keywords("host", dir, "port", "5432", "user", role, "dbname", database, "sslmode", "disable")
}

// Keywords writes a connection string of keywords and their values.
func Keywords(pairs ...string) string {
	var words []string
	for i := 0; i+1 < len(pairs); i += 2 {
		words = append(words, pairs[i]+"='"+quoted(pairs[i+1])+"'")
	}
	return strings.Join(words, " ")
}

// quoted escapes a value of a connection string.
func quoted(s string) string {
	return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)
}

// Stop ends the server, which lets its transactions go, and waits until it is gone. A
// second call waits as well.
func (c *Cluster) Stop(ctx context.Context) error { return c.process.stop(ctx) }

func (c Config) data() string { return filepath.Join(c.Dir, "data") }
func (c Config) log() string  { return filepath.Join(c.Dir, "postgres.log") }

// madeBy returns the major version that made the data in dir, and 0 for none.
func madeBy(dir string) (int, error) {
	said, err := os.ReadFile(filepath.Join(dir, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read which PostgreSQL made the cluster: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(said)))
	if err != nil || major <= 0 {
		return 0, fmt.Errorf("cannot read which PostgreSQL made the cluster in %s: PG_VERSION says %q", dir, bourn.Printable(string(said)))
	}
	return major, nil
}

// waitReady returns when the server lets its administrator in. An administrator who may
// not come in from here counts: the server answers.
func (c *Cluster) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgconn.Connect(ctx, c.ConnString(Admin, "postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "28000" {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.process.done:
			return bourn.WithHint(fmt.Errorf("%w: PostgreSQL ended at once: %s", bourn.ErrUnavailable, c.lastWords()), "read "+c.Log())
		case <-ctx.Done():
			return bourn.WithHint(fmt.Errorf("%w: PostgreSQL does not answer: %w", bourn.ErrUnavailable, err), "read "+c.Log())
		}
	}
}

// lastWords returns the end of the server's log, on one line.
func (c *Cluster) lastWords() string {
	const most = 400
	f, err := os.Open(c.Log())
	if err != nil {
		return "no log"
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, 2); err != nil {
			return "no log"
		}
	}
	buf := make([]byte, most)
	n, _ := f.Read(buf)
	lines := strings.Split(strings.TrimSpace(string(buf[:n])), "\n")
	return bourn.Printable(strings.Join(lines[max(0, len(lines)-3):], "; "))
}

// Dir returns the directory that holds all of the cluster.
func (c *Cluster) Dir() string { return c.config.Dir }

// SocketDir returns where the server's socket stands.
func (c *Cluster) SocketDir() string { return c.config.SocketDir }
