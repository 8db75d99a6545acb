#!/bin/sh
# After a removal. State, certificates and secrets in /var/lib stay: whoever wants them gone removes them.
set -e
[ -z "$DPKG_ROOT" ] || exit 0
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
