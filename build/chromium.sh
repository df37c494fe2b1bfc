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
install() {
	apt-get -o Acquire::Retries=3 update && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 \
		install -y --no-install-recommends chromium fonts-noto-cjk
}
# A mirror may fail for a moment, or change between the list and the packages.
for wait in 10 60 0; do
	if install >"$log" 2>&1; then break; fi
	[ "$wait" != 0 ] || { cat "$log" >&2; exit 1; }
	sleep "$wait"
done
chromium --version
