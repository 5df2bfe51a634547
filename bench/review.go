package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"bourn"
	"bourn/internal/review"

	"github.com/cedar-policy/cedar-go"
)

// reviewRules and judgements are how many rules there are, and how often they are asked
// for one sample: a judgement alone is too short for a clock. Milliseconds of a sample
// are microseconds of a judgement.
const (
	reviewRules = 1000
	judgements  = 1000
)

// A reviewed is one way to judge whether a path may be written.
type reviewed struct {
	name  string
	allow func(path string) bool
}

// rulesOf returns n rules in the words of both: a file each, or a tree each.
func rulesOf(n int, trees bool) (boundaries review.Boundaries, policies string) {
	boundaries = review.NoRules()
	var text strings.Builder
	text.WriteString("permit (principal, action, resource);\n")
	for i := range n {
		path := fmt.Sprintf("/home/dev/app/internal/part%d", i)
		match, when := review.Prefix, fmt.Sprintf(`context.path == "%s" || context.path like "%[1]s/*"`, path)
		if !trees {
			path += "/secret.go"
			match, when = review.Exact, fmt.Sprintf(`context.path == "%s"`, path)
		}
		boundaries.HardBlocks = append(boundaries.HardBlocks, review.HardBlock{
			ID: fmt.Sprintf("rule-%d", i), Enabled: true, Type: review.PathRule, Match: match,
			Pattern: path, Operations: []bourn.Operation{bourn.Write},
		})
		fmt.Fprintf(&text, "forbid (principal, action == Action::\"write\", resource) when { %s };\n", when)
	}
	return boundaries, text.String()
}

// judges returns Bourn's review and Cedar with the same rules.
func judges(trees bool) ([]reviewed, error) {
	boundaries, policies := rulesOf(reviewRules, trees)
	compiled, err := review.Compile(boundaries, review.Base{Root: "/home/dev/app"})
	if err != nil {
		return nil, err
	}
	set, err := cedar.NewPolicySetFromBytes("rules.cedar", []byte(policies))
	if err != nil {
		return nil, err
	}
	what := "files"
	if trees {
		what = "trees"
	}
	return []reviewed{
		{fmt.Sprintf("bourn, %d %s", reviewRules, what), func(path string) bool {
			a := bourn.Action{Tool: "files_write", Targets: []bourn.Target{{Operation: bourn.Write, Path: path}}}
			return review.Judge(a, compiled).Outcome == bourn.Allow
		}},
		{fmt.Sprintf("cedar-go, %d %s", reviewRules, what), func(path string) bool {
			decision, _ := cedar.Authorize(set, cedar.EntityMap{}, cedar.Request{
				Principal: cedar.NewEntityUID("Agent", "builder"),
				Action:    cedar.NewEntityUID("Action", "write"),
				Resource:  cedar.NewEntityUID("File", "file"),
				Context:   cedar.NewRecord(cedar.RecordMap{"path": cedar.String(path)}),
			})
			return decision == cedar.Allow
		}},
	}, nil
}

// reviewTable times judging one path under rules that it does not match.
func reviewTable(*bench) (*table, error) {
	t := &table{name: "review", title: "judging 1,000 paths under 1,000 rules, none of which match", base: "bourn, 1000 files"}
	t.special = func(_ *bench, rounds int) ([]row, error) { return timeReviews(rounds) }
	t.targets = []target{{command: "bourn, 1000 files", maxMS: 2}, {command: "bourn, 1000 trees", maxMS: 2}}
	return t, nil
}

// timeReviews measures every judge in every round.
func timeReviews(rounds int) ([]row, error) {
	var all []reviewed
	for _, trees := range []bool{false, true} {
		some, err := judges(trees)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	walls := make([][]float64, len(all))
	for range rounds {
		for i, judge := range all {
			start := time.Now()
			for range judgements {
				if !judge.allow("/home/dev/app/internal/review/judge.go") {
					return nil, errors.New(judge.name + ": it is refused")
				}
			}
			walls[i] = append(walls[i], float64(time.Since(start).Microseconds())/1000)
		}
	}
	var rows []row
	for i, judge := range all {
		ratios, extras := make([]float64, rounds), make([]float64, rounds)
		for j, wall := range walls[i] {
			ratios[j], extras[j] = wall/walls[0][j], wall-walls[0][j]
		}
		rows = append(rows, row{Name: judge.name, Rounds: rounds, Wall: spreadOf(walls[i]), Ratio: median(ratios), Extra: median(extras)})
	}
	return rows, nil
}
