#!/bin/sh
# SPDX-License-Identifier: MIT
# The systemd unit, by systemd-analyze, which needs no running systemd.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

mkdir -p "$tmp/units" "$tmp/strict/hcpd.service.d" "$tmp/bin"
# A stand-in at the path that the unit names, so that verify finds it without an installation.
printf '#!/bin/sh\n' >"$tmp/bin/hcpd"
chmod +x "$tmp/bin/hcpd"
for d in units strict; do sed "s,/usr/local/sbin,$tmp/bin,g" "$root/systemd/hcpd.service" >"$tmp/$d/hcpd.service"; done
cp "$root/systemd/hcpd-strict.conf" "$tmp/strict/hcpd.service.d/strict.conf"

verifies() { # DIR: no word, exit 0
	said=$(systemd-analyze verify --man=no "$tmp/$1/hcpd.service" 2>&1) && [ -z "$said" ] || { echo "$said"; return 1; }
}
exposure() { systemd-analyze security --offline=true "$tmp/$1/hcpd.service" 2>/dev/null | sed -n 's/.*exposure level for [^:]*: \([0-9.]*\).*/\1/p'; }
at_most() { awk -v a="$2" -v b="$1" 'BEGIN { print a; exit !(a != "" && a + 0 <= b) }' </dev/null; }

it "the unit verifies" verifies units
it "the unit with the strict drop-in verifies" verifies strict
it "the unit's exposure is at most 2.5" at_most 2.5 "$(exposure units)"
it "with the strict drop-in it is at most 1.5" at_most 1.5 "$(exposure strict)"

has() { grep -qx "$1" "$root/systemd/hcpd.service"; }
for line in Type=notify 'WatchdogSec=[0-9]*' User=hcpd StateDirectory=hcpd Delegate=yes KillMode=mixed \
	RestartPreventExitStatus=78 Restart=on-failure; do
	it "the unit has $line" has "$line"
done
it "a JIT can run under the default unit" not has 'MemoryDenyWriteExecute=yes'
it "a missing credential does not keep it from starting: it is named without a path" not has 'LoadCredential=.*:.*'
# proves nothing by itself, but the two must not drift: systemd must not kill what hcpd still lets end
stops_later() {
	unit=$(sed -n 's/^TimeoutStopSec=//p' "$root/systemd/hcpd.service")
	ini=$(sed -n 's/^;* *stop_timeout *= *\([0-9]*\)s.*/\1/p' "$root/etc/hcpd.ini")
	[ "$unit" -gt "$ini" ]
}
it "TimeoutStopSec is above the sample's stop_timeout" stops_later
it "the user is declared for systemd-sysusers" grep -q '^u hcpd ' "$root/systemd/hcpd.sysusers"
