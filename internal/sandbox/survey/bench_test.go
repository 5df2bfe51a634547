package survey

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
)

// bigTree makes 20,000 files in 2,000 directories, five of them named .env.
func bigTree(b *testing.B) string {
	root := b.TempDir()
	for d := range 2000 {
		dir := filepath.Join(root, fmt.Sprintf("pkg%02d", d%20), fmt.Sprintf("mod%02d", d/20%10), fmt.Sprintf("dir%d", d/200))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for f := range 10 {
			name := fmt.Sprintf("source_file_%d.go", f)
			if f == 0 && d%400 == 0 {
				name = ".env"
			}
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	return root
}

func mustPatterns(t testing.TB, texts ...string) []Pattern {
	t.Helper()
	var ps []Pattern
	for _, s := range texts {
		p, err := ParsePattern(s)
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	return ps
}

func BenchmarkExpand(b *testing.B) {
	root := bigTree(b)
	many := []string{".env", ".env.*", "*.pem", "*.key", "id_{rsa,ed25519}", "*.p12", "*.pfx", "credentials", ".npmrc", ".pypirc",
		"secrets.y*ml", "*.kdbx", "*.jks", "service-account*.json", ".netrc"}
	for i := range many {
		many[i] = root + "/**/" + many[i]
	}
	for _, c := range []struct {
		name     string
		patterns []string
	}{{"env", many[:1]}, {"15globs", many}, {"opaque", []string{root + "/**/[!a-z]env"}}} {
		ps := mustPatterns(b, c.patterns...)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				g, err := Expand(ps, []string{root})
				if err != nil || c.name != "opaque" && len(g[0].Objects) != 5 {
					b.Fatal(err, len(g[0].Objects))
				}
			}
		})
	}
	b.Run("WalkDir", func(b *testing.B) {
		for b.Loop() {
			n := 0
			filepath.WalkDir(root, func(p string, _ fs.DirEntry, _ error) error {
				if strings.HasSuffix(p, "/.env") && doublestar.MatchUnvalidated(many[0], p) {
					n++
				}
				return nil
			})
		}
	})
}

func BenchmarkFind(b *testing.B) {
	root := bigTree(b)
	o, err := Stat(root + "/pkg00/mod00/dir0/.env")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f, err := Find([]ID{o.ID()}, []string{root})
		if err != nil || len(f.Objects) != 1 {
			b.Fatal(err, f)
		}
	}
}

func BenchmarkLinked(b *testing.B) {
	root := bigTree(b)
	for b.Loop() {
		if _, err := Linked(root); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	dir := b.TempDir() + "/a/b/c/d"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.Symlink("b", filepath.Dir(filepath.Dir(filepath.Dir(dir)))+"/l"); err != nil {
		b.Fatal(err)
	}
	link := filepath.Dir(filepath.Dir(filepath.Dir(dir))) + "/l/c/d"
	for name, p := range map[string]string{"plain": dir, "link": link, "missing": dir + "/x/y"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Resolve(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMounts(b *testing.B) {
	for b.Loop() {
		t, err := Mounts()
		if err != nil {
			b.Fatal(err)
		}
		t.Aliases("/srv/main/.env")
	}
}
