# Greenroom's commands. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
GOLANGCI_VERSION := v2.15.0
GOLANGCI := bin/golangci-lint-$(GOLANGCI_VERSION)
# The last before it took on the format of Windows, and the modules for that.
NFPM_VERSION := v2.45.0
NFPM := bin/nfpm-$(NFPM_VERSION)
PEBBLE_VERSION := v2.10.1
PEBBLE := bin/pebble-$(PEBBLE_VERSION)

# Paths are left out of what is built, so that all clones and worktrees on a machine
# share the build cache: a fresh clone compiles only what has changed.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -trimpath)

# What is tested, and the flags of the race detector: `make test RACE=` runs
# without it where there is no C compiler. Which packages it does not watch
# stands in internal/check/testrun/plan.go.
PKG ?= ./...
RACE ?= -race
TEST_TIMEOUT ?= 20m

# A count and not a duration: with a duration, go 1.26 sometimes reports
# "context deadline exceeded" for a target that is fine (golang/go#75804).
# This many executions take ten to twenty seconds a target on two cores.
FUZZ_EXECS ?= 100000x

# How long `make stress` takes, and each of the two halves of `make soak`.
STRESS_SECONDS ?= 600
SOAK_SECONDS ?= 1800
# How long `make soak` runs `greenroom verify`.
VERIFY_SECONDS ?= 3600

# Flags that narrow `make bench`, for example
# make bench BENCHFLAGS='-run "flood|ask" -runtimes greenroom,channels -count 3'.
BENCHFLAGS ?=

.PHONY: help
help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Serve the demo on http://127.0.0.1:8080.
	$(GO) run ./cmd/greenroom serve --demo

# Vet runs once and not within each `go test`: three quarters of its time go into
# what the dependencies' functions do, which two runs would find out twice.
.PHONY: test
test: setup $(NFPM) $(PEBBLE) ## Install what the tests need, then run every test, with the race detector where it can find something.
	$(GO) vet $(PKG)
	@# A module of its own, so that users of Greenroom do not depend on OpenTelemetry.
	$(if $(filter ./...,$(PKG)),cd otel && $(GO) vet ./... && $(GO) test -count=1 -shuffle=on -vet=off ./...)
	$(if $(RACE),CGO_ENABLED=1 )GREENROOM_NFPM=$(abspath $(NFPM)) GREENROOM_PEBBLE=$(abspath $(PEBBLE)) $(GO) run ./internal/check/testrun -count=1 -shuffle=on -vet=off -timeout=$(TEST_TIMEOUT) $(RACE) $(PKG)

.PHONY: package
package: $(NFPM) ## Build the Debian and RPM packages into dist/.
	NFPM=$(NFPM) OUT=dist GO=$(GO) packaging/build.sh

.PHONY: setup
setup: ## Install the test dependencies (as root on Debian and Ubuntu), or list what is missing.
	@RACE='$(RACE)' scripts/setup-tests.sh

.PHONY: check
check: lint tidy generated invariants fuzz bench-test ## Run the other checks that a change must pass.

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint: gofumpt, goimports, vet, staticcheck and the rest of .golangci.yml.
	$(GOLANGCI) config verify
	$(GOLANGCI) run --allow-parallel-runners ./...
	cd otel && ../$(GOLANGCI) run --allow-parallel-runners ./...

.PHONY: fmt
fmt: $(GOLANGCI) ## Format all Go files.
	$(GOLANGCI) fmt ./...
	cd otel && ../$(GOLANGCI) fmt ./...

.PHONY: tidy
tidy: ## Check that go.mod and go.sum are what `go mod tidy` writes.
	# -e: a dependency's own tests may need a module that the proxy does not have.
	$(GO) mod tidy -e -diff
	cd otel && $(GO) mod tidy -e -diff
	$(GO) mod verify

.PHONY: generate
generate: ## Rewrite server/openapi.json and web/src/types.ts from the operations of the HTTP API.
	$(GO) test ./server -run '^TestGeneratedFilesAreFresh$$' -count=1 -update

.PHONY: generated
generated: ## Check that what is generated is fresh: openapi.json, the dashboard's types, the dashboard.
	$(GO) test ./server -run '^TestGeneratedFilesAreFresh$$' -count=1
	$(GO) test ./internal/check/dashboard -count=1 -v

.PHONY: web
web: ## Rebuild the dashboard into server/dist.
	cd web && npm ci --no-audit --no-fund && npm run build

.PHONY: screenshot
screenshot: setup ## Have the browser tests take the README's screenshot, docs/dashboard.png.
	tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
	GREENROOM_SCREENSHOTS="$$tmp" $(GO) test ./server/browsertest -run 'TestDashboard/entities_are_live' -count=1 && \
	mv "$$tmp/dashboard.png" docs/dashboard.png

.PHONY: api
api: ## Rewrite api/*.txt after a deliberate change of the public API.
	$(GO) test ./internal/check -run '^TestPublicAPIIsTheReviewedOne$$' -count=1 -update

.PHONY: invariants
invariants: ## Run the engine's tests with its assertions compiled in.
	@grep -rqE '^//go:build .*\binvariants\b' --include='*.go' actor || \
		echo 'invariants: no file of actor has this build tag: what follows is the plain build' >&2
	$(GO) test -count=1 -tags=invariants ./actor/...

.PHONY: stress
stress: ## Run the engine's tests over and over for ten minutes, with -race and its assertions, at GOMAXPROCS 1, 2, 4 and 8.
	scripts/stress.sh $(STRESS_SECONDS)

.PHONY: fuzz
fuzz: ## Fuzz every decoder for about ten seconds.
	scripts/fuzz.sh $(FUZZ_EXECS)

# The benchmark is a separate module, so that users of Greenroom do not depend on
# the runtimes that it is compared with.
.PHONY: bench
bench: bench-setup ## Compare Greenroom with other runtimes, about 15 minutes; writes bench/RESULTS.md.
	cd bench && $(GO) build -buildvcs=auto -o ../bin/greenroom-bench . && ../bin/greenroom-bench $(BENCHFLAGS)

.PHONY: bench-setup
bench-setup: ## Install Erlang/OTP for the benchmark (as root on Debian and Ubuntu), or say that it is missing.
	@scripts/setup-bench.sh

.PHONY: bench-test
bench-test: $(GOLANGCI) ## Lint and test the benchmark's own code, with tiny sizes.
	cd bench && ../$(GOLANGCI) run --allow-parallel-runners ./... && $(GO) mod tidy -e -diff && $(GO) test -count=1 ./...

.PHONY: soak
soak: setup ## Run a cluster in trouble for half an hour, greenroom verify for an hour, and for 40 minutes the long forms of the tests, attacks on the engine, stress and fuzz, and say what ran.
	scripts/soak.sh $(SOAK_SECONDS) $(VERIFY_SECONDS)

.PHONY: clean
clean: ## Remove what the commands above have built.
	rm -rf bin dist greenroom web/node_modules

# Building it takes a few minutes, once: the version is part of the file name.
$(GOLANGCI):
	@mkdir -p bin
	@echo "building golangci-lint $(GOLANGCI_VERSION), once, a few minutes"
	tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
	GOBIN="$$tmp" GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION) && \
	mv "$$tmp/golangci-lint" $@

$(NFPM):
	@mkdir -p bin
	tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
	GOBIN="$$tmp" GOFLAGS= $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION) && \
	mv "$$tmp/nfpm" $@

$(PEBBLE):
	@mkdir -p bin
	tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
	GOBIN="$$tmp" GOFLAGS= $(GO) install github.com/letsencrypt/pebble/v2/cmd/pebble@$(PEBBLE_VERSION) && \
	mv "$$tmp/pebble" $@
