// Package skill knows what an agent can be offered besides its tools: instructions that a
// person wrote for it, and skills, each a directory with a SKILL.md.
//
//	$BOURN_HOME/agents/NAME/context/instructions.md
//	$BOURN_HOME/agents/NAME/context/skills/SKILL/SKILL.md   the agent's own
//	$BOURN_HOME/skills/SKILL/SKILL.md                       Bourn's own, see [Lay]
//
// A SKILL.md begins with a front matter in YAML, between two lines of ---:
//
//	---
//	name: review                    # optional; if given, that of the directory
//	description: Review a change.   # required
//	---
//	Text for the agent.
//
// # What it upholds
//
// Nothing is read through a symlink, of what is no regular file, or beyond a bound.
//
// # What it does not
//
// It judges no text. What an agent is offered grants nothing, and a text that promises
// something does not make it so. What a run may read is policy's.
package skill

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"bourn"

	"go.yaml.in/yaml/v3"
)

// FileName is what a skill's text is called in its directory.
const FileName = "SKILL.md"

// Bounds, in bytes.
const (
	maxText         = 256 << 10 // of a SKILL.md
	maxDescription  = 1024      // of what is told of one; the rest is left out
	MaxInstructions = 16 << 10  // of what is told of instructions; the rest is left out
)

// A Skill is what its SKILL.md says.
type Skill struct {
	Name        string
	Description string // one line
	Text        string // the whole file
}

// Parse reads the SKILL.md of the skill of that name. The error is ErrInvalid.
func Parse(name string, text []byte) (Skill, error) {
	bad := func(format string, args ...any) (Skill, error) {
		return Skill{}, fmt.Errorf("%w: its %s %s", bourn.ErrInvalid, FileName, fmt.Sprintf(format, args...))
	}
	rest, found := strings.CutPrefix(strings.ReplaceAll(string(text), "\r\n", "\n"), "---\n")
	head, _, closed := strings.Cut("\n"+rest, "\n---\n")
	if !found || !closed {
		return bad("does not begin with a front matter between two lines of ---")
	}
	var front struct{ Name, Description string }
	if err := yaml.Unmarshal([]byte(head), &front); err != nil {
		return bad("has a front matter that cannot be read: %s", bourn.Printable(strings.ReplaceAll(err.Error(), "\n", " ")))
	}
	s := Skill{Name: name, Description: strings.Join(strings.Fields(front.Description), " "), Text: string(text)}
	switch {
	case s.Description == "":
		return bad("has no description in its front matter")
	case front.Name != "" && front.Name != name:
		return bad("is of another skill, %q", bourn.Printable(front.Name))
	}
	return s, nil
}

// read returns a file below root, through no symlink. One that is longer than most is cut
// there, and more says so.
func read(root *os.Root, name string, most int64) (text []byte, more bool, err error) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := root.Lstat(dir)
		if err != nil {
			return nil, false, err
		}
		if !info.IsDir() {
			return nil, false, notPlain(dir, info)
		}
	}
	info, err := root.Lstat(name)
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() { // a fifo would be waited for
		return nil, false, notPlain(name, info)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if !os.SameFile(info, opened) {
		return nil, false, errors.New("it was replaced while it was read")
	}
	text, err = io.ReadAll(io.LimitReader(f, most+1))
	if int64(len(text)) > most {
		return text[:most], true, err
	}
	return text, false, err
}

func notPlain(name string, info fs.FileInfo) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symlink, and none is followed here", bourn.Printable(name))
	}
	return fmt.Errorf("%s is neither a file nor a directory", bourn.Printable(name))
}

// load reads the skill in the directory dir below root, which is named as the skill is.
func load(root *os.Root, dir string) (Skill, error) {
	text, more, err := read(root, path.Join(dir, FileName), maxText)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Skill{}, fmt.Errorf("%w: it has no %s", bourn.ErrNotFound, FileName)
	case err != nil:
		return Skill{}, err
	case more:
		return Skill{}, fmt.Errorf("%w: its %s is longer than %d bytes", bourn.ErrInvalid, FileName, maxText)
	}
	return Parse(path.Base(dir), text)
}
