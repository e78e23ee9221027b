#!/bin/sh
# SPDX-License-Identifier: MIT
# scripts/deps, with a dpkg-query, an apt-get and a sudo that only write down how they were called.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
deps=$root/scripts/deps
mkdir "$tmp/bin" "$tmp/bare"
calls=$tmp/calls

stub() { # NAME LINES
	printf '#!/bin/sh\n%s\n' "$2" >"$tmp/bin/$1"
	chmod +x "$tmp/bin/$1"
}
stub dpkg-query 'shift 3; for p; do case $p in '"\${ABSENT:-none}"') ;; *) echo "installed $p" ;; esac; done'
stub apt-get 'echo "apt-get $*" >>'"$calls"'; case "$*" in *"${FAIL:-nothing} "*|*"${FAIL:-nothing}") echo "E: no such host"; exit 100 ;; esac'
stub sudo 'echo "sudo $*" >>'"$calls"'
case $1 in sh|rm|systemctl) exit 0 ;; esac
exec "$@"'
stub id 'echo ${USER_ID:-0}'
run() { # VARIABLE=VALUE...: output in $out, status in $status
	: >"$calls"
	out=$(env PATH="$tmp/bin:$PATH" USER_ID=1000 "$@" "$deps" 2>&1)
	status=$?
}

run A=b
it "all there: no word" same "" "$out"
it "all there: no call of apt-get" same "" "$(cat "$calls")"
run ABSENT=check
it "one missing: it is installed" contains "$(cat "$calls")" "install -y --no-install-recommends check"
it "the lists are fetched first" contains "$(grep -m1 '^apt-get' "$calls")" "update"
it "nothing else is installed" not grep -q 'install.*jq' "$calls"
it "an ordinary user asks sudo" contains "$(cat "$calls")" "sudo env DEBIAN_FRONTEND=noninteractive apt-get"
run ABSENT=check FAIL=update
it "a failed fetch alone is no failure" same 0 $status
run ABSENT=check FAIL=check
it "a failed installation is one" same 1 $status
it "apt-get's own words are shown" contains "$out" "E: no such host"
run ABSENT=check FAIL=-q
it "without a network it says so" contains "$out" "network"
it "what was changed for the installation is changed back" same "$(grep -c 'sh -c cat >/usr/sbin/policy' "$calls")" "$(grep -c 'rm -f /usr/sbin/policy' "$calls")"

for tool in sh sed awk cat env tr fold mktemp rm dirname; do ln -s "$(command -v $tool)" "$tmp/bare/$tool"; done
out=$(env -i PATH="$tmp/bare" "$deps" 2>&1)
status=$?
it "without apt-get it fails" same 1 $status
it "and names what is needed" contains "$out" librabbitmq-dev
