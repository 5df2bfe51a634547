package review

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call reads a simple command of a script.
func (r *reading) call(c *syntax.CallExpr, how string) {
	ws, tooMany := words(c.Args, r.vars.now(c))
	if tooMany {
		r.cannotTell("braces make too many words")
		return
	}
	r.assignments(c.Assigns, how)
	r.command(ws, how)
	if !slices.ContainsFunc(ws, func(w word) bool { return !w.known }) {
		return
	}
	// The values that the text gives its variables, wherever it does: to be matched, not
	// to be believed.
	for i := range maxValues {
		vars := r.vars.choice(i)
		if vars == nil && i > 0 {
			break
		}
		if ws, tooMany := words(c.Args, vars); vars != nil && !tooMany {
			r.guessed(ws, how+", with the values of its variables")
		}
		if ws := likely(c.Args, vars); ws != nil {
			r.guessed(ws, how+", with what its words probably are")
		}
	}
}

// guessed reads a command that may not be one.
func (r *reading) guessed(ws []word, how string) {
	r.guesses++
	r.command(ws, how)
	r.guesses--
}

// declare reads export, local and the like as the simple command that they look like.
func (r *reading) declare(d *syntax.DeclClause, how string) {
	ws := []word{literal(d.Variant.Value)}
	for _, a := range d.Args {
		e := newExpander(nil, 1)
		if a.Name != nil {
			e.add(a.Name.Value)
		}
		if a.Value != nil {
			if a.Name != nil {
				e.add("=")
			}
			for _, part := range a.Value.Parts {
				e.part(part, true)
			}
		}
		e.end()
		ws = append(ws, e.out...)
	}
	r.command(ws, how)
}

// command reads a simple command: as it is, and without each wrapper.
func (r *reading) command(ws []word, how string) {
	defer r.leave()
	if len(ws) == 0 || !r.enter() {
		return
	}
	f, told := r.form(ws, how)
	if !r.spend(len(f.text)) {
		return
	}
	f.firm = f.guess
	r.forms = append(r.forms, f)
	if !told {
		r.cannotTell("the program is " + ws[0].text + ", which is known only when it runs")
		if ws[0].split && len(ws) > 1 {
			r.guesses++ // it may be empty, or a wrapper
			r.command(ws[1:], "behind "+ws[0].text)
			r.guesses--
		}
		return
	}
	r.unwrap(f, how)
}

// form returns a command in its normal form, and whether its program is known.
func (r *reading) form(ws []word, how string) (f form, told bool) {
	f = form{how: how, guess: r.guesses > 0}
	program, told := programName(ws[0])
	if r.fold {
		program = strings.ToLower(program)
	}
	if ws[0].known && strings.Contains(ws[0].text, "/") {
		f.path = ws[0].text
	}
	f.words = ws
	if told && program != ws[0].text {
		f.words = append([]word{literal(program)}, ws[1:]...)
	}
	f.text = joined(f.words)
	return f, told
}

// programName returns the name of a program without its directories.
func programName(w word) (string, bool) {
	switch {
	case w.glob:
		return w.text, false
	case w.known:
		return path.Base("/" + w.text), true
	case w.split:
		return w.text, false
	}
	slash := strings.LastIndexByte(w.suf, '/')
	if slash < 0 || slash == len(w.suf)-1 {
		return w.text, false
	}
	return w.suf[slash+1:], true
}

func joined(ws []word) string {
	n := len(ws)
	for _, w := range ws {
		n += len(w.text)
	}
	var b strings.Builder
	b.Grow(n)
	for i, w := range ws {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	return b.String()
}

// unwrap reads what a command executes in turn.
func (r *reading) unwrap(f form, how string) {
	ws := f.words
	name := ws[0].text
	r.withoutGlobals(name, ws)
	r.otherNames(name, ws, how)
	r.hooksOf(name, ws)
	if exporting[name] {
		r.settings(ws[1:], name == "export", "inside "+name)
	}
	if w, ok := wrappers[name]; ok {
		r.wrapped(name, w, ws)
		if name == "runuser" { // without -u it is su
			r.guesses++
			r.wrapped(name, wrappers["su"], ws)
			r.guesses--
		}
		return
	}
	if unwrap := specialOf(name); unwrap != nil {
		unwrap(r, ws, "inside "+name)
		return
	}
	if executesBehind(name, ws) {
		r.suffixes(ws, "after "+name)
		return
	}
	if alias, ok := r.aliases[name]; ok && len(alias) > 0 {
		r.guesses++
		r.command(append(slices.Clone(alias), ws[1:]...), "as the alias "+name)
		r.guesses--
	}
}

// wrapped reads the command behind a wrapper's own options and operands.
func (r *reading) wrapped(name string, w wrapper, ws []word) {
	i, text := w.skip(ws)
	how := "inside " + name
	if text.text != "" {
		r.shellText(text, how)
	}
	if w.assigns && i > 0 {
		r.settings(ws[1:min(i, len(ws))], false, how)
	}
	switch {
	case i < 0:
	case i < len(ws):
		r.command(ws[i:], how)
	case w.shell && text.text == "":
		r.standardInput("sh", how)
	}
}

// skip returns where the wrapped command begins, or -1 when there is none, and the value
// of the option that holds the text of a command.
func (w wrapper) skip(ws []word) (at int, text word) {
	operands := w.operands
	i := 1
	for i < len(ws) {
		arg := ws[i].text
		switch {
		case arg == "--":
			return i + 1 + operands, text
		case w.assigns && isAssignment(arg):
			i++
		case !ws[i].known && len(ws[i].pre) == 0, len(arg) < 2 && arg != "-" || arg[0] != '-' && (arg[0] != '+' || !w.plus):
			if operands == 0 {
				return i, text
			}
			operands--
			i++
		default:
			used, value, none := w.option(ws[i:])
			if none {
				return -1, text
			}
			if value.text != "" {
				text = value
			}
			i += used
		}
	}
	return i, text
}

// option returns how many words the option at ws[0] takes, its value when that is the text
// of a command, and whether it makes the wrapper execute nothing.
func (w wrapper) option(ws []word) (used int, text word, none bool) {
	arg := ws[0].text
	value := func() (int, word) {
		if len(ws) > 1 {
			return 2, ws[1]
		}
		return 1, word{}
	}
	if arg[0] == '+' {
		return 1, word{}, false
	}
	if strings.HasPrefix(arg, "--") {
		name, attached, has := strings.Cut(arg[2:], "=")
		isText := cutShort(name, w.longText)
		switch {
		case has && isText:
			return 1, word{text: attached, known: ws[0].known}, false
		case has || !isText && !cutShort(name, w.long):
			return 1, word{}, false
		}
		used, v := value()
		if isText {
			return used, v, false
		}
		return used, word{}, false
	}
	for k := 1; k < len(arg); k++ {
		c := arg[k]
		if strings.IndexByte(w.none, c) >= 0 {
			return 0, word{}, true
		}
		isText := strings.IndexByte(w.text, c) >= 0
		if !isText && strings.IndexByte(w.short, c) < 0 {
			continue
		}
		if k+1 < len(arg) {
			if isText {
				return 1, word{text: arg[k+1:], known: ws[0].known}, false
			}
			return 1, word{}, false
		}
		used, v := value()
		if isText {
			return used, v, false
		}
		return used, word{}, false
	}
	return 1, word{}, false
}

// cutShort reports whether a name is one of several, or the beginning of one, as
// getopt_long(3) allows.
func cutShort(name, names string) bool {
	return name != "" && slices.ContainsFunc(strings.Fields(names), func(n string) bool { return strings.HasPrefix(n, name) })
}

// isAssignment reports whether a word is NAME=value.
func isAssignment(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	return ok && syntax.ValidName(name)
}

// shellText reads a word that a shell gets as a text.
func (r *reading) shellText(w word, how string) {
	if w.text == "" {
		return
	}
	text := w.text
	if !w.known {
		// What stands for a substitution is not a text: it becomes a variable.
		text = strings.NewReplacer(substitution, "$_", expansion, "$_", "$((…))", "$_", "<(…)", "$_").Replace(text)
		if w.inner != nil {
			r.fedBy(r.formsOf(w.inner), "sh")
		}
	}
	r.read(text, how)
}

// standardInput reads a shell that takes its commands from its standard input.
func (r *reading) standardInput(shell, how string) {
	in := r.stdin
	r.stdin = feed{}
	switch in.kind {
	case feedNone:
	case feedText:
		r.shellText(literal(in.text), how+", on its standard input")
	case feedUnknown:
		r.fedBy(in.forms, shell)
		r.cannotTell("the shell executes what another command prints")
	}
	r.stdin = in
}

// fedBy writes a shell that executes what other commands print as a pipeline.
func (r *reading) fedBy(forms []form, shell string) {
	r.pipe([][]form{forms, {{text: shell}}})
}

// executesBehind reports whether a loose program executes a command here.
func executesBehind(name string, ws []word) bool {
	behind, ok := loose[name]
	if !ok {
		return strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl")
	}
	return behind == "" || slices.ContainsFunc(strings.Fields(behind), func(verb string) bool {
		return slices.ContainsFunc(ws[1:], func(w word) bool { return w.text == verb })
	})
}

// suffixes tries every word behind a program as the beginning of a command: the program
// executes one, and where it begins depends on too much.
func (r *reading) suffixes(ws []word, how string) {
	r.guesses++
	defer func() { r.guesses-- }()
	tried := 0
	for i := 1; i < len(ws) && tried < maxSuffix; i++ {
		arg := ws[i].text
		if strings.HasPrefix(arg, "-") {
			r.attached(ws[i], how)
		}
		if strings.HasPrefix(arg, "-") || !ws[i].known {
			continue
		}
		tried++
		if strings.ContainsAny(arg, " \t\n;|&") {
			r.shellText(ws[i], how)
			continue
		}
		r.command(ws[i:], how)
	}
}

// attached reads the value of an option that is one word with it, where that is a text of
// several words.
func (r *reading) attached(w word, how string) {
	_, value, long := strings.Cut(w.text, "=")
	if !strings.HasPrefix(w.text, "--") {
		value, long = w.text[min(2, len(w.text)):], true
	}
	if long && w.known && strings.ContainsAny(value, " \t\n;|&") {
		r.shellText(literal(value), how)
	}
}

// withoutGlobals adds the form of a command without the options that stand before its
// first word, such as those of git -C DIR push.
func (r *reading) withoutGlobals(name string, ws []word) {
	g, ok := globals[name]
	if name == "sudo" || name == "doas" {
		g, ok = wrappers[name], true
	}
	if !ok || len(ws) < 2 || !strings.HasPrefix(ws[1].text, "-") && (!g.plus || !strings.HasPrefix(ws[1].text, "+")) {
		return
	}
	i, _ := g.skip(ws)
	if i <= 1 || i >= len(ws) {
		return
	}
	plain := append([]word{ws[0]}, ws[i:]...)
	f := form{words: plain, text: joined(plain), how: "without the options of " + name, guess: r.guesses > 0}
	f.firm = f.guess
	if r.spend(len(f.text)) {
		r.forms[len(r.forms)-1].firm = true
		r.forms = append(r.forms, f)
	}
	if name == "git" {
		r.gitAlias(ws[:i], plain)
	}
}

// gitAlias reads an alias that is given with git -c alias.NAME=VALUE.
func (r *reading) gitAlias(options, plain []word) {
	for i, w := range options {
		text := w.text
		if strings.HasPrefix(text, "--config-env") || strings.HasPrefix(text, "--exec-path=") {
			r.cannotTell("git is told by " + text + " to execute something else")
		}
		if text == "-c" && i+1 < len(options) {
			text = options[i+1].text
		} else {
			text = strings.TrimPrefix(text, "-c")
		}
		if _, value, ok := strings.Cut(text, "="); ok && !strings.HasPrefix(text, "alias.") {
			r.hook(value, "in a setting of git")
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(text, "alias."), "=")
		if !ok || !strings.HasPrefix(text, "alias.") || name != plain[1].text {
			continue
		}
		if command, shell := strings.CutPrefix(value, "!"); shell {
			r.shellText(literal(command), "in an alias of git")
			continue
		}
		ws := append([]word{literal("git")}, literals(strings.Fields(value))...)
		r.guesses++
		r.command(append(ws, plain[2:]...), "as an alias of git")
		r.guesses--
	}
}
