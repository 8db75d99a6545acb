#!/bin/sh
# After an installation or upgrade. Nothing is started: the configuration comes first. What runs goes on with the program that it was started from until somebody
# restarts it, which for an agent leaves its tasks alone.
set -e
[ -z "$DPKG_ROOT" ] || exit 0
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers setpoint.conf
elif ! getent passwd setpoint >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/setpoint --shell /usr/sbin/nologin setpoint
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
