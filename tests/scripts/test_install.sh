#!/bin/sh
# SPDX-License-Identifier: MIT
# make install and uninstall, into a directory.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
dest=$tmp/dest
unset MAKEFLAGS MFLAGS MAKELEVEL
install_it() { make -C "$root" --no-print-directory B="$build" DESTDIR="$dest" PREFIX=/opt/h SYSCONFDIR=/opt/etc "${1:-install}"; }

it "make install succeeds" install_it
for f in sbin/hcpd bin/hcpctl lib/hcpd/agents/echo.sh lib/hcpd/agents/count.py lib/hcpd/agents/shout.sh; do
	it "$f is a program" test -x "$dest/opt/h/$f"
done
unit=$dest/opt/h/lib/systemd/system/hcpd.service
it "the unit is there" test -r "$unit"
it "the unit names the installed program and configuration" grep -qx 'ExecStart=/opt/h/sbin/hcpd -c /opt/etc/hcpd/hcpd.ini' "$unit"
it "no installed text names another prefix" not grep -rIn -e /usr/local -e '[^t]/etc/hcpd' "$dest"
it "the user is declared" test -r "$dest/opt/h/lib/sysusers.d/hcpd.conf"
for page in "$root"/docs/*.[13578]; do
	section=${page##*.}
	it "$(basename "$page") is installed" test -r "$dest/opt/h/share/man/man$section/$(basename "$page")"
done
for f in bash-completion/completions/hcpctl zsh/site-functions/_hcpctl fish/vendor_completions.d/hcpctl.fish; do
	it "$f is installed" test -r "$dest/opt/h/share/$f"
done

# The sample as installed, with its paths below DESTDIR and a state directory of ours.
config=$dest/opt/etc/hcpd/hcpd.ini
sed -e "s,/opt/h,$dest/opt/h,g" -e "s,^;*state_dir *=.*,state_dir = $tmp/state," "$config" >"$config.here"
it "the installed configuration passes hcpd -t" "$dest/opt/h/sbin/hcpd" -t -c "$config.here"
rm -f "$config.here"

sed "s,/opt/h/sbin,$dest/opt/h/sbin,g" "$unit" >"$tmp/hcpd.service"
it "systemd-analyze verifies the installed unit" systemd-analyze verify --man=no "$tmp/hcpd.service"

echo "; mine" >>"$config"
it "a second make install succeeds" install_it
it "and keeps the administrator's configuration" grep -qx '; mine' "$config"

it "make uninstall succeeds" install_it uninstall
it "it leaves only the configuration" same "" "$(find "$dest" -type f ! -path "$dest/opt/etc/*")"
