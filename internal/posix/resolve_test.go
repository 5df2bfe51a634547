package posix

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bourn"
)

func TestResolve(t *testing.T) {
	s := company(t)
	for _, id := range []string{"kim", "shared-1", "shared-2"} {
		if _, err := s.AddPerson(id, "", []string{"team@example.com", id + "@K.example"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for identifier, want := range map[string]string{
		"ann": "ann", " ann\t": "ann", "ann@example.com": "ann", "ann@EXAMPLE.Com": "ann", "\nann@example.com ": "ann",
		"https://id.example.com#ann": "ann", "kim@k.example": "kim",
	} {
		if p, err := Resolve(s, identifier); err != nil || p.ID != want {
			t.Errorf("%q: %q, %v", identifier, p.ID, err)
		}
	}
	for _, nobody := range []string{
		"", "Ann", "an", "anne", "ANN@example.com", "ann@example.co", "ann@example.com.", "ann", "eve", "eve@example.com", "@example.com", "ann@",
		"https://id.example.com#eve", "https://id.example.com", "#ann", "https://ID.example.com#ann", "https://id.example.com/#ann",
		"kim@\u212a.example", // the Kelvin sign folds to k
		"bc_person_" + string(s.People[0].Name), "66016", "ann@example.com,bob@example.com",
	} {
		if nobody == "ann" {
			continue
		}
		if p, err := Resolve(s, nobody); bourn.CodeOf(err) != bourn.CodeNotFound {
			t.Errorf("%q: %q, %v", nobody, p.ID, err)
		}
	}
	_, err := Resolve(s, "team@example.com")
	if bourn.CodeOf(err) != bourn.CodeConflict || !strings.Contains(err.Error(), "kim, shared-1, shared-2") || bourn.HintOf(err) == "" {
		t.Error(err)
	}
}

// Whoever is found has the identifier, but for blanks and the case of the domain.
func TestResolveExact(t *testing.T) {
	s := company(t)
	rapid.Check(t, func(t *rapid.T) {
		identifier := rapid.OneOf(rapid.StringMatching(`[aAbn ]{0,4}(@[eExX]xample\.com)?`), rapid.String()).Draw(t, "identifier")
		p, err := Resolve(s, identifier)
		if err != nil {
			return
		}
		bare := strings.TrimSpace(identifier)
		local, _, _ := strings.Cut(bare, "@")
		if bare != p.ID && (local != p.ID || !strings.EqualFold(bare, p.ID+"@example.com")) {
			t.Fatalf("%q is %s", identifier, p.ID)
		}
	})
}

func TestInvited(t *testing.T) {
	s := company(t)
	for _, id := range []string{"kim", "two-a", "two-b"} {
		email := id + "@example.com"
		if strings.HasPrefix(id, "two") {
			email = "two@example.com"
		}
		if _, err := s.AddPerson(id, "", []string{email, id + "@other.example"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	issuers := []Issuer{{"https://id.example.com", []string{"example.com"}}, {"https://two.example", []string{"example.com"}}, {"https://none.example", nil}}
	claim := func(issuer, email string, verified bool) Claim {
		return Claim{Account{issuer, "new"}, email, verified}
	}
	const id = "https://id.example.com"
	if p, err := Invited(s, issuers, claim(id, " kim@Example.COM", true)); err != nil || p.ID != "kim" {
		t.Errorf("%q, %v", p.ID, err)
	}
	if p, err := Invited(s, issuers, claim("https://two.example", "ann@example.com", true)); err != nil || p.ID != "ann" {
		t.Errorf("a second issuer: %q, %v", p.ID, err)
	}
	for name, c := range map[string]struct {
		claim Claim
		code  bourn.Code
	}{
		"not verified":        {claim(id, "kim@example.com", false), bourn.CodeDenied},
		"another domain":      {claim(id, "kim@other.example", true), bourn.CodeDenied},
		"sub-domain":          {claim(id, "kim@mail.example.com", true), bourn.CodeDenied},
		"unknown issuer":      {claim("https://evil.example", "kim@example.com", true), bourn.CodeDenied},
		"similar issuer":      {claim(id+"/", "kim@example.com", true), bourn.CodeDenied},
		"issuer for nothing":  {claim("https://none.example", "kim@example.com", true), bourn.CodeDenied},
		"has another account": {claim(id, "ann@example.com", true), bourn.CodeDenied},
		"nobody":              {claim(id, "joe@example.com", true), bourn.CodeNotFound},
		"removed":             {claim(id, "eve@example.com", true), bourn.CodeNotFound},
		"two people":          {claim(id, "two@example.com", true), bourn.CodeConflict},
		"bound":               {Claim{Account{id, "ann"}, "kim@example.com", true}, bourn.CodeConflict},
		"bound and removed":   {Claim{Account{id, "eve"}, "kim@example.com", true}, bourn.CodeConflict},
		"no subject":          {Claim{Account{id, ""}, "kim@example.com", true}, bourn.CodeInvalid},
		"no e-mail":           {claim(id, "", true), bourn.CodeInvalid},
		"id for an e-mail":    {claim(id, "kim", true), bourn.CodeInvalid},
	} {
		if p, err := Invited(s, issuers, c.claim); bourn.CodeOf(err) != c.code {
			t.Errorf("%s: %q, %v, want %s", name, p.ID, err, c.code)
		}
	}
}
