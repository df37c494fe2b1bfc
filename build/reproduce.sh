#!/bin/sh
# Makes a release of this source tree, another one of a copy of it in another folder, whose modules and programs are
# built with an empty build cache, and compares the bytes. Run by `make reproduce`. ANEW names the platforms whose
# programs are built so, by default all; those of others are built with the cache that there is.
set -eu
cd "$(dirname "$0")/.."
REVISION=$(build/revision.sh) # the copy has no repository
export REVISION
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

release() {
	(cd build/image && ${GO:-go} run . -out "$1" release)
}

release "$work/first"
mkdir "$work/a longer path" "$work/cache"
git ls-files -z --cached --others --exclude-standard |
	tar --create --null --ignore-failed-read --files-from=- | tar --extract --directory="$work/a longer path"
cd "$work/a longer path"
for host in envoy higress; do
	GOCACHE=$work/cache build/wasm.sh "$host"
done
GOCACHE=$work/cache make programs ${ANEW:+PLATFORMS="$ANEW"}
if [ -n "${ANEW-}" ]; then
	mkdir "$work/anew"
	for platform in $ANEW; do mv "build/out/warmgate-$platform" "$work/anew"; done
	make programs
	mv "$work/anew"/* build/out
fi
release "$work/second"
diff -r "$work/first" "$work/second"
echo "the same bytes:"
cat "$work/second/SHA256SUMS"
