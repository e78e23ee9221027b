#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the table of src/jschema/unicode.c: where each run of a general category begins.

An entry is first code point x 256 + category; runs of single letters that alternate between Lu and Ll are one
entry of the category ALT.  tests/conformance/schema/unicode.py --version tells which Unicode it is."""
import sys
import unicodedata

NAMES = "Cc Cf Cn Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()
ALT = len(NAMES)

if sys.argv[1:] == ["--version"]:
    print(unicodedata.unidata_version)
    sys.exit()

runs = []
for c in range(0x110000):
    category = NAMES.index(unicodedata.category(chr(c)))
    if not runs or runs[-1][1] != category:
        runs.append((c, category))
runs.append((0x110000, -1))

table, i = [], 0
while i < len(runs) - 1:
    j = i
    while j < len(runs) - 1 and runs[j + 1][0] == runs[j][0] + 1 and runs[j][1] == (
            NAMES.index("Lu") if (j - i) % 2 == 0 else NAMES.index("Ll")):
        j += 1
    if j - i >= 4:
        table.append((runs[i][0], ALT))
        i = j
    else:
        table.append(runs[i])
        i += 1

line = "\t"
for first, category in table:
    entry = "0x%x," % (first * 256 + category)
    if len(line) + len(entry) > 110:
        print(line)
        line = "\t"
    line += entry
print(line)
