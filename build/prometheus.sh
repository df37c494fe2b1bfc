#!/bin/sh
# Leaves Debian's prometheus and promtool in the PATH, for the tests of deploy/observability: installs them where there
# are none. That takes root and apt; elsewhere it says what is missing.
set -eu
command -v prometheus >/dev/null && command -v promtool >/dev/null && exit
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "prometheus and promtool are not in the PATH: install them, on Debian by 'apt-get install prometheus'" \
		"as root" >&2
	exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package would start a service, which tests have no use for.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$log" "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
fi
install() {
	apt-get -o Acquire::Retries=3 update && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 \
		install -y --no-install-recommends prometheus
}
# A mirror may fail for a moment, or change between the list and the packages.
for wait in 10 60 0; do
	if install >"$log" 2>&1; then break; fi
	[ "$wait" != 0 ] || { cat "$log" >&2; exit 1; }
	sleep "$wait"
done
prometheus --version | head -n 1
