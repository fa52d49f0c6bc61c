# SPDX-License-Identifier: Apache-2.0

GO      ?= go
BIN     := bin/kvbench
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.linked=$(VERSION)
TOOLS   := -modfile=internal/tools/go.mod

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/kvbench
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/kvbench

.PHONY: extras
extras: build ## completions and manual pages, as releases have them
	mkdir -p bin/extras/completions
	$(BIN) man bin/extras/man
	for shell in bash zsh fish; do $(BIN) completion $$shell >bin/extras/completions/kvbench.$$shell || exit 1; done

.PHONY: demo
demo: build ## the main job on this machine: playground, 3 workers, load, run, report (about a minute)
	$(BIN) demo

.PHONY: study-demo
study-demo: build ## each study that kvbench ships, made short, on playgrounds on this machine (some minutes; ONLY: names, OUT: folder)
	cmd/kvbench/studies/demo.sh

.PHONY: test
test: ## all tests that need nothing but Go
	$(GO) test -p 2 $$($(GO) list ./... | grep -v '/cmd/kvbench$$') # more at a time would be in each other's way: many measure time
	$(GO) test -parallel 3 ./cmd/kvbench
	cd internal/tools && $(GO) test ./...

.PHONY: test-browser
test-browser: ## the HTML report in a headless Chromium, if there is one (KVBENCH_SCREENSHOTS: a folder for pictures of it)
	cd analysis/render/browsertest && $(GO) test -mod=mod -count 1 .

.PHONY: test-faults
test-faults: ## each fault of docs/failure-model.md, with real processes (some minutes)
	KVBENCH_FAULTS=1 $(GO) test -count 1 -timeout 20m -parallel 2 -run '^TestFault' ./cmd/kvbench

.PHONY: truth
truth: ## situations of a run, each with its one right verdict, over both drivers (ten minutes; TRUTH=short: two minutes, most of them with one driver each)
	KVBENCH_TRUTH=$(or $(TRUTH),all) $(GO) test -count 1 -timeout 30m -run '^TestTruth$$' ./cmd/kvbench

.PHONY: soak
soak: ## both drivers through each disturbance of a cluster, a minute each, with every value and write verified
	KVBENCH_SOAK=1 $(GO) test -count 1 -timeout 60m -parallel 2 -v -run '^TestSoak$$' ./cmd/kvbench

.PHONY: search-accuracy
search-accuracy: ## kvbench search against queues of known capacity, ten times (about an hour, on a machine that nothing else needs)
	KVBENCH_SEARCH=1 $(GO) test -count 1 -timeout 4h -v -run '^TestSearchAccuracy$$' ./cmd/kvbench

.PHONY: race
race: ## the tests of everything that runs concurrently, under the race detector
	GORACE=suppressions=$(CURDIR)/internal/tools/race.txt $(GO) test -p 2 -race -short ./analysis ./cmd/analyzer ./internal/...

.PHONY: lint
lint: ## gofmt, go.mod, go vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run: gofmt -w .'; exit 1; }
	$(GO) mod tidy -diff
	cd internal/tools && $(GO) mod tidy -diff # in internal/peers/goycsb it would download 200 modules
	$(GO) vet ./...
	cd internal/tools && $(GO) vet ./...
	$(GO) tool $(TOOLS) staticcheck -checks inherit,-ST1005 ./... # error strings reach users as they are

.PHONY: proto
proto: ## generate Go from the .proto
	$(GO) generate ./internal/control/...

.PHONY: fuzz
fuzz: ## fuzz every parser and reader, FUZZTIME each (default 30s)
	@$(GO) list -f '{{$$p := .ImportPath}}{{range .TestGoFiles}}{{$$p}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$p}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}' ./... | \
	while read -r pkg file; do sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file" | \
	  while read -r f; do echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(or $(FUZZTIME),30s) "$$pkg" || exit 1; done || exit 1; done

.PHONY: bench
bench: ## Go benchmarks of generator, pacer, recorder, interval log, merge and lane (benchstat form)
	$(GO) test -run '^$$' -bench . -benchmem -count $(or $(COUNT),1) ./internal/... ./analysis/...

.PHONY: compare-simulation
compare-simulation: ## the tables of docs/compare.md: what kvbench compare claims of equal runs, and of those that differ (some minutes)
	KVBENCH_SIMULATE=1 $(GO) test -count 1 -timeout 120m -v -run '^TestSimulatedTables$$' ./analysis

.PHONY: compare-equals
compare-equals: ## what kvbench compare claims of real runs of the same thing, both drivers (some ten minutes)
	KVBENCH_EQUALS=1 $(GO) test -count 1 -timeout 60m -v -run '^TestCompareEquals$$' ./cmd/kvbench

PEERS ?=
.PHONY: bench-peers
bench-peers: build bin/bare bin/go-ycsb ## CPU per operation of go-ycsb, a bare rawkv loop and kvbench's drivers, in turn
	$(GO) run ./internal/peers $(PEERS)

bin/bare: internal/peers/bare/main.go go.mod
	$(GO) build -o $@ ./internal/peers/bare

bin/go-ycsb: internal/peers/goycsb/go.mod
	cd internal/peers/goycsb && $(GO) build -o ../../../$@ github.com/pingcap/go-ycsb/cmd/go-ycsb

include deploy/kubernetes.mk
