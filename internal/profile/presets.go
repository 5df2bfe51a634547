package profile

import "slices"

// A Preset is a table of grants for one well-known tool. Paths begin with ~/ or /. What
// does not exist on a host is not granted, but for what is made.
type Preset struct {
	Name  string
	About string // what it is for, in a few words
	// Commands are the names of the programs that select it.
	Commands []string

	Read, Write []string // the last component may be a pattern, which takes what it matches now
	// Make are what the tool would make in its first run, and could not keep in an empty
	// home: a directory, or a file with the text that it begins with.
	Make []Made
	// Homes are variables that name a directory in the place of a path above.
	Homes []HomeVar

	Hosts      []string // as in network.hosts
	HostVars   []string // variables that hold a URL, whose host is granted
	Registries []string // toolchains whose own configuration names the hosts of their packages
	Sockets    []string // variables that name a unix socket
	SocketAt   string   // the socket where none of those is set
	Gives      string   // what whoever speaks to the socket gets, "" for what it says

	// Git grants the repository of a linked worktree or submodule that the run works in.
	Git bool
	// SSH gives the run an /etc/ssh of its own, with the host's client configuration.
	SSH bool

	Env  []string // variables that are passed where they are set
	Set  []EnvVar // variables that are set
	Note string   // what a person must know before the first run, "" for nothing

	// Job are the words that follow the command to have it do one task and end; {job} is the
	// task. Empty where the task is read from standard input.
	Job []string
}

// Made is a directory, or for Text a file, that is made with mode 0700 or 0600.
type Made struct {
	Path string
	Text string
}

// A HomeVar is a variable that moves a tool's directory.
type HomeVar struct{ Name, Instead string }

// modelKeys are the variables by which clients of model providers find key and place.
var modelKeys = []string{
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL",
	"OPENAI_API_BASE", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY",
}

// modelHosts are where those keys are used.
var modelHosts = []string{
	"api.anthropic.com:443", "api.openai.com:443", "openrouter.ai:443", "generativelanguage.googleapis.com:443", "api.groq.com:443",
	"api.mistral.ai:443", "api.deepseek.com:443", "api.x.ai:443",
}

var modelURLs = []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"}

// sshFiles are what an ssh client reads of a person, private keys apart.
var sshFiles = []string{"~/.ssh/config", "~/.ssh/known_hosts", "~/.ssh/known_hosts2", "~/.ssh/*.pub"}

// presets is the table of them.
var presets = []Preset{
	{
		Name: "claude-code", About: "Claude Code", Commands: []string{"claude"},
		Write: []string{"~/.claude", "~/.claude.json", "~/.cache/claude-cli-nodejs", "~/.local/state/claude"},
		Read:  []string{"~/.local/share/claude"},
		// The settings name programs that run on the host too: a file that is there is guarded.
		Make:     []Made{{Path: "~/.claude"}, {Path: "~/.claude/settings.json", Text: "{}\n"}, {Path: "~/.claude.json", Text: "{}\n"}},
		Homes:    []HomeVar{{"CLAUDE_CONFIG_DIR", "~/.claude"}},
		Hosts:    []string{"api.anthropic.com:443", "claude.ai:443", "console.anthropic.com:443", "platform.claude.com:443"},
		HostVars: []string{"ANTHROPIC_BASE_URL"},
		Env: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL",
			"ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "CLAUDE_CODE_OAUTH_TOKEN",
			"CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CONFIG_DIR", "MAX_THINKING_TOKENS"},
		Set: []EnvVar{{Name: "DISABLE_AUTOUPDATER", Value: "1"}},
		Job: []string{"-p", "{job}"},
	}, {
		Name: "codex", About: "OpenAI Codex", Commands: []string{"codex"},
		Write:    []string{"~/.codex"},
		Make:     []Made{{Path: "~/.codex"}},
		Homes:    []HomeVar{{"CODEX_HOME", "~/.codex"}},
		Hosts:    []string{"api.openai.com:443", "auth.openai.com:443", "chatgpt.com:443"},
		HostVars: []string{"OPENAI_BASE_URL"},
		Env:      []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_HOME", "CODEX_API_KEY"},
		Note:     "codex cannot make its own sandbox inside this one: start it with --sandbox danger-full-access, which then means what is granted here",
		Job:      []string{"exec", "{job}"},
	}, {
		Name: "opencode", About: "OpenCode", Commands: []string{"opencode"},
		Write: []string{"~/.config/opencode", "~/.local/share/opencode", "~/.local/state/opencode", "~/.cache/opencode"},
		Make: []Made{{Path: "~/.config/opencode"}, {Path: "~/.local/share/opencode"}, {Path: "~/.local/state/opencode"},
			{Path: "~/.cache/opencode"}},
		Read:     []string{"~/.opencode"},
		Hosts:    append([]string{"opencode.ai:443", "models.opencode.ai:443", "models.dev:443"}, modelHosts...),
		HostVars: modelURLs,
		Env:      append([]string{"OPENCODE_API_KEY", "OPENCODE_CONFIG"}, modelKeys...),
		Set:      []EnvVar{{Name: "OPENCODE_DISABLE_AUTOUPDATE", Value: "1"}},
		Job:      []string{"run", "{job}"},
	}, {
		Name: "gemini-cli", About: "Gemini CLI", Commands: []string{"gemini"},
		Write: []string{"~/.gemini"},
		Make:  []Made{{Path: "~/.gemini"}},
		Hosts: []string{"generativelanguage.googleapis.com:443", "cloudcode-pa.googleapis.com:443", "oauth2.googleapis.com:443", "accounts.google.com:443",
			"www.googleapis.com:443"},
		HostVars: []string{"GOOGLE_GEMINI_BASE_URL"},
		Env:      []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI", "GEMINI_MODEL", "GOOGLE_GEMINI_BASE_URL"},
		Job:      []string{"-p", "{job}"},
	}, {
		Name: "aider", About: "aider", Commands: []string{"aider"},
		Write:    []string{"~/.aider"},
		Read:     []string{"~/.aider.conf.yml", "~/.aider.model.settings.yml", "~/.aider.model.metadata.json"},
		Make:     []Made{{Path: "~/.aider"}},
		Hosts:    modelHosts,
		HostVars: modelURLs,
		Env:      append([]string{"AIDER_MODEL", "AIDER_WEAK_MODEL", "AIDER_EDITOR_MODEL"}, modelKeys...),
		Set:      []EnvVar{{Name: "AIDER_CHECK_UPDATE", Value: "false"}, {Name: "AIDER_ANALYTICS", Value: "false"}},
	}, {
		Name: "go", About: "the Go toolchain", Commands: []string{"go", "gopls", "golangci-lint"},
		Read:       []string{"~/go/pkg/mod", "~/.config/go/env"},
		Homes:      []HomeVar{{"GOMODCACHE", "~/go/pkg/mod"}},
		Registries: []string{"go"},
		Env:        []string{"GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOFLAGS", "GOTOOLCHAIN", "GOOS", "GOARCH", "CGO_ENABLED", "GOEXPERIMENT", "GOMODCACHE"},
	}, {
		Name: "node", About: "Node.js, npm, pnpm and yarn", Commands: []string{"npm", "npx", "pnpm", "yarn", "corepack"},
		Read:       []string{"~/.npmrc", "~/.yarnrc", "~/.yarnrc.yml", "~/.config/pnpm"},
		Registries: []string{"npm"},
		Env:        []string{"NODE_ENV", "NODE_OPTIONS", "NPM_TOKEN", "NODE_EXTRA_CA_CERTS", "npm_config_registry"},
	}, {
		Name: "python", About: "Python, pip and uv", Commands: []string{"pip", "pip3", "uv", "uvx", "poetry", "pdm", "pipx"},
		Read:       []string{"~/.config/pip", "~/.pip", "~/.config/uv", "~/.config/pypoetry", "~/.local/lib", "~/.local/share/uv/python"},
		Registries: []string{"pip"},
		Env:        []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "PYTHONDONTWRITEBYTECODE"},
	}, {
		Name: "rust", About: "Rust and cargo", Commands: []string{"cargo", "rustup"},
		Read:       []string{"~/.cargo/config.toml", "~/.cargo/config", "~/.cargo/registry", "~/.cargo/git"},
		Registries: []string{"cargo"},
		Env:        []string{"CARGO_TERM_COLOR", "RUSTFLAGS", "RUST_BACKTRACE", "CARGO_NET_GIT_FETCH_WITH_CLI"},
	}, {
		Name: "java", About: "Java, Maven and Gradle", Commands: []string{"mvn", "gradle"},
		Read:       []string{"~/.m2/settings.xml", "~/.m2/repository", "~/.gradle/gradle.properties", "~/.gradle/caches/modules-2", "~/.gradle/wrapper"},
		Registries: []string{"maven"},
		Env:        []string{"JAVA_TOOL_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS"},
	}, {
		Name: "git", About: "git over https and ssh, in worktrees and submodules too", Commands: []string{"git"},
		Read: append([]string{"~/.config/git/ignore", "~/.config/git/attributes"}, sshFiles...),
		Env: []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
			"GIT_EDITOR", "GIT_PAGER", "GIT_TERMINAL_PROMPT"},
		Git: true, SSH: true,
	}, {
		Name: "ssh-agent", About: "signing with the keys of an ssh agent, without the keys",
		Read:    sshFiles,
		Sockets: []string{"SSH_AUTH_SOCK"},
		Env:     []string{"SSH_AUTH_SOCK"},
		SSH:     true,
		Note:    "the agent's keys can sign for the run whatever they open, as long as it lives: to be asked each time, add them with ssh-add -c",
	}, {
		Name: "docker-client", About: "the docker socket: as good as root on this host",
		Read:     []string{"~/.docker/config.json"},
		Sockets:  []string{"DOCKER_HOST"},
		SocketAt: "/var/run/docker.sock",
		Gives:    "whoever speaks to it is as good as root on this host",
		Env:      []string{"DOCKER_HOST"},
		Note:     "whoever speaks to docker is as good as root on this host: nothing of this seal holds against it",
	},
}

// Presets returns all of them, by name.
func Presets() []Preset { return presets }

// FindPreset returns the preset of a name.
func FindPreset(name string) (Preset, bool) {
	i := slices.IndexFunc(presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, false
	}
	return presets[i], true
}

// PresetFor returns the preset that a program's name selects.
func PresetFor(program string) (Preset, bool) {
	i := slices.IndexFunc(presets, func(p Preset) bool { return slices.Contains(p.Commands, program) })
	if i < 0 {
		return Preset{}, false
	}
	return presets[i], true
}
