//go:build !race

package workspace

// slower is how many times longer computing takes than usual.
const slower = 1
