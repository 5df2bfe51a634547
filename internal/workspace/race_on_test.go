//go:build race

package workspace

// slower is how many times longer computing takes than without the race detector.
const slower = 15
