package cli

import (
	"fmt"
	"io"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"

	"github.com/spf13/cobra"
)

func (a *app) listHostsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list-hosts AGENT",
		Short: "Show what an agent may reach of the network, and whether that is kept",
		Long: `Show what an agent may reach of the network: the mode, every host that is granted or
denied, every unix socket, and what becomes of everything else.

  ✓  enforced: it is kept
  ✗  dropped: it has no effect, for the reason below it
  ·  recorded: nothing runs that it could bind

The first line says whether the sandbox is enforcing, ADVISORY, not running or unknown.`,
		Example: `  bourn agent perm list-hosts builder
  bourn agent perm list-hosts builder --json`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		r, err := a.listedReport(name)
		if err != nil {
			return err
		}
		items := networkItems(r.Items)
		if *asJSON {
			return printJSON(a.Stdout, listedHosts{name, networkMode(items), r.Sandbox, r.Drift, items})
		}
		fmt.Fprintf(a.Stdout, "%s — %s\n", title(name), state(r.Sandbox))
		printHosts(a.Stdout, items)
		printFooter(a.Stdout, r)
		return nil
	}
	return cmd
}

// listedHosts is the network part of a report as JSON has it.
type listedHosts struct {
	Agent   bourn.AgentName `json:"agent"`
	Mode    string          `json:"mode"`
	Sandbox policy.Sandbox  `json:"sandbox"`
	Drift   bool            `json:"drift"` // the profile has changed since the seal
	Items   []policy.Item   `json:"items"`
}

// deniesHost reports whether an item is the deny of a host and not of a path.
func deniesHost(it policy.Item) bool {
	return it.Kind == policy.KindDeny && strings.HasPrefix(it.Target, "connect ")
}

// networkItems returns the items that decide about connections, the default last.
func networkItems(items []policy.Item) []policy.Item {
	out := []policy.Item{}
	for _, it := range items {
		if it.Kind == policy.KindHost || it.Kind == policy.KindUnix || deniesHost(it) {
			out = append(out, it)
		}
	}
	if rest := restOfNetwork(items); rest != nil {
		out = append(out, *rest)
	}
	return out
}

// restOfNetwork returns the item for every connection that no other names, or nil.
func restOfNetwork(items []policy.Item) *policy.Item {
	for i, it := range items {
		if it.Kind == policy.KindDefault && strings.HasPrefix(it.Target, "network: ") {
			return &items[i]
		}
	}
	return nil
}

// networkMode returns the mode that the items are of, which the profile may have changed
// since, or "unknown".
func networkMode(items []policy.Item) string {
	rest := restOfNetwork(items)
	switch {
	case rest == nil:
	case strings.HasPrefix(rest.Target, "network: everything is refused"):
		return profile.NetworkNone
	case strings.HasPrefix(rest.Target, "network: everything else is refused"):
		return profile.NetworkRestricted
	case strings.HasPrefix(rest.Target, "network: the host's"):
		return profile.NetworkOpen
	}
	return "unknown"
}

func printHosts(w io.Writer, items []policy.Item) {
	mode := networkMode(items)
	fmt.Fprintf(w, "\nNETWORK %s\n", mode)
	shown := make([]policy.Item, len(items))
	for i, it := range items {
		if deniesHost(it) {
			it.Target = strings.TrimPrefix(it.Target, "connect ")
		}
		shown[i] = it
	}
	for _, kind := range []policy.Kind{policy.KindHost, policy.KindDeny, policy.KindUnix} {
		printItems(w, shown, kind)
	}
	fmt.Fprintf(w, "\n%s\n", elsewhere(mode, items))
}

// elsewhere says what becomes of everything that is not listed.
func elsewhere(mode string, items []policy.Item) string {
	rest := restOfNetwork(items)
	switch {
	case rest == nil:
		return "what becomes of everything else is not recorded"
	case rest.Fate == policy.Dropped:
		return "everything else is reachable as well: " + bourn.Printable(rest.Reason)
	case mode == profile.NetworkOpen:
		return "the host's network is used as it is: nothing of it is restricted"
	case countKinds(items, []policy.Kind{policy.KindHost}) == 0:
		return "no host is granted: everything is refused"
	}
	return "everything else is refused"
}
