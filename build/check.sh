#!/bin/sh
# The checks behind `make check`. Each prints what is wrong; the script runs all of them and fails if any did.
set -u
cd "$(dirname "$0")/.."
tool="go tool -modfile=build/tools/go.mod"
failed=

check() {
	echo "== $1"
	shift
	"$@" || failed=1
}

formatted() {
	files=$($tool gofumpt -l $(git ls-files '*.go')) || return 1
	[ -z "$files" ] || { echo "not formatted by gofumpt:"; echo "$files"; return 1; }
}

# Both builds at once: what only one of them uses is not unused.
both_builds() {
	printf 'higress:\nenvoy: -tags=envoy\n' | $tool staticcheck -matrix ./...
}

# As it is built, without the tests, which start processes, and the simulated servers, which ask for the times of
# their own. What is not used, the next check says.
as_built() {
	internal=$(go list ./internal/...) || return 1
	printf 'higress: GOOS=wasip1 GOARCH=wasm\nenvoy: GOOS=wasip1 GOARCH=wasm -tags=envoy\n' |
		$tool staticcheck -tests=false -checks inherit,-U1000 -matrix \
			./plugin/... ./lb/... ./redisclient ./metrics $(echo "$internal" | grep -v /internal/vllmsim)
}

# The modules that need libraries which are to be no dependencies of Warmgate: to compare it with, or to pack it.
nested() (
	root=$PWD
	cd "$1" && go mod tidy -diff && go vet ./... && go tool -modfile="$root/build/tools/go.mod" staticcheck ./...
)

check gofumpt formatted
check "go mod tidy" go mod tidy -diff
check "go vet" go vet ./...
check "go vet, stock Envoy" go vet -tags envoy ./plugin/...
check "go vet, crashing plugin" go vet -tags envoy,chaos ./plugin/...
check "staticcheck, wasip1" as_built
check "go build, macOS" env GOOS=darwin go build ./...
check staticcheck both_builds
check "module build/image" nested build/image
check "module build/dashboards" nested build/dashboards
check "module e2e/bench/expfmt" nested e2e/bench/expfmt
check "module e2e/openapi" nested e2e/openapi
check "module e2e/compose" nested e2e/compose
check "module e2e/page" nested e2e/page
check "module e2e/wasmgo" nested e2e/wasmgo
check "lengths, widths, layers, syntax, Lua, artifacts" go run ./build/check
[ -z "$failed" ] || { echo "make check: failed" >&2; exit 1; }
