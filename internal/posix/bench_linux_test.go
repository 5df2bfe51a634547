package posix

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// BenchmarkPeople plans and performs 1,000 people in 100 circles, ten in each and each in one,
// into a root of its own: with users, groups, directories and registry as root, without directories as an
// ordinary user. The target is a second for both together.
func BenchmarkPeople(b *testing.B) {
	s := newState(b)
	for i := range 100 {
		_, err := s.AddCircle(fmt.Sprintf("c%d", i))
		must(b, err)
	}
	for i := range 1000 {
		id := fmt.Sprintf("p%d", i)
		_, err := s.AddPerson(id, "", []string{id + "@example.com"}, nil)
		must(b, err)
		must(b, s.Join(fmt.Sprintf("c%d", i%100), id))
	}
	for _, way := range []struct {
		name     string
		sysusers bool
	}{{"files", false}, {"sysusers", true}} {
		b.Run(way.name, func(b *testing.B) {
			if way.sysusers && (os.Geteuid() != 0 || sysusersProgram() == "") {
				b.Skip("needs root and systemd-sysusers")
			}
			var planning, performing, again time.Duration
			for b.Loop() {
				b.StopTimer()
				root := machine(b)
				b.StartTimer()
				begin := time.Now()
				h, err := ReadHost(under(root), s)
				must(b, err)
				changes, problems := Plan(s, h)
				if os.Geteuid() != 0 {
					changes = slices.DeleteFunc(changes, func(c Change) bool { return !slices.Contains(accountsOnly, c.Do) })
				}
				planned := time.Now()
				_, err = Perform(changes, Options{Root: root, Sysusers: way.sysusers})
				done := time.Now()
				if err != nil || len(problems) > 0 {
					b.Fatal(problems, err)
				}
				h, err = ReadHost(under(root), s)
				must(b, err)
				if rest, _ := Plan(s, h); len(rest) > 0 && os.Geteuid() == 0 {
					b.Fatal(rest)
				}
				planning, performing, again = planning+planned.Sub(begin), performing+done.Sub(planned), again+time.Since(done)
			}
			n := float64(b.N) * 1e6
			b.ReportMetric(float64(planning)/n, "plan-ms")
			b.ReportMetric(float64(performing)/n, "perform-ms")
			b.ReportMetric(float64(again)/n, "plan-again-ms")
		})
	}
}
