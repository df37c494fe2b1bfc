#!/bin/sh
# The tests behind `make e2e-mesh`: each control plane is in a module of its own. Each step says how long it took. On an
# empty machine fetching and compiling take minutes, and gigabytes in Go's caches; vet would double them, because it
# looks at all that is imported.
set -eu
cd "$(dirname "$0")/../e2e/mesh"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

step() {
	name=$1 begun=$(date +%s)
	shift
	"$@"
	echo "mesh.sh: $module, $name: $(($(date +%s) - begun)) s"
}

for module in envoygateway istio; do
	cd "$module"
	step modules go mod download
	step compile go test -vet=off -c -o "$bin/$module" .
	if [ "$module" = envoygateway ]; then
		# As the tests build them: what is there then takes seconds.
		step "compile its programs" go build -o ../../../.cache/envoy-gateway/ -ldflags="-s -w" \
			github.com/envoyproxy/gateway/cmd/egctl github.com/envoyproxy/gateway/cmd/envoy-gateway
	fi
	step tests "$bin/$module" -test.timeout 60m
	cd ..
done
