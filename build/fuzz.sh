#!/bin/sh
# Runs every fuzz target of the module for a while: build/fuzz.sh 5s
set -eu
cd "$(dirname "$0")/.."
budget=${1:-30s}

grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
		echo "== ${file%/*} $target $budget"
		go test -run='^$' -fuzz="^$target\$" -fuzztime="$budget" "${file%/*}" </dev/null
	done
done
