#!/bin/sh
# SPDX-License-Identifier: MIT
# scripts/run-tests: sums, and what it does not let pass. The programs are shell scripts that print as Check does.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
mkdir -p "$tmp/b/tests"
export TMPDIR="$tmp" HCP_TEST_BROKER_URL=unused
unset HCP_TEST_KEEP HCP_TEST_RUN

program() { # NAME LINES
	printf '#!/bin/sh\n%s\n' "$2" >"$tmp/b/tests/$1"
	chmod +x "$tmp/b/tests/$1"
}
run() { # NAME...: its output and status
	# shellcheck disable=SC2046
	out=$("$root/scripts/run-tests" -t 3 $(for n; do echo "$tmp/b/tests/$n"; done) 2>&1)
	status=$?
	last=$(printf '%s\n' "$out" | tail -n 1)
}
program good 'echo "100%: Checks: 5, Failures: 0, Errors: 0"'
program good2 'echo "100%: Checks: 3, Failures: 0, Errors: 0"; echo "100%: Checks: 2, Failures: 0, Errors: 0"'
program bad 'echo "66%: Checks: 3, Failures: 1, Errors: 0"; echo "x.c:1:F:case:name:0: seven is not eight"; exit 1'
program crash 'kill -SEGV $$'
program leak 'echo "100%: Checks: 2, Failures: 0, Errors: 0"; exit 23'
program hang 'echo begun; while :; do sleep 1; done'
program orphan 'setsid sleep 300 >/dev/null 2>&1 & echo $! >'"$tmp"'/orphan.pid; echo "100%: Checks: 1, Failures: 0, Errors: 0"'
program hidden 'setsid env -i HCP_TASK=$TMPDIR/task sleep 300 >/dev/null 2>&1 & echo $! >'"$tmp"'/hidden.pid; echo "100%: Checks: 1, Failures: 0, Errors: 0"'
program litter 'echo x >"$TMPDIR/litter"; echo "100%: Checks: 1, Failures: 0, Errors: 0"'
program report 'echo leaked >"${ASAN_OPTIONS##*log_path=}.1"; echo "100%: Checks: 1, Failures: 0, Errors: 0"'
program environment '[ "$HCP_BUILD" = '"$tmp"'/b ] && [ -d "$TMPDIR" ] && [ -n "$HCP_TEST_RUN" ] && echo "100%: Checks: 1, Failures: 0, Errors: 0"'

run good good2
it "sums are summed" same "10 passed, 0 failed" "$last"
it "and the status is 0" same 0 $status
run good bad
it "a failure counts" same "7 passed, 1 failed" "$last"
it "a failure is shown" contains "$out" "seven is not eight"
it "a failure makes the status 1" same 1 $status
run crash good
it "a crash counts as a failure, and the others still run" same "5 passed, 1 failed" "$last"
run leak
it "a bad exit status after good checks is a failure" same "1 passed, 1 failed" "$last"
run hang
it "a program over its time is ended and reported" contains "$out" "ended after 3 s"
it "it counts as a failure" same "0 passed, 1 failed" "$last"
run orphan
it "a process left running is a failure" same "1 passed, 1 failed" "$last"
it "it is named" contains "$out" "sleep 300"
it "and ended" is_gone "$(cat "$tmp/orphan.pid")"
run hidden
it "one with another environment is found by the test's directory in it" same "1 passed, 1 failed" "$last"
it "and ended, too" is_gone "$(cat "$tmp/hidden.pid")"
run litter
it "a file left in TMPDIR is a failure" same "1 passed, 1 failed" "$last"
run report
it "a sanitizer's report is a failure" same "1 passed, 1 failed" "$last"
run environment
it "a program has its environment" same "1 passed, 0 failed" "$last"
it "nothing of the runs is left" same "" "$(find "$tmp" -maxdepth 1 -name 'hcp-run.*')"
it "a program that is not there is an error" not "$root/scripts/run-tests" "$tmp/b/tests/none"
