package daemon

import (
	"context"
	"os"
	"testing"
	"time"

	"bourn"
	"bourn/internal/mcp"
	"bourn/internal/workspace"

	"golang.org/x/sys/unix"
)

// TestPersonBudget: however many agents a person has, together they hold no more than one part.
func TestPersonBudget(t *testing.T) {
	p, all := &people{}, mcp.NewBudget(maxAsked)
	ann, bob := someMember(1, "", -1, false, false).ID, someMember(2, "", -1, false, false).ID
	one, other, bobs := p.asked(ann, all), p.asked(ann, all), p.asked(bob, all)
	if one != other || one == bobs {
		t.Error("a person's agents have not one budget of their own")
	}
	if maxAsked < 4*maxPersonAsked {
		t.Error("few persons hold what all have")
	}
}

// TestActorStopped: a command that stops its own actor, once or again and again, keeps nobody
// waiting: the actor is continued.
func TestActorStopped(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		w := newPeopleWork(t)
		a := w.start(worldPeople().People[0], "")
		defer a.client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for _, command := range []string{"kill -STOP $PPID", "for i in 1 2 3 4 5; do kill -STOP $PPID; kill -TSTP $PPID; done"} {
			var r workspace.ExecResult
			q := workspace.Request{Tool: "shell_exec", Verb: workspace.Exec, Command: command}
			if err := w.doFor(ctx, a, q, &r); err != nil || r.Status != 0 {
				t.Fatalf("%s: %d %s, %v", command, r.Status, r.Stderr, err)
			}
		}
	})
}

// TestCircleTraps: what somebody of a circle leaves in it keeps nobody else of it from having
// their actor, and hangs none.
func TestCircleTraps(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		w := newPeopleWork(t)
		must(t, os.Mkdir(salesDir+"/.bourn", 0o777))
		put(t, salesDir+"/.bourn/profile.yaml", []byte("{"), bobUID, salesGID, 0)
		for _, name := range []string{".git", ".gitmodules", ".envrc", ".mcp.json", "AGENTS.md"} {
			must(t, unix.Mkfifo(salesDir+"/"+name, 0o660))
			must(t, os.Chown(salesDir+"/"+name, bobUID, salesGID))
		}
		for _, proposal := range []string{"{", "version: 1\nfilesystem: {deny: ['**']}\n"} {
			put(t, salesDir+"/.bourn/profile.yaml", []byte(proposal), bobUID, salesGID, 0o664)
			for _, agent := range []bourn.AgentName{"", "builder"} {
				a := w.startGranted(worldPeople().People[0], agent, "~/src, "+salesDir)
				if status, said := w.exec(a, "touch "+salesDir+"/mine"); status != 0 {
					t.Errorf("%q, %s: the circle is not there: %d %s", agent, proposal, status, said)
				}
				must(t, a.client.Close())
				<-a.done
			}
		}
	})
}
