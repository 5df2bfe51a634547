package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"bourn"
	"bourn/api"
	modes "bourn/internal/launch/terminal"

	"github.com/spf13/cobra"
)

// execAs is what bourn people exec was told.
type execAs struct {
	agent, dir string
	tty        bool
}

func (p *people) execCommand() *cobra.Command {
	var e execAs
	cmd := &cobra.Command{
		Use: "exec PERSON -- COMMAND [ARG...]", Short: "Execute a command as a person",
		Long: `The command is executed on a shared host as the person, in their home, under the base seal: it
has their private directory and those of their circles, and no network. With --agent it has
what that agent is granted, and its profile's word on shell_exec holds. Administrators may
execute something as anybody, and everybody as themselves. It is reviewed and logged as a
tool's call is; what is typed and printed is not.

What comes on standard input is the command's to read, and its status is that of bourn. With a
terminal, as a shell needs one, every key goes to the command, Ctrl-C too. Everything that was
started ends with bourn.`,
		Example: `  bourn people exec ann -- ls -l
  bourn people exec ann -- bash
  tar -c plans | bourn people exec ann --dir src -- tar -x`,
		Args: takesCommand, ValidArgsFunction: p.completePerson,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("tty") {
				e.tty = terminalOf(p.Stdin) && terminalOf(p.Stdout)
			}
			return p.exec(cmd, args[0], args[1:], e)
		},
	}
	cmd.Flags().StringVar(&e.agent, "agent", "", "as this agent of theirs, by `NAME`")
	cmd.Flags().StringVar(&e.dir, "dir", "", "in the directory `DIR`, from the person's home on")
	cmd.Flags().BoolVarP(&e.tty, "tty", "t", false, "give it a terminal (the default where standard input and output are one)")
	return cmd
}

// terminalOf reports whether a file is a terminal.
func terminalOf(f *os.File) bool {
	_, _, err := modes.Size(f)
	return err == nil
}

// takesCommand wants a person and a command after them.
func takesCommand(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usage(fmt.Errorf("%s: PERSON is missing", shape(cmd)))
	case 1:
		return usage(fmt.Errorf("%s: COMMAND is missing", shape(cmd)))
	}
	return nil
}

// exec executes a command as a person, and ends as it does.
func (p *people) exec(cmd *cobra.Command, person string, command []string, e execAs) error {
	if p.root != "" {
		return bourn.WithHint(usage(errors.New("nobody executes anything below --root")), "without it the host itself is meant")
	}
	client, err := p.control(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	within, cancel := context.WithTimeout(context.Background(), execWithin)
	defer cancel()
	conn, err := client.Exec(within, person, e.agent)
	if err != nil {
		return err
	}
	defer conn.Close()
	start := api.Exec{Command: command, Dir: e.dir, Terminal: e.tty}
	if e.tty {
		start.Term, start.Size = cmp.Or(p.env("TERM"), "dumb"), sizeOf(p.Stdin, p.Stdout)
	}
	if err := api.WriteExecOf(conn, api.ExecStart, start); err != nil {
		return err
	}
	s := &execution{people: p, conn: conn, room: make(chan struct{}, api.ExecWindow), restore: func() error { return nil }}
	if e.tty && terminalOf(p.Stdin) {
		if s.restore, err = modes.Raw(p.Stdin); err != nil {
			return err
		}
	}
	return s.run(e.tty)
}

// execWithin is how long a person's actor may take to come up.
const execWithin = 30 * time.Second

// sizeOf is the size of the first of some files that is a terminal.
func sizeOf(files ...*os.File) api.ExecSize {
	for _, f := range files {
		if rows, cols, err := modes.Size(f); err == nil {
			return api.ExecSize{Rows: rows, Cols: cols}
		}
	}
	return api.ExecSize{}
}

// An execution is a command that runs as a person.
type execution struct {
	*people
	conn    net.Conn
	room    chan struct{} // holds what may still be sent of the input
	restore func() error

	mu sync.Mutex // of sending
}

func (s *execution) send(kind api.ExecKind, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return api.WriteExec(s.conn, kind, b)
}

// run relays until the command has ended, or a signal ends this process. The terminal is as it
// was before anything is said.
func (s *execution) run(tty bool) error {
	signals := make(chan os.Signal, 8)
	defer modes.Heed(signals)()
	by := 0
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		by = s.heed(signals, over, tty)
	}()
	for range api.ExecWindow {
		s.room <- struct{}{}
	}
	go s.input()
	done, err := s.output()
	close(over)
	<-watched
	err = errors.Join(s.restore(), err)
	switch {
	case by != 0:
		s.exit, s.signal = 128+by, by
		return nil
	case err != nil:
		return err
	case done.Problem != nil:
		return done.Err()
	}
	s.exit = done.Status
	return nil
}

// heed passes new sizes on until over, and returns the signal that is to end this process.
func (s *execution) heed(signals <-chan os.Signal, over <-chan struct{}, tty bool) int {
	for {
		select {
		case <-over:
			return 0
		case got := <-signals:
			if by := modes.Ends(got); by != 0 {
				s.conn.Close() // and with it what was started
				return by
			}
			if tty {
				s.mu.Lock()
				_ = api.WriteExecOf(s.conn, api.ExecResize, sizeOf(s.Stdin, s.Stdout)) // one that has gone is noticed where it is read from
				s.mu.Unlock()
			}
		}
	}
}

// input sends what comes on standard input, and its end. What cannot be sent is the end of the
// command, which is noticed where its output is read.
func (s *execution) input() {
	buffer := make([]byte, api.ExecPiece)
	for range s.room {
		n, err := s.Stdin.Read(buffer)
		if n > 0 && s.send(api.ExecInput, buffer[:n]) != nil {
			return
		}
		if n > 0 && err != nil {
			<-s.room
		}
		if err != nil {
			_ = s.send(api.ExecEnd, nil)
			return
		}
	}
}

// output writes what the command prints until it has ended.
func (s *execution) output() (done api.Executed, err error) {
	for {
		kind, b, err := api.ReadExec(s.conn)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the connection broke off")
			}
			return done, bourn.WithHint(fmt.Errorf("%w: it is not known how the command ended: %w", bourn.ErrUnavailable, err), "bourn audit shows what is in the log of it")
		}
		switch kind {
		case api.ExecTaken:
			select {
			case s.room <- struct{}{}:
			default:
			}
		case api.ExecOutput:
			_, err = s.Stdout.Write(b)
		case api.ExecErrors:
			_, err = s.Stderr.Write(b)
		case api.ExecDone:
			err = api.DecodeExec(b, &done)
			return done, err
		case api.ExecStart, api.ExecInput, api.ExecEnd, api.ExecResize:
			err = errors.New("an answer that is none")
		}
		if err != nil {
			return done, bourn.WithHint(fmt.Errorf("%w: the command's output cannot be passed on: %w", bourn.ErrUnavailable, err), "see that standard output and error are open, and start it again")
		}
	}
}
