package skill

import (
	"bytes"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"

	"bourn"
)

//go:embed builtin
var files embed.FS

// BuiltIn returns the skills that ship with Bourn, by name.
var BuiltIn = sync.OnceValue(func() []Skill {
	entries, err := files.ReadDir("builtin")
	if err != nil {
		panic(err) // they are embedded
	}
	var all []Skill
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("builtin", e.Name(), FileName))
		if err != nil {
			panic(err)
		}
		s, err := Parse(e.Name(), text)
		if err != nil {
			panic(err)
		}
		all = append(all, s)
	}
	return all
})

// IsBuiltIn reports whether a skill of that name ships with Bourn. It reads no skill.
func IsBuiltIn(name string) bool {
	_, err := fs.Stat(files, path.Join("builtin", name, FileName))
	return err == nil
}

// Lay sees to it that a skill of Bourn's own stands in $BOURN_HOME, word for word as it
// shipped; another text is replaced in one step. Any user may read it there.
//
// An agent's own programs and governed tools are to read a skill as they read any file. A bind
// needs an object of the host's to show, so that a file laid down here is shown as everything
// else is, and plan, report and explain name a path that exists. The other way, to write it
// into the run's memory, would need a mechanism of its own in the launcher for each. What
// stands here is no one's input: each start compares it with what the program holds.
func Lay(home, name string) error {
	text, err := files.ReadFile(path.Join("builtin", name, FileName))
	if err != nil {
		return fmt.Errorf("%w: no skill %q ships with Bourn", bourn.ErrNotFound, name)
	}
	root, err := os.OpenRoot(home)
	if err == nil {
		defer root.Close()
		err = lay(root, path.Join("skills", name), text)
	}
	if err != nil {
		return bourn.WithHint(fmt.Errorf("%w: cannot lay down the skill %s: %w", bourn.ErrUnavailable, name, err),
			"look at what stands in "+bourn.Printable(path.Join(home, "skills"))+"; Bourn makes all of it anew where it is removed")
	}
	return nil
}

func lay(root *os.Root, dir string, text []byte) error {
	for _, at := range []string{path.Dir(dir), dir} {
		if err := directory(root, at); err != nil {
			return err
		}
	}
	at := path.Join(dir, FileName)
	if info, err := root.Lstat(at); err == nil && info.Mode() == 0o644 {
		if now, more, err := read(root, at, maxText); err == nil && !more && bytes.Equal(now, text) {
			return nil
		}
	}
	// Beside the skill's directory: what a killed start leaves is shown to nobody.
	draft := dir + ".new-" + rand.Text()
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(0o644) // whatever the umask
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = root.Rename(draft, at)
	}
	if err != nil {
		return errors.Join(err, root.Remove(draft))
	}
	return nil
}

// directory makes a directory that any user may enter, where there is none.
func directory(root *os.Root, at string) error {
	err := root.Mkdir(at, 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := root.Lstat(at)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return notPlain(at, info)
	}
	if info.Mode().Perm() == 0o755 {
		return nil
	}
	return root.Chmod(at, 0o755)
}
