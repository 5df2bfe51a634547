package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/cluster"

	"github.com/jackc/pgx/v5"
)

// defaultDatabaseUser is the OS user of a private cluster that root started.
const defaultDatabaseUser = "bourn-db"

// sharedRoot is where the cluster of a root stands whose home others cannot enter.
const sharedRoot = "/var/lib/bourn"

// restartPause is how long the first try to start a server that ended waits; it doubles
// up to a minute.
const restartPause = 500 * time.Millisecond

// A database is the server behind a store: a cluster of one's own, or somebody else's.
type database struct {
	config cluster.Config // of an own one
	socket string         // the directory of a shared host's, which its own service runs
	url    string         // of one that others run
	login  store.Login
	ended  func() // called when the server has ended by itself; nil for nothing

	mu      sync.Mutex
	running *cluster.Cluster
}

// ClusterConfig returns the private cluster of a home: where it stands and as whom it
// runs. It makes the OS user where it must.
func ClusterConfig(ctx context.Context, home, osUser string) (cluster.Config, error) {
	own := cluster.CurrentUser()
	if own == "" {
		return cluster.Config{}, bourn.WithHint(
			fmt.Errorf("%w: user %d has no name on this host, and the database knows its users by name", bourn.ErrWeakHost, os.Geteuid()),
			"add an entry for it to /etc/passwd")
	}
	config := cluster.Config{Dir: ClusterDir(home)}
	if os.Geteuid() == 0 {
		if osUser == "" {
			osUser = ownerName(config.Dir)
		}
		if osUser == "" {
			osUser = defaultDatabaseUser
		}
		u, err := databaseUser(ctx, osUser)
		if err != nil {
			return config, err
		}
		config.User = &u
		if filepath.Dir(config.Dir) == sharedRoot {
			if err := os.MkdirAll(sharedRoot, 0o711); err != nil {
				return config, fmt.Errorf("cannot make the cluster: %w", err)
			}
		}
	}
	for _, role := range []string{cluster.Admin, "bourn_control", "bourn_member", "bourn_app", store.SelfRole} {
		config.Ident = append(config.Ident, cluster.Ident{OS: own, Role: role})
	}
	config.Rules = append(controlRules(), agentRule)
	return config, nil
}

// ClusterDir returns where the private cluster of a home stands, or will.
func ClusterDir(home string) string {
	own := filepath.Join(home, "postgres")
	if os.Geteuid() != 0 {
		return own
	}
	id := sha256.Sum256([]byte(home))
	return clusterDir(own, filepath.Join(sharedRoot, "postgres-"+hex.EncodeToString(id[:4])))
}

// clusterDir chooses between a directory in root's home and one that the database's user
// can enter. Where a cluster was made it stays, whatever became of the modes above it since:
// another place would be an empty database.
func clusterDir(own, shared string) string {
	inOwn, inShared := hasCluster(own), hasCluster(shared)
	if inShared && !inOwn || inOwn == inShared && !enterable(filepath.Dir(own)) {
		return shared
	}
	return own
}

// hasCluster reports whether there is a cluster in dir, also one that cannot be read.
func hasCluster(dir string) bool {
	major, err := cluster.Major(dir)
	return major != 0 || err != nil
}

// enterable reports whether everybody may pass through dir and what is above it.
func enterable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		return true
	}
}

// openDatabase starts the private cluster, or finds the way to the given server.
func openDatabase(ctx context.Context, c Config) (*database, error) {
	if c.DatabaseURL != "" {
		login, err := urlLogin(c.Home, c.DatabaseURL)
		return &database{login: login, url: c.DatabaseURL}, err
	}
	if dir := c.DatabaseSocket; dir != "" {
		if !filepath.IsAbs(dir) {
			return nil, bourn.WithHint(fmt.Errorf("%w: the directory of the database's socket is %q, and must be absolute", bourn.ErrInvalid, bourn.Printable(dir)), "as in BOURN_DATABASE_SOCKET="+SharedDatabaseSocket)
		}
		return &database{socket: dir, login: func(role, db string) string { return cluster.ConnString(dir, role, db) }}, nil
	}
	config, err := ClusterConfig(ctx, c.Home, c.DatabaseUser)
	if err != nil {
		return nil, err
	}
	d := &database{config: config}
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	d.login = d.running.ConnString
	return d, nil
}

// start starts the cluster and brings its databases up to date.
func (d *database) start(ctx context.Context) error {
	running, err := cluster.Start(ctx, d.config)
	if err != nil {
		return err
	}
	err = store.Prepare(ctx, func(db string) string { return running.ConnString(cluster.Admin, db) })
	if err == nil {
		_, err = store.AgentRoles(ctx, running.ConnString(cluster.Admin, "postgres"), store.AgentRoleWish{Active: []string{store.SelfRole}, Only: true})
	}
	if err != nil {
		return errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
	}
	d.mu.Lock()
	d.running = running
	d.mu.Unlock()
	return nil
}

// keep starts the cluster again whenever it ends, until ctx does, and stops it then.
func (d *database) keep(ctx context.Context, say func(msg string, args ...any)) error {
	if d.running == nil {
		<-ctx.Done()
		return nil
	}
	pause, began := restartPause, time.Now()
	for {
		select {
		case <-ctx.Done():
			return d.cluster().Stop(context.WithoutCancel(ctx))
		case <-d.cluster().Done():
		}
		if d.ended != nil {
			d.ended()
		}
		if time.Since(began) > time.Minute {
			pause = restartPause // it ran well for a time
		}
		say("PostgreSQL ended; starting it again", "pause", pause, "log", d.cluster().Log())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		began = time.Now()
		pause = min(2*pause, time.Minute)
		if err := d.start(ctx); err != nil && ctx.Err() == nil {
			say("cannot start PostgreSQL", "error", err)
		}
	}
}

// stop stops a server of one's own.
func (d *database) stop(ctx context.Context) error {
	if running := d.cluster(); running != nil {
		return running.Stop(context.WithoutCancel(ctx))
	}
	return nil
}

// user is the name of the OS user that the server runs as.
func (d *database) user() string {
	if d.config.User == nil {
		return cluster.CurrentUser()
	}
	return cluster.UserName(d.config.User.UID)
}

func (d *database) cluster() *cluster.Cluster {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running
}

// urlLogin returns the roles' ways to a server that others run: its URL, with the
// passwords that `bourn db migrate` made.
func urlLogin(home, url string) (store.Login, error) {
	if _, err := pgx.ParseConfig(url); err != nil {
		return nil, bourn.WithHint(fmt.Errorf("%w: cannot read the database's URL", bourn.ErrInvalid), "it looks like postgres://db.example.com:5432/?sslmode=verify-full")
	}
	at := PasswordFile(home)
	text, err := os.ReadFile(at)
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("%w: cannot read the passwords of the database's roles: %w", bourn.ErrNotFound, err),
			"run `bourn db migrate` with the URL of a superuser first")
	}
	var passwords map[string]string
	if err := json.Unmarshal(text, &passwords); err != nil {
		return nil, fmt.Errorf("%w: %s does not hold the passwords of the database's roles", bourn.ErrInvalid, at)
	}
	return func(role, database string) string { return store.WithLogin(url, role, passwords[role], database) }, nil
}

// PasswordFile is where the passwords of the roles of a given server are kept.
func PasswordFile(home string) string { return filepath.Join(home, "secrets", "database.json") }
