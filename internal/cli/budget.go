package cli

import "fmt"

// maxLines is how much a run says before its command starts, what it says of --save
// included. What it says when the command has ended is bounded apart, by maxSaid.
const maxLines = 3

// budget returns at most n of the lines, which stand in the order of their importance. How
// many are left out is said at the end of the last, with where they are found.
func budget(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	if n <= 0 {
		return nil
	}
	out := append([]string{}, lines[:n]...)
	out[n-1] += fmt.Sprintf("; %d more to know (bourn plan shows it)", len(lines)-n)
	return out
}
