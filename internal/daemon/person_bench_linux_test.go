package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"bourn/internal/posix"
	"bourn/internal/workspace"
)

// crowd is how many people act at once.
const crowd = 100

// BenchmarkPerson is what a person's actor costs: a read of 4 KiB, a write and an execution by one that
// is there, beside the same done directly; the start of one, which is what one-shot helpers cost
// each time; and 100 people who read at once.
func BenchmarkPerson(b *testing.B) {
	onSharedHost(b, func(b *testing.B) {
		r := worldPeople()
		passwd, err := os.ReadFile("/etc/passwd")
		must(b, err)
		for i := range crowd {
			uid := uint32(worldFirst + 100 + i)
			e := posix.Entry{ID: fmt.Sprintf("p%d", i), Name: fmt.Sprintf("bc_person_cccccccc%c%c", 'a'+i/26, 'a'+i%26), UID: uid, GID: uid, Groups: []uint32{sharedGID}, Active: true}
			r.People = append(r.People, e)
			passwd = fmt.Appendf(passwd, "%s:x:%d:%d::%s:/usr/sbin/nologin\n", e.Name, uid, uid, r.Home(e))
			directory(b, r.Home(e), 0, int(uid), 0o2770, false)
			directory(b, r.Home(e)+"/src", int(uid), int(uid), 0o700, false)
		}
		put(b, "/etc/passwd", passwd, 0, 0, 0o644)
		setPeople(b, r)
		w := newPeopleWork(b)
		w.registry = r
		content := make([]byte, 4096)
		measure := func(name string, n int, f func()) {
			var took []time.Duration
			for range n {
				began := time.Now()
				f()
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[n/2].Nanoseconds())/1e3, name+"-p50-µs")
		}
		ann := r.People[0]
		a := w.start(ann, "builder")
		at := r.Home(ann) + "/src/file"
		do := func(q workspace.Request, result any) func() {
			return func() { must(b, w.do(a, q, result)) }
		}
		measure("write", 500, do(workspace.Request{Tool: "files_write", Verb: workspace.Write, Path: at, Content: content}, &workspace.WriteResult{}))
		measure("read", 5000, do(workspace.Request{Tool: "files_read", Verb: workspace.Read, Path: at}, &workspace.ReadResult{}))
		measure("exec", 300, do(workspace.Request{Tool: "shell_exec", Verb: workspace.Exec, Argv: []string{"/bin/true"}}, &workspace.ExecResult{}))
		measure("direct-read", 5000, func() { _, err := os.ReadFile(at); must(b, err) })
		measure("direct-write", 500, func() { must(b, os.WriteFile(at+".d", content, 0o600)) })
		measure("direct-exec", 300, func() { must(b, exec.Command("/bin/true").Run()) })
		must(b, a.client.Close())
		<-a.done
		measure("oneshot-read", 30, func() {
			one := w.start(ann, "builder")
			must(b, w.do(one, workspace.Request{Tool: "files_read", Verb: workspace.Read, Path: at}, &workspace.ReadResult{}))
			must(b, one.client.Close())
			<-one.done
		})
		b.ReportMetric(atOnce(b, w, r.People[2:]), "people-reads/s")
	})
}

// atOnce has everybody read 4 KiB over and over at once, and returns how many reads that is a second.
func atOnce(b *testing.B, w *peopleWork, people []posix.Entry) float64 {
	const reads = 500
	var actors []*personActor
	for _, e := range people {
		at := w.registry.Home(e) + "/src/file"
		must(b, os.WriteFile(at, make([]byte, 4096), 0o600))
		must(b, os.Chown(at, int(e.UID), int(e.UID)))
		actors = append(actors, w.start(e, "builder"))
	}
	var all sync.WaitGroup
	began := time.Now()
	for i, a := range actors {
		q := workspace.Request{Tool: "files_read", Verb: workspace.Read, Path: w.registry.Home(people[i]) + "/src/file"}
		all.Go(func() {
			for range reads {
				if err := w.do(a, q, &workspace.ReadResult{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	rate := float64(len(actors)*reads) / time.Since(began).Seconds()
	for _, a := range actors {
		must(b, a.client.Close())
		<-a.done
	}
	return rate
}
