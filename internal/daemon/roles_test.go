package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
)

// roles are what this program can be instead of a test, named by roleVariable. What they are
// told is in BOURN_TEST_SAID.
var roles = map[string]func() int{"daemon": asDaemon, "peer": asPeer, "filtered peer": asFiltered, "filtered user": asFilteredUser, "judge": asJudge, "passing peer": asPassing}

const saidVariable = "BOURN_TEST_SAID"

// asDaemon is a control plane of the home that it is told.
func asDaemon() int {
	ctx, stop := signal.NotifyContext(context.Background(), StopSignals()...)
	defer stop()
	err := Run(ctx, Config{Home: os.Getenv(saidVariable), Version: "test", DatabaseUser: "nobody", DatabaseURL: os.Getenv("BOURN_TEST_URL"), Listen: os.Getenv("BOURN_TEST_LISTEN"),
		Log:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Ready: func(s Started) { fmt.Println("ready", s.HTTP) }})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

// asPeer asks at the socket that it is told and prints the answer.
func asPeer() int {
	conn, err := net.Dial("unix", os.Getenv(saidVariable))
	if err != nil {
		fmt.Println("no connection:", err)
		return 0
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1/boundaries HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		fmt.Println("no answer:", err)
		return 0
	}
	answer, err := io.ReadAll(bufio.NewReader(conn))
	fmt.Printf("%s\n%v\n", answer, err)
	return 0
}

// asPassing connects, hands the connection on to a process that stays, and ends.
func asPassing() int {
	conn, err := net.Dial("unix", os.Getenv(saidVariable))
	if err != nil {
		return 3
	}
	f, err := conn.(*net.UnixConn).File()
	if err != nil {
		return 3
	}
	cmd := exec.Command("cat") // until its standard input ends
	cmd.Stdin = os.Stdin
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Start(); err != nil {
		return 3
	}
	return 0
}
