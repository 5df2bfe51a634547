// Command probe tries operations and says what the kernel answered. Tests start it
// inside a seal, where all should be refused, and outside, where all should succeed.
//
//	probe try OP...     each OP is one argument, "name arg arg"; prints {"OP": "ok …" or "ERRNO"}
//	probe hold OP...    the same, then one line "held" and waits to be killed
//	probe daemon DEPTH  leaves processes behind: double-forked, in sessions of their own
//	probe role MODE BIN starts BIN as a child role with a descriptor 3 of that MODE
//	probe serve         performs each line of its input and prints "OP<tab>answer"
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	verbs := map[string]func([]string){
		"try": try, "hold": hold, "daemon": daemon, "stay": stay, "role": role,
		"signals": signals, "status": status, "thief": thief, "snoop": snoop, "argv": argv,
		"size": size, "catch": catch, "spin": spin, "serve": serve,
	}
	if len(os.Args) < 2 || verbs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "probe: no such verb")
		os.Exit(99)
	}
	verbs[os.Args[1]](os.Args[2:])
}

func try(ops []string) {
	out := map[string]string{}
	for _, op := range ops {
		out[op] = answer(op)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		os.Exit(98)
	}
}

func serve([]string) {
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Printf("%s\t%s\n", lines.Text(), answer(lines.Text()))
	}
}

func hold(ops []string) {
	try(ops)
	fmt.Println("held")
	rest()
}

// answer performs one operation.
func answer(op string) string {
	words := strings.Fields(op)
	do := operations[words[0]]
	if do == nil {
		return "no such operation"
	}
	args := append(words[1:], "", "", "")
	said, err := do(args)
	if err == nil {
		return strings.TrimSpace("ok " + said)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return err.Error()
}
