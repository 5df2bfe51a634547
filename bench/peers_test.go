package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sampleReport() report {
	launch := tableResult{Name: "launch", Title: "starting `true`", Base: bournName, Rows: []row{
		{Name: outside, Wall: spread{Median: 1}, Ratio: 0.1},
		{Name: bournName, Wall: spread{Median: 10}, Ratio: 1},
		{Name: "landrun", Wall: spread{Median: 4}, Ratio: 0.4},
		{Name: "fence", Wall: spread{Median: 150}, Ratio: 15},
	}, Cells: []cell{{"codex", "not kept", "not refused: secret /x"}, {"nono", "not here", "nono is not installed"}}}
	down := tableResult{Name: "net-down", Title: "512 MB down", Base: bournName, Bytes: netBytes, Rows: []row{
		{Name: bournName, Wall: spread{Median: 500}, Ratio: 1}, {Name: "fence", Wall: spread{Median: 1000}, Ratio: 0.98},
	}}
	memory := tableResult{Name: "memory", Title: "memory held", Rows: []row{{Name: bournName, Tree: 10}, {Name: "landrun"}, {Name: "fence", Tree: 15}}}
	reach := tableResult{Name: reachName, Rows: []row{
		{Name: bournName, Reached: map[string]string{"unix": refused, "host": refused}},
		{Name: "landrun", Reached: map[string]string{"unix": reached, "host": refused}},
	}}
	var described_ []described
	for _, name := range []string{bournName, "landrun", "fence", "codex"} {
		described_ = append(described_, described{Name: name, Version: "1.2"})
	}
	return report{Peers: append(described_, described{Name: "nono"}), Tables: []tableResult{launch, down, memory, reach}}
}

func TestMarkdown(t *testing.T) {
	page := markdown(sampleReport())
	for _, want := range []string{
		"|  | no sandbox | bourn | landrun | fence | codex |\n",
		"| **launch**: starting `true`, ms | 1.00 (0.10) | 10.0 | 4.00 (0.40) | 150 (15.0) | not kept |\n",
		"| **net-down**: 512 MB down, MB/s |  | 1024 |  | 512 (0.98) |  |\n",
		"| **memory**: memory held, MB |  | 10.0 | 0 (0) | 15.0 (1.50) |  |\n",
		"- codex, launch: not kept: not refused: secret /x.\n",
		"- landrun, launch 0.40×: it becomes the command",
		"- Through landrun, and not through Bourn, in this run: a Unix socket of the host is connected to.\n",
		"| nono | not here |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	// Near to one is no lead, and no sandbox is no peer.
	for _, not := range []string{"- fence", "- no sandbox", "nono is not installed"} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q:\n%s", not, page)
		}
	}
}

func TestWritePage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	text := "before\n" + generatedFrom + "old\n" + generatedTo + "after\n"
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a page that was written can be written again
		if err := writePage(name, sampleReport()); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + generatedFrom + "\n" + markdown(sampleReport()) + "\n" + generatedTo + "after\n"; string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	if err := os.WriteFile(name, []byte("no marks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if writePage(name, sampleReport()) == nil {
		t.Error("a page without marks was written")
	}
}

func TestBusy(t *testing.T) {
	for load, want := range map[string]bool{"0.31 0.40 2.00": false, "1.01 0.10 0.10": true, "unknown": true} {
		if got := (host{LoadBefore: load}).busy(); got != want {
			t.Errorf("%s: %v", load, got)
		}
	}
}

// What can not be asked is said, and not measured as something less.
func TestCannotBeAsked(t *testing.T) {
	b := &bench{dir: t.TempDir(), peers: t.TempDir(), written: map[string]string{}}
	for _, test := range []struct {
		peer string
		ask  ask
	}{
		{"landrun", ask{write: "/w", deny: []string{"/w/x"}}},
		{"go-landlock", ask{write: "/w", glob: "**/.env"}},
		{bwrapName, ask{write: "/w", glob: "**/.env"}},
		{bwrapName, ask{write: "/w", port: "80"}},
		{"firejail", ask{write: "/w", port: "80"}},
	} {
		p := *peerNamed(test.peer)
		p.program = filepath.Join("bin", p.name)
		program := filepath.Join(b.peers, p.program)
		if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, without := b.askPeer(p, test.ask, []string{"true"}); without == nil || without.Cell != "can't" {
			t.Errorf("%s, asked %+v: %+v", test.peer, test.ask, without)
		}
	}
	gone := peer{name: "gone", program: "bin/bourn-bench-has-no-such-program", run: notAsked}
	if _, without := b.askPeer(gone, ask{}, nil); without == nil || without.Cell != "not here" {
		t.Errorf("what is not installed: %+v", without)
	}
}

// A table is chosen by its name, or by what stands before a dash.
func TestChosen(t *testing.T) {
	for _, test := range []struct {
		asked string
		table string
		want  bool
	}{
		{"denies", "denies-1000", true}, {"denies-100", "denies-100", true}, {"denies-100", "denies-1000", false}, {"net", "memory", false},
	} {
		if got := (options{tables: []string{test.asked}}).chosen(test.table); got != test.want {
			t.Errorf("%s chooses %s: %v", test.asked, test.table, got)
		}
	}
}
