package workspace

import (
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// p50 reports the median besides the mean.
func p50(b *testing.B, f func()) {
	b.Helper()
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		f()
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
}

// BenchmarkRead4K is a read over the socket pair with both reviews. Target: 50 µs.
func BenchmarkRead4K(b *testing.B) {
	dir := tempDir(b)
	put(b, dir+"/a", string(make([]byte, 4096)))
	o := newOwner(b, dir, rule("x", "prefix", dir+"/secret", "read"))
	r := Request{Tool: "files_read", Verb: Read, Path: "a"}
	p50(b, func() {
		var got ReadResult
		o.must(r, &got)
	})
}

// BenchmarkPing is what a socket pair and waking another process cost by themselves: 4 KiB to
// cat and back.
func BenchmarkPing(b *testing.B) {
	ours, theirs := socketpair(b)
	cmd := exec.Command("cat")
	cmd.Stdin, cmd.Stdout = theirs, theirs
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	theirs.Close()
	buffer := make([]byte, 4096)
	p50(b, func() {
		if _, err := ours.Write(buffer); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(ours, buffer); err != nil {
			b.Fatal(err)
		}
	})
	ours.Close()
	if err := cmd.Wait(); err != nil {
		b.Error(err)
	}
}

func BenchmarkWrite4K(b *testing.B) {
	dir := tempDir(b)
	o := newOwner(b, dir)
	r := Request{Tool: "files_write", Verb: Write, Path: "a", Content: make([]byte, 4096)}
	i := byte(0)
	p50(b, func() {
		i++
		r.Content[0] = i
		o.must(r, nil)
	})
}

func BenchmarkRead8M(b *testing.B) {
	dir := tempDir(b)
	put(b, dir+"/a", string(make([]byte, 8<<20)))
	o := newOwner(b, dir)
	p50(b, func() {
		var got ReadResult
		o.must(Request{Verb: Read, Path: "a"}, &got)
	})
	b.SetBytes(8 << 20)
}

// BenchmarkExecTrue is to be within 1 ms of BenchmarkBareTrue.
func BenchmarkExecTrue(b *testing.B) {
	o := newOwner(b, tempDir(b))
	p50(b, func() { o.must(Request{Verb: Exec, Argv: []string{"/bin/true"}}, nil) })
}

func BenchmarkExecTrueBesideAnother(b *testing.B) {
	o := newOwner(b, tempDir(b))
	go func() { _ = o.ask(Request{Verb: Exec, Command: "sleep 600"}, nil) }()
	p50(b, func() { o.must(Request{Verb: Exec, Argv: []string{"/bin/true"}}, nil) })
}

func BenchmarkBareTrue(b *testing.B) {
	p50(b, func() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkChunks(b *testing.B) {
	o := newOwner(b, tempDir(b))
	b.SetBytes(64 << 20)
	for b.Loop() {
		if err := o.askFor(b.Context(), Request{Verb: Exec, Command: "head -c 67108864 /dev/zero"}, nil, func([]byte) {}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSearch20k and BenchmarkRipgrep20k search the same 20,000 files.
func BenchmarkSearch20k(b *testing.B) {
	dir := tempDir(b)
	manyFiles(b, dir, 20_000)
	o := newOwner(b, dir)
	for name, r := range map[string]Request{
		"text":  {Verb: Search, Query: "needle"},
		"regex": {Verb: Search, Query: `needle \d+$`, Regex: true},
		"class": {Verb: Search, Query: `[a-z]+e \d+$`, Regex: true},
		"find":  {Verb: Find, Glob: "**/*77.go"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var s SearchResult
				o.must(r, &s)
				if r.Verb == Search && len(s.Hits) != 20 {
					b.Fatalf("%d hits", len(s.Hits))
				}
			}
		})
	}
	rg, err := exec.LookPath("rg")
	if err != nil {
		return
	}
	for name, query := range map[string]string{"text": "needle", "regex": `needle \d+$`, "class": `[a-z]+e \d+$`} {
		b.Run("ripgrep/"+name, func(b *testing.B) {
			for b.Loop() {
				if err := exec.Command(rg, "-n", "--no-ignore", "--hidden", query, dir).Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
