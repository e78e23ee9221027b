#!/usr/bin/env python3
"""furnace: pretends to heat a sample, and asks before each thing that it could not take back.

In hcpd.ini:  [capability furnace]   declaration = capabilities.d/furnace.json   command = .../furnace.py
hcpd holds each action against the safety envelope of the declaration. What it refuses is not done: here the
furnace then stays below the limit. Asked for again, or beyond the hard limit, it would end the session."""
import json, sys

def say(**line):
    print(json.dumps(line), flush=True)

def may(name, **parameters):        # asks, and waits for the answer
    say(type="action", name=name, parameters=parameters, ref=name)
    for line in sys.stdin:
        order = json.loads(line)
        if order["type"] == "action_verdict":
            return order["allowed"]
        if order["type"] == "abort":
            break
    sys.exit(1)                     # nobody wants us any more: the power goes off with us

start = json.loads(sys.stdin.readline())
inputs = start["task"]["inputs"]
limit = start["safety_envelope"].get("parameters", {}).get("temperature_c", {}).get("max", inputs["temperature_c"])
target = inputs["temperature_c"] + 10   # a real one overshoots, so it must reckon with that
if not may("heat", temperature_c=target):
    target = limit
    if not may("heat", temperature_c=target):
        sys.exit(say(type="failed", error_code="safety_violation", error_message="no temperature is allowed"))
for percent in 25, 50, 75, 100:
    say(type="progress", stage="heating", percent=percent, message=f"{target * percent / 100:g} C")
say(type="completed", outputs={"peak_c": target})
