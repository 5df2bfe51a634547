package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/daemon"
	"bourn/internal/operation"
	"bourn/internal/store"

	"github.com/spf13/cobra"
)

// migrated is what is said of a server that was prepared.
type migrated struct {
	DatabaseURL string `json:"database_url"` // for bourn serve, without a password
	Passwords   string `json:"passwords"`    // the file that they are in
	NewFile     bool   `json:"new_file"`     // it was made just now
	// AgentRoles are the database roles of agents. Uncertified are those that no SQL runs as yet:
	// their client certificates are not in Certificates.
	AgentRoles   []string `json:"agent_roles"`
	Uncertified  []string `json:"uncertified"`
	Certificates string   `json:"certificates"`
}

// migrateRoles makes the roles of agents. Their certificates a person has to get.
func migrateRoles(ctx context.Context, s *server, home string, out *migrated) error {
	wish, err := daemon.MigratedRoles(ctx, s.admin)
	if err == nil {
		_, err = store.AgentRoles(ctx, s.admin("postgres"), wish)
	}
	if err != nil {
		return err
	}
	out.AgentRoles, out.Uncertified, out.Certificates = append([]string{}, wish.Active...), []string{}, daemon.CertificateDir(home)
	for _, role := range wish.Active {
		if !daemon.HasCertificate(home, role) {
			out.Uncertified = append(out.Uncertified, role)
		}
	}
	return nil
}

func dbMigrate(cmd *cobra.Command, f operation.Database, _ []string) error {
	admin := adminURL(f)
	if admin == "" {
		return bourn.WithHint(fmt.Errorf("%w: no administrator of a server is named", errUsage),
			"give --admin-url, or set "+operation.AdminURL+"; the private server needs no bourn db migrate")
	}
	dir, err := home()
	if err != nil {
		return err
	}
	s, err := others(cmd.Context(), admin)
	if err != nil {
		return err
	}
	if err := store.Prepare(cmd.Context(), s.admin); err != nil {
		return err
	}
	out := migrated{DatabaseURL: withoutUser(admin), Passwords: daemon.PasswordFile(dir)}
	// In the file first: a role whose password nobody knows would be of no use.
	passwords, err := keptPasswords(&out)
	if err != nil {
		return err
	}
	if err := store.SetPasswords(cmd.Context(), s.admin("postgres"), passwords); err != nil {
		return err
	}
	if err := migrateRoles(cmd.Context(), s, dir, &out); err != nil {
		return err
	}
	if err := tryLogin(cmd.Context(), dir, out.DatabaseURL); err != nil {
		return err
	}
	if f.JSON {
		return printJSON(cmd.OutOrStdout(), out)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "the databases control and records are ready, and the roles' passwords in %s\n", bourn.Printable(out.Passwords))
	if n := len(out.Uncertified); n > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "agents cannot query records as %s yet: no client certificate for it is in %s\n", strings.Join(out.Uncertified, ", "), bourn.Printable(out.Certificates))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "next: bourn serve --database-url '%s'\n", bourn.Printable(out.DatabaseURL))
	return nil
}

// withoutUser is a server's URL for others than the administrator, who is in it. It was
// parsed before.
func withoutUser(admin string) string {
	u, err := url.Parse(admin)
	if err != nil {
		return ""
	}
	u.User, u.Path = nil, "/"
	return u.String()
}

// keptPasswords returns the roles' passwords, and makes and keeps them where there are none.
func keptPasswords(out *migrated) (map[string]string, error) {
	passwords := map[string]string{}
	text, err := os.ReadFile(out.Passwords)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &passwords); err != nil {
			return nil, bourn.WithHint(fmt.Errorf("%w: %s does not hold the passwords of the database's roles", bourn.ErrInvalid, out.Passwords),
				"move it away: new ones are made then")
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("cannot read the passwords of the database's roles: %w", err)
	}
	whole := len(passwords) > 0
	for _, role := range store.LoginRoles {
		if passwords[role] == "" {
			passwords[role], whole = store.NewPassword(), false
		}
	}
	if whole {
		return passwords, nil
	}
	if err := os.MkdirAll(filepath.Dir(out.Passwords), 0o700); err != nil {
		return nil, fmt.Errorf("cannot keep the passwords of the database's roles: %w", err)
	}
	if text, err = json.MarshalIndent(passwords, "", "  "); err != nil {
		return nil, err
	}
	if err := daemon.ReplaceFile(out.Passwords, append(text, '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("cannot keep the passwords of the database's roles: %w", err)
	}
	out.NewFile = true
	return passwords, nil
}

// tryLogin sees that the server lets the roles in.
func tryLogin(ctx context.Context, home, url string) error {
	login, err := daemon.URLLogin(home, url)
	if err != nil {
		return err
	}
	for _, one := range []struct{ role, database string }{
		{"bourn_control", store.ControlDatabase}, {"bourn_control", store.RecordsDatabase},
		{"bourn_member", store.ControlDatabase}, {"bourn_app", store.RecordsDatabase},
	} {
		if err := store.TryLogin(ctx, login(one.role, one.database)); err != nil {
			return bourn.WithHint(fmt.Errorf("the databases are ready, and the server does not let the role %s into %s: %w", one.role, one.database, err),
				"let it in with scram-sha-256 in the server's pg_hba.conf, then repeat this")
		}
	}
	return nil
}
