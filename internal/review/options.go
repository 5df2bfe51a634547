package review

import (
	"maps"
	"slices"
	"strings"
)

// options are the options of a command, in whatever order and spelling they were given.
type options struct {
	letters [2]uint64 // short ones, by their ASCII code
	long    []string  // long ones: the name, and the whole with its value
	unknown bool      // there is one that is known only when the command runs
}

func (o *options) letter(c byte) { o.letters[c/64%2] |= 1 << (c % 64) }

// holds reports whether o has every option that need has.
func (o *options) holds(need *options) bool {
	if need.letters[0]&^o.letters[0] != 0 || need.letters[1]&^o.letters[1] != 0 {
		return false
	}
	for _, long := range need.long {
		if !slices.Contains(o.long, long) {
			return false
		}
	}
	return true
}

// operands splits a command into its operands, the program first, and its options. What
// is not known counts as an operand; behind "--" everything does.
func operands(ws []word) (ops []word, opts options) {
	plain := true
	for _, w := range ws[1:] {
		if isOption(w) {
			plain = false
			break
		}
	}
	if plain {
		return ws, options{}
	}
	ops = make([]word, 0, len(ws))
	ops = append(ops, ws[0])
	ended := false
	for _, w := range ws[1:] {
		switch {
		case ended || !isOption(w):
			ops = append(ops, w)
		case w.text == "--":
			ended = true
		}
	}
	names := namesOf(ops)
	for _, w := range ws[1:] {
		if !isOption(w) {
			continue
		}
		if w.text == "--" {
			break
		}
		if !w.known && (w.pre == "-" || w.pre == "--") {
			opts.unknown = true
			continue
		}
		opts.add(ops[0].text, w.text, names)
	}
	return ops, opts
}

func isOption(w word) bool { return len(w.text) > 1 && w.text[0] == '-' && (w.known || w.pre != "") }

// namesOf returns the table of long options for a command.
func namesOf(ops []word) string {
	if len(ops) > 1 && (!ops[1].known || ops[1].glob) {
		return namesOfAny(ops)
	}
	if len(ops) > 1 {
		if names, ok := longOptions[ops[0].text+" "+ops[1].text]; ok {
			return names
		}
	}
	return longOptions[ops[0].text]
}

// namesOfAny returns the tables of every verb that a command may have, which is known only
// when it runs.
func namesOfAny(ops []word) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(longOptions)) {
		if verb, ok := strings.CutPrefix(key, ops[0].text+" "); ok && ops[1].couldBe(verb) {
			all = append(all, longOptions[key])
		}
	}
	return strings.Join(append(all, longOptions[ops[0].text]), " ")
}

// longOptions says which short option a long one is: NAME=LETTERS. The name may be cut
// short, as getopt_long(3) allows. A name of one letter is another spelling of an option.
var longOptions = map[string]string{
	"rm":             "recursive=r force=f interactive=i R=r",
	"cp":             "recursive=r force=f R=r archive=a",
	"mv":             "force=f",
	"ls":             "recursive=R all=a",
	"grep":           "recursive=r",
	"chmod":          "recursive=R",
	"chown":          "recursive=R",
	"chgrp":          "recursive=R",
	"tee":            "append=a",
	"sed":            "in-place=i",
	"shred":          "remove=u force=f",
	"curl":           "insecure=k output=o upload-file=T data=d",
	"git push":       "force=f delete=d",
	"git clean":      "force=f",
	"git branch":     "delete=d force=f D=df",
	"git checkout":   "force=f",
	"git commit":     "all=a message=m no-verify=n",
	"git tag":        "delete=d force=f",
	"kubectl delete": "all-namespaces=A filename=f",
	"kubectl apply":  "filename=f",
	"docker rm":      "force=f volumes=v",
	"docker rmi":     "force=f",
	"docker system":  "all=a force=f",
	"npm install":    "global=g",
	"pip install":    "upgrade=U",
	"useradd":        "groups=G",
	"usermod":        "append=a groups=G",
}

// singleDash are programs whose long options have one dash, or one or two alike.
var singleDash = map[string]bool{
	"find": true, "go": true, "terraform": true, "tofu": true, "java": true, "javac": true, "openssl": true,
	"ffmpeg": true, "convert": true, "packer": true, "vault": true, "nomad": true, "consul": true, "xcodebuild": true,
}

// add adds an option as it is written.
func (o *options) add(program, text, names string) {
	name, long := strings.CutPrefix(text, "--")
	if !long && singleDash[program] {
		name, long = text[1:], true
	}
	if long {
		bare, _, valued := strings.Cut(name, "=")
		if letters := lettersOf(bare, names); letters != "" {
			for i := range letters {
				o.letter(letters[i])
			}
			return
		}
		o.long = append(o.long, bare)
		if valued {
			o.long = append(o.long, name)
		}
		return
	}
	for i := 1; i < len(text) && isAlnum(text[i]); i++ {
		letters := letterFor(text[i], names)
		if letters == "" {
			o.letter(text[i])
		}
		for j := range letters {
			o.letter(letters[j])
		}
	}
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// lettersOf returns the letters that a long option stands for in a table, or "".
func lettersOf(name, names string) string {
	for names != "" {
		var entry string
		entry, names, _ = strings.Cut(names, " ")
		long, letters, _ := strings.Cut(entry, "=")
		if name != "" && len(long) > 1 && strings.HasPrefix(long, name) {
			return letters
		}
	}
	return ""
}

// letterFor returns the letters that a short option is another spelling of, or "".
func letterFor(c byte, names string) string {
	for names != "" {
		var entry string
		entry, names, _ = strings.Cut(names, " ")
		if len(entry) > 2 && entry[0] == c && entry[1] == '=' {
			return entry[2:]
		}
	}
	return ""
}
