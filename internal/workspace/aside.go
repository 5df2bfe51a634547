package workspace

import (
	"fmt"
	"path/filepath"
	"strings"

	"bourn"
)

// asidePrefix begins the name of every file that is made beside another.
const asidePrefix = ".bourn-write-"

// isAside reports whether a path is that of such a file. What it holds for a moment may be what
// was in a file that the rules keep from being read: none is read, whatever it holds.
func isAside(at string) bool { return strings.HasPrefix(filepath.Base(at), asidePrefix) }

func besideAnother(at string) error {
	return &Problem{Code: bourn.CodeDenied, Reason: "beside_another", Text: fmt.Sprintf("%q is made by bourn beside a file that is being written, and is not read", at), Hint: "it may be deleted when it stays"}
}
