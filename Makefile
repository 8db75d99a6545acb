# Setpoint's build. `make help` lists the targets; tools are built into .tools/, which git ignores.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

TOOLS := .tools
BIN := $(TOOLS)/bin

BUF_VERSION := 1.75.0
BUF_PLATFORM := $(shell echo "$$(uname -s)-$$(uname -m)" | tr '[:upper:]' '[:lower:]' | sed 's/x86_64/x64/; s/linux-arm64/linux-aarch64/')
BUF := $(TOOLS)/buf-$(BUF_VERSION)/node_modules/@bufbuild/buf-$(BUF_PLATFORM)/bin/buf

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

##@ Generated code

PROTO_TOOLS := $(BUF) $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-grpc $(BIN)/protoc-gen-connect-go

.PHONY: proto
proto: $(PROTO_TOOLS) ## Regenerate the Go beside each .proto (sdk/proto, proto)
	@.ci/proto generate $(BUF) .

.PHONY: proto-check
proto-check: $(PROTO_TOOLS) ## Lint the .proto files; fail if the generated Go differs from them
	$(BUF) lint
	@.ci/proto check $(BUF)

##@ Tools

$(BUF):
	npm install --silent --no-save --no-audit --no-fund --prefix $(TOOLS)/buf-$(BUF_VERSION) @bufbuild/buf-$(BUF_PLATFORM)@$(BUF_VERSION)
	@test -x $@

$(BIN)/protoc-gen-go: PKG := google.golang.org/protobuf/cmd/protoc-gen-go
$(BIN)/protoc-gen-go-grpc: PKG := google.golang.org/grpc/cmd/protoc-gen-go-grpc
$(BIN)/protoc-gen-connect-go: PKG := connectrpc.com/connect/cmd/protoc-gen-connect-go
$(BIN)/%: tools/go.mod tools/go.sum
	@mkdir -p $(BIN)
	go -C tools build -o ../$@ $(PKG)
	@touch $@
