package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lookPath finds the command as execvp(3) does, in the built environment's PATH.
func lookPath(name, cwd string, env []string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("cannot execute %q: %w", name, syscall.ENOENT)
	}
	if strings.Contains(name, "/") {
		return name, nil
	}
	found := error(syscall.ENOENT)
	for _, dir := range filepath.SplitList(lookEnv(env, "PATH")) {
		if dir == "" {
			dir = "."
		}
		at := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) {
			at = filepath.Join(cwd, dir, name)
		}
		info, err := os.Stat(at)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return at, nil
		}
		found = syscall.EACCES
	}
	return "", fmt.Errorf("cannot execute %q: %w", name, found)
}

func lookEnv(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
