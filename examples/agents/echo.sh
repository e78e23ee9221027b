#!/bin/sh
# SPDX-License-Identifier: MIT
# echo: an agent in plain sh. It returns its task, and shows every kind of line that a first agent needs.
# In hcpd.ini:  [capability echo]   command = .../echo.sh   protocol = hcp
#
# An agent reads one line from stdin, {"type":"start",...}, and writes one JSON object a line to stdout. Lines
# on stderr become log events. It needs no code for abort: hcpd sends SIGTERM, and sh obeys.

# A shell string as a JSON string: every quote, backslash, tab and newline in it survives.
quote() {
	printf '"%s"' "$(printf '%s\n' "$1" | tr -d '\000-\010\013-\037' |
		sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/\\t/g' -e '$!s/$/\\n/' | tr -d '\n')"
}

read -r _ || exit 1             # the start line holds the whole task; a shell finds it in its environment, too

printf '{"type":"log","level":"info","message":"attempt %d at %s"}\n' "$HCP_ATTEMPT" "$HCP_CAPABILITY"
for percent in 25 50 75 100; do
	printf '{"type":"progress","stage":"echoing","percent":%d,"message":"%d %%"}\n' $percent $percent
done

# The file HCP_TASK holds the task as JSON, so it can be passed on as it is. To read members of it, use jq.
printf '{"type":"completed","outputs":{"echo":%s,"task":%s}}\n' "$(quote "$HCP_INTENT")" "$(tr '\n' ' ' <"$HCP_TASK")"
