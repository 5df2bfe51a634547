//go:build !linux

package main

import (
	"fmt"
	"os"

	"bourn/internal/posix"
)

func main() {
	fmt.Fprintln(os.Stderr, "bourn-posix-helper:", refuse(posix.RuntimeUnavailable, "it needs Linux"))
	os.Exit(posix.RuntimeUnavailable.ExitStatus())
}
