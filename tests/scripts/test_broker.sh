#!/bin/sh
# SPDX-License-Identifier: MIT
# scripts/broker: a private RabbitMQ that starts, survives, and goes without a trace.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
broker=$root/scripts/broker
dir=$tmp/mq
unset HCP_BROKER_TLS HCP_TEST_BROKER_URL HCP_TEST_BROKER_PID
at_end='for d in "$dir" "$tmp/other"; do [ ! -d "$d" ] || "$broker" stop "$d"; done'

processes() { # every process that has the directory in its environment
	for p in $(grep -lsaF "=$dir" /proc/[0-9]*/environ); do
		p=${p#/proc/}
		is_gone "${p%/environ}" || echo "${p%/environ}"
	done
}
connects() { # the broker answers a protocol header on its port with connection.start
	python3 -c '
import socket, sys, urllib.parse
u = urllib.parse.urlparse(sys.argv[1])
s = socket.create_connection((u.hostname, u.port), 5)
s.sendall(b"AMQP\0\0\x09\x01")
sys.exit(s.recv(1) != b"\x01")' "$1"
}
listens_beyond_loopback() {
	for port in $(sed 's/[^ ]*_port=//g; s/node=[^ ]*//' "$dir/ports"); do
		awk -v hex=":$(printf '%04X' "$port")$" '$4 == "0A" && $2 ~ hex && $2 !~ /^(0100007F|00000000000000000000000001000000):/ { print; found = 1 }
			END { exit !found }' /proc/net/tcp /proc/net/tcp6 && return 0
	done
	return 1
}

it "status of nothing is 3" same 3 "$("$broker" status "$dir" >/dev/null; echo $?)"
it "start returns" "$broker" start "$dir"
# shellcheck source=/dev/null
. "$dir/env"
pid=$HCP_TEST_BROKER_PID url=$HCP_TEST_BROKER_URL
it "it is ready when start returns" connects "$url"
it "the recorded process is the node itself" grep -q beam "/proc/$pid/comm"
it "it listens on loopback only" not listens_beyond_loopback
it "status prints the variables" contains "$("$broker" status "$dir")" "HCP_TEST_BROKER_URL=$url"
it "a second start in the same directory is refused" not "$broker" start "$dir"
it "the refusal does no harm" connects "$url"
it "nobody else can read the cookie" same 400 "$(stat -c %a "$dir/home/.erlang.cookie")"
it "eval runs in the node" contains "$("$broker" eval "$dir" 'node().')" "$HCP_TEST_BROKER_NODE"
it "ctl reaches the node" "$broker" ctl "$dir" add_vhost kept

kill -KILL "$pid"
it "after SIGKILL status is 3" until_true 5 sh -c "'$broker' status '$dir' >/dev/null; [ \$? = 3 ]"
it "it starts again" "$broker" start "$dir"
# shellcheck source=/dev/null
. "$dir/env"
it "on the same address" same "$url" "$HCP_TEST_BROKER_URL"
it "with its data" contains "$("$broker" ctl "$dir" list_vhosts)" kept

it "stop returns" "$broker" stop "$dir"
it "stop leaves no process" same "" "$(processes)"
it "stopping what is stopped is no error" "$broker" stop "$dir"

# A port that somebody else took meanwhile: an error with the log's end, and nothing left running.
python3 -c '
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); time.sleep(120)' "$(sed 's/.*dist_port=\([0-9]*\).*/\1/' "$dir/ports")" &
thief=$!
at_end="$at_end; kill $thief 2>/dev/null"
said=$("$broker" start "$dir" 2>&1)
it "a start that cannot succeed fails and shows the log" contains "$said" "the end of its log"
it "a failed start leaves no process" same "" "$(processes)"
kill $thief
