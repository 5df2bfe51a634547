// Command bourn runs agents and commands inside boundaries that the kernel keeps.
package main

import (
	"os"
	"runtime"

	"bourn/internal/cli"
	"bourn/internal/launch"
)

// version is set when a release is built.
var version = "dev"

// roles are what bourn starts itself as, dispatched before any flag is looked at.
var roles = map[string]func(){launch.Role: launch.Init}

func init() {
	// The main goroutine keeps the main thread: that is the one which stops when bourn
	// stops itself, and the one whose end would end the sealed child.
	runtime.LockOSThread()
}

func main() {
	if role := roles[os.Args[0]]; role != nil {
		role()
		os.Exit(125)
	}
	launch.CloseInherited()
	command := cli.Command{
		Args: os.Args[1:], Environ: os.Environ(), Version: version,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}
	if len(os.Args) > 1 && os.Args[1] == "run" {
		command.Child = launch.Spawn(os.Stdin, os.Stdout, os.Stderr)
	}
	end := command.Main()
	if end.Signal != 0 {
		launch.Die(end.Signal)
	}
	os.Exit(end.Status)
}
