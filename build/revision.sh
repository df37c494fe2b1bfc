#!/bin/sh
# Prints the revision that modules name: REVISION, or the commit of this source tree, with "-dirty" behind it if there
# are changes, or "unknown" where it is no repository of its own.
cd "$(dirname "$0")/.." || exit
[ -z "${REVISION-}" ] || { echo "$REVISION"; exit; }
{ [ -e .git ] && git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null; } || echo unknown
