package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/posix"

	"github.com/spf13/cobra"
)

// people is what the commands about people have in common.
type people struct {
	*app
	root   string // put before every path, "" for the machine itself
	dryRun bool
	asJSON bool
	given  bool // somebody had a number before this command
	gains  bool // nobody loses anything by this command, as it was planned
}

func (a *app) peopleCommand() *cobra.Command {
	p := &people{app: a}
	cmd := group(&cobra.Command{
		Use: "people", Short: "Make people users of this host, and circles groups",
		Long: `On a host that many people share, each person is a user of the operating system and each
circle a group, and an agent that works for a person is that user: the kernel decides whose
files it touches. These commands keep who there is in ` + posix.StatePath + `, and make
the host so: users, groups, directories and mounts. They need root.

Every command that changes something says what it did; with --dry-run it says what it would
do, and does nothing. One that was interrupted goes on with bourn people sync.`,
		Example: `  bourn people add ann --email ann@example.com
  bourn people circle add sales
  bourn people circle join sales ann
  bourn people sync --dry-run`,
	}, p.initCommand(), p.addCommand(), p.listCommand(), p.showCommand(), p.circleCommand(), p.syncCommand(), p.removeCommand(), p.execCommand(), p.shareCommand(), p.noteCommand())
	cmd.PersistentFlags().StringVar(&p.root, "root", "", "work on the host whose files are below `DIR`, as for an image")
	_ = cmd.MarkPersistentFlagDirname("root")
	return cmd
}

// changing adds the flags of a command that changes something.
func (p *people) changing(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "say what would be done, and do nothing")
	return p.printing(cmd)
}

func (p *people) printing(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&p.asJSON, "json", false, "print JSON")
	return cmd
}

// at is a path of the host that is worked on.
func (p *people) at(path string) string { return filepath.Join(p.root, path) }

// ready refuses what cannot come to anything.
func (p *people) ready() error {
	if inside() {
		return refuseInside("bourn people")
	}
	if p.root == "" {
		return nil
	}
	root, err := filepath.Abs(p.root)
	if err != nil {
		return err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return bourn.WithHint(fmt.Errorf("%w: --root %q is no directory", bourn.ErrInvalid, p.root), "name the directory below which the host's files are")
	}
	p.root = canonical(root)
	if at := filepath.Dir(p.at(posix.StatePath)); canonical(at) != at {
		return bourn.WithHint(fmt.Errorf("%w: %s is reached through a link, which could lead out of --root", bourn.ErrDenied, at), "put a directory there")
	}
	if p.root == "/" {
		p.root = ""
	}
	return nil
}

// load reads who there is; a host on which nobody was added yet has nobody.
func (p *people) load() (posix.State, error) {
	if err := p.ready(); err != nil {
		return posix.State{}, err
	}
	s, err := posix.LoadState(p.at(posix.StatePath))
	if errors.Is(err, bourn.ErrNotFound) {
		return posix.NewState(posix.DefaultRange)
	}
	return s, err
}

// A reform is a change of who there is.
type reform struct {
	gives bool // somebody gets something; else it only takes away
	whole bool // it is an error where a problem leaves something out
	do    func(*posix.State) (said, error)
}

// said is what is said of an edit.
type said struct {
	head         string // printed first
	what, target string // for the log, where the edit changes something
}

// A synced is what a command did, or with --dry-run would do.
type synced struct {
	DryRun   bool            `json:"dry_run"`
	Person   *posix.Person   `json:"person,omitempty"` // of whom the command is
	Circle   *posix.Circle   `json:"circle,omitempty"`
	Changes  []posix.Change  `json:"changes"`
	Problems []posix.Problem `json:"problems"`
	Left     []posix.Left    `json:"left"`
	head     string
}

// change changes who there is, and makes the host so. The file is written before an account
// has a number of it, and is locked until all is done. What somebody gets is not begun while
// a problem blocks; what is taken away is.
func (p *people) change(e reform) (synced, error) {
	fresh, err := posix.NewState(posix.DefaultRange)
	if err == nil {
		err = p.ready()
	}
	if err != nil {
		return synced{}, err
	}
	if p.dryRun {
		s, err := p.load()
		if err != nil {
			return synced{}, err
		}
		p.given = given(s)
		of, err := e.do(&s)
		if err != nil {
			return synced{}, err
		}
		done, err := p.plan(s)
		done.DryRun, done.head = true, of.head
		return done, err
	}
	if os.Geteuid() != 0 {
		return synced{}, bourn.WithHint(fmt.Errorf("%w: only root makes users", bourn.ErrDenied), "run it as root")
	}
	file, head := p.at(posix.StatePath), ""
	err = posix.UpdateState(file, fresh, func(s *posix.State) (err error) {
		head, err = p.edit(e, s)
		return err
	})
	if err != nil {
		return synced{}, err
	}
	var done synced
	err = posix.UpdateState(file, fresh, func(s *posix.State) (err error) {
		done, err = p.perform(*s)
		return err
	})
	done.head = head
	if err != nil {
		mend := bourn.HintOf(err)
		if mend == "" {
			mend = "mend it"
		}
		err = bourn.WithHint(err, mend+"; then: bourn people sync")
	}
	return done, err
}

// edit carries an edit out, unless it gives somebody something that cannot be made so, and notes it.
func (p *people) edit(e reform, s *posix.State) (head string, err error) {
	p.given = given(*s)
	before, err := s.Encode()
	if err != nil {
		return "", err
	}
	of, err := e.do(s)
	if err != nil {
		return "", err
	}
	if e.gives {
		done, err := p.planned(*s, true) // what is in the way, no look through circles tells
		if err == nil {
			err = blocked(done, "nothing is changed")
			p.gains = !slices.ContainsFunc(done.Changes, posix.Change.Takes)
		}
		if err != nil {
			p.sayProblems(done, true)
			return "", err
		}
	}
	after, err := s.Encode()
	if err == nil && string(before) != string(after) {
		err = p.note(of, e.gives)
	}
	return of.head, err
}

// given reports whether somebody has a number, or had one.
func given(s posix.State) bool { return len(s.People)+len(s.Circles)+len(s.Tombstones) > 0 }

// read reads what the host has; shallow leaves out what lies in circles, which may be much.
func (p *people) read(s posix.State, shallow bool) (posix.Host, error) {
	paths := posix.HostPaths()
	paths.Shallow = shallow
	if p.root != "" {
		paths.Root, paths.Proc, paths.Mounts = p.root, "", "" // what runs and is mounted here is not there
	}
	return posix.ReadHost(paths, s)
}

// plan says what is missing on the host.
func (p *people) plan(s posix.State) (synced, error) { return p.planned(s, false) }

func (p *people) planned(s posix.State, shallow bool) (synced, error) {
	host, err := p.read(s, shallow)
	if err != nil {
		return synced{}, err
	}
	changes, problems := posix.Plan(s, host)
	for i, q := range problems {
		if strings.HasPrefix(q.Subject, "range ") {
			problems[i].Hint = p.rangeHint(host, q.Hint)
		}
	}
	return synced{Changes: nonNil(changes), Problems: nonNil(problems), Left: []posix.Left{}}, nil
}

// nonNil is a list that is [] in JSON where it is empty.
func nonNil[T any](list []T) []T { return append([]T{}, list...) }

// perform does what is missing on the host. What does not need a look through circles is done
// first, where somebody loses something: a leaver who left millions of files there has lost
// everything by then.
func (p *people) perform(s posix.State) (synced, error) {
	if p.gains {
		return p.performed(s, false)
	}
	first, err := p.performed(s, true)
	if err != nil {
		return first, err
	}
	rest, err := p.performed(s, false)
	rest.Changes, rest.Left = append(first.Changes, rest.Changes...), append(first.Left, rest.Left...)
	return rest, err
}

func (p *people) performed(s posix.State, shallow bool) (synced, error) {
	plan, err := p.planned(s, shallow)
	if err != nil {
		return plan, err
	}
	opts := posix.Options{Root: p.root, Sysusers: p.root == "", Registry: posix.RegistryPath, Stop: s.Range.EndProcesses}
	if p.root != "" {
		opts.Stop = func(uint32) error { return nil } // nobody runs anything there
	}
	result, err := posix.Perform(plan.Changes, opts)
	plan.Changes, plan.Left = nonNil(result.Done), nonNil(result.Left)
	return plan, err
}

// blocked returns the first problem that keeps anybody from getting anything.
func blocked(done synced, so string) error {
	i := slices.IndexFunc(done.Problems, blocks)
	if i < 0 {
		return nil
	}
	hint := done.Problems[i].Hint
	if hint == "" {
		hint = "mend it, then: bourn people sync"
	}
	return bourn.WithHint(fmt.Errorf("%w: %s until this is mended: %s", bourn.ErrConflict, so, done.Problems[i]), hint)
}

func blocks(q posix.Problem) bool { return q.Blocks }

// run carries a command out, and reports what was done, also where it ended halfway. What
// concerns the person or circle of it is set by about.
func (p *people) run(e reform, about func(*synced)) error {
	done, err := p.change(e)
	if err != nil && done.Changes == nil {
		return err // nothing was begun
	}
	if about != nil {
		about(&done)
	}
	if err == nil && (e.gives || e.whole) {
		err = blocked(done, "nobody gets anything")
	}
	if p.asJSON {
		return errors.Join(p.printSyncedJSON(done, err), answered(err))
	}
	p.printSynced(done, err)
	return err
}

// printSyncedJSON prints what was done, with the error where one ended it: one value in all.
func (p *people) printSyncedJSON(done synced, err error) error {
	if err == nil {
		return printJSON(p.Stdout, done)
	}
	var f Failure
	f.Error.Code, f.Error.Message, f.Error.Hint = codeOf(err), sentence(err), bourn.HintOf(err)
	return printJSON(p.Stdout, struct {
		synced
		Failure
	}{done, f})
}

func (p *people) printSynced(done synced, failed error) {
	if done.head != "" {
		p.printf("%s\n", bourn.Printable(done.head))
	}
	verb := "done"
	if done.DryRun {
		verb = "would be done"
	}
	if len(done.Changes) == 0 && done.head == "" && failed == nil {
		p.printf("the host is as it should be\n")
	}
	for _, c := range done.Changes {
		p.printf("  %s: %s\n", verb, bourn.Printable(c.String()))
	}
	for _, l := range done.Left {
		p.say("%s stays as it is: %s", l.Path, l.Why)
	}
	p.sayProblems(done, failed != nil)
}

// sayProblems says what is in the way, but for the first that blocks where that is the error.
func (p *people) sayProblems(done synced, first bool) {
	except := -1
	if first {
		except = slices.IndexFunc(done.Problems, blocks)
	}
	for i, q := range done.Problems {
		if i == except {
			continue
		}
		p.say("%s", q)
		if q.Hint != "" {
			fmt.Fprintln(p.Stderr, "mend: "+bourn.Printable(q.Hint))
		}
	}
}

// account reads ISSUER#SUBJECT.
func account(text string) (posix.Account, error) {
	issuer, subject, ok := strings.Cut(text, "#")
	if !ok || issuer == "" || subject == "" {
		return posix.Account{}, bourn.WithHint(usage(fmt.Errorf("--account %q is not ISSUER#SUBJECT", text)), "as in --account https://id.example.com#17")
	}
	return posix.Account{Issuer: issuer, Subject: subject}, nil
}
