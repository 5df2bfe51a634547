package daemon

import (
	"log/slog"
	"time"
)

// Config says what a control plane is. It is read once, by Run.
type Config struct {
	// Home is $BOURN_HOME, absolute. It is made if its parent exists.
	Home string
	// Version is the program's.
	Version string
	// DatabaseURL is a server that is run by others; empty means a private cluster below
	// Home. Its roles were made by `bourn db migrate`, and its passwords stand in
	// Home/secrets/database.json.
	DatabaseURL string
	// DatabaseSocket is the directory of the socket of a server that lets this process's user
	// in as the control plane's roles, and that `bourn db serve` runs. A DatabaseURL is used
	// before it; empty means none.
	DatabaseSocket string
	// DatabaseUser is the OS user that the private cluster runs as when this process is
	// root's; empty means bourn-db, which is made. It is of no meaning otherwise.
	DatabaseUser string
	// Listen is the TCP address of HTTP; empty means none but the local socket.
	Listen string
	// Hosts are names that HTTP may be asked by, besides those of the loopback.
	Hosts []string
	// Log gets what operators read. Nil means nowhere.
	Log *slog.Logger
	// Ready, if not nil, is called once everything answers.
	Ready func(Started)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Socket is where the local socket stands; empty means Home's own or, on a shared host,
	// [DefaultSharedSocket].
	Socket string
	// Registry says who the people of a shared host are; empty means posix.RegistryPath. Where
	// there is none, or it names another user as the service, the host is one person's.
	Registry string
	// Helper is bourn-posix-helper; empty means [HelperName] in the prefix that this program
	// is installed in. It is of no meaning where the host is one person's.
	Helper string
	// Retention is how long entries of the log are kept; 0 means for ever.
	Retention time.Duration

	people *people // of a shared host, once Run has looked
}

// Started says where a control plane answers.
type Started struct {
	Socket string // the local socket
	HTTP   string // the address of HTTP, empty for none; that of IPv4 where there are two
}

// signEvery is how often the log is chained and signed. A checkpoint is never older
// than a second where there was something to sign.
const signEvery = 500 * time.Millisecond
