package store

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"bourn"

	"github.com/jackc/pgx/v5/pgconn"
)

// LoginRoles are the roles that the control plane connects as.
var LoginRoles = []string{"bourn_control", "bourn_member", "bourn_app"}

// NewPassword returns a random password for a role.
func NewPassword() string { return newSecret() }

// SetPasswords gives roles their passwords, as a superuser. The server gets and keeps what
// it needs to check one; the password itself is not sent and can be in none of its logs.
func SetPasswords(ctx context.Context, admin string, passwords map[string]string) error {
	conn, err := connect(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, role := range LoginRoles {
		v, err := verifier(passwords[role])
		if err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, fmt.Sprintf("alter role %s password '%s'", role, v)); err != nil {
			return fmt.Errorf("cannot give the role %s a password: %w", role, classify(err))
		}
	}
	return nil
}

// scramRounds is PostgreSQL's own number of iterations.
const scramRounds = 4096

// verifier returns what PostgreSQL keeps of a password in ASCII: RFC 5803's form of what
// RFC 5802 derives, as in SCRAM-SHA-256$4096:SALT$STORED:SERVER.
func verifier(password string) (string, error) {
	if password == "" {
		return "", fmt.Errorf("a role gets no empty password")
	}
	salt := make([]byte, 16)
	rand.Read(salt)
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramRounds, sha256.Size)
	if err != nil {
		return "", err
	}
	keyed := func(word string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(word))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(keyed("Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramRounds, b64(salt), b64(stored[:]), b64(keyed("Server Key"))), nil
}

// TryLogin sees whether a role is let in by a connection string. The error holds neither
// that string nor a password.
func TryLogin(ctx context.Context, url string) error {
	conn, err := connect(ctx, url)
	if err != nil {
		var refused *pgconn.PgError
		if errors.As(err, &refused) {
			return fmt.Errorf("%w: %s", bourn.ErrDenied, bourn.Printable(refused.Message))
		}
		return err
	}
	return conn.Close(context.WithoutCancel(ctx))
}
