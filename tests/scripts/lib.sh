# SPDX-License-Identifier: MIT
# lib.sh: what the tests of the scripts share. Sourced; $root is the tree, $tmp a directory of the test's own,
# removed at its end; $build the directory of hcpd and hcpctl.
# shellcheck shell=sh disable=SC2034
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build}" 2>/dev/null && pwd) || build=$root/build
tmp=$(mktemp -d "${TMPDIR:-/tmp}/hcp-scripts.XXXXXX") || exit 2
at_end=:
passed=0 failed=0
export LC_ALL=C.UTF-8

finish() {
	trap - EXIT
	eval "$at_end"
	rm -rf "$tmp"
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ]
	exit
}
trap finish EXIT
trap 'failed=$((failed + 1)); exit' INT TERM HUP

# it "sentence" COMMAND...: the sentence holds if the command succeeds. Its output is shown where it does not.
it() {
	sentence=$1
	shift
	if "$@" >"$tmp/out" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $sentence ($*)"
		sed 's/^/    /' "$tmp/out"
	fi
}

not() { ! "$@"; }

same() { # EXPECTED ACTUAL
	[ "$1" = "$2" ] || { printf 'expected: %s\nactual:   %s\n' "$1" "$2"; return 1; }
}

contains() { # TEXT PART
	case $1 in *"$2"*) ;; *) printf 'no "%s" in: %s\n' "$2" "$1"; return 1 ;; esac
}

until_true() { # SECONDS COMMAND...
	left=$(($1 * 20))
	shift
	until "$@" >/dev/null 2>&1; do
		left=$((left - 1))
		[ $left -gt 0 ] || return 1
		sleep 0.05
	done
}

is_gone() { # PID: no such process, or a zombie that nobody has reaped yet
	case $(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) in ''|Z) ;; *) return 1 ;; esac
}
