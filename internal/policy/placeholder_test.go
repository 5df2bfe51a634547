package policy

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What comes of a deny with a placeholder, by where it lies and what stands there.
func TestPlaceholders(t *testing.T) {
	write, read := []Grant{grant(KindWrite, at("/p"))}, []Grant{grant(KindRead, at("/p"))}
	holder := func(p Place) Deny {
		d := deny(p)
		d.Placeholder = true
		return d
	}
	made := func(p Place) Place {
		p.Made = true
		return p
	}
	below := func(p, ancestor string) Place { return Place{Path: p, Real: p, Ancestor: ancestor} }
	const stands = "an empty file stands there on the host while it runs, and git status lists it"
	const exdev = "; a rename or link out of its directory crosses a mount (EXDEV)"
	for _, c := range []struct {
		name   string
		grants []Grant
		denies []Deny
		places []string
		pins   []string
		caveat string // of the last deny
		reason string
	}{
		{"in the grant itself", write, []Deny{holder(gone("/p/x"))}, []string{"/p/x"}, nil, stands, ""},
		{"deeper", write, []Deny{holder(below("/p/d/e/x", "/p/d/e"))}, []string{"/p/d/e/x"}, []string{"/p/d", "/p/d/e"}, stands + exdev, ""},
		{"with directories missing", write, []Deny{holder(below("/p/d/e/x", "/p/d"))}, []string{"/p/d/e/x"}, []string{"/p/d", "/p/d/e"},
			stands + "; the directory /p/d/e is made for it, and goes with it unless it holds other things then" + exdev, ""},
		{"through a symlink that can be replaced", write, []Deny{holder(Place{Path: "/p/l", Real: "/p/x", Ancestor: "/p", Links: []Link{{"/p/l", "x"}}})},
			[]string{"/p/x"}, nil, stands + "; /p/l on the way to it is a symlink, and can be replaced", ""},
		{"one that another run made", write, []Deny{deny(made(at("/p/.env")))}, []string{"/p/.env"}, nil, stands, ""},
		{"the same in what can be read", read, []Deny{deny(made(at("/p/.env")))}, []string{"/p/.env"}, nil, stands, ""},
		{"something stands there", write, []Deny{holder(at("/p/.env"))}, nil, nil, "", ""},
		{"only to be read", read, []Deny{holder(gone("/p/x"))}, nil, nil, "",
			"does not exist yet: watched, not prevented; a placeholder stands only where the run can write"},
		{"not granted", write, []Deny{holder(gone("/q/x"))}, nil, nil, "", ""},
		{"in the run's own", write, []Deny{holder(gone("/home/u/x"))}, nil, nil, "", ""},
		{"without a placeholder", write, []Deny{deny(gone("/p/x"))}, nil, nil, "", "does not exist yet: watched, not prevented"},
		{"below another", write, []Deny{holder(gone("/p/x")), holder(gone("/p/x/y"))}, []string{"/p/x"}, nil, "*", ""},
		{"below what is denied", write, []Deny{deny(at("/p/d")), holder(below("/p/d/x", "/p/d"))}, nil, nil, "*", ""},
		{"twice", write, []Deny{holder(gone("/p/x")), {Pattern: "/p/./x", From: "flag", Placeholder: true, Place: gone("/p/x")}}, []string{"/p/x"}, nil, stands, ""},
		{"parents first", write, []Deny{holder(gone("/p/long-name")), holder(gone("/p/x"))}, []string{"/p/x", "/p/long-name"}, nil, stands, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := Compile(request(c.grants, c.denies))
			var places, pins []string
			for _, p := range plan.Placeholders {
				places = append(places, p.Path)
				if it := plan.Items[p.Item]; it.Kind != KindDeny || it.Fate != Enforced || it.Target != p.Path && it.Target != "/p/l" {
					t.Errorf("%s: its item is %+v", p.Path, it)
				}
				masked := slices.ContainsFunc(plan.Masks, func(m Mask) bool { return m.Path == p.Path && m.Object == (Object{}) })
				watched := slices.ContainsFunc(plan.Watches, func(w Watch) bool { return w.Dir+"/"+w.Name == p.Path })
				if !masked || !watched {
					t.Errorf("%s: masked %v, watched %v", p.Path, masked, watched)
				}
			}
			for _, g := range plan.Guards {
				if !g.Pin {
					t.Errorf("a guard that is no pin: %+v", g)
				}
				pins = append(pins, g.Path)
			}
			if diff := cmp.Diff(c.places, places); diff != "" {
				t.Errorf("placeholders: %s", diff)
			}
			if diff := cmp.Diff(c.pins, pins); diff != "" && c.caveat != "*" {
				t.Errorf("pins: %s", diff)
			}
			var last Item
			for _, it := range plan.Items {
				if it.Kind == KindDeny {
					last = it
				}
			}
			if c.caveat != "*" && last.Caveat != c.caveat || last.Reason != c.reason {
				t.Errorf("caveat %q, reason %q", last.Caveat, last.Reason)
			}
		})
	}
}
