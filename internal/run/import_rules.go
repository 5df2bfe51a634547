package run

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
)

// Reasons why a rule of Claude Code's has no line in a profile.
const (
	becauseCommand  = "a command rule looks at the text of a command; the kernel keeps files and hosts instead, whatever the command"
	becauseAsk      = "nobody is asked during a run: what is granted is allowed, everything else is refused"
	becauseMCP      = "bourn does not see the calls of an MCP server; one that Claude Code starts runs under the same seal"
	becauseTool     = "it is about a tool of Claude Code's; the kernel keeps files and hosts, whatever tool is used"
	becauseNoPath   = "it names no path, and grants none"
	becauseMode     = "a mode says when Claude Code asks; what the seal keeps is the same in all of them"
	becauseProgram  = "a program that Claude Code starts: it runs under the same seal, and bourn starts none by itself"
	becauseOwn      = "a switch of Claude Code's own sandbox; this agent is sealed by bourn"
	becauseUnknown  = "bourn knows no file, host or variable in it"
	becauseNegation = "a deny of bourn's has no exceptions: what it would open again stays closed"
)

// commandTools run commands; their rules are about the text of those.
var commandTools = []string{"Bash", "PowerShell", "BashOutput", "KillShell", "Monitor"}

// readTools and writeTools take a path. Claude Code consults paths of Read and Edit rules;
// those of others are accepted and not looked at, but what they say is taken where it closes.
var (
	readTools  = []string{"Read", "Glob", "Grep", "LS", "NotebookRead"}
	writeTools = []string{"Edit", "Write", "MultiEdit", "NotebookEdit"}
)

// settingReasons are reasons for keys whose value does not matter here.
var settingReasons = map[string]string{
	"hooks": becauseProgram, "statusLine": becauseProgram, "fileSuggestion": becauseProgram, "apiKeyHelper": becauseProgram,
	"awsAuthRefresh": becauseProgram, "awsCredentialExport": becauseProgram, "gcpAuthRefresh": becauseProgram, "otelHeadersHelper": becauseProgram,
	"enableAllProjectMcpServers": becauseMCP, "enabledMcpjsonServers": becauseMCP, "disabledMcpjsonServers": becauseMCP,
	"allowedMcpServers": becauseMCP, "deniedMcpServers": becauseMCP,
	"permissions.defaultMode": becauseMode, "permissions.disableBypassPermissionsMode": becauseMode, "permissions.disableAutoMode": becauseMode,
	"permissions.skipDangerousModePermissionPrompt": becauseMode, "sandbox.autoAllowBashIfSandboxed": becauseAsk,
	"sandbox.enableWeakerNestedSandbox": becauseOwn, "sandbox.enableWeakerNetworkIsolation": becauseOwn, "sandbox.allowAppleEvents": becauseOwn,
	"sandbox.ignoreViolations": becauseOwn, "sandbox.ripgrep": becauseOwn, "sandbox.bwrapPath": becauseOwn, "sandbox.socatPath": becauseOwn,
	"sandbox.network.httpProxyPort": becauseOwn, "sandbox.network.socksProxyPort": becauseOwn, "sandbox.network.tlsTerminate": becauseOwn,
	"sandbox.network.allowMachLookup": becauseOwn,
	"$schema":                         "it says what the file is, and nothing of what may be done",
}

// A claudeSwitch is a key that is true or false: what is so by itself in a run, and what
// there is not.
type claudeSwitch struct {
	already bool
	why     string // for the value that is so already
	not     string // for the other
}

var claudeSwitches = map[string]claudeSwitch{
	"sandbox.enabled":                     {true, "all of the agent is sealed, Claude Code itself included", "an agent of bourn's is always sealed"},
	"sandbox.failIfUnavailable":           {true, "nothing starts where the host cannot seal", "an agent does not start without its seal (sandbox.fail_closed_on_sandbox_error)"},
	"sandbox.allowUnsandboxedCommands":    {false, "nothing that the agent starts leaves the seal", "nothing that the agent starts leaves the seal"},
	"sandbox.filesystem.disabled":         {false, "the files are always kept", "the files of an agent are always kept"},
	"sandbox.network.strictAllowlist":     {true, "what is not granted is refused, and nobody is asked", becauseAsk},
	"sandbox.network.allowLocalBinding":   {true, "a run may listen on its own loopback, which nothing outside reaches", "a run may always listen on its own loopback, which nothing outside reaches"},
	"sandbox.network.allowAllUnixSockets": {false, "sockets of the host are shown one by one (network.unix)", "sockets of the host are shown one by one (network.unix), never all"},
}

// read turns the file into claims.
func (im *importer) read(settings jsonValue) error {
	for _, k := range settings.keys {
		var err error
		switch k.name {
		case "permissions":
			err = im.block(k.value, k.name, im.permission)
		case "sandbox":
			err = im.block(k.value, k.name, im.sandboxKey)
		case "env":
			err = im.block(k.value, k.name, im.variable)
		default:
			im.entries(k.name, k.value, settingReasons[k.name])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// block reads the keys of an object.
func (im *importer) block(v jsonValue, where string, f func(where string, k jsonKey) error) error {
	if err := im.file.want(v, where, jsonObject); err != nil {
		return err
	}
	for _, k := range v.keys {
		if err := f(where+"."+k.name, k); err != nil {
			return err
		}
	}
	return nil
}

// add adds a claim and returns it. It is decided by its text until it gets a kind.
func (im *importer) add(key, value string) *claim {
	im.claims = append(im.claims, claim{rule: key + ": " + value, kind: claimDecided})
	return &im.claims[len(im.claims)-1]
}

// entries lists what has no line: each key of an object, each entry of a list.
func (im *importer) entries(where string, v jsonValue, reason string) {
	switch {
	case reason == "":
		reason = becauseUnknown
	case len(v.keys) > 0:
		for _, k := range v.keys {
			im.add(where+"."+k.name, k.value.text).not("%s", reason)
		}
		return
	case len(v.items) > 0:
		for _, item := range v.items {
			im.add(where, item.text).not("%s", reason)
		}
		return
	}
	im.add(where, v.text).not("%s", reason)
}

func (im *importer) permission(where string, k jsonKey) error {
	decide := map[string]func(*claim, string){
		"allow": im.allowRule, "deny": im.denyRule, "ask": im.askRule,
		"additionalDirectories": func(c *claim, text string) {
			c.kind, c.path, c.block = claimWrite, im.at.sandboxPath(text), true
		},
	}[k.name]
	switch k.name {
	case "allow", "deny", "ask", "additionalDirectories":
		return im.list(where, k.value, decide)
	case "defaultMode":
		if err := im.file.want(k.value, where, jsonText); err != nil {
			return err
		}
	}
	im.entries(where, k.value, settingReasons[where])
	return nil
}

// list makes a claim of each entry of a list.
func (im *importer) list(where string, v jsonValue, decide func(*claim, string)) error {
	texts, err := im.file.texts(v, where)
	for _, text := range texts {
		decide(im.add(where, text), text)
	}
	return err
}

// A claudeRule is Tool or Tool(SPEC); Tool(*) is the same as Tool.
type claudeRule struct{ tool, spec string }

func parseClaudeRule(text string) (claudeRule, bool) {
	tool, rest, found := strings.Cut(text, "(")
	spec, closed := strings.CutSuffix(rest, ")")
	if tool == "" || found != closed || strings.ContainsAny(tool, " )") {
		return claudeRule{}, false
	}
	if spec == "*" {
		spec = ""
	}
	return claudeRule{tool, spec}, true
}

// unexpressed decides about the rules that have no line whatever list they are in, and
// returns the rule where it has not.
func (c *claim) unexpressed(text string) (claudeRule, bool) {
	r, ok := parseClaudeRule(text)
	switch {
	case !ok:
		c.not("it is no rule of the form Tool or Tool(what)")
	case strings.HasPrefix(r.tool, "mcp__"), strings.HasPrefix(r.tool, "mcp"):
		c.not(becauseMCP)
	case slices.Contains(commandTools, r.tool):
		c.not(becauseCommand)
	case !slices.Contains(readTools, r.tool) && !slices.Contains(writeTools, r.tool) && r.tool != "WebFetch":
		c.not(becauseTool)
	default:
		return r, true
	}
	return r, false
}

func (im *importer) allowRule(c *claim, text string) {
	r, ok := c.unexpressed(text)
	if !ok {
		return
	}
	switch {
	case r.spec == "":
		c.not(becauseNoPath)
	case r.tool == "WebFetch":
		c.domain(r.spec, claimHost)
	case strings.HasPrefix(r.spec, "!"):
		c.not(becauseNoPath)
	case r.tool == "Read":
		c.kind, c.path = claimRead, im.at.rulePath(r.spec)
	case slices.Contains(readTools, r.tool):
		c.not("Claude Code does not look at the path of such a rule; Read rules are for it")
	default:
		c.kind, c.path = claimWrite, im.at.rulePath(r.spec)
	}
}

func (im *importer) denyRule(c *claim, text string) {
	r, ok := c.unexpressed(text)
	if !ok {
		return
	}
	switch {
	case r.spec == "":
		c.not(becauseTool)
	case r.tool == "WebFetch":
		c.domain(r.spec, claimDenyHost)
	case strings.HasPrefix(r.spec, "!"):
		c.not(becauseNegation)
	case slices.Contains(readTools, r.tool):
		c.kind, c.path = claimDenyRead, im.at.rulePath(r.spec)
	default:
		c.kind, c.path = claimDenyWrite, im.at.rulePath(r.spec)
	}
}

// askRule lists what a person would be asked for: it is not granted without that.
func (im *importer) askRule(c *claim, text string) {
	r, ok := parseClaudeRule(text)
	path := slices.Contains(readTools, r.tool) || slices.Contains(writeTools, r.tool)
	switch host, isHost := strings.CutPrefix(r.spec, "domain:"); {
	case !ok || r.spec == "":
	case path:
		c.path = im.at.rulePath(r.spec)
		im.lose(c)
	case r.tool == "WebFetch" && isHost:
		im.closedHosts = append(im.closedHosts, strings.ToLower(strings.TrimSuffix(host, ".")))
	}
	c.not(becauseAsk)
}

// domain makes a claim about a host of a WebFetch rule.
func (c *claim) domain(spec string, kind claimKind) {
	host, ok := strings.CutPrefix(spec, "domain:")
	if !ok {
		c.not("bourn reads WebFetch rules of the form WebFetch(domain:HOST)")
		return
	}
	c.kind, c.text = kind, host
}

func (im *importer) sandboxKey(where string, k jsonKey) error {
	if s, ok := claudeSwitches[where]; ok {
		return im.toggle(where, k.value, s)
	}
	paths := func(kind claimKind) func(*claim, string) {
		return func(c *claim, text string) {
			c.kind, c.path, c.block = kind, im.at.sandboxPath(text), true
			if text == "" {
				c.path.bad = "it names no path"
			}
			if kind == claimRead {
				im.allowRead = append(im.allowRead, c.path)
			}
		}
	}
	texts := func(kind claimKind) func(*claim, string) {
		return func(c *claim, text string) { c.kind, c.text = kind, text }
	}
	switch where {
	case "sandbox.network", "sandbox.filesystem":
		return im.block(k.value, where, im.sandboxKey)
	case "sandbox.credentials":
		return im.block(k.value, where, im.credential)
	case "sandbox.filesystem.allowRead":
		return im.list(where, k.value, paths(claimRead))
	case "sandbox.filesystem.allowWrite":
		return im.list(where, k.value, paths(claimWrite))
	case "sandbox.filesystem.denyRead":
		return im.list(where, k.value, paths(claimDenyRead))
	case "sandbox.filesystem.denyWrite":
		return im.list(where, k.value, paths(claimDenyWrite))
	case "sandbox.network.allowedDomains":
		return im.list(where, k.value, texts(claimHost))
	case "sandbox.network.deniedDomains":
		return im.list(where, k.value, texts(claimDenyHost))
	case "sandbox.network.allowUnixSockets":
		return im.list(where, k.value, texts(claimUnix))
	case "sandbox.excludedCommands":
		return im.list(where, k.value, func(c *claim, _ string) { c.not("nothing that the agent starts leaves the seal, whatever the command") })
	}
	im.entries(where, k.value, settingReasons[where])
	return nil
}

func (im *importer) toggle(where string, v jsonValue, s claudeSwitch) error {
	if err := im.file.want(v, where, jsonTruth); err != nil {
		return err
	}
	c := im.add(where, v.text)
	if v.text == strconv.FormatBool(s.already) {
		c.already("%s", s.why)
	} else {
		c.not("%s", s.not)
	}
	return nil
}

// credential reads files and variables that sandboxed commands do not get. To deny them is
// kept; nothing is put in their place.
func (im *importer) credential(where string, k jsonKey) error {
	names := map[string]string{"files": "path", "envVars": "name"}
	name, known := names[k.name]
	if !known {
		im.entries(where, k.value, becauseOwn)
		return nil
	}
	if err := im.file.want(k.value, where, jsonList); err != nil {
		return err
	}
	for _, item := range k.value.items {
		what, _ := item.find(name)
		mode, _ := item.find("mode")
		for _, text := range []jsonValue{what, mode} {
			if text.what != jsonText {
				return im.file.fail(item.at, "an entry of %s must have %s and mode, which are text", where, name)
			}
		}
		c := im.add(where, item.text)
		switch {
		case mode.text != "deny":
			c.not("bourn puts nothing in the place of a secret; deny closes it")
		case name == "path":
			c.kind, c.path, c.block = claimDenyRead, im.at.sandboxPath(what.text), true
		default:
			c.kind, c.text = claimNoEnv, what.text
		}
	}
	return nil
}

// variable makes a claim of a variable. Its value is not shown, since it may be a key, but
// where it is an address: what is sent there would be another's.
func (im *importer) variable(where string, k jsonKey) error {
	if err := im.file.want(k.value, where, jsonText); err != nil {
		return err
	}
	im.claims = append(im.claims, claim{rule: where, kind: claimEnv, text: k.name, value: k.value.text})
	im.seen[k.name] = true
	return nil
}

func (im *importer) setEnv(c *claim) {
	v := profile.EnvVar{Name: c.text, Value: c.value}
	if _, err := profile.Parse("profile.yaml", withEnv([]byte("version: 1\nagent: a\n\nfilesystem:\n"), []profile.EnvVar{v})); err != nil {
		c.not("a profile cannot hold this variable")
		return
	}
	im.env = append(im.env, v)
	c.fate, c.say = importTaken, "env.set: "+v.Name
	if at := addressIn(v); at != "" {
		c.say += "=" + at
	}
}

// addressNames end the names of variables that hold addresses, with a scheme or without.
var addressNames = []string{"URL", "URI", "PROXY", "HOST", "ENDPOINT", "ADDR", "ADDRESS", "SERVER", "ORIGIN"}

// addressIn returns what a variable holds of an address, without a name and password in it
// nor what it asks for there, or "".
func addressIn(v profile.EnvVar) string {
	scheme, rest, ok := strings.Cut(v.Value, "://")
	name := strings.ToUpper(v.Name)
	switch {
	case ok:
		scheme += "://"
	case slices.ContainsFunc(addressNames, func(end string) bool { return strings.HasSuffix(name, end) }):
		scheme, rest = "", v.Value
	default:
		return ""
	}
	rest, _, more := cutAny(rest, "?#")
	end := strings.IndexAny(rest, `/\`)
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndex(rest[:end], "@"); at >= 0 {
		rest = "…" + rest[at:]
	}
	if more {
		rest += "?…"
	}
	return scheme + rest
}

// cutAny is strings.Cut round the first of some characters.
func cutAny(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

func (im *importer) noEnv(c *claim) {
	if im.seen[c.text] || slices.Contains(im.preset().Env, c.text) {
		c.not("Claude Code itself gets it, and one seal holds for it and what it starts")
		return
	}
	c.already("an agent has no variable of the host's but those that its profile names")
}

// withEnv returns the text of a new profile with variables.
func withEnv(text []byte, env []profile.EnvVar) []byte {
	if len(env) == 0 {
		return text
	}
	var b strings.Builder
	b.WriteString("\n\n# What Claude Code's settings put into the environment.\nenv:\n  set:")
	for _, v := range env {
		// The escapes of a Go string are those of YAML 1.2, 5.7.
		b.WriteString("\n    " + strconv.Quote(v.Name) + ": " + strconv.Quote(v.Value))
	}
	return []byte(strings.Replace(string(text), "\n\nfilesystem:\n", b.String()+"\n\nfilesystem:\n", 1))
}

// domainHost reads a domain of the settings: without a port it is the name alone.
func domainHost(text string) (policy.Host, error) {
	return policy.ParseHost(strings.TrimSuffix(text, "."))
}

func (im *importer) denyHost(c *claim) {
	host, err := domainHost(c.text)
	if err != nil {
		im.closedHosts = append(im.closedHosts, strings.ToLower(strings.TrimSuffix(c.text, ".")))
		c.not("%s; hosts that it could match are not granted", plainReason(err))
		return
	}
	denies := []profile.Host{{Text: host.String(), Host: host}}
	for _, text := range im.preset().Hosts {
		if needed, err := policy.ParseHost(text); err == nil && len(meeting(denies, needed)) > 0 {
			c.not("Claude Code itself reaches %s, and one seal holds for it and its tools", needed)
			im.closedHosts = append(im.closedHosts, host.String())
			return
		}
	}
	if _, twice := listed(im.hostDenies, host); !twice {
		im.hostDenies = append(im.hostDenies, denies...)
	}
	c.take(profile.DenyHostList, host.String())
}

func (im *importer) grantHost(c *claim) {
	if c.text == "*" {
		c.not("every host: bourn grants hosts by name; network.mode: open is for a person to write")
		return
	}
	host, err := domainHost(c.text)
	if err == nil {
		host, err = grantableHost(host.String())
	}
	if err != nil {
		c.not("%s", plainReason(err))
		return
	}
	if deny, all := closed(im.hostDenies, host); all {
		c.not("%s is denied, and a deny wins", deny)
		return
	}
	for _, deny := range im.closedHosts {
		if couldMatch(deny, host) {
			c.not("a rule denies or asks for %s, which bourn cannot express, and could match it", bourn.Printable(deny))
			return
		}
	}
	if !slices.Contains(im.hosts, host) {
		im.hosts = append(im.hosts, host)
	}
	c.take(profile.HostList, host.String())
}

// couldMatch reports whether a domain pattern of Claude Code's, in which a star stands for
// what is between two dots and at the front for any depth, could match a host. In doubt it
// does.
func couldMatch(deny string, host policy.Host) bool {
	if parsed, err := policy.ParseHost(deny); err == nil {
		return len(meeting([]profile.Host{{Host: parsed}}, host)) > 0
	}
	if deny == "*" || host.Suffix || strings.Contains(deny, ":") {
		return true
	}
	if rest, ok := strings.CutPrefix(deny, "*."); ok {
		return !strings.ContainsAny(rest, "*?[") && strings.HasSuffix(host.Name, "."+rest) || strings.ContainsAny(rest, "*?[")
	}
	match, err := path.Match(strings.ReplaceAll(deny, ".", "/"), strings.ReplaceAll(host.Name, ".", "/"))
	return match || err != nil
}

func (im *importer) grantUnix(c *claim) {
	at, bad := im.at.sandboxPath(c.text).path()
	if bad != "" || c.text == "" {
		c.not("it is no path of one socket")
		return
	}
	g, err := im.grantable(policy.KindUnix, at, im.denies)
	switch {
	case err != nil:
		c.not("%s", plainReason(err))
	case !g.Socket:
		c.not("%s is not a socket", bourn.Printable(at))
	default:
		im.unix = addOnce(im.unix, g.Real)
		c.take(profile.UnixList, g.Real)
	}
}
