package profile

import (
	"fmt"
	"strings"

	"bourn"
	"bourn/internal/policy"
)

// A Draft is what a new profile holds. Command and lists may be empty.
type Draft struct {
	Agent   bourn.AgentName
	Command []string
	Presets []string
	RunAs   string // "" for none

	Write, Read, Deny []string
	Env               []string // names to pass
	SpawnDirs         []string // with one, only system paths and these may execute
	Records           policy.Records
}

// Template returns the text of a new profile, with comments for whoever edits it next. The
// error is ErrInvalid and says what a profile cannot hold.
func Template(d Draft) ([]byte, error) {
	agent := d.Agent
	var b strings.Builder
	fmt.Fprintf(&b, "# What agent %s may do. Files and hosts that are not here are closed to it.\n", agent)
	fmt.Fprintf(&b, "# A change takes effect when the agent next starts (bourn agent perm --help edits this file).\n")
	fmt.Fprintf(&b, "version: 1\nagent: %s\n", quote(string(agent)))
	for _, line := range []struct {
		key  string
		list []string
	}{{"command", d.Command}, {"presets", d.Presets}} {
		if len(line.list) > 0 {
			fmt.Fprintf(&b, "%s: [%s]\n", line.key, strings.Join(quoteAll(line.list), ", "))
		}
	}
	if d.RunAs != "" {
		fmt.Fprintf(&b, "run_as: %s\n", quote(d.RunAs))
	}
	if len(d.Env) > 0 {
		fmt.Fprintf(&b, "env: {pass: [%s]}\n", strings.Join(quoteAll(d.Env), ", "))
	}
	if len(d.SpawnDirs) > 0 {
		fmt.Fprintf(&b, "processes: {mode: allowlist, spawn_dirs: [%s]}\n", strings.Join(quoteAll(d.SpawnDirs), ", "))
	}
	if d.Records != policy.RecordsNone {
		fmt.Fprintf(&b, "records: %s\n", d.Records)
	}
	b.WriteString("\nfilesystem:\n")
	writeList(&b, "write", "Everything below these may be read and written.", d.Write)
	writeList(&b, "read", "Everything below these may be read.", d.Read)
	writeList(&b, "deny", `Paths and patterns ("~/app/**/*.pem") that stay closed, whatever is granted.`, d.Deny)

	out := []byte(b.String())
	if _, err := ParseFor(agent, "profile.yaml", out); err != nil {
		return nil, fmt.Errorf("cannot write a profile for agent %q: %w", string(agent), err)
	}
	return out, nil
}

func writeList(b *strings.Builder, key, comment string, paths []string) {
	fmt.Fprintf(b, "  # %s\n  %s:", comment, key)
	if len(paths) == 0 {
		b.WriteString(" []")
	}
	for _, path := range quoteAll(paths) {
		b.WriteString("\n    - " + path)
	}
	b.WriteString("\n")
}

func quoteAll(words []string) []string {
	var quoted []string
	for _, word := range words {
		quoted = append(quoted, quote(word))
	}
	return quoted
}
