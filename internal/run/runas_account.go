package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// An account is a user of the host's, as the system's own databases have it.
type account struct {
	policy.User
	Home  string // absolute, canonical as far as it exists
	Shell string
}

func (a *account) String() string { return fmt.Sprintf("%s (%d)", bourn.Printable(a.Name), a.UID) }

// is reports whether a text names the account.
func (a *account) is(text string) bool { return text == a.Name || text == strconv.Itoa(a.UID) }

// askTime bounds how long the system's databases may take: they may be in the network.
const askTime = 20 * time.Second

// accountTools are where the system's own programs stand. PATH is not asked: this is root.
var accountTools = []string{"/usr/bin", "/bin", "/run/current-system/sw/bin"}

const passwdPath = "/etc/passwd"

// findAccount returns the user that a name or a uid means, with all of its groups. The
// system is asked (getent(1), id(1)), since accounts may stand elsewhere than in /etc. What
// is unknown, and what could mean two accounts, is an error.
func findAccount(text string) (*account, error) {
	if !validUser(text) {
		return nil, bourn.WithHint(fmt.Errorf("%w: %q cannot name a user", bourn.ErrInvalid, text), "give a user name of this host, or a uid")
	}
	line, err := askAccounts("getent", "passwd", text)
	var exit *exec.ExitError
	if errors.As(err, &exit) || err == nil && strings.TrimSpace(line) == "" {
		return nil, bourn.WithHint(fmt.Errorf("%w: cannot run as %s: this host has no such user", bourn.ErrNotFound, text), "getent passwd lists the users")
	}
	if err != nil {
		return nil, cannotAsk(text, err)
	}
	a, err := parseAccount(text, line)
	if err != nil {
		return nil, err
	}
	file, err := os.ReadFile(passwdPath)
	if err != nil && !os.IsNotExist(err) {
		return nil, cannotAsk(text, err)
	}
	if why := ambiguous(text, a, string(file)); why != "" && a.UID != 0 { // root is refused anyway
		return nil, bourn.WithHint(fmt.Errorf("%w: cannot run as %s: %s", bourn.ErrInvalid, text, why), "mend "+passwdPath+", or name the account another way")
	}
	groups, err := askAccounts("id", "-G", a.Name)
	if err == nil {
		a.Groups, err = parseGroups(groups)
	}
	if err != nil {
		return nil, cannotAsk(text, err)
	}
	return a, a.resolveHome()
}

func cannotAsk(text string, err error) error {
	return bourn.WithHint(fmt.Errorf("%w: cannot run as %s: cannot ask this host for its users: %w", bourn.ErrUnavailable, text, err),
		"getent passwd and id -G must work here")
}

// validUser reports whether a text may be given to a program as the name of a user, and
// shown as it is.
func validUser(text string) bool {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.@$-", r)
	}
	return text != "" && len(text) <= 256 && text[0] != '-' && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0
}

// askAccounts runs one of the system's programs and returns what it prints.
func askAccounts(name string, args ...string) (string, error) {
	for _, dir := range accountTools {
		at := filepath.Join(dir, name)
		if info, err := os.Stat(at); err != nil || info.IsDir() {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, at, args...)
		cmd.Dir, cmd.Env = "/", []string{"LC_ALL=C", "PATH=" + strings.Join(accountTools, ":")}
		out, err := cmd.Output()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return string(out), err
	}
	return "", fmt.Errorf("there is no %s in %s", name, strings.Join(accountTools, ", "))
}

// parseAccount reads one line of passwd(5).
func parseAccount(text, line string) (*account, error) {
	broken := func(what string) error {
		return bourn.WithHint(fmt.Errorf("%w: cannot run as %s: %s", bourn.ErrInvalid, text, what), "getent passwd "+text+" shows the account")
	}
	lines := strings.Split(strings.TrimRight(line, "\n"), "\n")
	if len(lines) != 1 {
		return nil, broken("this host has it more than once")
	}
	f := strings.Split(lines[0], ":")
	if len(f) != 7 || !validUser(f[0]) {
		return nil, broken("its account cannot be read")
	}
	uid, errUID := parseID(f[2])
	gid, errGID := parseID(f[3])
	if errUID != nil || errGID != nil {
		return nil, broken("its account has no usable ids")
	}
	home := filepath.Clean(f[5])
	if !filepath.IsAbs(home) || home == "/" || strings.ContainsRune(f[5], 0) {
		return nil, broken("its account has no home directory of its own")
	}
	if f[0] != text && f[2] != text {
		return nil, broken("the host answered with the account of " + f[0])
	}
	return &account{policy.User{Name: f[0], UID: uid, GID: gid}, home, f[6]}, nil
}

// parseID reads a uid or gid. The last of 32 bits means none (setresuid(2)).
func parseID(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err == nil && n == 1<<32-1 {
		err = strconv.ErrRange
	}
	return int(n), err
}

func parseGroups(text string) ([]int, error) {
	var out []int
	for _, f := range strings.Fields(text) {
		g, err := parseID(f)
		if err != nil {
			return nil, fmt.Errorf("group %q: %w", f, err)
		}
		if !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("id -G names no group")
	}
	slices.Sort(out)
	return out, nil
}

// ambiguous says why a text could mean another account than a, by the host's own file, or
// is "".
func ambiguous(text string, a *account, passwd string) string {
	names := 0
	var sharing []string
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 {
			continue
		}
		if f[0] == text && text != a.Name && f[2] != strconv.Itoa(a.UID) {
			return fmt.Sprintf("it is the name of an account with uid %s, too", bourn.Printable(f[2]))
		}
		if f[0] == a.Name {
			names++
		}
		if f[2] == strconv.Itoa(a.UID) {
			sharing = append(sharing, f[0])
		}
	}
	switch {
	case names > 1:
		return fmt.Sprintf("%s has the name more than once", passwdPath)
	case text != a.Name && len(sharing) > 1:
		return "several accounts have that uid: " + bourn.Printable(strings.Join(sharing, ", "))
	}
	return ""
}

// resolveHome resolves the symlinks in the path of the home, as far as it exists. Only root's are
// followed: another could turn the home into any directory.
func (a *account) resolveHome() error {
	r, err := survey.Resolve(a.Home)
	if err != nil {
		return cannotAsk(a.Name, err)
	}
	for _, l := range r.Links {
		if o, err := survey.Stat(l.At); err != nil || o.Uid != 0 {
			return bourn.WithHint(fmt.Errorf("%w: cannot run as %s: its home leads through a symlink that is not root's: %s", bourn.ErrInvalid, a, bourn.Printable(l.At)),
				"give the account the home that is meant, without symlinks")
		}
	}
	a.Home = r.Real
	return nil
}
