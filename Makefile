# Bourn's build. `make help` lists what there is; `make up` is the way in.
#
# Needs a POSIX shell, git and Go 1.26 (scripts/go finds or fetches it). The tests
# also use what CONTRIBUTING.md lists.

SHELL       := /bin/sh
GO          ?= $(CURDIR)/scripts/go
PREFIX      ?=
SERVE       ?=
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS     := -s -w -X main.version=$(VERSION)
BUILD_FLAGS := -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'

# The production binary: tests that seal a child drive it, because the race
# detector needs cgo and cgo takes away the system calls on all threads.
export BOURN_TEST_BINARY ?= $(CURDIR)/bin/bourn

PROGRAMS := ./cmd/bourn ./cmd/bournd ./cmd/bourn-posix-helper

PKG      ?= ./...
ALONE    := internal/run$$
FUZZTIME ?= 20s
TRIALS   ?= 100000
BENCH    ?=

# Analysers, run from source at these versions; the go command keeps them cached.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ERRORLINT   := codeberg.org/polyfloyd/go-errorlint@v1.9.0
EXHAUSTIVE  := github.com/nishanths/exhaustive/cmd/exhaustive@v0.15.0

.PHONY: help up down build install uninstall deb test check fmt vet lint tidy tree race bench-test bench fuzz soak clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

up: build install ## build, install, show a sealed command, and start the control plane (SERVE='--no-http')
	@scripts/example.sh bin/bourn
	@echo
	@scripts/postgres.sh
	@PREFIX='$(PREFIX)' scripts/control-plane.sh bin/bourn $(SERVE)

down: ## end the control plane
	@b=bin/bourn; [ -x $$b ] || b=bourn; $$b serve --stop

build: ## build bin/bourn, bin/bournd and the setuid helper, static
	CGO_ENABLED=0 $(GO) build $(BUILD_FLAGS) -o bin/ $(PROGRAMS)

install: build ## install them, manual pages and completions into PREFIX, /usr/local or ~/.local
	@scripts/install.sh bin/bourn '$(PREFIX)'

uninstall: ## remove what make install has put there (with the same PREFIX)
	@scripts/install.sh --remove bourn '$(PREFIX)'

# The helper of a package executes /usr/bin/bourn and no other.
deb: ## build a Debian package in bin
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS) -X main.program=/usr/bin/bourn' -o bin/deb/ $(PROGRAMS)
	@VERSION='$(VERSION)' GO='$(GO)' scripts/deb.sh bin/deb bin

# Alone: the tests of runs, which look at what is left in /var/tmp.
test: build ## run the tests (PKG=./internal/policy for one package)
	@r=0; all=$$($(GO) list $(PKG)); \
	 alone=$$(echo "$$all" | grep -E '$(ALONE)' || true); others=$$(echo "$$all" | grep -Ev '$(ALONE)' || true); \
	 set -x; export CGO_ENABLED=0; \
	 if [ -n "$$alone" ]; then $(GO) test -count=1 -shuffle=on -timeout 20m $$alone || r=1; fi; \
	 if [ -n "$$others" ]; then $(GO) test -count=1 -p 2 -shuffle=on -timeout 20m $$others || r=1; fi; \
	 exit $$r

check: fmt tree tidy vet lint test race bench-test ## everything that must pass before a change lands

fmt: ## refuse Go files that gofmt would change
	@bad=$$("$$(dirname "$$($(GO) which)")/gofmt" -l . ) || exit 1; \
	 if [ -n "$$bad" ]; then echo "not as gofmt writes them:"; echo "$$bad"; exit 1; fi

tree: ## refuse what must not be published: names of this machine, conflict markers
	@scripts/check-tree

tidy: ## refuse a go.mod or go.sum that does not say what the code uses
	$(GO) mod tidy -diff

vet: ## go vet for every system that Bourn is built for
	GOOS=linux GOARCH=amd64 $(GO) vet ./...
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	cd bench && $(GO) vet ./...

lint: ## staticcheck, errorlint, and switches that forget a case
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(ERRORLINT) ./...
	$(GO) run $(EXHAUSTIVE) -d -typeonly '^bourn[./]' ./...

# The packages whose tests drive the production binary have nothing for it to see, nor have
# those that start no goroutine, nor tests of what PostgreSQL says of SQL.
NO_RACE  := ^bourn(/internal/(run|cli|policy|profile|store/rowsec)|/cmd/.*)?$$|^bourn/internal/run/
race: build ## the tests that run in process under the race detector, where a C compiler is there
	@if command -v cc >/dev/null 2>&1; then \
	   set -x; CGO_ENABLED=1 $(GO) test -race -short -skip '^Test(Attack|Explain|Rights|Migrate)' $$($(GO) list $(PKG) | grep -Ev '$(NO_RACE)'); \
	 else echo "race: skipped, no C compiler"; fi

bench-test: ## the benchmark's own tests
	cd bench && $(GO) test ./...

bench: build ## measure launches against the targets (BENCH='-rounds 60 launch')
	cd bench && $(GO) run . $(BENCH)

fuzz: ## run every fuzz target for FUZZTIME
	@scripts/fuzz '$(GO)' $(FUZZTIME) $(PKG)

soak: build ## compare report, kernel and model on TRIALS random trees (an hour or two)
	BOURN_DIFF_TRIALS=$(TRIALS) CGO_ENABLED=0 $(GO) test -count=1 -timeout 6h ./internal/run/difftest

clean: ## remove what was built here
	rm -rf bin coverage.out
