package main

import "testing"

// TestJudgesAgree shows that both have the same rules, so that their times compare.
func TestJudgesAgree(t *testing.T) {
	paths := map[bool]map[string]bool{
		false: {"/home/dev/app/internal/part7/secret.go": false, "/home/dev/app/internal/part7/other.go": true, "/home/dev/app/internal/part7": true},
		true:  {"/home/dev/app/internal/part7/secret.go": false, "/home/dev/app/internal/part7": false, "/home/dev/app/internal/part7x": true, "/home/dev/app/internal/part1000/x": true},
	}
	for trees, want := range paths {
		all, err := judges(trees)
		if err != nil {
			t.Fatal(err)
		}
		for _, judge := range all {
			for path, allowed := range want {
				if got := judge.allow(path); got != allowed {
					t.Errorf("%s allows %s: %t", judge.name, path, got)
				}
			}
		}
	}
}

func BenchmarkReview(b *testing.B) {
	for _, trees := range []bool{false, true} {
		all, err := judges(trees)
		if err != nil {
			b.Fatal(err)
		}
		for _, judge := range all {
			b.Run(judge.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					judge.allow("/home/dev/app/internal/review/judge.go")
				}
			})
		}
	}
}
