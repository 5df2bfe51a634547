package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	perDir   = 100 // files in a directory
	envFiles = 5   // .env files in the tree, besides the others
)

// writeDenied makes n small files and returns their paths.
func writeDenied(dir string, n int) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var files []string
	for i := range n {
		name := filepath.Join(dir, fmt.Sprintf("%04d", i))
		if err := os.WriteFile(name, []byte("secret\n"), 0o600); err != nil {
			return nil, err
		}
		files = append(files, name)
	}
	return files, nil
}

// bigTree returns the tree of b.files files, made once.
func (b *bench) bigTree() (string, error) {
	if b.tree == "" {
		dir := filepath.Join(b.dir, "tree")
		if err := writeTree(dir, b.files); err != nil {
			return "", err
		}
		b.tree = dir
	}
	return b.tree, nil
}

// gitTree returns such a tree with everything committed.
func (b *bench) gitTree() (string, error) {
	if b.git != "" {
		return b.git, nil
	}
	dir := filepath.Join(b.dir, "checkout")
	if err := writeTree(dir, b.files); err != nil {
		return "", err
	}
	for _, args := range []string{
		"init -q", "-c core.looseCompression=0 add -A",
		"-c user.name=bench -c user.email=bench@example.com -c gc.auto=0 commit -q -m tree", "status -s",
	} {
		git := exec.Command("git", strings.Fields(args)...)
		git.Dir, git.Env = dir, b.env
		if out, err := git.CombinedOutput(); err != nil {
			return "", fmt.Errorf("git %s: %w%s", args, err, firstLine(out))
		}
	}
	b.git = dir
	return dir, nil
}

// writeTree makes a tree of n text files of about a kilobyte, the same every time,
// an hour old so that git trusts their times. One in a thousand holds a needle, and
// envFiles directories a .env.
func writeTree(root string, n int) error {
	random := rand.New(rand.NewPCG(1, 2))
	old := time.Now().Add(-time.Hour)
	write := func(name, text string) error {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
		return os.Chtimes(name, old, old)
	}
	for i := range n {
		dir := treeDir(root, i/perDir)
		if i%perDir == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		var text strings.Builder
		for range 20 + random.IntN(20) {
			fmt.Fprintf(&text, "line %08x of some source text\n", random.Uint32())
		}
		if i%1000 == 0 {
			text.WriteString("needle\n")
		}
		if err := write(filepath.Join(dir, fmt.Sprintf("file%05d.txt", i)), text.String()); err != nil {
			return err
		}
	}
	for i := range envFiles {
		if err := os.MkdirAll(filepath.Dir(envFile(root, i)), 0o755); err != nil {
			return err
		}
		if err := write(envFile(root, i), "KEY=secret\n"); err != nil {
			return err
		}
	}
	return nil
}

func treeDir(root string, i int) string {
	return filepath.Join(root, fmt.Sprintf("d%02d", i/10), fmt.Sprintf("e%d", i%10))
}

func envFile(root string, i int) string { return filepath.Join(treeDir(root, i*7), ".env") }
