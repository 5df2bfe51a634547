package cli

import (
	"slices"
	"strings"

	"bourn"
	"bourn/internal/profile"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// A toolEdit is a command that sets the rule for governed tools.
type toolEdit struct {
	policy      bourn.Outcome
	short, long string
	example     string
}

var toolEdits = []toolEdit{
	{
		policy: bourn.Allow, short: "Let an agent use a governed tool without being asked",
		long: `Let an agent use a governed tool, or with * at the end every one whose name begins so, without
being asked. A tool whose tier is above write is asked about all the same, and a deny of
another rule wins.`,
		example: `  bourn agent perm tool-allow builder 'files_*'
  bourn agent perm tool-allow builder shell_exec --tier write`,
	}, {
		policy: bourn.Ask, short: "Have an agent's calls of a governed tool asked about",
		long: `Have an agent's calls of a governed tool, or with * at the end of every one whose name begins
so, asked about: nothing is done until a person answers. A rule for the exact name decides
before one with a *, and a longer one before a shorter.`,
		example: `  bourn agent perm tool-ask builder shell_exec
  bourn agent perm tool-ask builder '*'`,
	}, {
		policy: bourn.Deny, short: "Refuse an agent a governed tool",
		long: `Refuse an agent a governed tool, or with * at the end every one whose name begins so. It is
offered no more, and a call of it is refused, whatever other rules say.`,
		example: `  bourn agent perm tool-deny builder shell_exec
  bourn agent perm tool-deny builder 'git_*'`,
	},
}

// takesEffect is said at the end of every command that changes rules for tools.
const takesEffect = `

It replaces the rule that the profile has for the same name, and takes effect at the next
call, also in runs that live.`

func (a *app) toolEditCommand(e toolEdit) *cobra.Command {
	cmd := &cobra.Command{
		Use: "tool-" + e.policy.String() + " AGENT TOOL", Short: e.short, Long: e.long + takesEffect, Example: e.example,
		Args: takes, ValidArgsFunction: a.completeAgentOnly,
	}
	asJSON := jsonFlag(cmd)
	var tier string
	cmd.Flags().StringVar(&tier, "tier", "", "how far the tool reaches: "+tierWords())
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		rule := profile.ToolRule{Tool: args[1], Policy: e.policy}
		if tier != "" {
			if rule.Tier, err = bourn.ParseTier(tier); err != nil {
				return err
			}
		}
		c, err := a.home.SetTool(name, rule)
		if err != nil {
			return err
		}
		c.Notes = append(c.Notes, a.toolNotes(name, rule)...)
		if *asJSON {
			return printJSON(a.Stdout, c)
		}
		a.printChange(c, "already "+pastTense[e.policy])
		return nil
	}
	return cmd
}

// pastTense is what is said of a rule that is there already.
var pastTense = map[bourn.Outcome]string{bourn.Allow: "allowed", bourn.Ask: "asked about", bourn.Deny: "denied"}

func tierWords() string {
	var words []string
	for _, t := range bourn.Tiers() {
		words = append(words, string(t))
	}
	return strings.Join(words, ", ")
}

// toolNotes says what else a rule means, or does not.
func (a *app) toolNotes(name bourn.AgentName, rule profile.ToolRule) []string {
	p, _, err := a.home.Profile(name)
	if err != nil {
		return nil // it was read a moment ago
	}
	rulings := ruleTools(p)
	matching := slices.DeleteFunc(rulings, func(r toolRuling) bool { return !reviewed(rule).Matches(r.Tool) })
	var notes []string
	switch i := slices.IndexFunc(matching, func(r toolRuling) bool { return r.Policy != rule.Policy.String() }); {
	case len(matching) == 0:
		notes = append(notes, "no governed tool has that name now")
	case i >= 0:
		notes = append(notes, matching[i].Tool+" is "+matching[i].Policy+" all the same: "+matching[i].Reason)
	}
	if rule.Policy != bourn.Allow && !p.Tools.Only {
		notes = append(notes, "gate only: the agent's own shell and programs are not asked, but with tools.only: true")
	}
	return notes
}

func (a *app) removeToolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove-tool AGENT TOOL", Short: "Take the rule for a governed tool out of an agent's profile",
		Long: `Take the rule for a governed tool out of an agent's profile. TOOL is what the rule says, with
its * where it has one. It takes effect at the next call, also in runs that live.`,
		Example: `  bourn agent perm remove-tool builder shell_exec
  bourn agent perm remove-tool builder 'files_*'`,
		Args: takes, ValidArgsFunction: a.completeAgentOnly,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		c, err := a.home.RemoveTool(name, args[1])
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(a.Stdout, c)
		}
		a.printChange(c, "")
		return nil
	}
	return cmd
}

// entryText is an entry of a profile as it is printed.
func entryText(e run.Entry) string {
	text := bourn.Printable(e.Path)
	if e.Policy != "" {
		text += ": " + e.Policy
	}
	if e.Tier != "" {
		text += ", tier " + e.Tier
	}
	return text
}
