#!/bin/sh
# SPDX-License-Identifier: MIT
# scripts/layers: this tree keeps to its walls, and each kind of breach is found where it is planted.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
tree=$tmp/tree

fresh() { # two rooms and a program that may use only the lower one
	rm -rf "$tree"
	mkdir -p "$tree/src/low/inner" "$tree/src/high" "$tree/src/tool"
	printf '# from the bottom up\nlow\nhigh\ntool: low\n' >"$tree/src/LAYERS"
	printf '#include "low/a.h"\n#include <stdio.h>\n' >"$tree/src/low/inner/a.c"
	printf '#include "low/a.h"\n' >"$tree/src/high/b.c"
	printf '#include "low/a.h"\n#include "hcp/hcp.h"\n' >"$tree/src/tool/c.c"
}
plant() { printf '%s\n' "$2" >>"$tree/src/$1"; } # FILE LINE
run() {
	out=$("$root/scripts/layers" "$tree" 2>&1)
	status=$?
}

it "this tree has no breach" "$root/scripts/layers"

fresh
run
it "walls that are kept pass" same 0 $status
it "uses across rooms are counted" same "2 uses across 3 rooms, 0 breaches" "$out"

fresh
plant low/inner/a.c '#include "high/b.h"'
run
it "an include upwards is a breach" same 1 $status
it "it is named with file and line" contains "$out" "src/low/inner/a.c:3: low uses high, which stands above it"

fresh
plant high/b.c '	#  include "low/a_private.h"'
run
it "another room's private header is a breach" same 1 $status
it "it is said so" contains "$out" '"low/a_private.h" is private to low/'

fresh
plant low/a.c '#include "low/inner/a_private.h"'
run
it "so is one of a room inside the room" same 1 $status

fresh
plant low/inner/a.c '#include <high/b.h>'
run
it "an include upwards in angle brackets is a breach" same 1 $status

fresh
plant high/b.c '#include "hcp/hcp.h"'
run
it "the public header inside the daemon is a breach" same 1 $status

fresh
mkdir -p "$tree/tests/support"
echo '#include "oracle_stream.h"' >"$tree/tests/support/oracle.c"
run
it "an oracle may use another oracle" same 0 $status
echo '#include "low/a.h"' >>"$tree/tests/support/oracle.c"
run
it "an oracle that uses a room is a breach" same 1 $status

fresh
plant low/inner/a.c '#include "low/a_private.h"'
run
it "a room's own private header is none" same 0 $status

fresh
plant tool/c.c '#include "high/b.h"'
run
it "a room that a program does not name is a breach" same 1 $status
it "it is said so" contains "$out" "tool may not use high"

fresh
plant high/b.c '#include "a.h"'
run
it "an include without a room is a breach" same 1 $status

fresh
plant low/inner/a.c '#include "low/../high/b.h"'
run
it "a way around by two dots is a breach" same 1 $status

fresh
mkdir "$tree/src/new"
plant new/d.c '#include "low/a.h"'
run
it "a room that the list does not have is a breach" same 1 $status

fresh
echo '! unsafe worse: src/low/inner/a.c' >>"$tree/src/LAYERS"
plant low/inner/a.c '	unsafe(1);'
plant high/b.c 'less_unsafe(1); /* unsafe */'
run
it "the owner of a function may call it" same 0 $status
plant high/b.c '	x = worse(2);'
run
it "nobody else may" same 1 $status
it "it is said so" contains "$out" "src/high/b.c:3: worse is for src/low/inner/a.c alone"

rm "$tree/src/LAYERS"
run
it "a tree without a list is no success" same 2 $status
