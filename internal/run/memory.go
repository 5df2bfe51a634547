package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox"
)

// What earlier seals denied is kept as text, since a start reads it: a first line that
// names the format, then a line for each object with its device, inode and time of birth,
// and the deny pattern, the write grant in which it is and its path as Go strings:
//
//	bourn-denied 2
//	65024 1835013 1764536400000000000 "/home/u/p/.env" "/home/u/p" "/home/u/p/.env"
//
// Only what lies in a write grant is kept: nothing else can be renamed by a run, and by a
// rename nothing leaves its grant, which is a mount of its own. So an entry is given up
// only by a run that granted all of that, searched it and did not find the object.
const memoryHeader = "bourn-denied 2\n"

// maxRemembered bounds the memory. A run that would go beyond it is refused: giving up an
// entry would open a file that was renamed away.
const maxRemembered = 200000

func (h *Home) memoryPath(name bourn.AgentName) string {
	return filepath.Join(h.base(name), "denied")
}

// remembered returns the objects that earlier seals denied for the patterns of denies. An
// unreadable memory is an error: without it a denied file that was renamed away would be
// readable.
func (h *Home) remembered(name bourn.AgentName, denies []policy.Deny) ([]sandbox.Remembered, error) {
	if len(denies) == 0 {
		return nil, nil
	}
	wanted := patternSet(denies)
	var out []sandbox.Remembered
	err := h.eachRemembered(name, func(line, pattern string) error {
		if !wanted[pattern] {
			return nil
		}
		r, err := parseRemembered(line)
		out = append(out, r)
		return err
	})
	return out, err
}

// eachRemembered calls f with every line and its pattern, still quoted.
func (h *Home) eachRemembered(name bourn.AgentName, f func(line, pattern string) error) error {
	data, err := os.ReadFile(h.memoryPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	rest, ok := strings.CutPrefix(string(data), memoryHeader)
	if err == nil && !ok {
		err = errors.New("it is not in a known format")
	}
	for err == nil && rest != "" {
		var line string
		line, rest, ok = strings.Cut(rest, "\n")
		pattern, quoteErr := strconv.QuotedPrefix(afterFields(line, 3))
		if !ok || quoteErr != nil {
			err = errors.New("a line is incomplete")
			break
		}
		err = f(line, pattern)
	}
	if err != nil {
		return bourn.WithHint(fmt.Errorf("cannot read what earlier runs denied: %w", err),
			"remove "+h.memoryPath(name)+" if no denied file has been renamed since the last run")
	}
	return nil
}

// afterFields returns what follows the first n fields of a line.
func afterFields(line string, n int) string {
	for ; n > 0; n-- {
		_, line, _ = strings.Cut(line, " ")
	}
	return line
}

func parseRemembered(line string) (r sandbox.Remembered, err error) {
	dev, rest, _ := strings.Cut(line, " ")
	ino, rest, _ := strings.Cut(rest, " ")
	born, rest, _ := strings.Cut(rest, " ")
	pattern, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return r, err
	}
	rest = strings.TrimPrefix(rest[len(pattern):], " ")
	root, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return r, err
	}
	var errs [6]error
	r.Object.Dev, errs[0] = strconv.ParseUint(dev, 10, 64)
	r.Object.Ino, errs[1] = strconv.ParseUint(ino, 10, 64)
	r.Object.Born, errs[2] = strconv.ParseInt(born, 10, 64)
	r.Pattern, errs[3] = strconv.Unquote(pattern)
	r.Root, errs[4] = strconv.Unquote(root)
	r.Path, errs[5] = strconv.Unquote(strings.TrimPrefix(rest[len(root):], " "))
	return r, errors.Join(errs[:]...)
}

// patternSet returns the patterns of denies, quoted as the memory has them.
func patternSet(denies []policy.Deny) map[string]bool {
	set := map[string]bool{}
	for _, d := range denies {
		set[strconv.Quote(d.Pattern)] = true
	}
	return set
}

func memoryText(lines []string) string {
	if len(lines) == 0 {
		return memoryHeader
	}
	return memoryHeader + strings.Join(lines, "\n") + "\n"
}

// A denied object in a write grant, and its line in the memory.
type memory struct {
	object policy.Object
	line   string
}

// memories returns what a seal denies in write grants.
func memories(req *policy.Request, plan *policy.Plan) []memory {
	var out []memory
	for _, d := range req.Denies {
		add := func(p policy.Place) {
			root, write := plan.Root(p.Real)
			if !p.Exists || p.Made || !write || p.Object == (policy.Object{}) {
				return
			}
			b := make([]byte, 0, 256)
			b = append(strconv.AppendUint(b, p.Object.Dev, 10), ' ')
			b = append(strconv.AppendUint(b, p.Object.Ino, 10), ' ')
			b = append(strconv.AppendInt(b, p.Object.Born, 10), ' ')
			b = append(strconv.AppendQuote(b, d.Pattern), ' ')
			b = append(strconv.AppendQuote(b, root), ' ')
			out = append(out, memory{p.Object, string(strconv.AppendQuote(b, p.Real))})
		}
		add(d.Place)
		for _, m := range d.Matches {
			add(m)
		}
		for _, m := range d.More {
			add(m.Place)
		}
	}
	return out
}

// remember keeps the identity of every object that this seal denies in a write grant, so
// that the next one denies the object and not only its name.
func (h *Home) remember(name bourn.AgentName, denied []memory, req *policy.Request, plan *policy.Plan) error {
	var lines []string
	seen := make(map[policy.Object]bool, len(denied))
	for _, m := range denied {
		lines = append(lines, m.line)
		seen[m.object] = true
	}
	if kept, err := os.ReadFile(h.memoryPath(name)); err == nil && string(kept) == memoryText(lines) {
		return nil // as it was
	}
	own := patternSet(req.Denies)
	var before []string
	err := h.eachRemembered(name, func(line, pattern string) error {
		before = append(before, line)
		if own[pattern] {
			r, err := parseRemembered(line)
			if err != nil {
				return err
			}
			if _, searched := plan.Root(r.Root); searched || seen[r.Object] {
				return nil
			}
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		return err
	}
	if len(lines) > maxRemembered {
		return bourn.WithHint(fmt.Errorf("%w: more than %d denied objects would have to be remembered", bourn.ErrDenied, maxRemembered),
			"deny the directory that holds them instead of each file")
	}
	if slices.Equal(lines, before) {
		return nil
	}
	if err := writeFile(h.memoryPath(name), []byte(memoryText(lines)), 0o600); err != nil {
		return fmt.Errorf("cannot keep what this run denies: %w", err)
	}
	return nil
}
