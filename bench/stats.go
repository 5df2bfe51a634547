package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A row is one command's result. Times are milliseconds.
type row struct {
	Name     string            `json:"name"`
	Rounds   int               `json:"rounds"`
	Wall     spread            `json:"wall_ms"`
	CPU      float64           `json:"cpu_ms"`
	RSS      float64           `json:"rss_mb"`
	Ratio    float64           `json:"ratio,omitempty"`    // to the table's base, paired
	Extra    float64           `json:"extra_ms,omitempty"` // over the table's base, paired
	Resident float64           `json:"resident_mb,omitempty"`
	Tree     float64           `json:"tree_mb,omitempty"`
	Reached  map[string]string `json:"reached,omitempty"` // by kind of probe
	Target   string            `json:"target,omitempty"`
	Result   string            `json:"result,omitempty"`
	Met      *bool             `json:"met,omitempty"`
}

// A spread is a distribution's middle and edges.
type spread struct {
	Min    float64 `json:"min"`
	P10    float64 `json:"p10"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// tableResult is a measured table.
type tableResult struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Base    string   `json:"base,omitempty"`
	Floor   float64  `json:"rss_floor_mb,omitempty"` // the harness' own peak: a child starts with it (vfork(2))
	Rows    []row    `json:"rows"`
	Skipped []string `json:"skipped,omitempty"`
	Broken  []string `json:"broken,omitempty"`
	Cells   []cell   `json:"cells,omitempty"`
	Notes   []cell   `json:"notes,omitempty"` // of columns that have a number
	Bytes   int64    `json:"bytes,omitempty"`
}

// without reports whether a column has a cell instead of a number.
func (r *tableResult) without(name string) bool {
	return slices.ContainsFunc(r.Cells, func(c cell) bool { return c.Name == name })
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func spreadOf(values []float64) spread {
	return spread{quantile(values, 0), quantile(values, 0.1), quantile(values, 0.5), quantile(values, 0.9)}
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile returns the q-quantile of values, interpolated between neighbours; 0
// for no values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 == len(sorted) {
		return sorted[low]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// summarise returns the row of samples; ratio and difference are to base, round
// by round, and zero without one.
func summarise(name string, samples, base []sample) row {
	var walls, cpus, rss []float64
	for _, s := range samples {
		walls = append(walls, ms(s.wall))
		cpus = append(cpus, ms(s.cpu))
		rss = append(rss, float64(s.rss)/1024)
	}
	ratio, extra := paired(samples, base)
	return row{Name: name, Rounds: len(samples), Wall: spreadOf(walls), CPU: median(cpus), RSS: median(rss), Ratio: ratio, Extra: extra}
}

// paired returns the medians of the per-round ratios and differences of wall time.
func paired(samples, base []sample) (ratio, extra float64) {
	if len(samples) != len(base) {
		return 0, 0
	}
	var ratios, extras []float64
	for i := range samples {
		ratios = append(ratios, ms(samples[i].wall)/ms(base[i].wall))
		extras = append(extras, ms(samples[i].wall)-ms(base[i].wall))
	}
	return median(ratios), median(extras)
}

// judge writes the targets into the rows that they are about. A target against a
// command that did not run is shown and not judged.
func (t *table) judge(result *tableResult, samples map[string][]sample) {
	for _, want := range t.targets {
		i := slices.IndexFunc(result.Rows, func(r row) bool { return r.Name == want.command })
		if i < 0 {
			continue
		}
		r := &result.Rows[i]
		var promised, got []string
		met, known := true, true
		check := func(limit, value float64, format string) {
			if limit == 0 {
				return
			}
			promised = append(promised, fmt.Sprintf(format, limit))
			got = append(got, fmt.Sprintf(format, value))
			met = met && value <= limit
		}
		check(want.maxMS, r.Wall.Median, "%.4g ms")
		check(want.memoryMB, r.RSS, "%.3g MB")
		if want.against != "" {
			ratio, extra := paired(samples[want.command], samples[want.against])
			known = len(samples[want.against]) > 0
			check(want.ratio, ratio, "%.3g × "+want.against)
			check(want.extraMS, extra, "%+.3g ms over "+want.against)
		}
		r.Target = "≤ " + strings.Join(promised, " and ")
		if known {
			r.Result, r.Met = strings.Join(got, ", "), &met
		}
	}
}
