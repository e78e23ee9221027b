#!/bin/sh
# SPDX-License-Identifier: MIT
# hcpctl topology: what it prints, run at a broker of our own, lets hcpd, hcpctl and libhcp work, and nobody do more.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
broker=$root/scripts/broker mq=$tmp/mq pid=
probe=$root/tests/scripts/amqp_probe.py
hcpctl=$build/hcpctl
unset HCP_BROKER_TLS HCP_URL HCP_CALLER HCP_CALLEE HCP_SOCKET HCP_DAEMON_CONFIG
export XDG_CONFIG_HOME="$tmp/home" RABBITMQCTL="$broker ctl $mq"
at_end='stop_daemon; "$broker" stop "$mq"'

stop_daemon() {
	[ -n "$pid" ] || return 0
	kill "$pid" 2>/dev/null
	until_true 20 is_gone "$pid" || kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	pid=
}
"$broker" start "$mq" || exit
port=$(sed -n 's/.*amqp_port=\([0-9]*\).*/\1/p' "$mq/ports")
url_of() { echo "amqp://$1@127.0.0.1:$port/hcp%20test"; }    # USER:PASSWORD

cat >"$tmp/hcpd.ini" <<END
[daemon]
callee_id = demo
state_dir = $tmp/state
[amqp]
url = $(url_of hcpd:hcpd-secret)
reconnect_max = 1s
[capability echo]
declaration = $root/etc/capabilities.d/echo.json
command = $root/examples/agents/echo.sh
harp = yes
[capability count]
declaration = $root/etc/capabilities.d/count.json
command = $root/examples/agents/count.py
[caller alpha]
capabilities = *
amqp_user = alpha
[caller beta]
capabilities = *
amqp_user = beta
END
chmod 600 "$tmp/hcpd.ini"
topology() { "$hcpctl" topology --daemon-config "$tmp/hcpd.ini" "$@"; }
rights() { "$broker" ctl "$mq" list_permissions -p 'hcp test'; }

# --- the script ---------------------------------------------------------------------------------------------

it "it is printed although the broker lets nobody in yet" sh -c "'$hcpctl' topology --daemon-config '$tmp/hcpd.ini' >'$tmp/setup.sh' 2>'$tmp/said'"
it "what is missing is said on stderr" contains "$(cat "$tmp/said")" "refuses the log-in of hcpd"
it "the script is clean" shellcheck "$tmp/setup.sh"
it "it holds no password" not grep -q hcpd-secret "$tmp/setup.sh"
before=$("$broker" ctl "$mq" list_users; "$broker" ctl "$mq" list_vhosts)
it "without passwords and terminal it refuses" not setsid -w sh -c "sh <'$tmp/setup.sh' 2>'$tmp/said'"
it "it says which are missing" contains "$(cat "$tmp/said")" "set HCP_PASSWORD_alpha"
it "and has changed nothing" same "$before" "$("$broker" ctl "$mq" list_users; "$broker" ctl "$mq" list_vhosts)"
export HCP_PASSWORD_hcpd=hcpd-secret HCP_PASSWORD_alpha="a' \$b" HCP_PASSWORD_beta=beta-secret
# shellcheck disable=SC2034 # by name, below
alpha=$(url_of 'alpha:a%27%20%24b') beta=$(url_of beta:beta-secret) daemon=$(url_of hcpd:hcpd-secret)
it "with passwords it runs through, from a pipe" setsid -w sh -c "cat '$tmp/setup.sh' | sh"
it "it gave nobody else a right" same 4 "$(rights | wc -l)"

# --- what works ---------------------------------------------------------------------------------------------

"$build/hcpd" -c "$tmp/hcpd.ini" 2>"$tmp/log" &
pid=$!
consumed() { "$broker" ctl "$mq" list_queues -p 'hcp test' --no-table-headers name consumers | tr '\t' ' ' | grep -qx 'hcp.cmd.demo 1'; }
it "hcpd consumes with its user" until_true 30 consumed
ctl_as() { # URL CALLER ARGUMENTS...
	u=$1 c=$2
	shift 2
	timeout 60 "$hcpctl" --url "$u" --caller "$c" --callee demo "$@"
}
it "hcpctl submits and sees the end as alpha" ctl_as "$alpha" alpha submit echo --input text=hello
it "and as beta" ctl_as "$beta" beta submit echo --input text=hello
session=$(ctl_as "$alpha" alpha submit count --input to=100 --input delay=0.2 --detach --json 2>/dev/null | jq -r 'select(.type == "task_accepted").session_id' | head -n 1)
it "it detaches" test -n "$session"
it "it aborts" ctl_as "$alpha" alpha abort "$session"
it "it watches to the end" same 4 "$(ctl_as "$alpha" alpha watch "$session" >/dev/null 2>&1; echo $?)"
it "the libhcp example is built" make -C "$root" --no-print-directory B="$build" "$build/libhcp/example_collect"
it "libhcp works as alpha" timeout 60 "$build/libhcp/example_collect" "$alpha" alpha demo "$tmp/collect.db" 3
it "beta's queue is made by libhcp, too" timeout 60 "$build/libhcp/example_collect" "$beta" beta demo "$tmp/collect2.db" 1
it "hcpd was refused nothing" not grep -qi 'access_refused\|forbids' "$tmp/log"
it "a command that cannot be read is sent" same ok "$("$probe" "$alpha" publish hcp.commands demo 'no JSON')"
dead() { same 1 "$("$broker" ctl "$mq" list_queues -p 'hcp test' --no-table-headers name messages | sed -n 's/^hcp\.dead\t//p')"; }
it "and becomes a dead letter" until_true 20 dead

# --- what does not ------------------------------------------------------------------------------------------

refused() { same 403 "$("$probe" "$@")"; }
while read -r who arguments; do
	eval "url=\$$who"
	# shellcheck disable=SC2154,SC2086
	it "$who may not $arguments" refused "$url" $arguments
done <<'END'
alpha publish hcp.events alpha.x.event
alpha publish hcp.events beta.x.event
alpha publish harp.sessions alpha.x.session.start
alpha bind hcp.evt.alpha harp.sessions beta.#
alpha delete-exchange harp.sessions
daemon publish harp.sessions alpha.x.event
alpha publish amq.topic x
alpha publish amq.fanout x
alpha publish hcp.dead x
alpha get hcp.evt.beta
alpha consume hcp.evt.beta
alpha get hcp.cmd.demo
alpha get hcp.dead
alpha bind hcp.evt.alpha hcp.events beta.#
alpha bind hcp.evt.alpha hcp.events #
alpha bind hcp.evt.alpha hcp.events *.x.event
alpha bind hcp.evt.alpha hcp.commands demo
alpha bind hcp.evt.beta hcp.events alpha.#
alpha bind hcp.evt.alpha hcp.dead x
alpha declare hcp.evt.beta.mine
alpha declare hcp.evt.alphabet
alpha declare hcp.cmd.mine
alpha declare mine
alpha delete hcp.evt.beta
alpha delete hcp.cmd.demo
alpha delete-exchange hcp.commands
alpha delete-exchange hcp.events
beta get hcp.evt.alpha
beta bind hcp.evt.beta hcp.events alpha.#
daemon get hcp.evt.alpha
daemon bind hcp.cmd.demo hcp.events #
daemon publish hcp.commands demo
daemon publish hcp.events no-key
daemon declare hcp.cmd.other
daemon delete hcp.evt.alpha
END
it "alpha may not publish past the exchanges" same 403 "$("$probe" "$alpha" publish "" hcp.evt.beta)"
it "alpha may bind its own keys" same ok "$("$probe" "$alpha" bind hcp.evt.alpha hcp.events 'alpha.*.task_completed')"
it "and those of its sessions' HARP events" same ok "$("$probe" "$alpha" bind hcp.evt.alpha harp.sessions 'alpha.#')"
it "beta cannot so much as open a queue in alpha's name" not ctl_as "$beta" alpha submit echo --timeout 10s

# --- the doctor's eye on it ---------------------------------------------------------------------------------

doctor() { "$hcpctl" doctor --daemon-config "$tmp/hcpd.ini" --rabbitmqctl "$broker ctl $mq" --json | jq -r 'select(.level != "ok" and .level != "skip" and .subject != "clock" and .subject != "kernel").what'; }
it "doctor finds nothing to say" same "" "$(doctor)"
it "topology warns of nothing" same "" "$(topology --rabbitmqctl "$broker ctl $mq" 2>&1 >/dev/null)"
"$broker" ctl "$mq" clear_topic_permissions -p 'hcp test' alpha
"$broker" ctl "$mq" set_permissions -p 'hcp test' beta '.*' '.*' '.*'
"$broker" ctl "$mq" clear_policy -p 'hcp test' hcp-cmd-demo
said=$(doctor)
it "doctor sees missing topic permissions" contains "$said" "user alpha has no topic permissions"
it "doctor sees too many permissions" contains "$said" "user beta may write hcp.events"
it "doctor sees the missing policy" contains "$said" "no policy gives hcp.cmd.demo a dead-letter exchange"
it "run again, the script mends it" setsid -w sh "$tmp/setup.sh"
it "and doctor is content again" same "" "$(doctor)"

# --- other configurations -----------------------------------------------------------------------------------

it "callers can be named" contains "$(topology --callers gamma,delta 2>/dev/null)" "'^gamma\\.'"
it "then others are left out" not contains "$(topology --callers gamma 2>/dev/null)" "'alpha'"
it "a caller's name is checked" same 64 "$(topology --callers 'a*' >/dev/null 2>&1; echo $?)"
sed -i 's/^amqp_user = beta/amqp_user = alpha/; s/^reconnect_max.*/queue_type = quorum/' "$tmp/hcpd.ini"
topology >"$tmp/shared.sh" 2>/dev/null
it "callers that share a user are one user" contains "$(cat "$tmp/shared.sh")" "'^(alpha|beta)\\.'"
it "quorum queues get a delivery limit" grep -q '"delivery-limit":' "$tmp/shared.sh"
it "and a single active consumer" grep -q '"x-single-active-consumer":true' "$tmp/shared.sh"
it "that script is clean, too" shellcheck "$tmp/shared.sh"
sed -i 's,^url = .*,url = amqp://guest:guest@127.0.0.1:1/%2F,' "$tmp/hcpd.ini"
it "guest is never narrowed down" not contains "$(topology 2>/dev/null)" "'guest'"
it "a full disk is told" same "1 yes" "$(topology 2>&1 >/dev/full | grep -q 'standard output cannot be written' && said=yes; topology >/dev/full 2>&1; echo "$? $said")"
sed -i 's/^amqp_user = alpha/amqp_user = guest/' "$tmp/hcpd.ini"
it "a caller with hcpd's own log-in is refused" same 1 "$(topology >"$tmp/narrow.sh" 2>"$tmp/said"; echo $?)"
it "nothing is printed then" not test -s "$tmp/narrow.sh"
it "it is told who, and what to do" contains "$(cat "$tmp/said")" "caller alpha has the user guest, with which hcpd itself logs in"
it "namely a user of its own" contains "$(cat "$tmp/said")" "amqp_user in [caller alpha]"
it "another name for hcpd does not help" same 1 "$(topology --user other >/dev/null 2>&1; echo $?)"
it "left out, others are set up" same 0 "$(topology --callers gamma >"$tmp/narrow.sh" 2>"$tmp/said"; echo $?)"
it "and guest is let alone" not grep -q "'guest'" "$tmp/narrow.sh"
it "with a word on it" contains "$(cat "$tmp/said")" "warning: caller alpha has the user guest"
sed -i 's,^url = .*,url = amqp://guest2:x@127.0.0.1:1/%2F,; s/^amqp_user = guest/amqp_user = guest2/' "$tmp/hcpd.ini"
it "that holds for any log-in" same 1 "$(topology >/dev/null 2>&1; echo $?)"
it "a missing configuration names our option" contains "$("$hcpctl" topology --daemon-config "$tmp/none.ini" 2>&1)" "with --daemon-config FILE"
it "a broken configuration is 78" same 78 "$(echo nonsense >"$tmp/bad.ini"; "$hcpctl" topology --daemon-config "$tmp/bad.ini" >/dev/null 2>&1; echo $?)"
