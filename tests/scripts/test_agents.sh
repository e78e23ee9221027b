#!/bin/sh
# SPDX-License-Identifier: MIT
# The example agents, alone: what they print for what they read.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
agents=$root/examples/agents

are_short() { for f in "$agents"/*; do [ "$(grep -vc SPDX "$f")" -lt 40 ] || { echo "$f"; return 1; }; done; }
it "each example agent has fewer than 40 lines beside its licence" are_short

printf '{"intent":"x","inputs":{"q":"a \\"b\\""}}\n' >"$tmp/task"
echo_of() { # INTENT: the whole output
	echo '{"type":"start"}' |
		HCP_ATTEMPT=1 HCP_CAPABILITY=echo HCP_TASK=$tmp/task HCP_INTENT=$1 "$agents/echo.sh"
}
echoes() { same "$1" "$(echo_of "$1" | tail -n 1 | jq -r .outputs.echo)"; }
it "echo gives a plain text back" echoes "hello world"
it "echo gives quotes and backslashes back" echoes 'say "hi" \n C:\new \u0041 $HOME `ls` %s'
it "echo gives several lines and tabs back" echoes "$(printf 'one\n\n  two\tthree')"
it "echo gives non-ASCII back" echoes 'Grüße, 世界'
it "echo gives nothing back for nothing" echoes ''
every_line_is_json() { echo_of 'a "b" \' | jq -e -s 'length == 6 and all(.[]; .type)'; }
it "echo prints a JSON object a line" every_line_is_json
it "echo passes the task on" same 'a "b"' "$(echo_of x | tail -n 1 | jq -r .outputs.task.inputs.q)"

count() { # CHECKPOINT INPUTS [LINE...]: lines are sent 0.3 s apart, then the input stays open until the agent ends
	rm -f "$tmp/over"
	(
		printf '{"type":"start","attempt":1,"task":{"inputs":%s},"checkpoint":%s}\n' "$2" "$1"
		shift 2
		for line; do sleep 0.3; printf '%s\n' "$line"; done
		until_true 5 [ -e "$tmp/over" ]
	) | { "$agents/count.py"; rc=$?; : >"$tmp/over"; (exit $rc); }
}
from_start=$(count null '{"to":3,"delay":0.01}')
steps() { printf '%s\n' "$1" | jq -r 'select(.type == "checkpoint") | .state.n' | tr '\n' ' '; }
it "count makes a checkpoint at each number" same "1 2 3 " "$(steps "$from_start")"
it "count completes with where it got to" same 3 "$(printf '%s\n' "$from_start" | jq 'select(.type == "completed") | .outputs.counted_to')"
it "count goes on from a checkpoint" same "3 4 " "$(steps "$(count '{"checkpoint_id":"c","step":2,"state":{"n":2}}' '{"to":4,"delay":0.01}')")"
it "count takes numbers that came as text" same "1 2 " "$(steps "$(count null '{"to":"2","delay":"0.01"}')")"
it "count says what is wrong with its inputs" same input_error "$(count null '{"to":"many"}' | jq -r .error_code)"
it "count checkpoints when asked" same "0 " "$(steps "$(count null '{"to":9,"delay":60}' '{"type":"checkpoint_request","reason":"stopping"}' '{"type":"abort"}')")"
it "count stops at an abort" not count null '{"to":9,"delay":60}' '{"type":"abort","reason":"x"}'

furnace() { # TARGET LINE...: what it says when it is answered so
	target=$1
	shift
	(
		printf '{"type":"start","task":{"inputs":{"temperature_c":%s}},"safety_envelope":{"parameters":{"temperature_c":{"max":900}}}}\n' "$target"
		printf '%s\n' "$@"
	) | "$agents/furnace.py"
}
yes='{"type":"action_verdict","ref":"heat","allowed":true,"reason":null}'
no='{"type":"action_verdict","ref":"heat","allowed":false,"reason":"x"}'
asked() { jq -r 'select(.type == "action") | .parameters.temperature_c' | tr '\n' ' '; }
it "furnace asks before it heats" same "110 " "$(furnace 100 "$yes" | asked)"
it "furnace does what it was allowed" same 110 "$(furnace 100 "$yes" | jq 'select(.type == "completed") | .outputs.peak_c')"
it "furnace stays below the limit when it is refused" same 900 "$(furnace 895 "$no" "$yes" | jq 'select(.type == "completed") | .outputs.peak_c')"
it "furnace never asks twice for the same" same "905 900 " "$(furnace 895 "$no" "$no" | asked)"
it "furnace heats nothing that is not allowed" same safety_violation "$(furnace 895 "$no" "$no" | jq -r 'select(.type == "failed") | .error_code')"
it "furnace does nothing after an abort" not furnace 100 '{"type":"abort","reason":"x"}'

it "shout is loud" same "HELLO WORLD " "$(HCP_INTENT='hello  world' "$agents/shout.sh" | tr '\n' ' ')"
it "shout fails without a text" not env HCP_INTENT= "$agents/shout.sh"
