#!/bin/sh
# SPDX-License-Identifier: MIT
# scripts/check-keys: which disagreements between program, sample and manual it finds.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
tree=$tmp/tree

fresh() {
	rm -rf "$tree"
	mkdir -p "$tree/scripts" "$tree/etc" "$tree/docs"
	cp "$root/scripts/check-keys" "$tree/scripts/"
	cp "$root/etc/hcpd.ini" "$tree/etc/"
	cp "$root/docs/hcpd.ini.5" "$tree/docs/"
}
change() { # FILE EXPRESSION
	sed "$2" "$tree/$1" >"$tmp/changed" && not cmp -s "$tmp/changed" "$tree/$1" && cp "$tmp/changed" "$tree/$1"
}
run() {
	out=$("$tree/scripts/check-keys" "$build/hcpd" 2>&1)
	status=$?
}

fresh
run
it "the tree's own files fit" same 0 $status

fresh
it "(a key less in the sample)" change etc/hcpd.ini '/^;max_pending = 10000/d'
run
it "a missing key fails" same 1 $status
it "and is named" same "etc/hcpd.ini: [daemon] max_pending is missing; $build/hcpd has it" "$out"

fresh
it "(another value in the sample)" change etc/hcpd.ini 's/^;abort_timeout = 30s/;abort_timeout = 3s/'
run
it "a wrong default in the sample fails" same 1 $status
it "and is named" same \
	"etc/hcpd.ini: [session] abort_timeout has the default 3s there, and 30s in the program" "$out"

fresh
it "(another value in the manual)" change docs/hcpd.ini.5 's/^1 to 10000000, default 10000\.$/1 to 10000000, default 1000./'
run
it "a wrong default in the manual fails" same 1 $status
it "and is named" same \
	"docs/hcpd.ini.5: [daemon] max_pending has the default 1000 there, and 10000 in the program" "$out"
