// Command netprobe tries to reach things from inside a run, by every way, and says what
// came of each. Its argument is a file with a JSON list of attempts; it prints a JSON list
// of answers in the same order. An answer begins with "at ADDR:PORT" where a server was
// reached, and is an error's text otherwise.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// An Attempt is one thing to try. Say is what is said to a server that is reached.
type Attempt struct {
	Via, Host, Port, Say string
}

// ways are how things are tried.
var ways = map[string]func(a Attempt) (string, error){
	"connect":  connectProxy,
	"socks":    socks,
	"direct":   direct,
	"get":      plainGet,
	"dns":      dns,
	"rawdns":   rawDNS,
	"udp":      udp,
	"mptcp":    mptcp,
	"fastopen": fastOpen,
	"tls":      tlsDirect,
	"tlsproxy": tlsProxy,
	"listen":   listen,
	"smuggle":  smuggle,
}

// patience is how long one attempt may take.
const patience = 20 * time.Second

func main() {
	if len(os.Args) > 2 {
		transfer(os.Args[1], os.Args[2:])
		return
	}
	data, err := os.ReadFile(os.Args[1])
	check(err)
	var all []Attempt
	check(json.Unmarshal(data, &all))
	answers := make([]string, len(all))
	slots := make(chan struct{}, 32)
	var running sync.WaitGroup
	for i, a := range all {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			way, ok := ways[a.Via]
			if !ok {
				answers[i] = "no such way"
				return
			}
			said, err := way(a)
			if err != nil {
				said = strings.TrimSpace("failed: " + err.Error())
			}
			answers[i] = said
		})
	}
	running.Wait()
	check(json.NewEncoder(os.Stdout).Encode(answers))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "netprobe:", err)
		os.Exit(1)
	}
}
