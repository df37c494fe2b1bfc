#!/bin/sh
# Runs mutation tests of packages: build/mutate.sh ./lb ./metrics
# A mutant is a small change to the code, such as < for <=; one that lives is a change that no test notices. Prints the
# mutants that live, and fails when fewer than 90 % of those in covered code are killed.
set -eu
cd "$(dirname "$0")/.."
root=$(mktemp -d) tool=$(mktemp)
trap 'rm -rf "$root" "$tool"' EXIT INT TERM

# The tool copies the module for each of its workers: without the servers in .cache.
git ls-files --cached --others --exclude-standard | tar -cf - --files-from=- --ignore-failed-read | tar -xf - -C "$root"
go build -modfile=build/tools/go.mod -o "$tool" github.com/go-gremlins/gremlins/cmd/gremlins
cd "$root"
failed=
for package in "$@"; do
	echo "== $package"
	"$tool" unleash "$package" --output-statuses l --threshold-efficacy 90 --workers 2 --test-cpu 1 \
		--timeout-coefficient "${TIMEOUT_COEFFICIENT:-10}" || failed=1
done
[ -z "$failed" ]
