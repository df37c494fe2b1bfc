#!/bin/sh
# Builds what build/out/release holds once more, from a copy of the source tree in another folder and with an empty
# build cache, and compares the bytes. Run by `make reproduce`.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
REVISION=${REVISION:-$(git describe --always --dirty --abbrev=40 --exclude='*')} # the copy has no repository
export REVISION
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/a longer path" "$work/cache"
git ls-files -z --cached --others --exclude-standard |
	tar --create --null --ignore-failed-read --files-from=- | tar --extract --directory="$work/a longer path"
cd "$work/a longer path"
for host in envoy higress; do
	GOCACHE=$work/cache build/wasm.sh "$host"
done
(cd build/image && ${GO:-go} run . release)
cd build/out/release
sha256sum --check --quiet "$here/build/out/release/SHA256SUMS"
cmp SHA256SUMS "$here/build/out/release/SHA256SUMS"
echo "the same bytes:"
cat SHA256SUMS
