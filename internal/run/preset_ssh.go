package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// An ssh client refuses a file that its configuration includes unless root or the user
// owns it (ssh_config(5), Include), and in a user namespace root's files are nobody's. So a
// run gets copies of its own: of ssh_config, of what that includes, and of the host's known
// keys. Nothing else of the host's /etc/ssh is in it.

const (
	maxSSHFiles = 64      // that are copied
	maxSSHFile  = 4 << 20 // bytes of one: known keys are many in a large company
	maxIncludes = 16      // levels, as ssh has it
)

// sshFiles returns the run's own /etc/ssh, from the host's in dir.
func sshFiles(dir string) []policy.File {
	c := sshCopier{dir: dir, at: map[string]string{}}
	for _, name := range []string{"ssh_config", "ssh_known_hosts", "ssh_known_hosts2"} {
		c.copy(filepath.Join(dir, name), name == "ssh_config", 0)
	}
	return c.files
}

type sshCopier struct {
	dir   string
	files []policy.File
	at    map[string]string // where the copy of a file is
}

// copy adds a file, and for a configuration what it includes. It returns where the copy is,
// or "" for none.
func (c *sshCopier) copy(from string, config bool, level int) string {
	if at, done := c.at[from]; done {
		return at
	}
	text, ok := hostFile(from)
	if !ok || len(c.at) >= maxSSHFiles || level > maxIncludes {
		return ""
	}
	at := "/etc/ssh/included/" + fmt.Sprint(len(c.at)) + "-" + filepath.Base(from)
	if rel, err := filepath.Rel(c.dir, from); err == nil && filepath.IsLocal(rel) {
		at = filepath.Join("/etc/ssh", rel)
	}
	c.at[from] = at
	if config {
		text = c.includes(text, level)
	}
	c.files = append(c.files, policy.File{Path: at, Text: text})
	return at
}

// includes replaces what an Include names by the copies of it. One that matches nothing is
// left as it is: it matches nothing inside either.
func (c *sshCopier) includes(text string, level int) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n=\"", r) })
		if len(fields) < 2 || !strings.EqualFold(fields[0], "include") {
			out.WriteString(line)
			continue
		}
		var copies []string
		for _, pattern := range fields[1:] {
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(c.dir, pattern)
			}
			found, _ := filepath.Glob(pattern) // sorted, as glob(3) has it
			for _, from := range found {
				if at := c.copy(from, true, level+1); at != "" {
					copies = append(copies, at)
				}
			}
		}
		if len(copies) > 0 {
			line = "Include " + strings.Join(copies, " ") + "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// hostFile returns the text of a file of the host's that everybody may read.
func hostFile(at string) (string, bool) {
	r, err := survey.Resolve(at)
	if err != nil || !r.Exists || r.Object.Type != survey.File || r.Object.Size > maxSSHFile || r.Object.Mode&0o004 == 0 {
		return "", false
	}
	data, err := os.ReadFile(r.Real)
	return string(data), err == nil
}
