package workspace

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"bourn"
)

// said is what a patch says that it does, in one line.
func said(files []patchFile) string {
	var all []string
	for _, t := range patchTargets("", files) {
		all = append(all, fmt.Sprintf("%s %s", t.Operation, t.Path))
	}
	return strings.Join(all, ", ")
}

func TestPatchTargets(t *testing.T) {
	const hunk = "@@ -1 +1 @@\n-a\n+b\n"
	for name, c := range map[string]struct{ patch, want string }{
		"git":                         {"diff --git a/x b/x\nindex 123..456 100644\n--- a/x\n+++ b/x\n" + hunk, "read x, write x"},
		"git without an index":        {"diff --git a/x b/x\n--- a/x\n+++ b/x\n" + hunk, "read x, write x"},
		"git in a directory a":        {"diff --git a/a/x b/a/x\n--- a/a/x\n+++ b/a/x\n" + hunk, "read a/x, write a/x"},
		"git in a directory b":        {"diff --git a/b/x b/b/x\n--- a/b/x\n+++ b/b/x\n" + hunk, "read b/x, write b/x"},
		"after a message":             {"From: x\n\nmessage\n---\n x | 2 +-\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n" + hunk + "-- \n2.39\n", "read x, write x"},
		"plain":                       {"--- a/x\n+++ b/x\n" + hunk, "read x, write x"},
		"plain without a prefix":      {"--- x\n+++ x\n" + hunk, "read x, write x"},
		"plain below a real a":        {"--- a/x\n+++ a/x\n" + hunk, "read a/x, write a/x"},
		"plain with dates":            {"--- a/x y\t2026-01-01 00:00:00.0 +0000\n+++ b/x y\t2026-01-01 00:00:01.0 +0000\n" + hunk, "read x y, write x y"},
		"plain of a backup":           {"--- x.orig\n+++ x\n" + hunk, "read x, write x"},
		"plain, new":                  {"--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "write x"},
		"plain, gone":                 {"--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "read x, write x, delete x"},
		"two":                         {"--- a/x\n+++ b/x\n" + hunk + "--- a/y\n+++ b/y\n" + hunk, "read x, write x, read y, write y"},
		"carriage returns in headers": {"diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n", "read x, write x"},
		"new":                         {"diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "write x"},
		"new and empty":               {"diff --git a/x b/x\nnew file mode 100644\nindex 000..e69\n", "write x"},
		"gone":                        {"diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "read x, write x, delete x"},
		"renamed":                     {"diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", "read x, write x, delete x, write y"},
		"copied":                      {"diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", "read x, write y"},
		"copied onto itself":          {"diff --git a/x b/x\ncopy from x\ncopy to x\n", "read x, write x"},
		"renamed onto itself":         {"diff --git a/x b/x\nrename from x\nrename to x\n", "read x, write x"},
		"a mode":                      {"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "read x, write x"},
		"quoted":                      {`diff --git "a/x\ty" "b/x\ty"` + "\n" + `--- "a/x\ty"` + "\n" + `+++ "b/x\ty"` + "\n" + hunk, "read x\ty, write x\ty"},
		"no UTF-8":                    {`diff --git "a/\377" "b/\377"` + "\n" + `--- "a/\377"` + "\n" + `+++ "b/\377"` + "\n" + hunk, "read \xff, write \xff"},
		"not clean":                   {"--- a/./d//../x\n+++ b/./d//../x\n" + hunk, "read x, write x"},
		"content like a header":       {"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n-diff --git a/z b/z\n+++ b/y\n+diff --git a/z b/z\n", "read x, write x"},
	} {
		files, err := parsePatch([]byte(c.patch))
		if err != nil || said(files) != c.want {
			t.Errorf("%s: %q, %v; want %q", name, said(files), err, c.want)
		}
	}
}

func TestPatchRefused(t *testing.T) {
	const hunk = "@@ -1 +1 @@\n-a\n+b\n"
	for name, patch := range map[string]string{
		"nothing":               "",
		"no patch":              "hello\nworld\n",
		"a hunk alone":          hunk,
		"upwards":               "--- a/../x\n+++ b/../x\n" + hunk,
		"upwards inside":        "--- a/d/../../x\n+++ b/d/../../x\n" + hunk,
		"absolute":              "--- /etc/passwd\n+++ /etc/passwd\n" + hunk,
		"renamed upwards":       "diff --git a/x b/y\nrename from x\nrename to ../y\n",
		"a link":                "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
		"a link by its index":   "diff --git a/x b/x\nindex 123..456 120000\n--- a/x\n+++ b/x\n" + hunk,
		"a submodule":           "diff --git a/x b/x\nnew file mode 160000\nindex 000..123\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+Subproject commit 123\n",
		"a device":              "diff --git a/x b/x\nnew file mode 20644\n",
		"a strange mode":        "diff --git a/x b/x\nnew mode 37777777777\n",
		"twice":                 "--- a/x\n+++ b/x\n" + hunk + "--- a/./x\n+++ b/./x\n" + hunk,
		"renamed and changed":   "diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/x\n" + hunk,
		"binary without data":   "diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n",
		"counts are wrong":      "--- a/x\n+++ b/x\n@@ -1,5 +1 @@\n-a\n+b\n",
		"new with old content":  "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n" + hunk,
		"gone with new content": "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n" + hunk,
		"git, no new mode":      "diff --git a/x b/x\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n",
		"too many":              strings.Repeat("diff --git a/x b/x\nnew file mode 100644\n", maxPatchFiles+1),
		"a NUL":                 `diff --git "a/\000" "b/\000"` + "\nnew file mode 100644\n",
		"a line end":            `diff --git "a/\n" "b/\n"` + "\nnew file mode 100644\n",
		"a directory":           "diff --git a/x/ b/x/\nnew file mode 100644\n",
	} {
		if files, err := parsePatch([]byte(patch)); err == nil || bourn.CodeOf(err) != bourn.CodeInvalid {
			t.Errorf("%s: %q, %v", name, said(files), err)
		}
	}
}

func TestHunks(t *testing.T) {
	lines := func(n ...int) string {
		var b strings.Builder
		for _, i := range n {
			fmt.Fprintf(&b, "%d\n", i)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ source, hunks, want string }{
		"where it says":          {lines(1, 2, 3), "@@ -1,3 +1,3 @@\n 1\n-2\n+x\n 3\n", "1\nx\n3\n"},
		"further down":           {lines(9, 9, 1, 2, 3), "@@ -1,3 +1,3 @@\n 1\n-2\n+x\n 3\n", "9\n9\n1\nx\n3\n"},
		"further up":             {lines(1, 2, 3), "@@ -100,3 +100,3 @@\n 1\n-2\n+x\n 3\n", "1\nx\n3\n"},
		"the nearest":            {lines(1, 0, 0, 0, 1, 0, 1), "@@ -6 +6 @@\n-1\n+x\n", "1\n0\n0\n0\nx\n0\n1\n"},
		"added at the end":       {lines(1, 2), "@@ -2,0 +3 @@\n+x\n", "1\n2\nx\n"},
		"added at the beginning": {lines(1, 2), "@@ -0,0 +1 @@\n+x\n", "x\n1\n2\n"},
		"added in the middle":    {lines(1, 2), "@@ -1,0 +2 @@\n+x\n", "1\nx\n2\n"},
		"shifted together":       {lines(7, 1, 5, 5, 1), "@@ -1 +1 @@\n-1\n+x\n@@ -4 +4 @@\n-1\n+y\n", "7\nx\n5\n5\ny\n"},
		"not in order":           {lines(1, 2, 3, 4), "@@ -4 +4 @@\n-4\n+y\n@@ -1 +1 @@\n-1\n+x\n", "x\n2\n3\ny\n"},
		"no end of line":         {"1\n2", "@@ -1,2 +1,2 @@\n 1\n-2\n\\ No newline at end of file\n+x\n", "1\nx\n"},
		"no end of line after":   {"1\n2\n", "@@ -1,2 +1,2 @@\n 1\n-2\n+x\n\\ No newline at end of file\n", "1\nx"},
		"carriage returns":       {"1\r\n2\r\n", "@@ -1,2 +1,2 @@\n 1\r\n-2\r\n+x\r\n", "1\r\nx\r\n"},
		"not there":              {lines(1, 2), "@@ -1 +1 @@\n-9\n+x\n", "conflict"},
		"twice the same place":   {lines(1, 2), "@@ -1 +1 @@\n-1\n+x\n@@ -1 +1 @@\n-1\n+y\n", "conflict"},
		"an end that is none":    {"1\n2", "@@ -1,2 +1,3 @@\n 1\n 2\n+x\n", "conflict"},
		"added behind no end":    {"1\n2", "@@ -2,0 +3 @@\n+x\n", "conflict"},
		"no end in the middle":   {"1\n2\n", "@@ -1 +1 @@\n-1\n+x\n\\ No newline at end of file\n", "conflict"},
		"a position out of all":  {lines(1), "@@ -9223372036854775807 +1 @@\n-1\n+x\n", "x\n"},
	} {
		files, err := parsePatch([]byte("--- a/x\n+++ b/x\n" + c.hunks))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		left := maxCompared
		got, err := applied([]byte(c.source), files[0].diff, &left)
		if err != nil {
			got = []byte("conflict")
		}
		if string(got) != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// FuzzParsePatch: what is read does not panic, has a target for every path that it changes,
// and none that leaves the directory. Applying it to anything does not panic either.
func FuzzParsePatch(f *testing.F) {
	f.Add([]byte("diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"), []byte("a\n"))
	f.Add([]byte("--- a/x\t\n+++ b/x\n@@ -1,2 +1 @@\n-a\n\\ No newline at end of file\n"), []byte("a"))
	f.Add([]byte("diff --git \"a/\\377\" \"b/\\377\"\nnew file mode 100644\nindex 0..1\nGIT binary patch\nliteral 3\nKcmZ?d\n\nliteral 0\nHcmV?d00001\n\n"), []byte{})
	f.Add([]byte("diff --git a/../x b/../x\ndeleted file mode 100644\nnew file mode 100755\ncopy from /x\n"), []byte{})
	f.Fuzz(func(t *testing.T, patch, source []byte) {
		files, err := parsePatch(patch)
		if err != nil {
			return
		}
		r := Request{Verb: Patch, Path: "dir", Content: patch}
		a, err := r.Action()
		if err != nil {
			t.Fatal(err)
		}
		named := map[bourn.Operation][]string{}
		for _, target := range a.Targets {
			if clean := path.Clean(target.Path); clean != target.Path || !strings.HasPrefix(clean, "dir/") {
				t.Fatalf("%q leaves the directory", target.Path)
			}
			named[target.Operation] = append(named[target.Operation], target.Path)
		}
		for _, p := range files {
			if p.to != "" && !slices.Contains(named[bourn.Write], "dir/"+p.to) || p.goes() != "" && !slices.Contains(named[bourn.Delete], "dir/"+p.goes()) {
				t.Fatalf("%q, %q: not in %v", p.from, p.to, a.Targets)
			}
			left := maxCompared
			_, _ = applied(source, p.diff, &left)
		}
	})
}
