package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"bourn"
	"bourn/api"
	"bourn/internal/review"

	"github.com/spf13/cobra"
)

// maxRulesFile bounds a file of rules, in bytes: what is longer is refused as a whole.
const maxRulesFile = 1 << 20

func (a *app) boundariesSetCommand() *cobra.Command {
	var after int64
	cmd := &cobra.Command{
		Use:   "set FILE",
		Short: "Save a new version of the hard blocks, from a file of JSON",
		Long: `Save a new version of the hard blocks, from a file of JSON, or from standard input for -.
What would change is shown first. Every mistake is listed, and with one nothing is saved.

At a terminal it asks. Otherwise --after says which version was seen: when another one is in
force by then, nothing is saved.`,
		Example: `  bourn boundaries set blocks.json
  bourn boundaries set blocks.json --after 3`,
		Args: takes,
	}
	cmd.Flags().Int64Var(&after, "after", 0, "save it as the version after `N`, without asking; 0 for the first")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := a.control(cmd)
		if err != nil {
			return err
		}
		document, err := a.readDocument(args[0])
		if err != nil {
			return err
		}
		rules, err := a.parseDocument(args[0], document)
		if err != nil {
			return err
		}
		return a.setBoundaries(client, rules, document, cmd.Flags().Changed("after"), after, *asJSON)
	}
	return cmd
}

// savedBoundaries is what bourn boundaries set says as JSON.
type savedBoundaries struct {
	Version int64 `json:"version"` // in force now
	Saved   bool  `json:"saved"`   // false when nothing would change
	difference
}

func (a *app) setBoundaries(client *api.Client, rules review.Boundaries, document []byte, given bool, after int64, asJSON bool) error {
	ctx, cancel := answering()
	defer cancel()
	now, err := client.Boundaries(ctx)
	if err != nil {
		return err
	}
	before, err := readRules(now.Document)
	if now.State == "invalid" {
		before, err = nil, nil
	}
	if err != nil {
		return err
	}
	d := compareRules(before, rules.HardBlocks)
	out := savedBoundaries{Version: now.Version, difference: d}
	if given && after != now.Version {
		return bourn.WithHint(fmt.Errorf("%w: version %d is in force, and not %d; nothing was saved", bourn.ErrConflict, now.Version, after),
			"look at it: bourn boundaries show, then --after "+strconv.FormatInt(now.Version, 10))
	}
	if d.none() && now.State == "ok" {
		if asJSON {
			return printJSON(a.Stdout, out)
		}
		a.printf("nothing changes: these are the rules of version %d\n", now.Version)
		return nil
	}
	if !asJSON {
		for _, line := range d.lines {
			a.printf("%s\n", bourn.Printable(line))
		}
	}
	if !given {
		if err := a.confirmBoundaries(now.Version, asJSON); err != nil {
			return err
		}
	}
	saved, err := client.SaveBoundaries(ctx, api.SaveBoundaries{After: now.Version, Document: document})
	if err != nil {
		return err
	}
	out.Version, out.Saved = saved.Version, true
	if asJSON {
		return printJSON(a.Stdout, out)
	}
	a.printf("saved as version %d: %s\nruns that live keep what they were sealed with: bourn boundaries show says which\n", saved.Version, count(saved.Rules, "rule"))
	return nil
}

// confirmBoundaries asks the person at the terminal.
func (a *app) confirmBoundaries(version int64, asJSON bool) error {
	if asJSON || !terminal(a.Stdin) || !terminal(a.Stderr) {
		return bourn.WithHint(fmt.Errorf("%w: the hard blocks are not saved without a person's yes", bourn.ErrDenied),
			"once you have seen what changes: --after "+strconv.FormatInt(version, 10))
	}
	fmt.Fprint(a.Stderr, "Save this as the new version? [y/N] ")
	line, err := bufio.NewReader(io.LimitReader(a.Stdin, 256)).ReadString('\n')
	switch answer := strings.ToLower(strings.TrimSpace(line)); {
	case err == nil && (answer == "y" || answer == "yes"):
		return nil
	default:
		return bourn.WithHint(fmt.Errorf("%w: nothing was saved", bourn.ErrDenied), "what is in force stays: bourn boundaries show")
	}
}

// readDocument reads a file of rules, or standard input for "-".
func (a *app) readDocument(name string) ([]byte, error) {
	in := a.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			return nil, bourn.WithHint(fmt.Errorf("%w: there is no file %s", bourn.ErrNotFound, bourn.Printable(name)), "bourn boundaries show --json has the document in force")
		}
		if err != nil {
			return nil, bourn.WithHint(fmt.Errorf("%w: cannot read the hard blocks: %w", bourn.ErrInvalid, err), "name a file that you can read")
		}
		defer f.Close()
		in = f
	}
	document, err := io.ReadAll(io.LimitReader(in, maxRulesFile+1))
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("%w: cannot read the hard blocks: %w", bourn.ErrInvalid, err), "name a file that you can read")
	}
	return document, nil
}

// parseDocument reads rules, and returns everything that is wrong with them with its line.
func (a *app) parseDocument(name string, document []byte) (review.Boundaries, error) {
	rules, problems := review.Parse(document, a.base())
	if len(problems) == 0 {
		return rules, nil
	}
	lines := ruleLines(document)
	if name == "-" {
		name = "standard input"
	}
	text := "the hard blocks have " + count(len(problems), "mistake") + "; nothing was saved"
	for _, p := range problems {
		text += "\n" + name
		if line := lineOf(lines, p.Path); line > 0 {
			text += ":" + strconv.Itoa(line)
		}
		text += ": " + p.String()
	}
	return rules, bourn.WithHint(fmt.Errorf("%w: %s", bourn.ErrInvalid, text), "man bourn-boundaries and docs/boundaries.md have every key")
}

// base is what patterns are relative to: what a run takes for it.
func (a *app) base() review.Base {
	person := a.env("HOME")
	return review.Base{Root: "/", Home: canonical(person)}
}

// lineOf returns the line of the rule that a problem is about, or 0.
func lineOf(lines []int, path string) int {
	rest, ok := strings.CutPrefix(path, "hardBlocks.")
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, ".")
	if i, err := strconv.Atoi(number); err == nil && i < len(lines) {
		return lines[i]
	}
	return 0
}

// ruleLines returns the line on which each rule of a document begins, as far as the
// document can be read.
func ruleLines(document []byte) []int {
	d := json.NewDecoder(bytes.NewReader(document))
	depth, inRules := 0, false
	var lines []int
	for {
		token, err := d.Token()
		if err != nil {
			return lines
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; inRules && depth == 3 {
				lines = append(lines, 1+bytes.Count(document[:d.InputOffset()], []byte("\n")))
			}
			continue
		case json.Delim('}'), json.Delim(']'):
			if depth--; depth == 1 {
				inRules = false
			}
			continue
		}
		if depth == 1 {
			inRules = token == "hardBlocks"
		}
	}
}
