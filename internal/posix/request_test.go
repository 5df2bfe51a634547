package posix

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bourn"
)

const someone, somewhere = "bc_person_abcdefghij", "bc_circle_abcdefghij"

func TestParseRequest(t *testing.T) {
	for _, want := range []Request{
		{Verb: VerbActor, Person: someone},
		{Verb: VerbActor, Person: someone, Agent: "builder"},
		{Verb: VerbDial, Person: someone},
		{Verb: VerbKill, Person: someone},
		{Verb: VerbRevoke, Person: someone},
		{Verb: VerbRevoke, Person: someone, Circle: somewhere},
	} {
		got, err := ParseRequest(append([]string{"helper"}, want.Args()...))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v: %v\n%s", want.Args(), err, diff)
		}
	}
	for _, args := range [][]string{
		nil, {}, {"helper"}, {"helper", "actor"}, {"", ""}, {"helper", "", someone}, {"helper", "exec", someone}, {"helper", "Actor", someone}, {"helper", "actor", "root"},
		{"helper", "actor", somewhere}, {"helper", "actor", "0"}, {"helper", "actor", "66016"}, {"helper", "actor", someone, ""}, {"helper", "actor", someone, "../x"},
		{"helper", "actor", someone, "a", "b"}, {"helper", "dial", someone, "x"}, {"helper", "kill", someone, "1"}, {"helper", "revoke", someone, someone},
		{"helper", "revoke", someone, ""}, {"helper", "--help"}, {"helper", "-v", someone}, {"helper", "actor", someone + "\n"}, {"helper", "actor", strings.Repeat("x", 1<<20)},
	} {
		got, err := ParseRequest(args)
		var r *Refusal
		if !errors.As(err, &r) || r.Reason != OperationFailed || got != (Request{}) || len(err.Error()) > 300 {
			t.Errorf("%.60q: %+v, %.300v", args, got, err)
		}
	}
}

// Every reason has a code and a status of its own, and comes back from it.
func TestReasons(t *testing.T) {
	seen := map[int]bool{}
	for _, row := range reasons {
		back, ok := ReasonOf(row.exit)
		if !ok || back != row.reason || seen[row.exit] || row.exit <= 5 || row.exit >= 125 || !errors.Is(refuse(row.reason, "x"), row.code.Err()) {
			t.Errorf("%s: %s, %d", row.reason, back, row.exit)
		}
		seen[row.exit] = true
	}
	if _, ok := ReasonOf(0); ok || Reason("").Code() != bourn.CodeInternal {
		t.Error("success is a reason")
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add("helper\x00actor\x00" + someone + "\x00builder")
	f.Add("helper\x00revoke\x00" + someone + "\x00" + somewhere)
	f.Add("helper\x00kill\x00" + someone)
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		r, err := ParseRequest(args)
		if err != nil {
			var refusal *Refusal
			if !errors.As(err, &refusal) || r != (Request{}) {
				t.Fatalf("%q: %+v, %v", args, r, err)
			}
			return
		}
		if !slices.Equal(r.Args(), args[1:]) {
			t.Fatalf("%q is %q", args, r.Args())
		}
	})
}

// helpers returns the registry of the company once everything is performed.
func helpers(t testing.TB, s State) Registry {
	t.Helper()
	p := newPlanner(s, Host{Workspace: DefaultWorkspace})
	if !p.check() {
		t.Fatal(p.problems)
	}
	data, err := p.registry().Encode()
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRegistry(data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLookup(t *testing.T) {
	s := company(t)
	r := helpers(t, s)
	ann := s.People[0]
	e, err := r.Lookup(ann.User())
	want := Entry{ID: "ann", Name: ann.User(), UID: ann.UID, GID: ann.UID, Groups: []uint32{66001, 66019, 66020}, Active: true}
	if diff := cmp.Diff(want, e); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if home := r.Home(e); home != DefaultWorkspace+"/private/people/ann" {
		t.Error(home)
	}
	broken := r
	broken.People = slices.Clone(r.People)
	broken.People[1].UID = 0
	for name, c := range map[string]struct {
		r      Registry
		user   string
		reason Reason
	}{
		"nobody":         {r, someone, IdentityMissing},
		"removed":        {r, s.People[2].User(), PermissionDenied},
		"no name":        {r, "root", OperationFailed},
		"empty registry": {Registry{}, ann.User(), RuntimeUnavailable},
		"root in it":     {broken, ann.User(), RuntimeUnavailable},
	} {
		_, err := c.r.Lookup(c.user)
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Reason != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRegistryStrict(t *testing.T) {
	data, err := helpers(t, company(t)).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{`"uid": 66016`, `"uid": 0`}, {`"uid": 66016`, `"uid": 66017`}, {`"gid": 66016`, `"gid": 0`}, {`"gid": 66016`, `"gid": 66019`},
		{"66001,\n        66019", "0,\n        66019"}, {"66001,\n        66019", "27,\n        66019"}, {"66001,\n        66019", "66019,\n        66019"},
		{`"service": 66000`, `"service": 0`}, {`"service": 66000`, `"service": 66016`}, {`"active": false`, `"active": false, "Active": true`},
		{`"id": "ann"`, `"id": "../../etc"`}, {`"id": "bob"`, `"id": "ann"`}, {`"/var/lib/bourn/workspace"`, `"/var/lib/../../etc"`}, {`"name": "bc_person_`, `"name": "`},
		{`"first": 66000`, `"first": 0`}, {`"version": 1`, `"version": 3`}, {`"shared": 66001`, `"shared": 0`}, {`"revoked": []`, `"revoked": [{"person":"root","circle":""}]`},
	} {
		bad := strings.Replace(string(data), c[0], c[1], 1)
		if bad == string(data) {
			t.Errorf("%s: nothing changed", c[1])
		}
		if _, err := ParseRegistry([]byte(bad)); bourn.CodeOf(err) != bourn.CodeInvalid {
			t.Errorf("%s: %v", c[1], err)
		}
	}
}

// wider names somebody who has more in b than in a.
func wider(a, b Registry) string {
	had := map[string]Entry{}
	for _, e := range a.People {
		had[e.Name] = e
	}
	for _, e := range b.People {
		h := had[e.Name]
		if !e.Active && len(e.Groups) == 0 {
			continue
		}
		if e.Active && !h.Active || e.UID != h.UID || e.GID != h.GID || e.ID != h.ID {
			return e.Name
		}
		for _, g := range e.Groups {
			if !slices.Contains(h.Groups, g) {
				return e.Name
			}
		}
	}
	return ""
}

// Revoking and narrowing never give anybody anything, and what they return is valid.
func TestOnlyNarrows(t *testing.T) {
	whole := helpers(t, company(t))
	rapid.Check(t, func(t *rapid.T) {
		r := whole
		for range rapid.IntRange(1, 4).Draw(t, "times") {
			v := Revocation{Person: rapid.SampledFrom(r.People).Draw(t, "person").Name}
			if rapid.Bool().Draw(t, "one circle") {
				v.Circle = rapid.SampledFrom(r.Circles).Draw(t, "circle").Name
			}
			next, err := r.Revoke(v)
			if err != nil || next.check() != nil || wider(r, next) != "" {
				t.Fatalf("%v: %v, %v, %s", v, err, next.check(), wider(r, next))
			}
			if e, _ := next.Lookup(v.Person); v.Circle == "" && e.Active {
				t.Fatalf("%v is active", v)
			}
			r = next
		}
		s, err := NewState(DefaultRange)
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			edit(t, &s)
		}
		p := newPlanner(s, Host{Workspace: DefaultWorkspace})
		p.check()
		narrow := r.narrow(p.registry())
		if narrow.check() != nil || wider(r, narrow) != "" || wider(p.registry(), narrow) != "" {
			t.Fatalf("%v %s", narrow.check(), wider(r, narrow))
		}
	})
	for _, v := range []Revocation{{Person: someone}, {Person: whole.People[0].Name, Circle: somewhere}} {
		if _, err := whole.Revoke(v); bourn.CodeOf(err) != bourn.CodeNotFound {
			t.Error(err)
		}
	}
}
