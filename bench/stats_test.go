package main

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	for _, test := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{nil, 0.5, 0},
		{[]float64{7}, 0.9, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{0, 10}, 0.1, 1},
		{[]float64{5, 1}, 1, 5},
	} {
		if got := quantile(test.values, test.q); got != test.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", test.values, test.q, got, test.want)
		}
	}
}

// Pairs are taken within a round: a machine that slows down for one round does
// not change the ratio.
func TestPaired(t *testing.T) {
	base := walls(1, 10, 1)
	ratio, extra := paired(walls(2, 20, 2), base)
	if ratio != 2 || extra != 1 {
		t.Errorf("paired = %v, %v; want 2, 1", ratio, extra)
	}
	if ratio, extra := paired(walls(2), base); ratio != 0 || extra != 0 {
		t.Errorf("paired of unequal lengths = %v, %v; want zeros", ratio, extra)
	}
}

func TestJudge(t *testing.T) {
	samples := map[string][]sample{"a": walls(4, 4, 4), "b": walls(2, 2, 2)}
	for _, test := range []struct {
		name   string
		target target
		met    string
		text   string
	}{
		{"time", target{command: "a", maxMS: 5}, "✓", "≤ 5 ms"},
		{"too slow", target{command: "a", maxMS: 3}, "✗", "≤ 3 ms"},
		{"both", target{command: "a", maxMS: 5, ratio: 1.5, against: "b"}, "✗", "≤ 5 ms and 1.5 × b"},
		{"extra", target{command: "a", extraMS: 2, against: "b"}, "✓", "≤ +2 ms over b"},
		{"against nothing", target{command: "a", ratio: 1, against: "gone"}, "·", "≤ 1 × gone"},
	} {
		tab := table{targets: []target{test.target}}
		result := tableResult{Rows: []row{summarise("a", samples["a"], nil)}}
		tab.judge(&result, samples)
		if got := mark(result.Rows[0].Met); got != test.met || result.Rows[0].Target != test.text {
			t.Errorf("%s: %s %q, want %s %q", test.name, got, result.Rows[0].Target, test.met, test.text)
		}
	}
}

func walls(milliseconds ...int) []sample {
	var samples []sample
	for _, n := range milliseconds {
		samples = append(samples, sample{wall: time.Duration(n) * time.Millisecond})
	}
	return samples
}
