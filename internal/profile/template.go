package profile

import (
	"fmt"
	"strings"

	"bourn"
)

// Template returns the text of a new profile, with comments for whoever edits it next.
// Command and lists may be empty. The error is ErrInvalid and says what a profile cannot
// hold.
func Template(agent bourn.AgentName, command, write, read, deny []string) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# What agent %s may do; what is not here is closed to it, and no host is reachable\n", agent)
	fmt.Fprintf(&b, "# (to grant one: bourn agent perm allow-host %s HOST).\n", agent)
	fmt.Fprintf(&b, "# A change takes effect when the agent next starts.\n")
	fmt.Fprintf(&b, "version: 1\nagent: %s\n", quote(string(agent)))
	if len(command) > 0 {
		fmt.Fprintf(&b, "command: [%s]\n", strings.Join(quoteAll(command), ", "))
	}
	b.WriteString("\nfilesystem:\n")
	writeList(&b, "write", "Everything below these may be read and written.", write)
	writeList(&b, "read", "Everything below these may be read.", read)
	writeList(&b, "deny", `Paths and patterns ("~/app/**/*.pem") that stay closed, whatever is granted.`, deny)

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
