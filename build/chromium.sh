#!/bin/sh
# Leaves Debian's chromium in the PATH, for the tests of the page in e2e/page: installs it, with a font for Chinese,
# where there is none. That takes root and apt; elsewhere it says what is missing.
set -eu
command -v chromium >/dev/null && exit
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "chromium is not in the PATH: install it, on Debian by 'apt-get install chromium fonts-noto-cjk' as root" >&2
	exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
	chromium fonts-noto-cjk; } >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
chromium --version
