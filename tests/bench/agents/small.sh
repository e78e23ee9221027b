#!/bin/sh
# SPDX-License-Identifier: MIT
# The small shell agent of the benchmark, without a library: one start line in, three events and the end out.
read -r start
if [ -n "$CAPTURE" ]; then printf '%s\n' "$start" >"$CAPTURE"; fi
printf '{"type":"progress","stage":"bench","percent":%d,"message":"step %d of 3"}\n' 33 1 66 2 100 3
printf '{"type":"completed","outputs":{"ok":true}}\n'
