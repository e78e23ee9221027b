#!/bin/sh
# SPDX-License-Identifier: MIT
# scripts/check-requirements: which disagreements between the list and the tests it finds.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
tree=$tmp/tree

row() { # ID TEXT
	printf '| %s | M | %s |\n' "$1" "$2" >>"$tree/docs/requirements.md"
}
names() { # FILE IDS: a test that names these. (Ids stand apart from the verb here: this file proves none of them.)
	mkdir -p "$tree/tests/$(dirname "$1")"
	printf 'START_TEST(x) /* %s %s */\n' proves "$2" >>"$tree/tests/$1"
}
fresh() { # a list of two built rows and a planned one, and tests that fit it
	rm -rf "$tree"
	mkdir -p "$tree/docs" "$tree/tests"
	printf '# List\n\n| id | | requirement |\n|---|---|---|\n' >"$tree/docs/requirements.md"
	row L1-01 "a first thing"
	row L1-02 "a second thing; some of it is planned: later"
	row L1-03 "planned: a third thing"
	names unit/base/test_a.c "L1-01"
}
run() {
	out=$("$root/scripts/check-requirements" "$tree" 2>&1)
	status=$?
	last=$(printf '%s\n' "$out" | tail -n 1)
}

fresh
names reliability/sim/deep/test_b.c "L1-01, L1-02"
run
it "a list and tests that fit pass" same 0 $status
it "and are counted" same "check-requirements: 2 requirements built, 1 planned; tests name them 3 times; 0 faults" "$last"

fresh
names integration/test_b.c "L1-01 L1-02"
run
it "ids may be parted by a space" same 0 $status

fresh
names integration/test_b.c "L1-02, L1-99"
run
it "an id that the list does not have is a fault" same 1 $status
it "it is named with its file" contains "$out" "tests/integration/test_b.c: names L1-99"

fresh
run
it "a row that no test names is a fault" same 1 $status
it "it is named" contains "$out" "L1-02 is named by no test"
it "a planned row that no test names is none" not contains "$out" "L1-03"
it "the faults are counted" contains "$last" "1 faults"

fresh
names integration/test_b.c "L1-02, L1-03"
run
it "a planned row that a test names is a fault" same 1 $status
it "it is named, too" contains "$out" "L1-03 is planned, and tests/integration/test_b.c names it"

fresh
names integration/test_b.c "L1-02"
row L1-02 "the second thing again"
run
it "two rows of one id are a fault" contains "$out" "L1-02 has two rows"

fresh
rm "$tree/docs/requirements.md"
run
it "no list is an error" same 2 $status

run_here() { "$root/scripts/check-requirements"; }
it "this tree's own list and tests fit" run_here
