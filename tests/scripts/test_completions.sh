#!/bin/sh
# SPDX-License-Identifier: MIT
# Completion of hcpctl's command line, in each shell as it is typed there.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
unset HCP_URL HCP_CALLER HCP_CALLEE HCP_SOCKET HCP_DAEMON_CONFIG NO_COLOR
export XDG_CONFIG_HOME="$tmp/home" HOME="$tmp" PATH="$build:$PATH" HCP_DAEMON_CONFIG="$tmp/hcpd.ini"
hcpctl=$build/hcpctl
id1=5f0c1a2b-0000-4000-8000-000000000001 id2=5f0d1a2b-0000-4000-8000-000000000002

cat >"$tmp/hcpd.ini" <<END
[daemon]
callee_id = demo
state_dir = $tmp/state
[capability summarize]
declaration = $root/etc/capabilities.d/echo.json
command = /bin/true
[capability translate]
declaration = $root/etc/capabilities.d/echo.json
command = /bin/true
[caller alpha]
capabilities = *
amqp_user = alpha
END
mkdir -p "$tmp/home/hcp" "$tmp/files"
chmod 700 "$tmp/home/hcp"
cat >"$tmp/home/hcp/sessions.json" <<END
{"$id1": {"capability": "summarize", "since": "2026-01-01T00:00:00.000Z", "sequence": 0},
 "$id2": {"capability": "translate", "since": "2026-01-01T00:00:00.000Z", "sequence": 0}}
END
chmod 600 "$tmp/home/hcp/sessions.json"
echo '{}' >"$tmp/files/job.json"
cd "$tmp/files" || exit

# --- each shell: the line up to the cursor in, candidates (or the line) out ------------------------------------

in_bash() { # LINE: what _hcpctl puts into COMPREPLY, with words as bash itself splits them
	bash -c '
		source "$1"
		IFS=" " read -ra COMP_WORDS <<<"${2//=/ = }"
		[[ $2 != *" " ]] || COMP_WORDS+=("")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		_hcpctl
		printf "%s\n" "${COMPREPLY[@]}"' bash "$root/completions/hcpctl.bash" "$1"
}
in_fish() { fish --no-config -c "source $root/completions/hcpctl.fish; complete -C '$1'" | cut -f1; }
in_zsh() { timeout 60 zsh -f "$root/tests/scripts/complete.zsh" "$root/completions" "$tmp" "$1" | tr '\r' '\n'; }

has_all() { # TEXT WORDS...
	text=$1
	shift
	for word; do contains "$text" "$word" || return 1; done
}
options_of() { # COMMAND: as its help lists them
	"$hcpctl" $1 --help | sed -n '/^Example/q; s/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p' | sort -u
}
commands() { "$hcpctl" --help | sed -n '/^Example/q; s/^  \([a-z][a-z]*\)  .*/\1/p' | sort; }

it "there are commands to complete" test "$(commands | wc -l)" -gt 10
for shell in bash fish zsh; do
	if ! command -v $shell >/dev/null; then
		it "$shell is installed (scripts/deps)" false
		continue
	fi
	# shellcheck disable=SC2046
	it "$shell offers every command" has_all "$(in_$shell 'hcpctl ')" $(commands)
	it "$shell does not offer the hidden one" not contains "$(in_$shell 'hcpctl com' | sed 's/hcpctl com//')" complete
	it "$shell completes a command" contains "$(in_$shell 'hcpctl undr')" undrain
	it "$shell knows the command behind a global option" contains "$(in_$shell 'hcpctl --caller alpha list --li')" "--limit"
	it "$shell offers states after --state" has_all "$(in_$shell 'hcpctl list --state ')" PENDING RUNNING PAUSED ABORTING COMPLETED FAILED ABORTED
	it "$shell completes a state in lower case" contains "$(in_$shell 'hcpctl list --state runn')" RUNNING
	it "$shell completes the second state of a list" contains "$(in_$shell 'hcpctl list --state RUNNING,FAI')" "RUNNING,FAILED"
	it "$shell completes --state=..." contains "$(in_$shell 'hcpctl list --state=FAI')" FAILED
	it "$shell offers sessions" has_all "$(in_$shell 'hcpctl show 5f0')" $id1 $id2
	it "$shell completes a session" contains "$(in_$shell 'hcpctl abort 5f0d')" $id2
	it "$shell offers only sessions that fit" not contains "$(in_$shell 'hcpctl abort 5f0d')" $id1
	it "$shell offers capabilities" has_all "$(in_$shell 'hcpctl submit ')" summarize translate
	it "$shell offers priorities" has_all "$(in_$shell 'hcpctl submit summarize --priority ')" low normal high urgent
	it "$shell offers files for --inputs" contains "$(in_$shell 'hcpctl submit summarize --inputs jo')" job.json
	it "$shell offers nothing for what only the writer knows" not contains "$(in_$shell 'hcpctl submit --intent ')" summarize
done

# --- honest: what is offered is what --help says, for every command -------------------------------------------

offered() { "$hcpctl" complete line $1 -- | cut -f1 | sort -u; }
for command in $(commands); do
	it "the options of $command are those of its help" same "$( (options_of "$command"; echo --help) | sort -u)" "$(offered "$command")"
	it "$command has options at all" test "$(offered "$command" | wc -l)" -gt 1
done
in_manual() { # COMMAND: it and its options are in hcpctl(1)
	grep -q "^\\.Cm .*\\b$1\\b" "$root/docs/hcpctl.1" || { echo "no .Cm $1"; return 1; }
	for option in $(options_of "$1"); do
		grep -q "Fl -${option#--}\\b" "$root/docs/hcpctl.1" || { echo "no $option"; return 1; }
	done
}
for command in $(commands); do
	it "$command and its options are in the manual" in_manual "$command"
done
# bash and fish show them all at once; zsh the same words.
for shell in bash fish; do
	# shellcheck disable=SC2046
	it "$shell offers the options of submit" has_all "$(in_$shell 'hcpctl submit --')" $(options_of submit)
done

# A worker chooses the names of its artifacts: on the line they must be words, not commands.
printf '#!/bin/sh\necho %s\n' "'evil\$(touch owned) name'" >"$tmp/files/evil"
chmod +x "$tmp/files/evil"
it "bash quotes what a worker made up" same 'evil\$\(touch\ owned\)\ name' "$(in_bash './evil artifact get 5f0c e')"
rm "$tmp/files/evil"

# --- never an error, never a wait ---------------------------------------------------------------------------

it "no daemon, no store: nothing but own sessions, silently" same "$id1
$id2" "$("$hcpctl" complete sessions 2>&1 | cut -f1)"
it "a broken configuration is silent" same "0 " "$(echo nonsense >"$tmp/bad.ini"; out=$("$hcpctl" --daemon-config "$tmp/bad.ini" complete capabilities 2>&1); echo "$? $out")"
it "broken settings are silent" same "0 " "$(out=$(HCP_URL=nonsense "$hcpctl" complete sessions 2>&1); echo "$? $out")"
it "nonsense is silent" same "0 " "$(out=$("$hcpctl" complete nonsense 5f 2>&1); echo "$? $out")"

# --- where sessions come from: the daemon, else its store ------------------------------------------------------

chmod 600 "$tmp/hcpd.ini"
pid=
at_end='stop_daemon'
start_daemon() {
	"$build/hcpd" -c "$tmp/hcpd.ini" 2>>"$tmp/log" &
	pid=$!
	until_true 30 grep -q 'ready: ' "$tmp/log"
}
stop_daemon() {
	[ -n "$pid" ] || return 0
	kill "$pid" 2>/dev/null
	until_true 20 is_gone "$pid" || kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	pid=
}
sed -i 's,^\[capability summarize\],[amqp]\nurl = amqp://a:b@127.0.0.1:1/x\n&,' "$tmp/hcpd.ini"
sed -i 's,^declaration.*,declaration = '"$tmp"'/any.json,' "$tmp/hcpd.ini"
sed -i '/^\[capability translate\]/,/^command/d' "$tmp/hcpd.ini"
sed 's/"echo"/"summarize"/' "$root/etc/capabilities.d/echo.json" >"$tmp/any.json"
it "a daemon makes a store" start_daemon
stop_daemon
: >"$tmp/log"
id3=6a0e1a2b-0000-4000-8000-000000000003 id4=6a0f1a2b-0000-4000-8000-000000000004
python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
columns = [(c[1], c[2], c[3]) for c in db.execute("PRAGMA table_info(sessions)")]
for n, (id, state) in enumerate([(sys.argv[2], "COMPLETED"), (sys.argv[3], "PAUSED")], 1):
    given = {"id": n, "session_id": id, "state": state, "caller_id": "alpha", "capability": "summarize", "paused_by": "operator",
        "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z", "warnings": "[]", "risk_level": "R1",
        "data_classification": "T1", "priority": "normal", "capability_version": "1.0.0"}
    row = [given.get(c, (0 if t in ("INTEGER", "REAL") else "x") if need else None) for c, t, need in columns]
    db.execute("INSERT INTO sessions VALUES (%s)" % ",".join("?" * len(row)), row)
    db.execute("INSERT INTO tasks VALUES (?, ?)", (n, "{\"capability\":\"summarize\",\"caller_id\":\"alpha\",\"intent\":\"x\",\"inputs\":{}}"))
db.commit()' "$tmp/state/hcpd.db" $id3 $id4 || failed=$((failed + 1))
it "without the daemon its store is read" same "$id4	PAUSED summarize
$id3	COMPLETED summarize" "$("$hcpctl" complete sessions 6A)"
it "the daemon starts" start_daemon
it "it has its socket" test -S "$tmp/state/control.sock"
# 300 ms may pass on a busy machine: then it is silent, and the user presses Tab again.
asked() { same "$id4	PAUSED summarize
$id3	COMPLETED summarize" "$("$hcpctl" --socket "$tmp/state/control.sock" complete sessions 6a)"; }
live() { same "$id4" "$("$hcpctl" complete line resume 6a | cut -f1)"; }
all() { same 2 "$("$hcpctl" complete line show 6a | wc -l)"; }
it "the daemon is asked" until_true 10 asked
it "what can only be done to live sessions is offered those only" until_true 10 live
it "what can be shown is offered all" until_true 10 all
stop_daemon

# --- a daemon that takes the connection and says nothing ------------------------------------------------------
python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(8); time.sleep(120)' "$tmp/mute.sock" &
mute=$!
at_end="$at_end; kill $mute 2>/dev/null"
it "a mute daemon is there" until_true 10 test -S "$tmp/mute.sock"
began=$(date +%s%N)
"$hcpctl" --socket "$tmp/mute.sock" complete sessions >"$tmp/out" 2>&1
took=$((($(date +%s%N) - began) / 1000000))
it "a mute daemon costs 300 ms, not much more on a busy machine ($took ms)" test $took -lt 2000
it "and says nothing" same "" "$(cat "$tmp/out")"
