package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// controlMode measures the control plane: `go run . control`.
const controlMode = "control"

// controlBenchmarks are what it is measured by, in the packages themselves: they start a
// PostgreSQL server of their own, and what they drive is internal.
var controlBenchmarks = []struct{ dir, names, times string }{
	{"./internal/daemon", "ClusterStart", "3x"},
	{"./internal/daemon", "Log", "3x"},
	{"./internal/store", "Session", "3000x"},
	{"./internal/store", "RowSecurity", "5x"},
	{"./internal/daemon", "API", "1x"},
	{"./internal/daemon", "Person", "1x"},
	{"./internal/cli", "Tools", "200x"},
}

// measureControl runs the control plane's benchmarks and prints their lines, which
// benchstat reads.
func measureControl([]string) error { return controlTo(os.Stdout) }

func controlTo(w io.Writer) error {
	for _, c := range controlBenchmarks {
		cmd := exec.Command("../scripts/go", "-C", "..", "test", "-run", "^$", "-bench", "^Benchmark("+c.names+")$", "-benchtime", c.times, c.dir)
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
