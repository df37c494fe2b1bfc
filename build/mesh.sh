#!/bin/sh
# The tests behind `make e2e-mesh`, `make e2e-helm` and `make e2e-otel`: each control plane, Helm and the OpenTelemetry
# collector are in a module of their own, which the arguments name below e2e. Each step says how long it took. On an
# empty machine fetching and compiling take minutes and gigabytes in Go's caches; so do vet and staticcheck, which look
# at all that is imported.
set -eu
cd "$(dirname "$0")/../e2e"
root=$(cd .. && pwd)
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

step() {
	name=$1 begun=$(date +%s)
	shift
	"$@"
	echo "mesh.sh: $module, $name: $(($(date +%s) - begun)) s"
}

vetted() {
	go mod tidy -diff && go vet . && go tool -modfile="$root/build/tools/go.mod" staticcheck .
}

for module in "$@"; do
	cd "$root/e2e/$module"
	step modules go mod download
	step compile go test -vet=off -c -o "$bin/test" .
	if [ "$module" = mesh/envoygateway ]; then
		# As the tests build them: what is there then takes seconds.
		step "compile its programs" go build -o "$root/.cache/envoy-gateway/" -ldflags="-s -w" \
			github.com/envoyproxy/gateway/cmd/egctl github.com/envoyproxy/gateway/cmd/envoy-gateway
	fi
	step vet vetted
	step tests "$bin/test" -test.timeout 60m
done
