#!/bin/sh
# Runs every fuzz target for a while, also those of modules of their own below: build/fuzz.sh 5s
set -eu
cd "$(dirname "$0")/.."
budget=${1:-30s}

# fuzz runs one target. On a busy machine the fuzzer at times fails with "context deadline exceeded" and no failing
# input: the time was over while its workers were at it. That is no finding; everything else is.
fuzz() {
	# Inputs that reach new code are made smaller for a second, not for the whole budget.
	out=$(
		cd "$1" &&
		go test -run='^$' -fuzz="^$2\$" -fuzztime="$budget" -fuzzminimizetime=1s . 2>&1 </dev/null
	) && status=0 || status=$?
	echo "$out"
	[ "$status" -ne 0 ] || return 0
	case $out in
	*"Failing input"* | *panic:* | *"DATA RACE"*) return 1 ;;
	*"context deadline exceeded"*) return 0 ;;
	esac
	return 1
}

grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
		echo "== ${file%/*} $target $budget"
		fuzz "${file%/*}" "$target" || exit 1
	done || exit 1
done
