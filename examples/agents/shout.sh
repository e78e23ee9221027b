#!/bin/sh
# SPDX-License-Identifier: MIT
# shout: a plain program that knows nothing of HCP: prints its text in capitals, a word a line.
# In hcpd.ini:  [capability shout]   command = .../shout.sh   protocol = text
#
# Under `protocol = text` any program is an agent. Each line on stdout becomes a log event, and all of them
# together the result; exit status 0 is success. The text of the task is in HCP_INTENT, all of it as JSON in
# the file HCP_TASK. By hand:  HCP_INTENT='hello world' examples/agents/shout.sh

set -e
[ -n "$HCP_INTENT" ] || { echo "nothing to shout" >&2; exit 1; }
printf '%s\n' "$HCP_INTENT" | tr '[:lower:]' '[:upper:]' | tr -s '[:space:]' '\n'
