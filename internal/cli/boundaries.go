package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/review"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) boundariesCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "boundaries",
		Short: "Show, try and set the hard blocks of this host",
		Long: `Show, try and set the hard blocks of this host: rules that refuse what matches them, whatever
an agent is granted. What a kernel can express of them is part of every seal; the rest is
refused by the gate, which the agent's own programs do not ask.`,
		Example: `  bourn boundaries show
  bourn boundaries test 'git push --force'
  bourn boundaries set blocks.json`,
	}, a.boundariesShowCommand(), a.boundariesSetCommand(), a.boundariesTryCommand(), a.boundariesHistoryCommand())
}

// shownBoundaries is what bourn boundaries show says as JSON.
type shownBoundaries struct {
	api.Boundaries
	Source string            `json:"source"` // control_plane, or published: the last that one wrote
	Agents []run.AgentBlocks `json:"agents"`
}

func (a *app) boundariesShowCommand() *cobra.Command {
	var agents []string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the hard blocks, and what becomes of each where an agent runs",
		Long: `Show the hard blocks, and for every agent that runs, or that --agent names, what becomes of
each operation of a rule:

  ✓  enforced: every run of the agent that lives keeps it
  ·  from next start: the agent's runs do not keep it yet
  ✗  gate only: no seal keeps it, and governed tools refuse it

Without a control plane that runs it shows what was last published, as bourn run reads it.`,
		Example: `  bourn boundaries show
  bourn boundaries show --agent builder
  bourn boundaries show --json`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringArrayVar(&agents, "agent", nil, "say what becomes of the rules for the agent `NAME`, also while it does not run")
	a.completeAgentFlag(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if inside() {
			return refuseInside(cmd.CommandPath())
		}
		if err := a.open(); err != nil {
			return err
		}
		s, err := a.shownBoundaries()
		if err != nil {
			return err
		}
		if s.Agents, err = a.agentBlocks(agents); err != nil {
			return err
		}
		if *asJSON {
			return printJSON(a.Stdout, s)
		}
		a.printBoundaries(s)
		return nil
	}
	return cmd
}

// completeAgentFlag completes --agent.
func (a *app) completeAgentFlag(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("agent", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return a.agentNames(), cobra.ShellCompDirectiveNoFileComp
	})
}

// shownBoundaries asks the control plane, or reads what it last published.
func (a *app) shownBoundaries() (shownBoundaries, error) {
	s := shownBoundaries{Source: "control_plane", Agents: []run.AgentBlocks{}}
	client, err := a.controlOf(a.home)
	if err == nil {
		ctx, cancel := answering()
		defer cancel()
		s.Boundaries, err = client.Boundaries(ctx)
		return s, err
	}
	p, err := a.home.Published()
	if err != nil {
		return s, err
	}
	s.Source, s.State, s.Version, s.Rules, s.Document = "published", "ok", p.Version, len(p.Rules.HardBlocks), p.Rules.Encode()
	if p.Version == 0 {
		s.State, s.Document = "none", nil
	}
	return s, nil
}

// agentBlocks says what becomes of the rules for the agents that are named, else for those
// that run.
func (a *app) agentBlocks(named []string) ([]run.AgentBlocks, error) {
	cwd, _, err := a.where()
	if err != nil {
		return nil, err
	}
	out := []run.AgentBlocks{}
	if len(named) == 0 {
		all, err := a.home.Agents()
		if err != nil {
			return nil, err
		}
		for _, name := range all {
			if live, unreadable, err := a.home.Live(name); err != nil || len(live) > 0 || unreadable != nil {
				named = append(named, string(name))
			}
		}
	}
	for _, text := range named {
		name, err := bourn.ParseAgentName(text)
		if err != nil {
			return nil, err
		}
		blocks, err := a.home.AgentBlocks(name, cwd)
		if errors.Is(err, bourn.ErrNotFound) {
			return nil, err
		}
		if err != nil {
			blocks.Unknown = sentence(err)
		}
		out = append(out, blocks)
	}
	return out, nil
}

// blockMarks are how the fates of a rule are shown.
var blockMarks = map[run.BlockFate]string{run.BlockEnforced: "✓ enforced", run.BlockNext: "· from next start", run.BlockGate: "✗ gate only"}

func (a *app) printBoundaries(s shownBoundaries) {
	switch s.State {
	case "none":
		a.printf("no hard blocks were ever saved on this host\n")
		return
	case "invalid":
		a.printf("the stored hard blocks (version %d) are NOT VALID: every change by an agent is refused, and nothing starts\n", s.Version)
		for _, p := range s.Problems {
			a.printf("  %s\n", bourn.Printable(cmp.Or(p.Code, p.Location)+": "+p.Message))
		}
		a.printf("to mend them: bourn boundaries set FILE\n")
		return
	}
	a.printf("hard blocks, version %d", s.Version)
	if !s.SavedAt.IsZero() {
		a.printf(", saved %s by %s", s.SavedAt.UTC().Format(time.RFC3339), bourn.Printable(s.SavedBy))
	}
	a.printf("\n")
	if s.Source == "published" {
		a.say("no control plane runs: this is what it last published, and what bourn run keeps")
	}
	rules, _ := readRules(s.Document)
	if len(rules) == 0 {
		a.printf("\nthere is no rule\n")
	}
	for _, r := range rules {
		a.printf("\n%s\n", bourn.Printable(rule(r)))
		if r.Reason != "" {
			a.printf("  %s\n", bourn.Printable(r.Reason))
		}
		for _, agent := range s.Agents {
			a.printAgentBlocks(agent, r.ID)
		}
	}
	for _, agent := range s.Agents {
		if agent.Unknown != "" {
			a.printf("\n%s: it cannot be told what it keeps: %s\n", title(agent.Agent), bourn.Printable(agent.Unknown))
		}
	}
}

func (a *app) printAgentBlocks(agent run.AgentBlocks, id string) {
	first := true
	for _, b := range agent.Blocks {
		if b.Rule != id {
			continue
		}
		if first {
			a.printf("  %s\n", title(agent.Agent))
			first = false
		}
		line := fmt.Sprintf("    %-9s %s", b.Operation, blockMarks[b.Fate])
		if b.Reason != "" {
			line += ": " + b.Reason
		}
		a.printf("%s\n", bourn.Printable(line))
	}
}

// rule is a hard block in one line.
func rule(r review.HardBlock) string {
	ops := make([]string, len(r.Operations))
	for i, o := range r.Operations {
		ops[i] = string(o)
	}
	s := fmt.Sprintf("%s  %s %s %s: %s", r.ID, r.Type, r.Match, r.Pattern, strings.Join(ops, ", "))
	if !r.Enabled {
		s += " (not enabled)"
	}
	return s
}

// readRules reads the rules of a document that the control plane has judged: what they are
// relative to, and so whether their examples hold, is its to know.
func readRules(document json.RawMessage) ([]review.HardBlock, error) {
	if len(document) == 0 {
		return nil, nil
	}
	var doc struct {
		HardBlocks []struct {
			ID, Pattern, Reason string
			Enabled             *bool
			Type                review.RuleType
			Match               review.Match
			Operations          []bourn.Operation
			Examples            struct{ Blocks, Passes []string }
		}
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, bourn.WithHint(fmt.Errorf("%w: the hard blocks cannot be read", bourn.ErrInvalid), "bourn and bournd may be of different versions")
	}
	usual := map[review.RuleType]review.Match{review.PathRule: review.Glob, review.CommandRule: review.Regex}
	var rules []review.HardBlock
	for _, w := range doc.HardBlocks {
		rules = append(rules, review.HardBlock{ID: w.ID, Enabled: w.Enabled == nil || *w.Enabled, Type: w.Type, Pattern: w.Pattern,
			Match: cmp.Or(w.Match, usual[w.Type]), Operations: w.Operations, Reason: w.Reason, Blocks: w.Examples.Blocks, Passes: w.Examples.Passes})
	}
	return rules, nil
}

// A difference is what one document has and another has not.
type difference struct {
	Added   []string `json:"added"` // ids
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`

	lines []string
}

// compareRules says what becomes of rules, by their ids.
func compareRules(before, after []review.HardBlock) difference {
	d := difference{Added: []string{}, Removed: []string{}, Changed: []string{}}
	line := func(r review.HardBlock) string {
		return string(review.Boundaries{Version: 1, HardBlocks: []review.HardBlock{r}}.Encode())
	}
	find := func(all []review.HardBlock, id string) (review.HardBlock, bool) {
		i := slices.IndexFunc(all, func(r review.HardBlock) bool { return r.ID == id })
		if i < 0 {
			return review.HardBlock{}, false
		}
		return all[i], true
	}
	for _, old := range before {
		if _, kept := find(after, old.ID); !kept {
			d.Removed = append(d.Removed, old.ID)
			d.lines = append(d.lines, "- "+rule(old))
		}
	}
	for _, r := range after {
		old, was := find(before, r.ID)
		switch {
		case !was:
			d.Added = append(d.Added, r.ID)
			d.lines = append(d.lines, "+ "+rule(r))
		case line(old) != line(r):
			d.Changed = append(d.Changed, r.ID)
			d.lines = append(d.lines, "- "+rule(old), "+ "+rule(r))
			if rule(old) == rule(r) {
				d.lines = append(d.lines, "  (its reason or examples)")
			}
		}
	}
	return d
}

func (d difference) none() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

func (a *app) boundariesHistoryCommand() *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List the versions of the hard blocks, and what each changed",
		Example: `  bourn boundaries history
  bourn boundaries history -n 3 --json`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().IntVarP(&most, "number", "n", 20, "list the newest `N` versions")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if most < 1 || most > 999 {
			return usage(fmt.Errorf("--number is %d, and must be 1 to 999", most))
		}
		client, err := a.control(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := answering()
		defer cancel()
		h, err := client.BoundariesHistory(ctx, most+1) // the last shows what the one after changed
		if err != nil {
			return err
		}
		if *asJSON {
			h.Versions = h.Versions[:min(most, len(h.Versions))]
			return printJSON(a.Stdout, h)
		}
		a.printHistory(h.Versions, most)
		return nil
	}
	return cmd
}

func (a *app) printHistory(all []api.Boundaries, most int) {
	if len(all) == 0 {
		a.say("no hard blocks were ever saved on this host")
	}
	for i, v := range all[:min(most, len(all))] {
		a.printf("version %d  %s  by %s  %s", v.Version, v.SavedAt.UTC().Format(time.RFC3339), bourn.Printable(v.SavedBy), count(v.Rules, "rule"))
		if v.State == "invalid" {
			a.printf("  NOT VALID")
		}
		a.printf("\n")
		var before []review.HardBlock
		if i+1 < len(all) {
			before, _ = readRules(all[i+1].Document)
		}
		after, _ := readRules(v.Document)
		for _, line := range compareRules(before, after).lines {
			a.printf("  %s\n", bourn.Printable(line))
		}
	}
}
