#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""count: counts to inputs.to, a number every inputs.delay seconds; it can be paused, and survives being killed.
In hcpd.ini:  [capability count]   command = .../count.py   protocol = hcp   recovery = resume
Each number is a checkpoint. After a crash hcpd starts this program again with the last one that it stored."""
import json, queue, sys, threading
def say(**line):
    print(json.dumps(line), flush=True)

def listen():                       # orders from hcpd meanwhile; end of file: the session is over
    for line in sys.stdin:
        orders.put(json.loads(line)["type"])
    orders.put("abort")

def save():
    say(type="checkpoint", description=f"counted to {n}", state={"n": n}, step=n, resumable=True)

orders, resting = queue.Queue(), False
start = json.loads(sys.stdin.readline())
try:
    to, delay = int(start["task"]["inputs"].get("to", 10)), max(0, float(start["task"]["inputs"].get("delay", 0.5)))
except (TypeError, ValueError):
    sys.exit(say(type="failed", error_code="input_error", error_message="to and delay must be numbers"))
n = start["checkpoint"]["state"]["n"] if start["checkpoint"] else 0
threading.Thread(target=listen, daemon=True).start()
while n < to:
    try:
        order = orders.get(timeout=None if resting else delay)
        if order == "abort":
            sys.exit(1)             # there is nothing to clean up
        if order == "checkpoint_request":
            save()
        if order in ("pause", "resume"):
            resting = order == "pause"
            say(type=order + "d")   # the session is PAUSED, or RUNNING again, from here on
    except queue.Empty:             # the delay is over: one more
        n += 1
        say(type="progress", stage="counting", percent=round(100 * n / to, 1), message=f"{n} of {to}")
        save()
say(type="completed", outputs={"counted_to": n, "attempt": start["attempt"]})
