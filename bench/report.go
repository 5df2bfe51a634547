package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A report is everything that one invocation measured.
type report struct {
	Host   host          `json:"host"`
	Peers  []described   `json:"peers,omitempty"`
	Tables []tableResult `json:"tables"`
}

// A host is what a reader must know of the machine to judge the numbers.
type host struct {
	Date       string   `json:"date"`
	Kernel     string   `json:"kernel"`
	CPU        string   `json:"cpu"`
	Cores      int      `json:"cores"`
	User       int      `json:"uid"`
	LoadBefore string   `json:"load_before"`
	LoadAfter  string   `json:"load_after"`
	Programs   []string `json:"programs"`
}

func describeHost(b *bench) host {
	h := host{
		Date:       time.Now().UTC().Format(time.DateOnly),
		Kernel:     readLine("/proc/sys/kernel/osrelease"),
		CPU:        cpuModel(),
		Cores:      runtime.NumCPU(),
		User:       os.Getuid(),
		LoadBefore: loadAverage(),
	}
	for _, program := range []string{b.bourn, b.bwrap} {
		if program == "" {
			continue
		}
		out, err := exec.Command(program, "--version").Output()
		if err == nil {
			h.Programs = append(h.Programs, strings.TrimSpace(string(out)))
		}
	}
	return h
}

func readLine(name string) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func loadAverage() string {
	fields := strings.Fields(readLine("/proc/loadavg"))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

func printHost(w io.Writer, h host) {
	fmt.Fprintf(w, "%s, Linux %s, %s, %d cores, uid %d, load %s\n", h.Date, h.Kernel, h.CPU, h.Cores, h.User, h.LoadBefore)
	fmt.Fprintln(w, strings.Join(h.Programs, ", "))
}

// printTable prints t for people.
func printTable(w io.Writer, t tableResult) {
	fmt.Fprintf(w, "\n%s: %s\n", t.Name, t.Title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.TabIndent)
	if t.Name == reachName {
		printReached(tw, t)
	} else if t.held() {
		fmt.Fprintln(tw, "command\trounds\tpeak MB\tnow MB\tall its processes MB\t")
	} else {
		fmt.Fprintf(tw, "command\trounds\tmedian ms\tp10\tp90\tcpu ms\tpeak MB\t× %s\t+ ms\t\n", t.Base)
	}
	for _, r := range t.Rows {
		if r.Reached != nil {
			continue
		}
		if t.held() {
			fmt.Fprintf(tw, "%s\t%d\t%.1f\t%.1f\t%.1f\t\n", r.Name, r.Rounds, r.RSS, r.Resident, r.Tree)
			continue
		}
		fmt.Fprintf(tw, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.1f\t%s\t%.2f\t%.2f\t\n", r.Name, r.Rounds, r.Wall.Median, r.Wall.P10, r.Wall.P90, r.CPU, peak(r.RSS, t.Floor), r.Ratio, r.Extra)
	}
	tw.Flush()
	for _, r := range t.Rows {
		if r.Target != "" {
			fmt.Fprintf(w, "  %s %s: %s (target %s)\n", mark(r.Met), r.Name, orElse(r.Result, "not judged"), r.Target)
		}
	}
	for _, s := range t.Skipped {
		fmt.Fprintf(w, "  · left out: %s\n", s)
	}
	for _, c := range slices.Concat(t.Cells, t.Notes) {
		fmt.Fprintf(w, "  · %s: %s: %s\n", c.Name, c.Cell, c.Why)
	}
	for _, s := range t.Broken {
		fmt.Fprintf(w, "  ✗ THE SEAL DOES NOT HOLD: %s\n", s)
	}
}

// held reports whether the table is of memory.
func (t tableResult) held() bool { return t.Base == "" }

func printReached(w io.Writer, t tableResult) {
	fmt.Fprint(w, "command\t")
	for _, p := range probes {
		fmt.Fprintf(w, "%s\t", p.kind)
	}
	fmt.Fprintln(w)
	for _, r := range t.Rows {
		fmt.Fprintf(w, "%s\t", r.Name)
		for _, p := range probes {
			fmt.Fprintf(w, "%s\t", r.Reached[p.kind])
		}
		fmt.Fprintln(w)
	}
}

// peak returns a peak in MB; what is not above the harness' own is not known.
func peak(mb, floor float64) string {
	if mb <= floor*1.05 {
		return fmt.Sprintf("< %.0f", floor)
	}
	return fmt.Sprintf("%.1f", mb)
}

func mark(met *bool) string {
	switch {
	case met == nil:
		return "·"
	case *met:
		return "✓"
	}
	return "✗"
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
