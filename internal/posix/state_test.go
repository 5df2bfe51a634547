package posix

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bourn"
)

func newState(t testing.TB) State {
	t.Helper()
	s, err := NewState(DefaultRange)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// company is a state of two people, a third who is removed, and two circles.
func company(t testing.TB) State {
	t.Helper()
	s := newState(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"ann", "bob", "eve"} {
		_, err := s.AddPerson(id, "", []string{id + "@Example.com"}, []Account{{"https://id.example.com", id}})
		must(err)
	}
	for _, id := range []string{"sales", "ops"} {
		_, err := s.AddCircle(id)
		must(err)
	}
	must(s.Join("sales", "ann"))
	must(s.Join("sales", "bob"))
	must(s.Join("ops", "ann"))
	must(s.RemovePerson("eve"))
	return s
}

// The example of the package comment is a state.
func TestDocExample(t *testing.T) {
	doc, err := ParseState([]byte(`{"version":1,"range":{"first":66000,"last":99999},
	 "people":[{"id":"ann","member":"","name":"jgiv4dl5jn","uid":66016,"emails":["ann@example.com"],
	   "accounts":[{"issuer":"https://id.example.com","subject":"17"}],"removed":false}],
	 "circles":[{"id":"sales","name":"4bhlfeba5k","gid":66017,"members":["ann"],"removed":false}],
	 "tombstones":[{"kind":"person","id":"bob","name":"qg3dpwh42l","number":66018}]}`))
	if err != nil || doc.People[0].User() != "bc_person_jgiv4dl5jn" {
		t.Errorf("%+v, %v", doc, err)
	}
}

func TestStateRoundTrip(t *testing.T) {
	s := company(t)
	if err := s.Forget("eve"); err != nil {
		t.Fatal(err)
	}
	data, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseState(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, back); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(string(data), "eve@") {
		t.Error("a tombstone holds an e-mail")
	}
}

// Each mistake is refused and its entry named.
func TestStateStrict(t *testing.T) {
	data, err := company(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	for _, c := range []struct{ name, old, now, says string }{
		{"unknown key", `"uid": 66016`, `"uid": 66016, "shell": "x"`, `"people[0].shell" is not known`},
		{"case", `"uid": 66016`, `"UID": 66016`, `"people[0].UID" is not known`},
		{"known elsewhere", `"uid": 66016`, `"uid": 66016, "gid": 1`, "gid"},
		{"duplicate key", `"uid": 66016`, `"uid": 66017, "uid": 66016`, `"people[0].uid" stands twice`},
		{"null", `"uid": 66016`, `"uid": null`, "people[0].uid is null"},
		{"text", `"uid": 66016`, `"uid": "66016"`, "uid"},
		{"negative", `"uid": 66016`, `"uid": -1`, "uid"},
		{"too large", `"uid": 66016`, `"uid": 4294967296`, "uid"},
		{"root", `"uid": 66016`, `"uid": 0`, `person "ann": the number 0 is not in`},
		{"below", `"uid": 66016`, `"uid": 66015`, `person "ann"`},
		{"above", `"uid": 66016`, `"uid": 100000`, `person "ann"`},
		{"number twice", `"uid": 66017`, `"uid": 66016`, `person "bob": the number 66016 is that of person "ann"`},
		{"number of a circle", `"gid": 66019`, `"gid": 66016`, `circle "sales": the number 66016 is that of person "ann"`},
		{"number of a tombstone", `"tombstones": []`, `"tombstones": [{"kind":"circle","id":"sales2","name":"` + digest("sales2")[:10] + `","number":66016}]`, `person "ann": the number 66016 is that of tombstone "sales2"`},
		{"id of a tombstone", `"tombstones": []`, `"tombstones": [{"kind":"person","id":"ann","name":"` + digest("ann")[:11] + `","number":66116}]`, `person "ann": its id stands twice`},
		{"kind", `"tombstones": []`, `"tombstones": [{"kind":"host","id":"x","name":"` + digest("x")[:10] + `","number":66116}]`, `tombstone "x": kind "host"`},
		{"id twice", `"id": "bob"`, `"id": "ann"`, `person "ann": its id stands twice`},
		{"other's name", digest("bob")[:10], digest("ann")[:10], `person "bob": the name`},
		{"name of nobody", digest("bob")[:10], "aaaaaaaaaa", `person "bob": the name "aaaaaaaaaa" is not that of its id`},
		{"path", `"id": "bob"`, `"id": "../bob"`, "invalid id"},
		{"member", `"member": ""`, `"member": "A0000000-0000-0000-0000-000000000000"`, `person "ann": the member`},
		{"account twice", `"subject": "bob"`, `"subject": "ann"`, `person "bob": the account "https://id.example.com#ann" is that of person "ann"`},
		{"e-mail", `bob@example.com`, `bob@Example.com`, `person "bob": "bob@Example.com"`},
		{"e-mail with a blank", `bob@example.com`, ` bob@example.com`, `person "bob"`},
		{"member nobody", `"members": [` + "\n        \"ann\"\n", `"members": ["joe"`, `circle "ops": its member "joe" is nobody`},
		{"member removed", `"members": [` + "\n        \"ann\"\n", `"members": ["eve"`, `circle "ops": its member "eve" is removed`},
		{"version", `"version": 1`, `"version": 2`, "version 2 is not known"},
		{"no version", `"version": 1,`, ``, "version 0 is not known"},
		{"range of nobody", `"first": 66000`, `"first": 65000`, "range 65000-99999"},
		{"range of containers", `"last": 99999`, `"last": 600000`, "containers"},
		{"range backwards", `"last": 99999`, `"last": 6`, "range"},
		{"more", "]\n}\n", "]\n}\n{}", "something follows"},
		{"not JSON", `"version"`, `version`, "invalid"},
	} {
		bad := strings.Replace(good, c.old, c.now, 1)
		if bad == good {
			t.Errorf("%s: nothing changed", c.name)
			continue
		}
		if _, err := ParseState([]byte(bad)); bourn.CodeOf(err) != bourn.CodeInvalid || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	if _, err := ParseState([]byte(strings.Repeat("[", 100000))); bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Error(err)
	}
}

// Whatever is done to a state, it stays valid, and no number or name goes to another id.
func TestNeverReused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := NewState(Range{66000, 66040})
		if err != nil {
			t.Fatal(err)
		}
		whose := map[string]string{}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if err := s.Check(); err != nil {
					t.Fatal(err)
				}
				for _, g := range s.given() {
					for _, key := range []string{fmt.Sprint(g.Number), g.account()} {
						if before, known := whose[key]; known && before != string(g.Kind)+g.ID {
							t.Fatalf("%s was %s's and is %s's", key, before, g.ID)
						}
						whose[key] = string(g.Kind) + g.ID
					}
				}
			},
			"edit": func(t *rapid.T) { edit(t, &s) },
		})
	})
}

// edit does one random thing to a state.
func edit(t *rapid.T, s *State) {
	person := rapid.SampledFrom([]string{"ann", "bob", "eve", "joe", "kim"}).Draw(t, "person")
	circle := rapid.SampledFrom([]string{"sales", "ops"}).Draw(t, "circle")
	var err error
	switch rapid.IntRange(0, 6).Draw(t, "edit") {
	case 0:
		_, err = s.AddPerson(person, "", nil, nil)
	case 1:
		_, err = s.AddCircle(circle)
	case 2, 3:
		err = s.Join(circle, person)
	case 4:
		err = s.Leave(circle, person)
	case 5:
		err = s.RemovePerson(person)
	case 6:
		if err = s.Forget(person); err != nil {
			err = s.RemoveCircle(circle)
		}
	}
	if code := bourn.CodeOf(err); err != nil && code != bourn.CodeConflict && code != bourn.CodeNotFound {
		t.Fatal(err)
	}
}

func TestEdits(t *testing.T) {
	s := company(t)
	before := s
	for name, c := range map[string]struct {
		err  error
		code bourn.Code
	}{
		"again":            {second(s.AddPerson("ann", "", nil, nil)), bourn.CodeConflict},
		"removed again":    {second(s.AddPerson("eve", "", nil, nil)), bourn.CodeConflict},
		"circle again":     {second(s.AddCircle("ops")), bourn.CodeConflict},
		"bad id":           {second(s.AddPerson("Ann", "", nil, nil)), bourn.CodeInvalid},
		"bad e-mail":       {second(s.AddPerson("joe", "", []string{"joe"}, nil)), bourn.CodeInvalid},
		"bound account":    {second(s.AddPerson("joe", "", nil, []Account{{"https://id.example.com", "ann"}})), bourn.CodeInvalid},
		"join removed":     {s.Join("ops", "eve"), bourn.CodeConflict},
		"join nobody":      {s.Join("ops", "joe"), bourn.CodeNotFound},
		"join nothing":     {s.Join("x", "ann"), bourn.CodeNotFound},
		"forget who is in": {s.Forget("ann"), bourn.CodeConflict},
	} {
		if bourn.CodeOf(c.err) != c.code {
			t.Errorf("%s: %v, want %s", name, c.err, c.code)
		}
	}
	if diff := cmp.Diff(before, s); diff != "" {
		t.Error(diff)
	}
}

func second[T any](_ T, err error) error { return err }
