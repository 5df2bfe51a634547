package difftest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"bourn/internal/run"
)

// The probe's conversation; see testdata/probe.
type (
	entry struct {
		Path, Kind, Target, Content string
		Mode                        uint32
	}
	op struct {
		Op   string   `json:"o"`
		Path string   `json:"p"`
		Via  string   `json:"v,omitempty"`
		Arg  string   `json:"a,omitempty"`
		Args []string `json:"as,omitempty"`

		destroys bool // tried inside only
	}
	request struct {
		Build   []entry  `json:"build,omitempty"`
		Wipe    []string `json:"wipe,omitempty"`
		Snap    []string `json:"snap,omitempty"`
		Ops     []op     `json:"ops,omitempty"`
		Explain []string `json:"explain,omitempty"`
		Within  []string `json:"within,omitempty"` // inside: where something may be changed
	}
	result struct {
		Errno   syscall.Errno `json:"e,omitempty"`
		Content string        `json:"c,omitempty"`
		Names   []string      `json:"n,omitempty"`
		Ino     uint64        `json:"i,omitempty"`
		Dev     uint64        `json:"d,omitempty"`
		Note    string        `json:"x,omitempty"`
	}
	response struct {
		Err     string            `json:"err,omitempty"`
		Results []result          `json:"r,omitempty"`
		Explain [][3]bool         `json:"explain,omitempty"`
		Snap    map[string]string `json:"snap,omitempty"`
	}
)

// An engine carries out trials of one user, one after another.
type engine struct {
	bourn string // the production binary
	bin   string // the directory of the probe
	uid   int
	dirs  map[string]string // a place to the engine's own directory in it
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder

	// For the test that must see red: alters the command line, and what is on disk before
	// the next run.
	tamper func([]string) []string
	forget func(base string)
}

func newEngine(bourn, bin string, uid int, places []string) (*engine, error) {
	e := &engine{bourn: bourn, bin: bin, uid: uid, dirs: map[string]string{}}
	for _, p := range places {
		dir, err := os.MkdirTemp(p, "bourn-diff-")
		if err != nil {
			return nil, err
		}
		e.dirs[p] = dir
		if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, uid, uid)); err != nil {
			return nil, err
		}
	}
	e.cmd = exec.Command(filepath.Join(bin, "difftest-probe"), slices.Collect(maps.Values(e.dirs))...)
	e.cmd.SysProcAttr = e.credential()
	e.cmd.Stderr = os.Stderr
	e.cmd.Dir = "/"
	var err error
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	e.out = json.NewDecoder(bufio.NewReaderSize(out, 1<<16))
	return e, e.cmd.Start()
}

func (e *engine) credential() *syscall.SysProcAttr {
	if os.Getuid() == e.uid {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(e.uid), Gid: uint32(e.uid)}}
}

func (e *engine) close() {
	for _, dir := range e.dirs {
		_, _ = e.ask(request{Wipe: []string{dir + "/t"}})
	}
	e.in.Close()
	_ = e.cmd.Wait()
	for _, dir := range e.dirs {
		os.RemoveAll(dir)
	}
}

// ask has the outer probe do something.
func (e *engine) ask(req request) (response, error) {
	if err := json.NewEncoder(e.in).Encode(req); err != nil {
		return response{}, err
	}
	var resp response
	if err := e.out.Decode(&resp); err != nil {
		return response{}, err
	}
	if resp.Err != "" {
		return resp, errors.New(resp.Err)
	}
	return resp, nil
}

// base is where a trial's tree stands.
func (e *engine) base(t *trial) string { return e.dirs[t.Place] + "/t" }

func (e *engine) build(t *trial) error {
	base := e.base(t)
	entries := []entry{{Path: base, Kind: "dir", Mode: 0o755}}
	for _, n := range t.Nodes {
		out := entry{Path: base + "/" + n.Path, Kind: n.Kind, Target: strings.ReplaceAll(n.Target, "@", base), Content: n.content(), Mode: n.Mode}
		if n.Kind == "hard" {
			out.Target = base + "/" + n.Target
		}
		entries = append(entries, out)
	}
	_, err := e.ask(request{Wipe: []string{base}, Build: entries})
	return err
}

// args is the command line of a trial that is started in its working directory, or
// elsewhere.
func (t *trial) args(base, report string, elsewhere bool) []string {
	args := []string{"run", "-q", "--report", report}
	if t.Agent {
		return append(args, "--agent", "x", "--", "difftest-probe")
	}
	if elsewhere && len(t.Write) == 0 {
		for _, w := range t.writes() {
			args = append(args, "--write="+base+"/"+w)
		}
	}
	for _, l := range []struct {
		flag  string
		paths []string
	}{{"--read=", t.Read}, {"--write=", t.Write}, {"--spawn-dir=", t.Spawn}} {
		for _, p := range l.paths {
			args = append(args, l.flag+base+"/"+p)
		}
	}
	for _, d := range t.Deny {
		if d.Glob && elsewhere {
			args = append(args, "--deny="+base+"/"+escape(t.Cwd)+"/"+d.Text)
		} else if d.Glob {
			args = append(args, "--deny="+d.Text)
		} else {
			args = append(args, "--deny="+base+"/"+escape(d.Text))
		}
	}
	return append(args, "--", "difftest-probe")
}

// profile is the same as YAML.
func (t *trial) profile(base string) string {
	var b strings.Builder
	b.WriteString("version: 1\nagent: x\nfilesystem:\n")
	list := func(indent, name string, values []string) {
		if len(values) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s%s:\n", indent, name)
		for _, v := range values {
			text, _ := json.Marshal(v)
			fmt.Fprintf(&b, "%s  - %s\n", indent, text)
		}
	}
	based := func(rel []string) (out []string) {
		for _, p := range rel {
			out = append(out, base+"/"+p)
		}
		return out
	}
	list("  ", "read", based(t.Read))
	list("  ", "write", based(t.Write))
	var denies []string
	for _, d := range t.Deny {
		text := base + "/" + escape(d.Text)
		if d.Glob {
			text = base + "/" + escape(t.Cwd) + "/" + d.Text
		}
		if !slices.Contains(denies, text) {
			denies = append(denies, text)
		}
	}
	list("  ", "deny", denies)
	fmt.Fprintf(&b, "processes:\n  mode: %s\n", t.Exec)
	list("  ", "spawn_dirs", based(t.Spawn))
	return b.String()
}

func (e *engine) env(t *trial) []string {
	base := e.base(t)
	return []string{"HOME=" + base + "/home", "BOURN_HOME=" + base + "/" + t.Bourn, "PATH=" + e.bin + ":/usr/bin:/bin", "LANG=C.UTF-8"}
}

// prepare writes the agent's profile, when there is one.
func (e *engine) prepare(t *trial) error {
	if !t.Agent {
		return nil
	}
	agent := e.base(t) + "/" + t.Bourn + "/agents/x"
	_, err := e.ask(request{Build: []entry{
		{Path: path.Dir(agent), Kind: "dir", Mode: 0o700}, {Path: agent, Kind: "dir", Mode: 0o700},
		{Path: agent + "/home", Kind: "dir", Mode: 0o700},
		{Path: agent + "/profile.yaml", Kind: "file", Content: t.profile(e.base(t)), Mode: 0o600},
	}})
	return err
}

// An ending is what a sealed run gave.
type ending struct {
	response
	report  run.Report
	refused string // standard error, when nothing was executed
	hung    bool
}

// hangs is how long a run may take that needs tens of milliseconds.
const hangs = 15 * time.Second

// sealed runs the probe in a trial's seal.
func (e *engine) sealed(t *trial, o *oracle, req request) (ending, error) {
	base := e.base(t)
	report := e.dirs[t.Place] + "/report.json"
	_ = os.Remove(report)
	elsewhere := !o.canRead(base + "/" + t.Cwd)
	args := t.args(base, report, elsewhere)
	if e.tamper != nil {
		args = e.tamper(args)
	}
	req.Within = []string{base}
	input, err := json.Marshal(req)
	if err != nil {
		return ending{}, err
	}
	cmd := exec.Command(e.bourn, args...)
	cmd.Dir = base + "/" + t.Cwd
	if elsewhere {
		cmd.Dir = "/"
	}
	cmd.Env = append(e.env(t), "PWD="+cmd.Dir)
	cmd.SysProcAttr = e.credential()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(hangs, func() { _ = cmd.Process.Kill() })
	err = cmd.Run()
	if !timer.Stop() {
		return ending{hung: true}, nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && stdout.Len() == 0 {
		return ending{refused: stderr.String()}, nil
	}
	if err != nil {
		return ending{}, fmt.Errorf("%w: %s", err, stderr.String())
	}
	var end ending
	if err := json.Unmarshal(stdout.Bytes(), &end.response); err != nil {
		return ending{}, fmt.Errorf("%w: %s", err, stderr.String())
	}
	if end.Err != "" {
		return ending{}, errors.New("inside: " + end.Err)
	}
	data, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(data, &end.report)
	}
	return end, err
}
