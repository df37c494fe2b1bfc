# The two artifacts. build/wasm.sh holds the flags; go build decides what is stale.

wasm: ## Build build/out/warmgate-envoy.wasm and build/out/warmgate-higress.wasm
	build/wasm.sh envoy
	build/wasm.sh higress
