#!/bin/sh
# Runs every fuzz target for a while, also those of modules of their own below, as many at once as there are processors:
# build/fuzz.sh 5s
set -eu
cd "$(dirname "$0")/.."

# On a busy machine the fuzzer at times fails with "context deadline exceeded" and no failing input: the time was over
# while its workers were at it. That is no finding; everything else is.
if [ "$#" -eq 3 ]; then # budget, folder, target
	# Inputs that reach new code are made smaller for a second, not for the whole budget.
	out=$(
		cd "$2" &&
		go test -run='^$' -fuzz="^$3\$" -fuzztime="$1" -fuzzminimizetime=1s -parallel=1 . 2>&1 </dev/null
	) && status=0 || status=$?
	printf '== %s %s %s\n%s\n' "$2" "$3" "$1" "$out"
	[ "$status" -ne 0 ] || exit 0
	case $out in
	*"Failing input"* | *panic:* | *"DATA RACE"*) exit 255 ;; # xargs begins no other one then
	*"context deadline exceeded"*) exit 0 ;;
	esac
	exit 255
fi

grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(.*|${file%/*} \1|p" "$file"
done | xargs -r -P "$(getconf _NPROCESSORS_ONLN)" -n 2 "$PWD/build/fuzz.sh" "${1:-30s}"
