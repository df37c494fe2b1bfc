#!/bin/sh
# Runs mutation tests of packages: build/mutate.sh ./lb ./metrics
# A mutant is a small change to the code, such as < for <=; one that lives is a change that no test of its package
# notices. Prints the mutants that live, and fails unless more than 90 % of those in covered code are killed.
# build/mutants.md lists those that are known to live, and why.
#
# Each mutant costs a run of its package's tests: minutes for most packages, hours for some. A mutant that does not
# compile, such as - for + between texts, counts as killed: go test ends with the same status.
set -eu
cd "$(dirname "$0")/.."
root=$(mktemp -d) tool=$(mktemp)
trap 'rm -rf "$root" "$tool"' EXIT INT TERM

# The tool copies the module for each of its workers: without the servers in .cache.
git ls-files --cached --others --exclude-standard | tar -cf - --files-from=- --ignore-failed-read | tar -xf - -C "$root"
go build -modfile=build/tools/go.mod -o "$tool" github.com/go-gremlins/gremlins/cmd/gremlins
cd "$root"
# One CPU for each test run. The tool's --test-cpu must not be set: v0.5.1 passes "-cpu 1" as one argument, at which
# every test run fails and every mutant counts as killed.
export GOMAXPROCS=1
failed=
for package in "$@"; do
	echo "== $package"
	# Subfolders are packages of their own.
	"$tool" unleash "$package" --exclude-files / --output-statuses l --threshold-efficacy 90 \
		--workers "${WORKERS:-2}" --timeout-coefficient "${TIMEOUT_COEFFICIENT:-10}" || failed=1
done
[ -z "$failed" ]
