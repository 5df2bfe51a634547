package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bourn/internal/audit"
)

// What bourn knows from one run to the next stands in files of $BOURN_HOME. Each is replaced
// as a whole, under a lock of its own where several processes change it.

// lockFile takes the lock under which a file is replaced, and removes what killed commands
// were writing for it.
func lockFile(at string) (unlock func(), err error) {
	if unlock, err = audit.Lock(at + ".lock"); err != nil {
		return nil, fmt.Errorf("cannot take a lock: %w", err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(at), "."+filepath.Base(at)+".*"))
	for _, draft := range left {
		_ = os.Remove(draft)
	}
	return unlock, nil
}

// readJSON decodes a file into v, and checks that the version which that leads to is the one
// that is known. Without the file the error is fs.ErrNotExist.
func readJSON(at string, v any, version *int, known int) error {
	data, err := os.ReadFile(at)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err == nil && *version != known {
		err = fmt.Errorf("version %d is not known", *version)
	}
	return err
}

// writeJSON replaces a file that its owner alone reads.
func writeJSON(at string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(at, append(data, '\n'), 0o600)
}

// readPaths reads a file that holds a path a line, each as a Go string; no file is an empty
// list.
func readPaths(at string) ([]string, error) {
	data, err := os.ReadFile(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		path, lineErr := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		err = errors.Join(err, lineErr)
		out = append(out, path)
	}
	return out, err
}

// writePaths replaces a file that readPaths reads.
func writePaths(at string, paths []string) error {
	var text bytes.Buffer
	for _, path := range paths {
		fmt.Fprintln(&text, strconv.Quote(path))
	}
	return writeFile(at, text.Bytes(), 0o600)
}
