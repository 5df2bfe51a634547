package skill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"bourn"
	"bourn/internal/policy"
)

// A Part is what of an agent's context a path is.
type Part string

const (
	Instructions Part = "instructions"
	OfSkill      Part = "skill"
	Root         Part = "root" // a project, or anything else that is no part of the two
)

// instructionsName is the file of instructions in an agent's context.
const instructionsName = "instructions.md"

// InstructionsPath is where the instructions for an agent stand.
func InstructionsPath(home string, agent bourn.AgentName) string {
	return path.Join(contextDir(home, agent), instructionsName)
}

func contextDir(home string, agent bourn.AgentName) string {
	return policy.ContextDir(home, string(agent))
}

// Find returns the directory of the skill that an agent means by a name: its own, be it
// broken, before Bourn's. Where there is neither it is the place for its own.
func Find(home string, agent bourn.AgentName, name string) (dir string, builtIn bool) {
	own := path.Join(contextDir(home, agent), "skills", name)
	if _, err := os.Lstat(own); errors.Is(err, fs.ErrNotExist) && IsBuiltIn(name) {
		return path.Join(policy.SkillsDir(home), name), true
	}
	return own, false
}

// Classify says what of an agent's context a path is, and of a skill whether it is Bourn's.
func Classify(home string, agent bourn.AgentName, at string) (part Part, builtIn bool) {
	switch path.Dir(at) {
	case contextDir(home, agent):
		if path.Base(at) == instructionsName {
			return Instructions, false
		}
	case path.Join(contextDir(home, agent), "skills"):
		return OfSkill, false
	case policy.SkillsDir(home):
		return OfSkill, true
	}
	return Root, false
}

// open opens the directory that the context of an agent, or Bourn's own skills, stand in.
func open(home, below string) (*os.Root, error) {
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var parents []string
	for dir := below; dir != "."; dir = path.Dir(dir) {
		parents = append(parents, dir)
	}
	for _, dir := range slices.Backward(parents) {
		info, err := root.Lstat(dir)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, notPlain(path.Base(dir), info)
		}
	}
	return root.OpenRoot(below)
}

// Load reads the skill in a directory that [Find] has returned.
func Load(home string, agent bourn.AgentName, dir string) (Skill, error) {
	below := path.Join("agents", string(agent), "context")
	if _, builtIn := Classify(home, agent, dir); builtIn {
		below = "skills"
	}
	root, err := open(home, below)
	if err != nil {
		return Skill{}, err
	}
	defer root.Close()
	rel, inside := strings.CutPrefix(dir, path.Join(home, below)+"/")
	if !inside {
		return Skill{}, fmt.Errorf("%w: %s is no skill of the agent's", bourn.ErrDenied, bourn.Printable(dir))
	}
	return load(root, rel)
}

// LoadInstructions reads the instructions for an agent. More says that they are longer than
// [MaxInstructions], and cut there.
func LoadInstructions(home string, agent bourn.AgentName) (text string, more bool, err error) {
	root, err := open(home, path.Join("agents", string(agent), "context"))
	if err != nil {
		return "", false, err
	}
	defer root.Close()
	data, more, err := read(root, instructionsName, MaxInstructions)
	if more { // not within a character
		for len(data) > 0 && !utf8.RuneStart(data[len(data)-1]) {
			data = data[:len(data)-1]
		}
		data = data[:max(0, len(data)-1)]
	}
	return string(data), more, err
}

// Tell returns what an agent is told of what it is offered, for a model to read: its
// instructions and the list of its skills. Shown are the paths that its run shows; what
// cannot be read now is left out. Without any it is "".
func Tell(home string, agent bourn.AgentName, shown []string) string {
	var told, listed strings.Builder
	for _, at := range shown {
		switch part, _ := Classify(home, agent, at); part {
		case Instructions:
			text, more, err := LoadInstructions(home, agent)
			if text = strings.TrimSpace(text); err != nil || text == "" {
				continue
			}
			fmt.Fprintf(&told, "The person who runs you wrote these instructions for you:\n\n%s\n", lines(text))
			if more {
				fmt.Fprintf(&told, "… (the rest is in %s)\n", bourn.Printable(at))
			}
		case OfSkill:
			s, err := Load(home, agent, at)
			if err != nil {
				continue
			}
			fmt.Fprintf(&listed, "- %s: %s (%s)\n", s.Name, summary(s.Description), bourn.Printable(path.Join(at, FileName)))
		case Root: // it is read, and not told of
		}
	}
	out := told.String()
	if listed.Len() > 0 {
		if out != "" {
			out += "\n"
		}
		out += "Skills that you are offered. Read the file of one when what it says fits your task:\n" + listed.String()
	}
	return out
}

// lines is text with everything escaped that Printable escapes, but ends of lines and tabs.
func lines(text string) string {
	var out []string
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		fields := strings.Split(line, "\t")
		for i := range fields {
			fields[i] = bourn.Printable(fields[i])
		}
		out = append(out, strings.Join(fields, "\t"))
	}
	return strings.Join(out, "\n")
}

// summary is a description of a bounded length.
func summary(text string) string {
	if len(text) > maxDescription {
		text = strings.ToValidUTF8(text[:maxDescription], "") + "…"
	}
	return bourn.Printable(text)
}

// maxRecord is the longest record of a run that is read, in bytes.
const maxRecord = 32 << 20

// Shown returns the paths that a run shows of what its agent is offered, as its record has
// them: what a deny closed, or was not selected when it began, is not among them.
func Shown(home string, agent bourn.AgentName, run string) ([]string, error) {
	if agent == "" {
		return nil, nil
	}
	root, err := open(home, path.Join("agents", string(agent), "runs"))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	text, more, err := read(root, run+".json", maxRecord)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, fmt.Errorf("%w: the record of the run is longer than %d bytes", bourn.ErrInvalid, maxRecord)
	}
	var record struct{ Items []policy.Item }
	if err := json.Unmarshal(text, &record); err != nil {
		return nil, err
	}
	var out []string
	for _, it := range record.Items {
		if it.From == policy.FromContext && it.Kind == policy.KindRead && it.Fate == policy.Enforced {
			out = append(out, it.Target)
		}
	}
	return out, nil
}
