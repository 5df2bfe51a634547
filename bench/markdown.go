package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// described is a peer as the page names it.
type described struct {
	Name    string   `json:"name"`
	Version string   `json:"version"` // "" where it is not installed
	Profile string   `json:"profile"`
	Command string   `json:"command,omitempty"` // of the launch row
	Files   []string `json:"files,omitempty"`   // settings that the command names
}

func describePeers(b *bench) []described {
	var all []described
	for _, p := range peers {
		d := described{Name: p.name, Version: b.versionOf(p), Profile: p.profile}
		if c, without := b.askPeer(p, ask{write: b.project}, []string{"true"}); without == nil {
			d.Command, d.Files = b.shown(c)
		}
		all = append(all, d)
	}
	return all
}

// shown returns a command with the names of this run taken out, and the settings that
// it reads.
func (b *bench) shown(c command) (line string, files []string) {
	words := slices.Concat(c.env, c.args)
	for i, word := range words {
		for file, text := range b.written {
			if strings.Contains(word, file) {
				files = append(files, filepath.Base(file)+":\n"+strings.TrimSpace(b.anonymous(text)))
				word = strings.ReplaceAll(word, file, filepath.Base(file))
			}
		}
		words[i] = b.anonymous(word)
	}
	return strings.Join(words, " "), files
}

func (b *bench) anonymous(s string) string {
	for _, home := range b.remove {
		s = strings.ReplaceAll(s, home, "HOME-OF-CODEX")
	}
	s = strings.ReplaceAll(s, b.project, "DIR")
	s = strings.ReplaceAll(s, b.peers+"/", "")
	s = strings.ReplaceAll(s, filepath.Dir(b.bourn)+"/", "")
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		s = strings.TrimPrefix(s, dir+"/")
	}
	return s
}

// The page keeps what a run has written between these lines.
const (
	generatedFrom = "<!-- written by the bench, from here -->\n"
	generatedTo   = "<!-- written by the bench, to here -->\n"
)

// writePage writes the comparison into a page, between its two lines.
func writePage(name string, r report) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), generatedFrom)
	_, after, ok2 := strings.Cut(rest, generatedTo)
	if !ok || !ok2 {
		return fmt.Errorf("%s does not have the lines %q and %q", name, generatedFrom, generatedTo)
	}
	return os.WriteFile(name, []byte(before+generatedFrom+"\n"+markdown(r)+"\n"+generatedTo+after), 0o644)
}

// markdown is everything of the page that comes from a run.
func markdown(r report) string {
	var w strings.Builder
	h := r.Host
	fmt.Fprintf(&w, "Measured on %s: Linux %s, %s, %d cores, uid %d, load average %s before and %s after.\n\n", h.Date, h.Kernel, h.CPU, h.Cores, h.User, h.LoadBefore, h.LoadAfter)
	if h.busy() {
		fmt.Fprint(&w, busyText)
	}
	columns := r.measured()
	writeNumbers(&w, r, columns)
	writeCells(&w, r, columns)
	writeAhead(&w, r)
	writeReached(&w, r, columns)
	writePeers(&w, r)
	return strings.TrimRight(w.String(), "\n") + "\n"
}

const busyText = "**The machine was busy when this run began: the numbers are to be taken again on a quiet one.**\n\n"

// busy reports whether others kept a core busy before the run, or it can not be known.
func (h host) busy() bool {
	load, err := strconv.ParseFloat(strings.SplitN(h.LoadBefore, " ", 2)[0], 64)
	return err != nil || load > 1
}

// measured returns the columns that have a number or a word somewhere.
func (r report) measured() []string {
	columns := []string{outside}
	for _, p := range r.Peers {
		if p.Version != "" {
			columns = append(columns, p.Name)
		}
	}
	return columns
}

func head(w *strings.Builder, first string, columns []string) {
	fmt.Fprintf(w, "| %s | %s |\n|---|%s\n", first, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

func writeNumbers(w *strings.Builder, r report, columns []string) {
	head(w, "", columns)
	for _, t := range r.Tables {
		if t.Name == reachName {
			continue
		}
		fmt.Fprintf(w, "| **%s**: %s, %s |", t.Name, t.Title, t.unit())
		for _, column := range columns {
			fmt.Fprintf(w, " %s |", t.cell(column))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

func (t tableResult) unit() string {
	switch {
	case t.held():
		return "MB"
	case t.Bytes > 0:
		return "MB/s"
	}
	return "ms"
}

func (t tableResult) row(name string) *row {
	for i := range t.Rows {
		if t.Rows[i].Name == name {
			return &t.Rows[i]
		}
	}
	return nil
}

// value is what the page shows of a row. Less is better but for rates.
func (t tableResult) value(r row) float64 {
	switch {
	case t.held():
		return r.Tree
	case t.Bytes > 0:
		return float64(t.Bytes) / (1 << 20) / (r.Wall.Median / 1000)
	}
	return r.Wall.Median
}

// ratio is how many times Bourn's cost a row has, and whether it can be said: below one
// the row is ahead.
func (t tableResult) ratio(r row) (float64, bool) {
	bourn := t.row(bournName)
	switch {
	case bourn == nil:
		return 0, false
	case t.held():
		return r.Tree / bourn.Tree, bourn.Tree > 0
	}
	return r.Ratio, r.Ratio > 0
}

func (t tableResult) cell(column string) string {
	if r := t.row(column); r != nil {
		text := significant(t.value(*r))
		if ratio, ok := t.ratio(*r); ok && column != bournName {
			text += fmt.Sprintf(" (%s)", significant(ratio))
		}
		return text
	}
	return t.word(column)
}

// word is what stands in a column that has no number.
func (t tableResult) word(column string) string {
	for _, c := range t.Cells {
		if c.Name == column {
			return c.Cell
		}
	}
	return ""
}

// significant prints two or three digits that count.
func significant(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// writeCells says why a cell has a word and not a number, and what broke off.
func writeCells(w *strings.Builder, r report, columns []string) {
	var order []cell
	where := map[cell][]string{}
	for _, t := range r.Tables {
		for _, c := range slices.Concat(t.Cells, t.Notes) {
			if !slices.Contains(columns, c.Name) {
				continue
			}
			if where[c] == nil {
				order = append(order, c)
			}
			where[c] = append(where[c], t.Name)
		}
	}
	for _, c := range order {
		fmt.Fprintf(w, "- %s, %s: %s: %s.\n", c.Name, strings.Join(where[c], ", "), c.Cell, c.Why)
	}
	fmt.Fprintln(w)
}

// level is how near to one a ratio is no difference.
const level = 0.03

// writeAhead names each peer that is ahead on a row, and why; then, once for each, what
// it left within reach in the same run.
func writeAhead(w *strings.Builder, r report) {
	fmt.Fprintf(w, "Ahead of Bourn:\n\n")
	var ahead []string
	for _, p := range peers {
		where := map[string][]string{} // by reason
		var reasons []string
		for _, t := range r.Tables {
			ratio, ok := t.ahead(p.name)
			if !ok {
				continue
			}
			why := whyAhead(t.Name, p.name)
			if where[why] == nil {
				reasons = append(reasons, why)
			}
			where[why] = append(where[why], fmt.Sprintf("%s %s×", t.Name, significant(ratio)))
		}
		for _, why := range reasons {
			fmt.Fprintf(w, "- %s, %s: %s\n", p.name, strings.Join(where[why], ", "), why)
		}
		if reasons != nil {
			ahead = append(ahead, p.name)
		}
	}
	if ahead == nil {
		fmt.Fprintln(w, "- none, on no row.")
	}
	for _, name := range ahead {
		if open := r.reachedBy(name); open != "" {
			fmt.Fprintf(w, "- Through %s, and not through Bourn, in this run: %s.\n", name, open)
		}
	}
	fmt.Fprintln(w)
}

// ahead returns the ratio of a peer that is ahead of Bourn by more than what is level.
func (t tableResult) ahead(name string) (ratio float64, ok bool) {
	row := t.row(name)
	if row == nil || name == bournName {
		return 0, false
	}
	ratio, ok = t.ratio(*row)
	return ratio, ok && ratio < 1-level
}

// reachedBy lists what Bourn refused and this peer did not.
func (r report) reachedBy(name string) string {
	for _, t := range r.Tables {
		row, bourn := t.row(name), t.row(bournName)
		if t.Name != reachName || row == nil || bourn == nil {
			continue
		}
		var open []string
		for _, p := range probes {
			if row.Reached[p.kind] == reached && bourn.Reached[p.kind] == refused {
				open = append(open, p.title)
			}
		}
		return strings.Join(open, "; ")
	}
	return ""
}

func writeReached(w *strings.Builder, r report, columns []string) {
	for _, t := range r.Tables {
		if t.Name != reachName {
			continue
		}
		head(w, "Within reach", columns)
		for _, p := range probes {
			fmt.Fprintf(w, "| %s |", p.title)
			for _, column := range columns {
				text := ""
				if row := t.row(column); row != nil {
					text = row.Reached[p.kind]
				}
				fmt.Fprintf(w, " %s |", orElse(text, t.word(column)))
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w)
	}
}

func writePeers(w *strings.Builder, r report) {
	fmt.Fprintf(w, "| Program | Version | What it is asked for |\n|---|---|---|\n")
	for _, p := range r.Peers {
		fmt.Fprintf(w, "| %s | %s | %s |\n", p.Name, orElse(p.Version, "not here"), p.Profile)
	}
	fmt.Fprintf(w, "\nThe commands of the launch row, DIR being the writable directory:\n\n```text\n")
	for _, p := range r.Peers {
		if p.Command == "" {
			continue
		}
		fmt.Fprintln(w, p.Command)
		for _, file := range p.Files {
			fmt.Fprintln(w, "  "+strings.ReplaceAll(file, "\n", "\n    "))
		}
	}
	fmt.Fprintln(w, "```")
}
