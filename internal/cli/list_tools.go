package cli

import (
	"fmt"
	"io"
	"slices"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/review"
	"bourn/internal/tool/tier"

	"github.com/spf13/cobra"
)

// A toolRuling is what an agent's profile makes of one governed tool.
type toolRuling struct {
	Tool   string     `json:"tool"`
	Policy string     `json:"policy"` // allow, ask or deny
	Tier   bourn.Tier `json:"tier"`   // the highest of the tool's own and of every rule for it
	Rule   string     `json:"rule"`   // the pattern of the rule that decides, "" for none
	Reason string     `json:"reason"`
}

// listedTools is what list-tools prints as JSON.
type listedTools struct {
	Agent  bourn.AgentName `json:"agent"`
	Only   bool            `json:"only"` // tools.only
	Tools  []toolRuling    `json:"tools"`
	Unused []string        `json:"unused"` // patterns of rules that are for no governed tool
}

func (a *app) listToolsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list-tools AGENT",
		Short: "Show every governed tool, what an agent's profile makes of it, and what decides",
		Long: `Show every governed tool with its policy, its tier, and what decides: the rule of the
profile that is nearest, a deny before all others, or where none is for the tool its tier.`,
		Example: `  bourn agent perm list-tools builder
  bourn agent perm list-tools builder --json`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		p, _, err := a.home.Profile(name)
		if err != nil {
			return err
		}
		l := listedTools{Agent: name, Only: p.Tools.Only, Tools: ruleTools(p), Unused: []string{}}
		for _, r := range p.Tools.Rules {
			if !slices.ContainsFunc(l.Tools, func(t toolRuling) bool { return reviewed(r).Matches(t.Tool) }) {
				l.Unused = append(l.Unused, r.Tool)
			}
		}
		if *asJSON {
			return printJSON(a.Stdout, l)
		}
		printTools(a.Stdout, l)
		return nil
	}
	return cmd
}

// ruleTools says what a profile makes of each governed tool, in a run, which is sealed.
func ruleTools(p *profile.Profile) []toolRuling {
	var rules []review.ToolRule
	for _, r := range p.Tools.Rules {
		rules = append(rules, reviewed(r))
	}
	var all []toolRuling
	for _, t := range tier.Tools() {
		if why := closedRecords(p.Records, t); why != "" {
			all = append(all, toolRuling{t.Name, bourn.Deny.String(), t.Tier, "records", why})
			continue
		}
		r := review.JudgeTool(t.Name, t.Tier, rules, true)
		all = append(all, toolRuling{t.Name, r.Outcome.String(), r.Tier, r.Rule, r.Why()})
	}
	return all
}

// closedRecords says why a profile does not open the door that a tool needs, or is "".
func closedRecords(has policy.Records, t tier.Tool) string {
	switch {
	case !tier.NeedsRecords(t.Name) || has == policy.RecordsWrite:
		return ""
	case has == policy.RecordsNone:
		return "the profile opens no records"
	case !tier.Reads(t.Name):
		return "records: read"
	}
	return ""
}

func reviewed(r profile.ToolRule) review.ToolRule {
	return review.ToolRule{Tool: r.Tool, Policy: r.Policy, Tier: r.Tier}
}

func printTools(w io.Writer, l listedTools) {
	fmt.Fprintf(w, "%s — %s\n\n", title(l.Agent), count(len(l.Tools), "governed tool"))
	wide := 0
	for _, t := range l.Tools {
		wide = max(wide, len(t.Tool))
	}
	for _, t := range l.Tools {
		fmt.Fprintf(w, "  %-5s  %-*s  %-5s  %s\n", t.Policy, wide, t.Tool, t.Tier, t.Reason)
	}
	for _, pattern := range l.Unused {
		fmt.Fprintf(w, "\nno governed tool has the name %s now\n", bourn.Printable(pattern))
	}
	if l.Only {
		fmt.Fprintf(w, "\ntools.only is true: the agent's own process has its home and its model's hosts\n")
		return
	}
	fmt.Fprintf(w, "\ngate only: the agent's own shell and programs are not asked, but with tools.only: true\n")
}
