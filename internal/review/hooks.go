package review

import (
	"slices"
	"strings"
)

// hooks are programs that give a text to a shell which is a value of theirs: an option's, or
// behind a mark. Every value of several words is tried.
var hooks = map[string]bool{
	"tar": true, "bsdtar": true, "rsync": true, "scp": true, "sftp": true, "ssh": true, "split": true, "sort": true, "zip": true,
	"vim": true, "vi": true, "nvim": true, "ex": true, "view": true, "less": true, "more": true, "man": true,
	"socat": true, "nc": true, "ncat": true, "netcat": true, "ansible": true, "pssh": true, "et": true, "aws": true,
	"cargo": true, "mapfile": true, "readarray": true, "complete": true, "compgen": true, "bind": true, "fly": true, "flyctl": true,
}

// subscripted are programs that take the name of a variable, whose index the shell works out.
var subscripted = map[string]bool{"test": true, "[": true, "printf": true, "unset": true, "read": true, "declare": true, "typeset": true, "local": true}

// hookVariables are the variables whose value programs give to a shell.
var hookVariables = map[string]bool{
	"EDITOR": true, "VISUAL": true, "PAGER": true, "MANPAGER": true, "LESSOPEN": true, "BROWSER": true, "PROMPT_COMMAND": true,
	"GIT_EDITOR": true, "GIT_SEQUENCE_EDITOR": true, "GIT_PAGER": true, "GIT_SSH_COMMAND": true, "GIT_SSH": true,
	"GIT_EXTERNAL_DIFF": true, "GIT_ASKPASS": true, "SSH_ASKPASS": true, "GIT_PROXY_COMMAND": true, "RSYNC_RSH": true, "FZF_DEFAULT_COMMAND": true,
}

// hook reads a text that a shell may get, where it is of several words.
func (r *reading) hook(text, how string) {
	if !strings.ContainsAny(text, " \t\n;|&") {
		return
	}
	r.guesses++
	r.shellText(literal(text), how)
	r.guesses--
}

// marks stand before a command in a value.
var marks = []string{"=", "!", "EXEC:", "SYSTEM:", "ext::"}

// hooked reads the values of a program that gives some to a shell.
func (r *reading) hooked(ws []word, how string) {
	for _, w := range ws[1:min(len(ws), maxSuffix)] {
		if !w.known {
			continue
		}
		values := []string{w.text}
		for _, mark := range marks {
			if _, value, found := strings.Cut(w.text, mark); found {
				values = append(values, value)
				if _, value, found := strings.Cut(value, mark); found { // --checkpoint-action=exec=TEXT
					values = append(values, value)
				}
			}
		}
		if strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && len(w.text) > 2 {
			values = append(values, w.text[2:])
		}
		for _, value := range values {
			r.hook(value, how)
		}
	}
}

// hooksOf reads what a command gives a shell that is neither its own nor a wrapper's.
func (r *reading) hooksOf(name string, ws []word) {
	how := "inside " + name
	switch {
	case hooks[name], name == "git" && len(ws) > 1 && (ws[1].text == "config" || ws[1].text == "clone"):
		r.hooked(ws, how)
	case subscripted[name]:
		for _, w := range ws[1:] {
			if _, index, found := strings.Cut(w.text, "[$("); found {
				text, _, _ := strings.Cut(index, ")")
				r.hook(text, how)
			}
		}
	}
}

// gnu are programs that have a g before their name where another of that name is there.
var gnu = []string{"chmod", "chown", "cp", "dd", "env", "find", "install", "ln", "mv", "nice", "nohup", "rm", "sed", "shred", "stdbuf", "tar", "timeout", "xargs"}

// otherNames reads a program under another name that it has: git-push, grm.
func (r *reading) otherNames(name string, ws []word, how string) {
	if verb, ok := strings.CutPrefix(name, "git-"); ok && verb != "" {
		r.guessed(append([]word{literal("git"), literal(verb)}, ws[1:]...), how)
	}
	if plain, ok := strings.CutPrefix(name, "g"); ok && slices.Contains(gnu, plain) {
		r.guessed(append([]word{literal(plain)}, ws[1:]...), how)
	}
}
