package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"bourn/internal/posix"
	"bourn/internal/run/runtest"
)

// BenchmarkPeople takes 1,000 people in 100 circles through the commands' own code, on a host
// below a directory: all of them at once, one more, and a sync that has nothing to do.
func BenchmarkPeople(b *testing.B) {
	runtest.Need(b, "root", os.Geteuid() == 0)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	quiet := &app{Command: Command{Stdin: null, Stdout: null, Stderr: null}}
	fresh := func() *people {
		p := &people{app: quiet, root: b.TempDir()}
		for at, text := range map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/shadow": "root:*:1:0:99999:7:::\n", "var/lib/keep": ""} {
			at = p.at(at)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		return p
	}
	const circles, each = 100, 10
	all := func(s *posix.State) (said, error) {
		for c := range circles {
			circle, err := s.AddCircle(fmt.Sprintf("c%d", c))
			if err != nil {
				return said{}, err
			}
			for i := range each {
				q, err := s.AddPerson(fmt.Sprintf("p%d", c*each+i), "", nil, nil)
				if err == nil {
					err = s.Join(circle.ID, q.ID)
				}
				if err != nil {
					return said{}, err
				}
			}
		}
		return said{}, nil
	}
	one := func(n int) func(s *posix.State) (said, error) {
		return func(s *posix.State) (said, error) {
			_, err := s.AddPerson(fmt.Sprintf("one%d", n), "", nil, nil)
			return said{}, err
		}
	}
	run := func(b *testing.B, p *people, do func(*posix.State) (said, error)) {
		b.Helper()
		if err := p.run(reform{gives: true, do: do}, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("1000 at once", func(b *testing.B) {
		for b.Loop() {
			run(b, fresh(), all)
		}
	})
	p := fresh()
	run(b, p, all)
	b.Run("one more", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			run(b, p, one(n))
		}
	})
	b.Run("nothing to do", func(b *testing.B) {
		for b.Loop() {
			run(b, p, func(*posix.State) (said, error) { return said{}, nil })
		}
	})
}
