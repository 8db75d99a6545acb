# Setpoint's build. `make help` lists the targets; tools are built into .tools/, which git ignores.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

TOOLS := .tools
BIN := $(TOOLS)/bin

BUF_VERSION := 1.75.0
BUF_PLATFORM := $(shell echo "$$(uname -s)-$$(uname -m)" | tr '[:upper:]' '[:lower:]' | sed 's/x86_64/x64/; s/linux-arm64/linux-aarch64/')
BUF := $(TOOLS)/buf-$(BUF_VERSION)/node_modules/@bufbuild/buf-$(BUF_PLATFORM)/bin/buf

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)

# Nothing here needs C: without it programs are linked statically, the server takes less memory, and what is built once serves programs and tests alike.
export CGO_ENABLED ?= 0

# Directories of this module's Go source, for tools that take directories.
SOURCE := $(wildcard agent client cmd core plugins proto sdk test)

# Packages that play the real binary.
PLAYED := /setpoint/test/

# How many agents come back at once.
AGENTS ?= 2000

# What bench measures, and how often.
BENCH ?= .
BENCH_PACKAGES ?= ./...
BENCH_COUNT ?= 6

# How many games sim plays, and the first seed.
SEEDS ?= 600
SEED ?= 1

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build and run

.PHONY: build
build: ## Build bin/setpoint and the small programs beside it, of which each process task and each plugin that comes along has one
	go build -ldflags '$(LDFLAGS)' -o bin/setpoint ./cmd/setpoint
	go build -ldflags '-s -w' -o bin/ ./cmd/setpoint-shim ./cmd/setpoint-plugin

.PHONY: man
man: build ## Write the manual pages of all commands to bin/man
	bin/setpoint man bin/man

.PHONY: run
run: build ## Build, start a cluster of three nodes on this machine, run examples/jobs, show what happens
	@tools/demo.sh

.PHONY: clean
clean: ## Remove what was built and the demo's data; tools stay in .tools/
	rm -rf bin dist site .demo

.PHONY: site
site: build ## Make the documentation's site in site/, and check its links
	go -C tools run ./site -root .. -bin ../bin/setpoint -out ../site

##@ Test

.PHONY: test
test: build ## Run all tests
	go test $$(go list ./... | grep -v $(PLAYED))
	go test -p 1 -timeout 20m $$(go list ./... | grep $(PLAYED)) # with nothing beside them: they play the real binary, in real time

.PHONY: race
race: ## Run all tests under the race detector
	CGO_ENABLED=1 go test -race ./... # which is C

.PHONY: docker
docker: build ## Test the docker driver on an engine of its own (root, docker.io)
	.ci/docker

.PHONY: browser
browser: build ## Test the dashboard in Chromium
	.ci/dashboard

.PHONY: screenshots
screenshots: build ## Write docs/screenshots, from a dashboard in Chromium
	.ci/dashboard screenshots

.PHONY: scenarios
scenarios: build ## Run the black-box scenarios with all their repetitions (long)
	SETPOINT_SCENARIOS=full go test -count=1 -timeout 3h -v ./test/...

.PHONY: apart
apart: build ## Run scenarios about lost nodes, silence, secrets and ports with a network of their own for the server and each node (root; 3 minutes)
	SETPOINT_SCENARIOS_APART=1 go test -count=1 -timeout 30m -v ./test/scenarios -run '^Test(06|08|18G|20G)'

.PHONY: agents
agents: ## Have 2,000 agents come back at once when the server is started again (AGENTS: how many)
	SETPOINT_AGENTS=$(AGENTS) go test -count=1 -timeout 20m -v ./test/scale

.PHONY: compare
compare: build ## Play the same events on a Docker Swarm and on Setpoint and write docs/COMPARISON.md (root, docker.io; 10 minutes)
	go run ./test/compare -bin bin -out docs/COMPARISON.md

.PHONY: trace
trace: ## Load the whole openb trace and compare what is said of every pod that waits with a plain count (3 minutes)
	SETPOINT_TRACE=full go test -count=1 -timeout 20m -v ./test/turn -run '^TestTraceCauses$$'

.PHONY: sim
sim: ## Play 600 random games of the simulator and 5 with hundreds of nodes (SEEDS, SEED: how many, from which on); says what they have seen (5 minutes)
	@mkdir -p bin
	go test -c -o bin/sim.test ./core/sim
	cd core/sim && ../../bin/sim.test -test.run '^TestChaos$$' -test.timeout 30m -progress -seeds $(SEEDS) -seed $(SEED)
	cd core/sim && ../../bin/sim.test -test.run '^TestChaos$$' -test.timeout 30m -progress -large -seeds 5 -seed $(SEED)

.PHONY: mutants
mutants: ## Make faults in a copy of the core, one by one; the simulator has to find each (20 minutes)
	go run ./core/sim/mutants

.PHONY: bench
bench: $(BIN)/benchstat ## Run the benchmarks that docs/BENCHMARKS.md holds, and write it (15 minutes; leave the machine alone meanwhile)
	tools/benchmarks.sh $(BIN)/benchstat

.PHONY: bench-check
bench-check: ## Fail if counts, allocations, growth or relative processor time are worse by 15 % than test/turn/baseline.json (5 minutes)
	tools/benchcheck.sh check

.PHONY: bench-baseline
bench-baseline: ## Write test/turn/baseline.json, on a machine that does nothing else
	tools/benchcheck.sh save

.PHONY: bench-some
bench-some: $(BIN)/benchstat ## Run benchmarks (BENCH, BENCH_PACKAGES, BENCH_COUNT) and summarize them
	@mkdir -p bin
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count=$(BENCH_COUNT) $(BENCH_PACKAGES) | tee bin/bench.txt
	$(BIN)/benchstat bin/bench.txt

##@ Check

.PHONY: lint
lint: $(BIN)/golangci-lint ## golangci-lint with .golangci.yml (built at first, 2 minutes), and the tests of the source itself
	$(BIN)/golangci-lint run ./...
	go test ./core/internal/tidy

.PHONY: fmt
fmt: $(BIN)/gofumpt $(BUF) ## Format Go and .proto files
	$(BIN)/gofumpt -w $(SOURCE)
	$(BUF) format -w

##@ Deploy

.PHONY: rules
rules: $(BIN)/promtool ## Check the alert rules and the dashboard's queries with promtool (which is long to build at first)
	SETPOINT_PROMTOOL=$(abspath $(BIN)/promtool) go test -count=1 ./core/metrics -run 'Rules|Dashboard|Deploy'

# Packages have numbers for versions: v1.2.3-4-gabc is 1.2.3.4.gabc, and what has no tag comes before the first that has.
PACKAGE_VERSION ?= $(shell echo '$(VERSION)' | sed -e 's/^v\([0-9]\)/\1/' -e 't dots' -e 's/^/0.0.0~/' -e ':dots' -e 's/-/./g')
PACKAGE_ARCH ?= $(shell go env GOARCH)

.PHONY: packages
packages: $(BIN)/nfpm ## Build dist/*.deb and dist/*.rpm
	@mkdir -p bin/package dist
	GOARCH=$(PACKAGE_ARCH) go build -trimpath -ldflags '-s -w $(LDFLAGS)' -o bin/package/ ./cmd/setpoint
	GOARCH=$(PACKAGE_ARCH) go build -trimpath -ldflags '-s -w' -o bin/package/ ./cmd/setpoint-shim ./cmd/setpoint-plugin
	for kind in deb rpm; do \
		PACKAGE_VERSION='$(PACKAGE_VERSION)' PACKAGE_ARCH=$(PACKAGE_ARCH) $(BIN)/nfpm package --config deploy/packages/nfpm.yaml --packager $$kind --target dist/; \
	done

.PHONY: packages-check
packages-check: packages ## Install the packages into a scratch directory and start what they have (dpkg; rpm where it is installed)
	.ci/packages

##@ Generated code

PROTO_TOOLS := $(BUF) $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-grpc $(BIN)/protoc-gen-connect-go

.PHONY: proto
proto: $(PROTO_TOOLS) ## Regenerate the Go beside each .proto (sdk/proto, proto), docs/reference/api.md and proto/openapi
	@.ci/proto generate $(BUF) .

.PHONY: proto-check
proto-check: $(PROTO_TOOLS) ## Lint the .proto files; fail if the generated Go, reference or OpenAPI document differs from them, or if the plugin protocol breaks what was promised
	$(BUF) lint
	@.ci/proto check $(BUF)
	@.ci/proto breaking $(BUF)

.PHONY: proto-baseline
proto-baseline: $(BUF) ## Promise the plugin protocol as it is; part of a release
	@.ci/proto baseline $(BUF)

# Tools: pinned in tools/go.mod and, for the large ones, in tools/lint, tools/nfpm and tools/promtool.

# buf comes ready built where there is npm, and is built from source elsewhere.
$(BUF):
	@mkdir -p $(@D)
	if command -v npm >/dev/null; then \
		npm install --silent --no-save --no-audit --no-fund --prefix $(TOOLS)/buf-$(BUF_VERSION) @bufbuild/buf-$(BUF_PLATFORM)@$(BUF_VERSION); \
	else \
		GOBIN=$(abspath $(@D)) go install github.com/bufbuild/buf/cmd/buf@v$(BUF_VERSION); \
	fi
	@test -x $@

$(BIN)/protoc-gen-go: PKG := google.golang.org/protobuf/cmd/protoc-gen-go
$(BIN)/protoc-gen-go-grpc: PKG := google.golang.org/grpc/cmd/protoc-gen-go-grpc
$(BIN)/protoc-gen-connect-go: PKG := connectrpc.com/connect/cmd/protoc-gen-connect-go
$(BIN)/gofumpt: PKG := mvdan.cc/gofumpt
$(BIN)/benchstat: PKG := golang.org/x/perf/cmd/benchstat
$(BIN)/nfpm: PKG := github.com/goreleaser/nfpm/v2/cmd/nfpm
$(BIN)/promtool: PKG := github.com/prometheus/prometheus/cmd/promtool
$(BIN)/golangci-lint: PKG := github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	@mkdir -p $(BIN)
	go -C tools/lint build -o ../../$@ $(PKG)
	@touch $@

$(BIN)/nfpm: tools/nfpm/go.mod tools/nfpm/go.sum
	@mkdir -p $(BIN)
	go -C tools/nfpm build -o ../../$@ $(PKG)
	@touch $@

# Without service discovery, which rules do not need and most of its code is.
$(BIN)/promtool: tools/promtool/go.mod tools/promtool/go.sum
	@mkdir -p $(BIN)
	go -C tools/promtool build -tags remove_all_sd -o ../../$@ $(PKG)
	@touch $@

$(BIN)/%: tools/go.mod tools/go.sum
	@mkdir -p $(BIN)
	go -C tools build -o ../$@ $(PKG)
	@touch $@
