// Command probe tries operations and says what the kernel answered. Tests start it
// inside a seal, where all should be refused, and outside, where all should succeed.
//
//	probe try OP...     each OP is one argument, "name arg arg"; prints {"OP": "ok …" or "ERRNO"}
//	probe hold OP...    the same, then one line "held" and waits to be killed
//	probe daemon DEPTH  leaves processes behind: double-forked, in sessions of their own
//	probe role MODE BIN starts BIN as a child role with a descriptor 3 of that MODE
//	probe until MS OP.. tries OP until it is refused, for at most that long; prints the answer
package main

import (
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
		"try": try, "hold": hold, "daemon": daemon, "stay": stay, "role": role, "until": until,
		"signals": signals, "raise": raise, "status": status, "thief": thief, "snoop": snoop, "argv": argv,
		"size": size, "catch": catch, "spin": spin,
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

func hold(ops []string) {
	try(ops)
	fmt.Println("held")
	select {}
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
