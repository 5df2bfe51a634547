package posix

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bourn"
)

func before() databases {
	return databases{
		passwd:  []byte("root:x:0:0:root:/root:/bin/bash\n# kept\njoe:x:1000:1000:Joe,,,:/home/joe:/bin/bash\nodd line\n+::::::\n"),
		shadow:  []byte("root:*:1:0:99999:7:::\njoe:$6$secret:1:0:99999:7:::\n"),
		group:   []byte("root:x:0:\nteam:x:500:joe,root,joe\n+:::\n"),
		gshadow: []byte("root:*::\nteam:!:joe:joe,root\n"),
	}
}

func TestAccounts(t *testing.T) {
	got, err := before().apply([]Change{
		{Do: CreateGroup, Group: "g", GID: 7},
		{Do: CreateUser, User: "u", UID: 7, GID: 7, Path: "/w/u"},
		{Do: AddMember, User: "u", Group: "team"},
		{Do: AddMember, User: "u", Group: "team"},
		{Do: AddMember, User: "u", Group: "g"},
		{Do: RemoveMember, User: "joe", Group: "team"},
		{Do: LockUser, User: "joe", Expire: true},
		{Do: MendUser, User: "joe", Path: "/w/joe"},
		{Do: Mount, Path: "/w"},
	}, 20000)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"passwd":  {string(got.passwd), "root:x:0:0:root:/root:/bin/bash\n# kept\njoe:x:1000:1000:Joe,,,:/w/joe:/usr/sbin/nologin\nodd line\nu:x:7:7:Bourn:/w/u:/usr/sbin/nologin\n+::::::\n"},
		"shadow":  {string(got.shadow), "root:*:1:0:99999:7:::\njoe:!*:1:0:99999:7::1:\nu:!*:20000::::::\n"},
		"group":   {string(got.group), "root:x:0:\nteam:x:500:root,u\ng:x:7:u\n+:::\n"},
		"gshadow": {string(got.gshadow), "root:*::\nteam:!::root,u\ng:!*::u\n"},
	} {
		if diff := cmp.Diff(c[1], c[0]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAccountsWithoutShadow(t *testing.T) {
	d := before()
	d.shadow, d.gshadow = nil, nil
	got, err := d.apply([]Change{{Do: CreateUser, User: "u", UID: 7, GID: 7, Path: "/w"}, {Do: LockUser, User: "joe", Expire: true}}, 1)
	if err != nil || got.shadow != nil || got.gshadow != nil || !strings.Contains(string(got.passwd), "u:!*:7:7:") || !strings.Contains(string(got.passwd), "joe:!*:1000:") {
		t.Errorf("%v\n%s", err, got.passwd)
	}
}

// A password that stands in passwd itself counts even beside shadow: it is taken away too.
func TestLockReachesPasswd(t *testing.T) {
	d := databases{passwd: []byte("u:$6$x:7:7::/:/bin/sh\nv::8:8::/:/bin/sh\n"), shadow: []byte("u:$6$y:1::::::\n"), group: []byte{}}
	got, err := d.apply([]Change{{Do: LockUser, User: "u"}, {Do: LockUser, User: "v", Expire: true}}, 1)
	if err != nil || string(got.passwd) != "u:x:7:7::/:/bin/sh\nv:x:8:8::/:/bin/sh\n" || string(got.shadow) != "u:!*:1::::::\nv:!*:1:::::1:\n" {
		t.Errorf("%v\n%s%s", err, got.passwd, got.shadow)
	}
	users, err := ParsePasswd(got.passwd)
	if err != nil || applyShadow(users, got.shadow) != nil || !users[0].Locked || !users[1].Locked || users[0].Expired || !users[1].Expired {
		t.Error(users, err)
	}
}

func TestAccountsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		change Change
		code   bourn.Code
	}{
		"name of a user":  {Change{Do: CreateUser, User: "joe", UID: 7}, bourn.CodeConflict},
		"uid":             {Change{Do: CreateUser, User: "u", UID: 1000}, bourn.CodeConflict},
		"name of a group": {Change{Do: CreateGroup, Group: "team", GID: 7}, bourn.CodeConflict},
		"gid":             {Change{Do: CreateGroup, Group: "g", GID: 500}, bourn.CodeConflict},
		"no group":        {Change{Do: AddMember, User: "joe", Group: "g"}, bourn.CodeNotFound},
		"no user":         {Change{Do: LockUser, User: "u"}, bourn.CodeNotFound},
		"nobody to mend":  {Change{Do: MendUser, User: "u"}, bourn.CodeNotFound},
	} {
		if got, err := before().apply([]Change{c.change}, 1); bourn.CodeOf(err) != c.code || got.passwd != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What systemd-sysusers did beside what was asked is found, whatever its status.
func TestVerify(t *testing.T) {
	changes := []Change{{Do: CreateGroup, Group: "g", GID: 7}, {Do: CreateUser, User: "u", UID: 7, GID: 7, Path: "/w"}, {Do: AddMember, User: "u", Group: "g"}}
	users, groups := []User{{Name: "u", UID: 7, GID: 7, Home: "/w"}}, []Group{{"g", 7, []string{"u"}}}
	if err := verify(changes, users, groups); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		users  []User
		groups []Group
	}{
		{[]User{{Name: "u", UID: 999, GID: 7, Home: "/w"}}, groups}, {[]User{{Name: "u", UID: 7, GID: 8, Home: "/w"}}, groups}, {nil, groups},
		{users, []Group{{"g", 999, []string{"u"}}}}, {users, []Group{{"g", 7, nil}}}, {users, nil},
	} {
		if err := verify(changes, c.users, c.groups); bourn.CodeOf(err) != bourn.CodeConflict {
			t.Errorf("%v %v: %v", c.users, c.groups, err)
		}
	}
	if err := free(changes, nil, []Group{{"x", 7, nil}}); bourn.CodeOf(err) != bourn.CodeConflict {
		t.Error(err)
	}
	if err := free(changes, []User{{Name: "x", UID: 7}}, nil); bourn.CodeOf(err) != bourn.CodeConflict {
		t.Error(err)
	}
}
