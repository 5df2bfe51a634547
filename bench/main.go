// Command bench measures what a seal costs: how long a sealed start takes, what
// denies, globs and big trees add to it, how much slower work is inside, and what
// the parent holds in memory. Results stand beside the project's targets and beside
// what else this machine has: bubblewrap, a floor written in C, no sandbox at all.
//
// How it measures: the commands of a table run one after the other, shuffled anew
// in every round, so that drift of the machine hits all of them alike. Ratios and
// differences are taken within a round and their median is printed, never a ratio
// of medians. Standard streams are /dev/null. CPU time and peak memory come from
// wait4(2) and include every descendant that was waited for. A command that can not
// run here is left out by name, and a seal that does not hold (a denied file that
// can be read) is not measured but reported.
//
// With -peers it measures one column for each sandbox that is installed, for the rows
// of docs/comparison.md: equal work for each, and only where it is seen to be done. What
// a peer has no means for, or does not keep, is a word in its cell. -install gets those
// peers into the user's cache directory.
//
//	go run . [flags] [table ...]
//	go run . control
//	go run . records
//	go run . -install
//	go run . -peers [-markdown ../docs/comparison.md] [table ...]
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
)

// options are the command line.
type options struct {
	bourn  string
	rounds int
	warmup int
	files  int
	json   bool
	// the comparison with others
	install  bool
	peers    bool
	markdown string
	tables   []string
}

// known returns the tables that there are to choose from.
func (o options) known() []knownTable {
	if o.peers {
		return peerTables
	}
	return tables
}

// chosen reports whether a table is asked for: denies asks for denies-100 as well.
func (o options) chosen(name string) bool {
	return len(o.tables) == 0 || slices.ContainsFunc(o.tables, func(asked string) bool { return named(name, asked) })
}

func named(table, asked string) bool { return table == asked || strings.HasPrefix(table, asked+"-") }

func main() {
	modes := map[string]func([]string) error{timedMode: timeWork, netMode: netClient, slirpMode: behindSlirp, reachMode: tryReach, controlMode: measureControl, recordsMode: measureRecords}
	if len(os.Args) > 1 && modes[os.Args[1]] != nil && (len(os.Args) > 2 || os.Args[1] == controlMode || os.Args[1] == recordsMode) {
		if err := modes[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	opts, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2) // the flag package has said why
	}
	if opts.install {
		if err := installPeers(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	failed, err := run(opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if failed {
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	opts := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&opts.bourn, "bourn", "../bin/bourn", "the bourn program")
	flags.IntVar(&opts.rounds, "rounds", 30, "measured rounds of each table")
	flags.IntVar(&opts.warmup, "warmup", 3, "rounds before them that do not count")
	flags.IntVar(&opts.files, "files", 20000, "files in the big trees")
	flags.BoolVar(&opts.json, "json", false, "print JSON")
	flags.BoolVar(&opts.install, "install", false, "install what -peers compares, as far as possible, and stop")
	flags.BoolVar(&opts.peers, "peers", false, "compare with the sandboxes that are installed")
	flags.StringVar(&opts.markdown, "markdown", "", "with -peers: also write the comparison into this `page`")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: bench [flags] [table ...]\n\ntables: %s\nwith -peers: %s\nall of them by default\n\n",
			strings.Join(tableNames(tables), ", "), strings.Join(tableNames(peerTables), ", "))
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.tables = flags.Args()
	for _, name := range opts.tables {
		if !slices.ContainsFunc(tableNames(opts.known()), func(table string) bool { return named(table, name) }) {
			flags.Usage()
			return opts, fmt.Errorf("no table %q", name)
		}
	}
	if opts.rounds < 1 || opts.warmup < 0 || opts.files < 100 {
		flags.Usage()
		return opts, fmt.Errorf("numbers out of range")
	}
	return opts, nil
}

// run measures the chosen tables in a directory of its own and prints them. It
// reports whether a seal did not hold.
func run(opts options) (failed bool, err error) {
	dir, err := os.MkdirTemp("", "bourn-bench.")
	if err != nil {
		return false, err
	}
	b := &bench{dir: dir, files: opts.files}
	defer b.close()
	interrupted := watchInterrupt()

	if b.bourn, err = filepath.Abs(opts.bourn); err != nil {
		return false, err
	}
	b.interrupted = interrupted
	if err := b.prepare(); err != nil {
		return false, err
	}
	report := report{Host: describeHost(b)}
	if !opts.json {
		printHost(os.Stdout, report.Host)
	}
	if opts.peers {
		report.Peers = describePeers(b)
	}
	for _, known := range opts.known() {
		if !opts.chosen(known.name) {
			continue
		}
		t, err := known.build(b)
		if err != nil {
			return failed, fmt.Errorf("cannot prepare table %s: %w", known.name, err)
		}
		result, err := t.measure(b, opts.warmup, opts.rounds)
		if err != nil {
			return failed, err
		}
		failed = failed || len(result.Broken) > 0
		report.Tables = append(report.Tables, result)
		if !opts.json {
			printTable(os.Stdout, result)
		}
	}
	report.Host.LoadAfter = loadAverage()
	if opts.peers && opts.markdown != "" {
		if err := writePage(opts.markdown, report); err != nil {
			return failed, err
		}
	}
	if opts.json {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return failed, out.Encode(report)
	}
	fmt.Printf("\nload average %s before, %s after\n", report.Host.LoadBefore, report.Host.LoadAfter)
	return failed, nil
}

// watchInterrupt returns a flag that Ctrl-C or SIGTERM sets: the harness then stops
// between two commands and removes its directory.
func watchInterrupt() *atomic.Bool {
	var interrupted atomic.Bool
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		interrupted.Store(true)
		signal.Stop(signals) // a second Ctrl-C ends the process at once
	}()
	return &interrupted
}
