#!/bin/sh
# Builds the program warmgate: build/warmgate.sh, for this machine, or build/warmgate.sh OS ARCH for a release. It does
# without C, and without VCS stamp and file paths: the same commit gives the same bytes everywhere.
set -eu
cd "$(dirname "$0")/.."
out=build/out/warmgate${1:+-$1-$2}
version=$(sed -n 's/^  version: //p' build/spec.yaml)
revision=$(build/revision.sh)
mkdir -p build/out
CGO_ENABLED=0 GOOS=${1-} GOARCH=${2-} ${GO:-go} build -trimpath -buildvcs=false \
	-ldflags="-s -w -X main.release=$version -X main.commit=$revision" -o "$out" ./cmd/warmgate
echo "$out: $(wc -c <"$out") bytes"
