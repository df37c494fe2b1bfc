#!/bin/sh
# Builds one artifact: build/wasm.sh envoy|higress|envoy-chaos [output]. The last one is for tests only: a request can
# crash it. Run by `make wasm` and by the test harness, so that what is tested is what is shipped. The output is
# replaced by a rename: an Envoy that is loading the old file is not disturbed.
set -eu
cd "$(dirname "$0")/.."
host=${1:?usage: build/wasm.sh envoy|higress|envoy-chaos [output]}
out=${2:-build/out/warmgate-$host.wasm}
budget=$((6 * 1024 * 1024))

case $host in
envoy) tags=envoy ;;
higress) tags= ;;
envoy-chaos) tags=envoy,chaos budget=$((2 * budget)) ;;
*) echo "wasm.sh: unknown host $host" >&2; exit 2 ;;
esac

# What warmgate_build_info says.
vm=github.com/warmgate/warmgate/plugin/vm
version=$(sed -n 's/^  version: //p' build/spec.yaml)
revision=$(build/revision.sh)

mkdir -p "$(dirname "$out")" .cache/wasm
linked=.cache/wasm/linked-$host.wasm
new=.cache/wasm/warmgate-$host.wasm
# Without VCS stamp and file paths the same commit gives the same bytes everywhere. go build does nothing when $linked
# is current.
GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -buildvcs=false -tags="$tags" \
	-ldflags="-s -w -X $vm.version=$version -X $vm.revision=$revision" -o "$linked" ./plugin
# The harness asks for each artifact some two hundred times in a run of all tests.
made=$(cat "$linked" build/shrink/*.go go.sum | cksum)
if [ ! -e "$new" ] || [ "$made" != "$(cat "$new.from" 2>/dev/null)" ]; then
	go run ./build/shrink "$linked" "$new"
	echo "$made" >"$new.from"
fi
size=$(wc -c <"$new")
if [ "$size" -gt "$budget" ]; then
	echo "wasm.sh: $host is $size bytes, more than the budget of $budget" >&2
	exit 1
fi
if ! cmp -s "$new" "$out"; then
	cp "$new" "$out.tmp"
	mv "$out.tmp" "$out"
	echo "$out: $size bytes"
fi
