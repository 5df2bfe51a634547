//go:build ignore

// Command golandlock is the least that go-landlock makes of a sandbox: rules for
// directories and ports on the process itself, then execve(2).
//
//	golandlock [-ro PATHS] [-rw PATHS] [-connect PORT] -- COMMAND [ARG...]
//
// PATHS are separated by colons. What the kernel is too old for is left out, without
// a word: that is the library's BestEffort.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
)

func main() {
	ro := flag.String("ro", "", "what may be read and executed")
	rw := flag.String("rw", "", "what may be written too")
	connect := flag.Uint("connect", 0, "the TCP port that may be connected to, on any host")
	flag.Parse()
	if err := run(split(*ro), split(*rw), uint16(*connect), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "golandlock:", err)
		os.Exit(125)
	}
}

func split(paths string) []string {
	return strings.FieldsFunc(paths, func(r rune) bool { return r == ':' })
}

func run(ro, rw []string, connect uint16, args []string) error {
	var rules []landlock.Rule
	for _, path := range ro {
		rules = append(rules, rule(path, landlock.RODirs, landlock.ROFiles))
	}
	for _, path := range rw {
		rules = append(rules, rule(path, landlock.RWDirs, landlock.RWFiles))
	}
	if connect != 0 {
		rules = append(rules, landlock.ConnectTCP(connect))
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	if err := landlock.V7.BestEffort().Restrict(rules...); err != nil {
		return err
	}
	return syscall.Exec(program, args, os.Environ())
}

func rule(path string, dirs, files func(...string) landlock.FSRule) landlock.Rule {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return files(path).IgnoreIfMissing()
	}
	return dirs(path).IgnoreIfMissing()
}
