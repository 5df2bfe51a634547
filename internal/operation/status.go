package operation

import (
	"fmt"
	"strings"

	"bourn"
)

// DatabaseStatus is what bourn db status says.
type DatabaseStatus struct {
	Private   bool   `json:"private"`             // bourn runs the server itself
	Server    string `json:"server,omitempty"`    // of one that others run: host and port
	Directory string `json:"directory,omitempty"` // of a private one
	User      string `json:"user,omitempty"`      // the OS user that it runs as
	State     string `json:"state"`               // running, stopped, absent
	Version   string `json:"version,omitempty"`   // of the server; of a stopped one its major version
	Installed string `json:"installed,omitempty"` // the version of the programs that are used
	Programs  string `json:"programs,omitempty"`  // their directory
	Minimum   string `json:"minimum"`             // the oldest releases that row security is trusted on
	Mend      string `json:"mend,omitempty"`      // what to do where the server cannot be used
	Detail    string `json:"detail,omitempty"`    // why

	DirectoryBytes int64       `json:"directory_bytes,omitempty"`
	Databases      []OneStatus `json:"databases,omitempty"` // of a server that answers
	Connections    int         `json:"connections,omitempty"`
	MaxConnections int         `json:"max_connections,omitempty"`
}

// OneStatus is one database of a server that answers.
type OneStatus struct {
	Name       string      `json:"name"`
	Bytes      int64       `json:"bytes"`
	Migrations []Migration `json:"migrations"`
}

// A Migration is a set of them, and how far a database has come.
type Migration struct {
	Set   string `json:"set"`
	At    int64  `json:"at"`    // 0 where it cannot be told or nothing has run
	Known int64  `json:"known"` // the last that this bourn has
}

// Summary says in a line which server it is.
func (s DatabaseStatus) Summary() string {
	if s.Detail != "" {
		return s.Detail
	}
	version := s.Version
	if version == "" || s.State != "running" && s.Installed != "" {
		version = s.Installed
	}
	switch {
	case !s.Private:
		return fmt.Sprintf("%s on %s, run by others", version, s.Server)
	case s.State == "absent":
		return version + " is installed; the private server is made when it is needed"
	}
	return fmt.Sprintf("%s, private, %s", version, s.State)
}

// Text is the status as it is printed.
func (s DatabaseStatus) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s  %s\n", name, bourn.Printable(fmt.Sprintf(format, args...)))
	}
	if s.Private {
		line("server", "private, in %s", s.Directory)
	} else {
		line("server", "%s, run by others", s.Server)
	}
	state := s.State
	if s.User != "" {
		state += ", as " + s.User
	}
	line("state", "%s", state)
	if s.Version != "" && s.State == "running" {
		line("version", "%s (row security is trusted on %s)", s.Version, s.Minimum)
	}
	if s.Installed != "" {
		line("programs", "PostgreSQL %s in %s", s.Installed, s.Programs)
	}
	if s.DirectoryBytes > 0 {
		line("on disk", "%s", size(s.DirectoryBytes))
	}
	for _, d := range s.Databases {
		var sets []string
		for _, m := range d.Migrations {
			text := fmt.Sprintf("%s %d", m.Set, m.At)
			if m.At != m.Known {
				text += fmt.Sprintf(" of %d", m.Known)
			}
			sets = append(sets, text)
		}
		line(d.Name, "%s, migrations: %s", size(d.Bytes), strings.Join(sets, ", "))
	}
	if s.MaxConnections > 0 {
		line("connections", "%d of %d", s.Connections, s.MaxConnections)
	}
	if s.Mend != "" {
		line("NOT OK", "%s", s.Detail)
		line("mend", "%s", s.Mend)
	}
	return b.String()
}

// size writes a number of bytes as people do.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
