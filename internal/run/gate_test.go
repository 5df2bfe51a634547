package run

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"bourn/internal/policy"
)

// A client whose first message is long, as a call that writes a file is where nothing is
// said before it, is handed on with all of it.
func TestGateHandsOnALongFirstLine(t *testing.T) {
	report := func() Report { return Report{} }
	for _, size := range []int{100, gateLine - 1, gateLine, 3 * gateLine} {
		control, ours := net.Pipe()
		g := newGate(&policy.Plan{}, report, nil)
		g.tools = func() (io.ReadWriteCloser, error) { return ours, nil }
		client, theirs := net.Pipe()
		go g.serve(theirs)
		line := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"` + strings.Repeat("x", size) + "\"}\n"
		go func() { _, _ = io.WriteString(client, line+"more\n") }()
		got := make([]byte, len(line)+5)
		if _, err := io.ReadFull(control, got); err != nil || string(got) != line+"more\n" {
			t.Errorf("%d bytes: %v, %d came", size, err, len(got))
		}
		client.Close()
		control.Close()
	}
	// Where no control plane answers, the client is told so.
	g := newGate(&policy.Plan{}, report, nil)
	g.tools = func() (io.ReadWriteCloser, error) { return nil, errors.New("nobody answers") }
	client, theirs := net.Pipe()
	defer client.Close()
	go g.serve(theirs)
	go func() { _, _ = io.WriteString(client, strings.Repeat("x", gateLine)) }()
	if got, err := bufio.NewReader(client).ReadString('\n'); err != nil || !strings.Contains(got, `"id":null`) || !strings.Contains(got, "nobody answers") {
		t.Errorf("%v: %s", err, got)
	}
}
