package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// controlMode measures the control plane: `go run . control`. recordsMode measures what row
// security costs: `go run . records`, or `BOURN_BENCH_ROWS=1000000 go run . records`.
const (
	controlMode = "control"
	recordsMode = "records"
)

// A goBenchmark is one of the project's own packages.
type goBenchmark struct{ dir, names, times string }

// controlBenchmarks are what it is measured by, in the packages themselves: they start a
// PostgreSQL server of their own, and what they drive is internal.
var controlBenchmarks = []goBenchmark{
	{"./internal/daemon", "ClusterStart", "3x"},
	{"./internal/daemon", "Log", "3x"},
	{"./internal/daemon", "API", "1x"},
	{"./internal/daemon", "Person", "1x"},
	{"./internal/cli", "Tools", "200x"},
}

// recordsBenchmarks are what the record is measured by.
var recordsBenchmarks = []goBenchmark{
	{"./internal/store", "RowSecurity", "5x"},
	{"./internal/store", "Session", "3000x"},
	{"./internal/store", "AgentConnection", "100x"},
}

// measureControl runs the control plane's benchmarks and prints their lines, which
// benchstat reads.
func measureControl([]string) error { return goBenchmarks(os.Stdout, controlBenchmarks) }

// measureRecords does so with the record's.
func measureRecords([]string) error { return goBenchmarks(os.Stdout, recordsBenchmarks) }

func goBenchmarks(w io.Writer, all []goBenchmark) error {
	for _, c := range all {
		cmd := exec.Command("../scripts/go", "-C", "..", "test", "-run", "^$", "-timeout", "60m", "-bench", "^Benchmark("+c.names+")$", "-benchtime", c.times, c.dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "Benchmark") || strings.HasPrefix(line, "cpu:") {
				if _, err := io.WriteString(w, line); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return fmt.Errorf("cannot measure %s of %s: %w\n%s", c.names, c.dir, err, out)
		}
	}
	return nil
}
