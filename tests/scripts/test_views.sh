#!/bin/sh
# SPDX-License-Identifier: MIT
# What a user sees of hcpctl submit and hcpctl watch on a terminal, captured under tmux at several sizes.
# A private broker, a daemon of its own; the agents do what their inputs say and wait for files.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

wait_s=30
server=hcp-views-$$ servers=0
daemon=''
tmux() { command tmux -L "$server" -f /dev/null "$@"; }

# Invoked by at_end, by way of eval.
# shellcheck disable=SC2317
clean_up() {
	tmux kill-server 2>/dev/null
	[ -z "$daemon" ] || { kill "$daemon" 2>/dev/null; until_true 20 is_gone "$daemon" || kill -9 "$daemon" 2>/dev/null; }
	"$root/scripts/broker" stop "$tmp/broker" >/dev/null 2>&1
}
at_end=clean_up

# --- a broker, a daemon, a terminal ---

"$root/scripts/broker" start "$tmp/broker" >"$tmp/broker.log" 2>&1 || { cat "$tmp/broker.log"; failed=1; exit; }
# shellcheck disable=SC1091
. "$tmp/broker/env"
export HCP_URL="$HCP_TEST_BROKER_URL" HCP_CALLER=alpha HCP_CALLEE=views XDG_CONFIG_HOME="$tmp/home" TZ=UTC
unset NO_COLOR
mkdir -m 700 "$tmp/state" "$tmp/home"
{
	printf '[daemon]\ncallee_id = views\nstate_dir = %s\nmax_sessions = 40\nstop_timeout = 4s\n' "$tmp/state"
	printf '[amqp]\nurl = %s\n[caller *]\ncapabilities = *\nmax_risk = R3\n' "$HCP_TEST_BROKER_URL"
	for name in summarize translate; do
		printf '[capability %s]\ndeclaration = %s\ncommand = %s\n' $name "$tmp/$name.json" \
			"$root/tests/integration/agents/agent.py"
		printf '{"capability":{"name":"%s","version":"1.0.0","description":"x","input_schema":{"type":"object"},' $name \
			>"$tmp/$name.json"
		printf '"output_schema":{"type":"object"},"safety":{"risk_ceiling":"R1","requires_human_approval":false,' \
			>>"$tmp/$name.json"
		printf '"involves_physical_resources":false}}}\n' >>"$tmp/$name.json"
	done
} >"$tmp/hcpd.ini"
"$build/hcpd" -c "$tmp/hcpd.ini" 2>"$tmp/hcpd.log" &
daemon=$!
until_true $wait_s grep -q 'connected lane=sub' "$tmp/hcpd.log" || { cat "$tmp/hcpd.log"; failed=1; exit; }

screen() { tmux capture-pane -p -t v; }
flags() { tmux display-message -p -t v '#{cursor_flag} #{alternate_on}'; }     # is the cursor to be seen, is it the second screen
shows() { screen | grep -q -- "$1"; }
wait_shown() { until_true $wait_s shows "$1" || { screen; return 1; }; }
wait_flags() { until_true $wait_s sh -c "[ \"\$(tmux -L $server display-message -p -t v '#{cursor_flag} #{alternate_on}')\" = '$1' ]"; }
# A line that was too long has been continued on the next: with -J tmux joins the two again.
wraps() { [ "$(screen | wc -l)" -ne "$(tmux capture-pane -p -J -t v | wc -l)" ]; }
type_line() { tmux send-keys -t v -l "$1"; tmux send-keys -t v Enter; }
fresh() { # COLUMNS ROWS: a new terminal with a shell
	tmux kill-server 2>/dev/null
	servers=$((servers + 1))
	server=hcp-views-$$-$servers    # the old one may need a moment
	tmux new-session -d -s v -x "$1" -y "$2" "env PS1='> ' PATH='$build:$PATH' LC_ALL=C.UTF-8 sh"
	wait_shown '>'
}
resize() { tmux resize-window -t v -x "$1" -y "$2"; }

progress() { printf '["emit",{"type":"progress","stage":"%s","percent":%s,"message":"%s"}]' "$1" "$2" "$3"; }
say() { printf '["emit",{"type":"log","level":"info","message":"%s"}]' "$1"; }
hold() { printf '["hold","%s"]' "$tmp/$1"; }
submit() { # CAPABILITY STEPS
	"$build/hcpctl" submit "$1" --detach --input "do=[$2]" >"$tmp/submit.out" 2>&1 || cat "$tmp/submit.out"
}
odd_stage='evil\u001b[2J\u202e 日本語の段階'
odd_message='\u0007bell\n第3章の漢字がたくさんあってこの行には入りきらないほど長い話 and an end'

# --- submit ---

fresh 80 24
printf 'do=[%s,%s,%s,["complete",{"answer":42}]]' "$(say 'opened the book')" \
	"$(progress reading 40 'page 6 of 14, whose title is longer than what is left of this line')" "$(hold one)" >"$tmp/one.do"
type_line "hcpctl submit summarize --input \"\$(cat $tmp/one.do)\"; echo status \$?"
bar='^RUNNING reading \[########-----------\]  40% 00:0. page 6'
it "submit shows state, stage, bar, elapsed time and message in one line" wait_shown "$bar"
it "the log line stands above the bar" contains "$(screen | grep -B 1 "$bar")" 'info       opened the book'
is_cut() { screen | grep "$bar" | awk '{ exit length > 79 }'; }
it "the bar is cut at the edge" is_cut
time_of() { screen | sed -n 's/.*40% \(00:..\).*/\1/p'; }
was=$(time_of)
goes_on() { [ "$(time_of)" != "$was" ]; }
it "the elapsed time goes on by itself" until_true $wait_s goes_on
resize 40 24
fits_40() { [ "$(screen | grep -c 'RUNNING reading')" -eq 1 ] && screen | grep -q '^RUNNING reading \[####------\]  40%'; }
it "a narrower terminal gets a narrower bar and no rest of the old one" until_true $wait_s fits_40
resize 80 24
touch "$tmp/one"
it "the exit status says completed" wait_shown '^status 0'
it "the result is at the end" contains "$(screen | tr -d '\n')" '{  "answer": 42}status 0'
it "the bar is gone" not shows '40%'
it "the cursor is to be seen and the screen is the first" same '1 0' "$(flags)"

fresh 80 24
printf 'do=[%s,%s,["complete",{}]]' "$(progress "$odd_stage" 62.5 "$odd_message")" "$(hold two)" >"$tmp/two.do"
type_line "clear; NO_COLOR=1 hcpctl submit summarize --input \"\$(cat $tmp/two.do)\"; echo status \$?"
it "escapes are shown, not obeyed" wait_shown 'RUNNING evil\\x1b\[2J\\u202e *\[#'
one_bar() { [ "$(screen | grep -c '62%')" -eq 1 ]; }
it "wide characters do not break the line" one_bar
it "NO_COLOR has a bar all the same" shows '\[###*-*\]  62%'
not_coloured() { ! tmux capture-pane -p -e -t v | grep '62%' | grep -q "$(printf '\033')\[[0-9;]*3[0-9]"; }
it "NO_COLOR means no colours" not_coloured
touch "$tmp/two"
it "it ends" wait_shown '^status 0'

fresh 80 24
printf 'do=[%s,%s]' "$(progress waiting 10 'for ever')" "$(hold never)" >"$tmp/three.do"
type_line "hcpctl submit summarize --input \"\$(cat $tmp/three.do)\"; echo status \$?"
wait_shown 'RUNNING waiting' >/dev/null
tmux send-keys -t v C-c
it "Ctrl-C asks" wait_shown 'abort (a), detach (d), go on (Enter)?'
type_line ''
it "Enter goes on" wait_shown '^RUNNING waiting'
tmux send-keys -t v C-c
wait_shown 'go on (Enter)? $' >/dev/null
type_line d
it "d leaves it alone and says how to find it" wait_shown '^hcpctl: see it: hcpctl watch [0-9a-f]\{8\}   end it: hcpctl abort'
it "no bar is left above the question" not shows '^RUNNING waiting'
it "a detached submit has its own status" wait_shown '^status 130'
session=$("$build/hcpctl" list --daemon-config "$tmp/hcpd.ini" --state RUNNING --json 2>/dev/null | jq -r .session_id | head -n 1)
[ -n "$session" ] || session=$(jq -r 'keys[0]' "$tmp/home/hcp/sessions.json")

# --- watch of one ---

fresh 80 24
type_line "hcpctl watch $(echo "$session" | cut -c1-8); echo status \$?"
until_true $wait_s sh -c "'$build/hcpctl' abort $session >/dev/null 2>&1"
it "a watch of one session ends with it" wait_shown '^status 4'
it "its lines say why" shows 'ABORTED    session closed: aborted_by_'

# --- the table ---

for columns in 80 200; do
	rm -f "$tmp/four"
	fresh $columns 24
	type_line 'clear; hcpctl watch --all; echo status $?'
	wait_flags '0 1'
	it "the table is on the second screen, without a cursor ($columns)" same '0 1' "$(flags)"
	submit summarize "$(progress reading 35 'page 12 of 34'),$(hold four),[\"complete\",{\"words\":120}]"
	submit translate "$(progress "$odd_stage" 72.5 "$odd_message"),$(hold four),[\"complete\",{}]"
	submit summarize "$(say 'loading the model'),$(hold four),[\"failing\",{\"error_message\":\"no source\"}]"
	it "each session has a row ($columns)" wait_shown '^3 running, 0 ended'
	wait_shown 'loading' >/dev/null
	it "a row has id, capability, state, bar, time, stage and message ($columns)" \
		wait_shown '^[0-9a-f]\{8\}  *summarize  *RUNNING  *\[##*-*\]  35%  *00:..  *reading  *page 12 of 34'
	it "no line wraps ($columns)" not wraps
	aligned() { # every state stands below its title
		screen | awk '/^SESSION/ { at = index($0, "STATE") } /RUNNING/ { n++; bad += substr($0, at, 7) != "RUNNING" }
			END { exit !(at && n == 3 && !bad) }'
	}
	it "the columns stand below their titles ($columns)" aligned
	it "one escaped stage does not break the table ($columns)" shows 'evil'
	tmux send-keys -t v -l 'typed blindly'
	resize 120 30
	at_120() { screen | head -n 1 | grep -q '^SESSION   CAPABILITY' && [ "$(screen | grep -c SESSION)" -eq 1 ] && aligned; }
	it "a resize is followed ($columns)" until_true $wait_s at_120
	it "keys are not shown in the table ($columns)" not shows 'typed'
	resize $columns 24
	touch "$tmp/four"
	it "ended sessions stay with their last word ($columns)" wait_shown '^3 ended'
	it "a failure says why ($columns)" wait_shown 'FAILED .*no source'
	it "a result is shown as far as there is room ($columns)" wait_shown 'COMPLETED  *\[##*\] 100%.*{"words":120}'
	tmux send-keys -t v C-c
	it "Ctrl-C ends the watch of all ($columns)" wait_shown '^status 0'
	it "the terminal is as it was ($columns)" same '1 0' "$(flags)"
	it "the last table stays ($columns)" shows '^3 ended'
	it "no line of it wraps ($columns)" not wraps
	type_line 'stty -a | tr " ;" "\n\n" | grep -x -e -*echo'
	it "keys are shown again ($columns)" wait_shown '^echo$'
	it "what was typed blindly is no command ($columns)" not shows 'typed'
done

# --- leaving and coming back ---

fresh 80 24
type_line 'clear; hcpctl watch'
wait_flags '0 1'
submit summarize "$(progress reading 35 'page 12 of 34'),$(hold five),[\"complete\",{}]"
wait_shown '35%' >/dev/null
tmux send-keys -t v C-z
wait_flags '1 0'
it "Ctrl-Z gives the shell its screen" same '1 0' "$(flags)"
type_line 'fg'
it "fg brings the table back" wait_shown '^1 running'
it "and its screen" same '0 1' "$(flags)"
tmux send-keys -t v C-c
wait_flags '1 0'
submit translate "$(progress drafting 50 'while nobody watched'),$(hold five),[\"complete\",{}]"
type_line 'clear; hcpctl watch'
it "the next watch has the rows of the last" wait_shown 'RUNNING  *\[###*-*\]  35% 00:.. reading  *page 12 of 34'
it "and what came meanwhile" wait_shown 'RUNNING  *\[##*-*\]  50% 00:.. drafting  *while nobody'
touch "$tmp/five"
wait_shown '^2 ended' >/dev/null

# --- more sessions than lines ---

resize 80 8
i=0
while [ $i -lt 4 ]; do
	i=$((i + 1))
	submit summarize "$(progress part 10 "number $i"),$(hold six),[\"complete\",{}]"
done
it "the oldest that have ended leave, and are counted" wait_shown '^4 running, 2 ended; 1 not shown'
one_more() { submit summarize "$(progress part 10 'number 5'),$(hold six),[\"complete\",{}]" && wait_shown "$1"; }
it "then the second one" one_more '^5 running, 2 ended; 2 not shown'
it "of those that run the youngest wait" one_more '^6 running, 2 ended; 3 not shown'
it "the table is not longer than the terminal" shows '^SESSION'
it "and does not wrap" not wraps
touch "$tmp/six"
wait_shown '^8 ended; 3 not shown' >/dev/null

# --- the broker goes away ---

resize 80 24
"$root/scripts/broker" stop "$tmp/broker" >/dev/null 2>&1
it "a lost broker is told below the table" wait_shown '^hcpctl: broker gone'
it "the table stands" shows '^SESSION'
"$root/scripts/broker" start "$tmp/broker" >/dev/null 2>&1
it "and so is its return" until_true 90 shows '^hcpctl: broker is back'
submit summarize "$(progress again 77 'after the broker'),[\"complete\",{}]"
it "the table goes on" until_true 90 shows '100%.*again  *{}'
tmux send-keys -t v C-c
wait_flags '1 0'
it "and leaves nothing behind" same '1 0' "$(flags)"
