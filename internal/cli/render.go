package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/run"
)

// marks are how fates are shown.
var marks = map[policy.Fate]string{policy.Enforced: "✓", policy.Dropped: "✗", policy.Recorded: "·"}

// sections are the kinds of items with their headings, in the order of printing.
var sections = []struct {
	kind    policy.Kind
	heading string
}{
	{policy.KindRead, "READ"}, {policy.KindWrite, "WRITE"}, {policy.KindDeny, "DENY"}, {policy.KindProtect, "PROTECT"},
	{policy.KindHost, "HOST"}, {policy.KindUnix, "UNIX"}, {policy.KindSpawnDir, "SPAWN DIR"}, {policy.KindEnv, "ENV"},
	{policy.KindTool, "TOOL"}, {policy.KindRecords, "RECORDS"}, {policy.KindDoor, "DOOR"}, {policy.KindLimit, "LIMIT"}, {policy.KindDefault, "DEFAULT"},
}

// state is a header's words for a sandbox.
func state(s policy.Sandbox) string {
	switch s.State {
	case policy.StateEnforcing:
		return "sandbox enforcing (" + s.Backend + ")"
	case policy.StateAdvisory:
		return "sandbox ADVISORY (running without a kernel sandbox: can reach more than listed)"
	case policy.StateNotRunning:
		return "not running (nothing is enforced; these grants take effect on start)"
	case policy.StateUnknown:
	}
	return "sandbox unknown (the record of a run cannot be read)"
}

// printFooter says what a report does not show by its items.
func printFooter(w io.Writer, r run.Report) {
	if r.Running > 1 {
		fmt.Fprintf(w, "\n%d runs of this agent live; the newest is shown\n", r.Running)
	}
	if r.Drift {
		fmt.Fprintf(w, "\nthe profile has changed since the seal; it takes effect on next start: bourn agent restart %s\n", r.Agent)
	}
}

// printItems prints items by section.
func printItems(w io.Writer, items []policy.Item, kinds ...policy.Kind) {
	for _, s := range sections {
		if len(kinds) > 0 && !contains(kinds, s.kind) {
			continue
		}
		first, absent, gate := true, 0, 0
		for _, it := range items {
			if it.Kind != s.kind {
				continue
			}
			if first {
				fmt.Fprintf(w, "\n%s\n", s.heading)
				first = false
			}
			if it.Kind == policy.KindProtect && it.Fate == policy.Dropped && it.Reason == policy.LookedAt {
				absent++
				continue
			}
			if it.GateOnly() {
				gate++
				continue
			}
			printItem(w, it)
		}
		printAbsent(w, absent)
		printGateOnly(w, gate)
	}
}

// printGateOnly prints in one line the parts of hard blocks that no kernel keeps.
func printGateOnly(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "  ✗ %s of this host's hard blocks\n      dropped — gate only: the seal does not keep it, governed tools refuse it (bourn boundaries show lists it)\n", count(n, "part"))
	}
}

// count is a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// printAbsent prints in one line what is guarded once it exists: a newcomer would take a
// cross for each of them for a failure.
func printAbsent(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "  ✗ %d places that run code on the host do not exist yet\n      dropped — reported if one appears, not prevented (--json lists them)\n", n)
	}
}

func printItem(w io.Writer, it policy.Item) {
	fmt.Fprintf(w, "  %s %s\n", marks[it.Fate], bourn.Printable(it.Target))
	if it.Fate == policy.Dropped {
		fmt.Fprintf(w, "      dropped — %s\n", bourn.Printable(it.Reason))
	}
	if it.Caveat != "" {
		fmt.Fprintf(w, "      %s\n", bourn.Printable(it.Caveat))
	}
}

func contains(kinds []policy.Kind, k policy.Kind) bool {
	for _, x := range kinds {
		if x == k {
			return true
		}
	}
	return false
}

// printJSON prints a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
