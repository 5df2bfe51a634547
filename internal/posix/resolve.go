package posix

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"bourn"
)

// Resolve returns the one person whom an identifier names: a person's id, an e-mail, or a
// sign-in account as [Account.String] writes it. Blanks around it and the case of an e-mail's domain do not
// count; everything else does, and nothing is matched by similarity. Nobody is ErrNotFound,
// more than one person ErrConflict with their ids. Removed people are nobody.
func Resolve(s State, identifier string) (Person, error) {
	identifier = strings.TrimSpace(identifier)
	email, isEmail := normalEmail(identifier)
	return one(s, identifier, func(p Person) bool {
		return p.ID == identifier || isEmail && slices.Contains(p.Emails, email) ||
			slices.ContainsFunc(p.Accounts, func(a Account) bool { return a.String() == identifier })
	})
}

// one returns the only person who matches.
func one(s State, identifier string, match func(Person) bool) (Person, error) {
	var found []Person
	var ids []string
	for _, p := range s.People {
		if !p.Removed && match(p) {
			found, ids = append(found, p), append(ids, p.ID)
		}
	}
	switch len(found) {
	case 0:
		return Person{}, fmt.Errorf("%w: nobody is known as %q", bourn.ErrNotFound, bourn.Printable(identifier))
	case 1:
		return found[0], nil
	}
	slices.Sort(ids)
	return Person{}, bourn.WithHint(
		fmt.Errorf("%w: %q is more than one person: %s", bourn.ErrConflict, bourn.Printable(identifier), strings.Join(ids, ", ")),
		"name the person by id")
}

// An Issuer may vouch for e-mails of some domains.
type Issuer struct {
	URL     string
	Domains []string // exact, in lower case; a sub-domain is another domain. None: no e-mail at all
}

// A Claim is what an issuer said of who signs in, its signature checked before.
type Claim struct {
	Account
	Email    string
	Verified bool // the issuer says that it verified the e-mail
}

// Invited returns the person whom a claim's e-mail invites, so that the account may be added
// to theirs. An account that is bound signs in without it: that is [Resolve]'s, and asking here is
// ErrConflict. The e-mail must be verified, by an issuer allowed for exactly its domain, and
// belong to one person who has no account with that issuer yet: an address that got a new
// owner opens nothing. What is refused is ErrDenied; nobody is ErrNotFound.
func Invited(s State, issuers []Issuer, c Claim) (Person, error) {
	if !plain(c.Issuer) || !plain(c.Subject) || strings.Contains(c.Issuer, "#") {
		return Person{}, fmt.Errorf("%w account %q: needs an issuer and a subject", bourn.ErrInvalid, bourn.Printable(c.Account.String()))
	}
	for _, p := range s.People {
		if slices.Contains(p.Accounts, c.Account) {
			return Person{}, fmt.Errorf("%w: the account %q is bound already", bourn.ErrConflict, bourn.Printable(c.Account.String()))
		}
	}
	email, ok := normalEmail(strings.TrimSpace(c.Email))
	if !ok {
		return Person{}, fmt.Errorf("%w e-mail %q: it is not local@domain", bourn.ErrInvalid, bourn.Printable(c.Email))
	}
	if !c.Verified {
		return Person{}, fmt.Errorf("%w: %q did not verify the e-mail %q", bourn.ErrDenied, bourn.Printable(c.Issuer), bourn.Printable(email))
	}
	domain := email[strings.LastIndexByte(email, '@')+1:]
	if !slices.ContainsFunc(issuers, func(i Issuer) bool { return i.URL == c.Issuer && slices.Contains(i.Domains, domain) }) {
		return Person{}, bourn.WithHint(
			fmt.Errorf("%w: %q may not vouch for e-mails of %q", bourn.ErrDenied, bourn.Printable(c.Issuer), bourn.Printable(domain)),
			"an administrator allows a domain for an issuer")
	}
	p, err := one(s, email, func(p Person) bool { return slices.Contains(p.Emails, email) })
	if err != nil {
		return Person{}, err
	}
	if slices.ContainsFunc(p.Accounts, func(a Account) bool { return a.Issuer == c.Issuer }) {
		return Person{}, fmt.Errorf("%w: person %q has another account with %q", bourn.ErrDenied, p.ID, bourn.Printable(c.Issuer))
	}
	return p, nil
}

// maxText is the longest e-mail, issuer or subject, in bytes.
const maxText = 320

// normalEmail returns an address with its domain's ASCII letters in lower case, and whether
// it is one. Unicode's folding would take the Kelvin sign for a k, so it is not used.
func normalEmail(s string) (string, bool) {
	at := strings.LastIndexByte(s, '@')
	if at <= 0 || at == len(s)-1 || !plain(s) || strings.ContainsFunc(s, unicode.IsSpace) {
		return "", false
	}
	domain := []byte(s[at+1:])
	for i, c := range domain {
		if 'A' <= c && c <= 'Z' {
			domain[i] = c + 'a' - 'A'
		}
	}
	return s[:at+1] + string(domain), true
}

// plain reports whether s is text that shows what it is: not empty, not too long, printable,
// without blanks at its ends.
func plain(s string) bool {
	return s != "" && len(s) <= maxText && utf8.ValidString(s) && strings.TrimSpace(s) == s && bourn.Printable(s) == s
}
