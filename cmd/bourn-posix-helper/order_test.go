package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bourn/internal/posix"
)

// People of the tests. The numbers are far from those of accounts; nobody has them on a host.
const (
	first      = 88000
	serviceUID = first
	sharedGID  = first + 1
	annUID     = first + 16
	bobUID     = first + 17
	salesGID   = first + 18
	goneUID    = first + 19

	ann  = "bc_person_aaaaaaaaaa"
	bob  = "bc_person_bbbbbbbbbb"
	gone = "bc_person_gggggggggg"

	sales = "bc_circle_ssssssssss"
)

// people returns a registry with two people in a circle, and one who is not active.
func people() posix.Registry {
	return posix.Registry{
		Version: 1, Range: posix.Range{First: first, Last: first + 999}, Workspace: "/mnt/workspace", Service: serviceUID, Shared: sharedGID,
		People: []posix.Entry{
			{ID: "ann", Name: ann, UID: annUID, GID: annUID, Groups: []uint32{sharedGID, salesGID}, Active: true},
			{ID: "bob", Name: bob, UID: bobUID, GID: bobUID, Groups: []uint32{sharedGID, salesGID}, Active: true},
			{ID: "gone", Name: gone, UID: goneUID, GID: goneUID, Groups: []uint32{}},
		},
		Circles: []posix.CircleEntry{{ID: "sales", Name: sales, GID: salesGID}},
		Revoked: []posix.Revocation{},
	}
}

func encoded(t testing.TB, r posix.Registry) []byte {
	t.Helper()
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func reasonOf(err error) posix.Reason {
	refusal := new(posix.Refusal)
	if !errors.As(err, &refusal) {
		return ""
	}
	return refusal.Reason
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		args   string
		ruid   uint32
		change func(*posix.Registry)
		want   order
		reason posix.Reason
	}{
		{args: "actor " + ann, ruid: serviceUID, want: order{uid: annUID, groups: []uint32{sharedGID, salesGID}}},
		{args: "actor " + ann, ruid: 0, want: order{uid: annUID, groups: []uint32{sharedGID, salesGID}}},
		{args: "dial " + bob, ruid: serviceUID, want: order{uid: bobUID, groups: []uint32{sharedGID, salesGID}}},
		{args: "kill " + ann, ruid: serviceUID, want: order{uid: annUID}},
		{args: "kill " + gone, ruid: serviceUID, want: order{uid: goneUID}},
		{args: "revoke " + gone, ruid: serviceUID, want: order{uid: goneUID}},
		{args: "actor " + ann, ruid: annUID, reason: posix.PermissionDenied},
		{args: "kill " + bob, ruid: bobUID, reason: posix.PermissionDenied},
		{args: "actor " + gone, ruid: serviceUID, reason: posix.PermissionDenied},
		{args: "dial " + gone, ruid: serviceUID, reason: posix.PermissionDenied},
		{args: "actor bc_person_nnnnnnnnnn", ruid: serviceUID, reason: posix.IdentityMissing},
		{args: "kill bc_person_nnnnnnnnnn", ruid: serviceUID, reason: posix.IdentityMissing},
		// The shield's number may be nobody's.
		{args: "kill " + ann, ruid: 0, reason: posix.RuntimeUnavailable, change: func(r *posix.Registry) { r.Service = r.Range.HelperShield() }},
	} {
		request, err := posix.ParseRequest(append([]string{"helper"}, strings.Fields(test.args)...))
		if err != nil {
			t.Fatal(err)
		}
		registry := people()
		if test.change != nil {
			test.change(&registry)
		}
		got, err := judge(request, registry, test.ruid)
		if reasonOf(err) != test.reason || test.reason == "" && err != nil {
			t.Errorf("%s by %d: %v, want reason %q", test.args, test.ruid, err, test.reason)
		}
		if err != nil {
			continue
		}
		if got.uid != test.want.uid || got.gid != test.want.uid || !slices.Equal(got.groups, test.want.groups) {
			t.Errorf("%s by %d: %d:%d %v, want %d %v", test.args, test.ruid, got.uid, got.gid, got.groups, test.want.uid, test.want.groups)
		}
	}
}

func TestCommand(t *testing.T) {
	o := order{Request: posix.Request{Verb: posix.VerbActor, Person: ann, Agent: "builder"}, home: "/w/private/people/ann"}
	want := []string{"bourn", "person-actor", "--agent", "builder"}
	if diff := cmp.Diff(want, o.argv()); diff != "" {
		t.Error(diff)
	}
	o.Agent = ""
	if diff := cmp.Diff(want[:2], o.argv()); diff != "" {
		t.Error(diff)
	}
	want = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/w/private/people/ann", "USER=" + ann, "LOGNAME=" + ann,
		"SHELL=/bin/sh", "BOURN_HOME=/w/private/people/ann/.bourn",
	}
	if diff := cmp.Diff(want, o.environment("/bin/sh")); diff != "" {
		t.Error(diff)
	}
}

// FuzzRequest walks the whole way from arguments and registry to what would be done, and does nothing.
func FuzzRequest(f *testing.F) {
	registry := encoded(f, people())
	for _, args := range []string{
		"h\x00actor\x00" + ann, "h\x00actor\x00" + ann + "\x00builder", "h\x00dial\x00" + bob, "h\x00kill\x00" + gone,
		"h\x00revoke\x00" + ann + "\x00" + sales, "h\x00revoke\x00" + ann, "", "h", "h\x00actor", "h\x00actor\x00root", "h\x00actor\x00../x",
		"h\x00kill\x00" + ann + "\x00x", "h\x00sh\x00" + ann, "h\x00actor\x00" + strings.ToUpper(ann),
	} {
		f.Add(args, registry, uint32(serviceUID))
	}
	f.Add("h\x00actor\x00"+ann, []byte(strings.Replace(string(registry), "88016", "0", 1)), uint32(0))
	f.Add("h\x00actor\x00"+ann, []byte(strings.Replace(string(registry), "88016", "4294967295", 2)), uint32(0))
	f.Fuzz(func(t *testing.T, args string, data []byte, ruid uint32) {
		request, err := posix.ParseRequest(strings.Split(args, "\x00"))
		if err != nil {
			if reasonOf(err) != posix.OperationFailed {
				t.Fatalf("arguments that cannot be parsed: %v", err)
			}
			return
		}
		registry, err := posix.ParseRegistry(data)
		if err != nil {
			return
		}
		o, err := judge(request, registry, ruid)
		if err != nil {
			if reasonOf(err) == "" {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		checkOrder(t, o, registry, ruid)
		if o.Verb == posix.VerbRevoke {
			checkRevoke(t, o, registry)
		}
	})
}

// checkOrder holds an order against the registry, by another way than judge's.
func checkOrder(t *testing.T, o order, registry posix.Registry, ruid uint32) {
	if ruid != 0 && ruid != registry.Service {
		t.Fatalf("uid %d was obeyed", ruid)
	}
	var entry posix.Entry
	for _, e := range registry.People {
		if e.Name == o.Person {
			entry = e
		}
	}
	if entry.Name == "" || o.uid != entry.UID || o.gid != entry.GID || !entry.Active && !o.kills() {
		t.Fatalf("%+v is not %+v", o, entry)
	}
	known := map[uint32]bool{registry.Shared: true}
	for _, c := range registry.Circles {
		known[c.GID] = true
	}
	for _, g := range o.groups {
		if !known[g] || !slices.Contains(entry.Groups, g) {
			t.Fatalf("group %d of %+v is no circle's", g, o)
		}
	}
	ids := []uint32{o.gid}
	r, e, s := o.ids()
	for _, id := range append(ids, r, e, s) {
		if id < registry.Range.First || id > registry.Range.Last || id == registry.Service {
			t.Fatalf("%d of %+v is not within %v", id, o, registry.Range)
		}
	}
	for i, word := range append(o.environment("/bin/sh"), o.argv()...) {
		if strings.ContainsAny(word, "\x00\n") || i < 7 && !strings.Contains(word, "=") {
			t.Fatalf("%q is passed on", word)
		}
	}
	again, err := posix.ParseRequest(append([]string{"h"}, o.Args()...))
	if err != nil || again != o.Request {
		t.Fatalf("%+v is read back as %+v: %v", o.Request, again, err)
	}
}

// checkRevoke holds a revocation to taking away.
func checkRevoke(t *testing.T, o order, before posix.Registry) {
	after, err := before.Revoke(posix.Revocation{Person: o.Person, Circle: o.Circle})
	if err != nil {
		return
	}
	if _, err := after.Encode(); err != nil {
		t.Fatalf("the narrower registry cannot be written: %v", err)
	}
	if len(after.People) != len(before.People) {
		t.Fatalf("%d people became %d", len(before.People), len(after.People))
	}
	for i, e := range after.People {
		b := before.People[i]
		if e.Active && !b.Active || e.UID != b.UID || e.Name != b.Name || e.ID != b.ID {
			t.Fatalf("%+v became %+v", b, e)
		}
		for _, g := range e.Groups {
			if !slices.Contains(b.Groups, g) {
				t.Fatalf("%+v became %+v", b, e)
			}
		}
	}
}
