package run

import (
	"strings"
	"testing"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox"
	"bourn/internal/worker"

	"github.com/google/go-cmp/cmp"
)

// TestDeniedObjectsAreTold: a member is told every object that its caller is denied, or does
// nothing for it.
func TestDeniedObjectsAreTold(t *testing.T) {
	object := func(pattern string, ino uint64) sandbox.Remembered {
		return sandbox.Remembered{Pattern: pattern, Path: "/w/x", Root: "/w", Object: policy.Object{Dev: 1, Ino: ino, Born: -7}}
	}
	place := func(at string, ino uint64) policy.Place {
		return policy.Place{Path: at, Real: at, Exists: true, Object: policy.Object{Dev: 1, Ino: ino}}
	}
	caller := &Prepared{Whole: &policy.Plan{}, Request: &policy.Request{Denies: []policy.Deny{
		{Pattern: "/w/*", Glob: true, Place: policy.Place{Path: "/w/*"}, Matches: []policy.Place{place("/w/a", 2), {Path: "/w/made", Real: "/w/made", Exists: true, Made: true, Object: policy.Object{Ino: 9}}},
			More: []policy.Alias{{Place: place("/w/b", 3)}}},
		{Pattern: "/w/c", From: policy.BlockPrefix + "c", Place: place("/w/c", 4)},
	}}, known: []sandbox.Remembered{object("/w/*", 5)}}
	objects, all := told(caller.objects())
	member := &Prepared{known: []sandbox.Remembered{object("/w/*", 5)}}
	if err := member.inherit(worker.Inherited{Objects: objects, Untold: !all}); err != nil {
		t.Fatal(err)
	}
	at := func(pattern, path string, ino uint64) sandbox.Remembered {
		return sandbox.Remembered{Pattern: pattern, Path: path, Root: path, Object: policy.Object{Dev: 1, Ino: ino}}
	}
	want := []sandbox.Remembered{object("/w/*", 5), at("/w/*", "/w/a", 2), at("/w/*", "/w/b", 3), at("/w/c", "/w/c", 4)}
	if diff := cmp.Diff(want, member.known); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	many := object(strings.Repeat("p", 1<<20), 2)
	if got, all := told([]sandbox.Remembered{many, many, many}); !all || len(got) != 3 {
		t.Errorf("%d told, %v", len(got), all)
	}
	objects, all = told([]sandbox.Remembered{many, many, many, many})
	if err := member.inherit(worker.Inherited{Objects: objects, Untold: !all}); bourn.CodeOf(err) != bourn.CodeDenied || bourn.HintOf(err) == "" {
		t.Errorf("it is not told everything: %v", err)
	}
}
