package tool

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bourn"
)

// maxVariables is how many variables a call may set.
const maxVariables = 100

// variables writes an input's variables as NAME=value, in order of name.
func variables(env map[string]string) ([]string, error) {
	if len(env) > maxVariables {
		return nil, fmt.Errorf("%w: more than %d variables", bourn.ErrInvalid, maxVariables)
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		// Not quoted: what was mistaken for a name may be a value, and errors are logged.
		if !variableName(name) || strings.ContainsRune(env[name], 0) {
			return nil, fmt.Errorf("%w: a name in env is none of a variable, which has letters, digits and _, or its value holds a NUL", bourn.ErrInvalid)
		}
		all = append(all, name+"="+env[name])
	}
	return all, nil
}

func variableName(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
