#!/usr/bin/python3 -IS
# SPDX-License-Identifier: MIT
"""A worker that does what its task says: inputs.do is a list of steps, each [name, argument...].

inputs.on says what it does with control lines: {"abort": "ignore" | "complete" | "exit" (default),
"checkpoint_request": "ignore" | "checkpoint" (default), "pause": "ignore" | until resume (default)}. It serves one start line after another until
its stdin ends, so it also fits `reuse`.
"""
import hashlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time

inbox = queue.Queue()


def listen():
    """Bare descriptors on both sides: a buffered reader's lock makes Python abort when it ends meanwhile."""
    rest = b""
    while chunk := os.read(0, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            inbox.put(json.loads(line))
    inbox.put(None)


def write(data):
    while data:
        data = data[os.write(1, data):]


def say(**message):
    write(json.dumps(message).encode() + b"\n")


def progress(number, message, percent=None):
    body = {"type": "progress", "stage": "work", "percent": number if percent is None else percent, "message": message}
    return json.dumps(body).encode() + b"\n"


class Task:
    def __init__(self, start):
        self.start = start
        self.inputs = start["task"]["inputs"]
        self.on = self.inputs.get("on", {})
        self.heard = []
        self.state = {}
        self.done = False

    def attend(self, wait):
        """Handles the control lines that come within wait seconds."""
        try:
            message = inbox.get(timeout=wait) if wait > 0 else inbox.get_nowait()
        except queue.Empty:
            return
        kind = message["type"] if message else "eof"
        self.heard.append(message)
        action = self.on.get(kind)
        if kind == "abort" and action == "complete":
            say(type="completed", outputs={"late": True})
        elif kind == "abort" and action != "ignore":
            sys.exit(0)
        elif kind == "checkpoint_request" and action != "ignore" and self.state:
            self.do_checkpoint(self.state)
        elif kind == "pause" and action != "ignore":
            say(type="paused", reason="as told")
            self.until(lambda: self.heard[-1]["type"] == "resume")
            say(type="resumed")
        elif kind == "eof" and action != "ignore":
            sys.exit(0)

    def until(self, condition):
        while not condition():
            self.attend(0.01)

    def run(self):
        for name, *arguments in self.inputs.get("do", [["complete"]]):
            getattr(self, "do_" + name)(*arguments)
            while not inbox.empty():
                self.attend(0)
        return self.done

    # --- what it can say ---

    def do_progress(self, count=1, size=0):
        write(b"".join(progress(i * 100 // count, "event %d %s" % (i, "x" * size)) for i in range(1, count + 1)))

    def do_emit(self, message):
        say(**message)

    def do_raw(self, text):
        write(text.encode() + b"\n")

    def do_part(self, text):
        write(text.encode())

    def do_hex(self, text):
        write(bytes.fromhex(text) + b"\n")

    def do_long(self, size):
        write(b"x" * size + b"\n")

    def do_stderr(self, text):
        os.write(2, text.encode() + b"\n")

    def do_checkpoint(self, state, description="a checkpoint"):
        self.state = state
        say(type="checkpoint", description=description, state=state, step="step", resumable=True)

    def do_step(self, count=1):
        for n in range(count):
            say(type="step", name="step %d" % n)

    def do_large(self, count, path):
        """Checkpoints of a state of 60 kB, one row of it new each time, each stored before the next; their hashes go to path."""
        chance = random.Random(self.start["session_id"])
        rows = [chance.getrandbits(53) for _ in range(3000)]
        for n in range(1, count + 1):
            rows[chance.randrange(3000)] = n
            self.do_checkpoint({"n": n, "rows": rows})
            self.do_write(path, self.digest(self.state))
            self.until(lambda: sum(m is not None and m["type"] == "checkpoint_saved" for m in self.heard) >= n)

    def do_restored(self):
        """Completes with what it was to go on from."""
        saved = self.start["checkpoint"]
        self.do_complete({"n": saved["state"]["n"], "digest": self.digest(saved["state"])})

    @staticmethod
    def digest(state):
        return hashlib.sha256(json.dumps(state).encode()).hexdigest()

    def do_snapshot(self, name, payload, view="summary", **more):
        """With everything that HARP-SESSION has, hash included."""
        event = {"sessionId": self.start["session_id"], "eventType": "session.snapshot", "snapshotId": name,
                 "snapshotType": view, "createdAt": "2026-01-31T12:00:00Z", "payload": payload, "snapshotHashAlg": "SHA-256"}
        canonical = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        say(type="snapshot", snapshotHash=hashlib.sha256(canonical.encode()).hexdigest(), **event, **more)

    def do_complete(self, outputs=None):
        self.done = True
        say(type="completed", outputs=outputs or {})

    def do_fail(self, **more):
        self.done = True
        say(**dict({"type": "failed", "error_code": "execution_error", "error_message": "as told"}, **more))

    def do_failing(self, more):
        self.do_fail(**more)

    def do_dump(self):
        """Completes with what it was given: environment, directory, descriptors, the start line."""
        descriptors = {n: os.readlink("/proc/self/fd/" + n) for n in os.listdir("/proc/self/fd")
                       if os.path.exists("/proc/self/fd/" + n)}
        mode = os.stat(".").st_mode & 0o7777
        task = os.environ.get("HCP_TASK")
        with open("/proc/self/status") as status:
            masks = {line.split(":")[0]: line.split()[1] for line in status if line.startswith("Sig")}
        self.do_complete({"env": dict(os.environ), "cwd": os.getcwd(), "mode": "%o" % mode, "fds": descriptors,
                          "start": self.start, "argv": sys.argv[1:], "pid": os.getpid(), "pgid": os.getpgid(0),
                          "task_file": json.load(open(task)) if task else None, "masks": masks,
                          "heard": self.heard, "files": os.listdir(".")})

    def do_pid(self):
        self.do_complete({"pid": os.getpid(), "workdir": self.start.get("workdir")})

    # --- what it can do ---

    def do_hold(self, path):
        self.until(lambda: os.path.exists(path))

    def do_sleep(self, seconds):
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end)

    def do_forever(self):
        self.until(lambda: False)

    def do_await(self, kind):
        self.until(lambda: any(m and m["type"] == kind for m in self.heard))

    def do_action(self, name, parameters=None):
        """Asks before it acts, and waits for the verdict; do_verdicts completes with all of them."""
        ref = "%s-%d" % (name, len(self.heard))
        say(type="action", name=name, parameters=parameters or {}, ref=ref)
        self.until(lambda: any(m and m["type"] == "action_verdict" and m["ref"] == ref for m in self.heard))

    def do_verdicts(self):
        self.do_complete({"verdicts": [m for m in self.heard if m and m["type"] == "action_verdict"]})

    def do_write(self, path, text="x"):
        with open(path, "a") as f:
            f.write(text + "\n")

    def do_shell(self, script):
        subprocess.run(["sh", "-c", script], cwd=self.start.get("workdir"), stdin=subprocess.DEVNULL, check=True)

    def do_first(self, *steps):
        """Only in the first attempt."""
        for name, *arguments in steps if self.start["attempt"] == 1 else ():
            getattr(self, "do_" + name)(*arguments)

    def do_pids(self, path):
        self.do_write(path, str(os.getpid()))

    def do_deaf(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def do_note_term(self, path):
        signal.signal(signal.SIGTERM, lambda *_: self.do_write(path, "%.3f" % time.monotonic()))

    def do_note_lines(self, path):
        """Writes the kind and moment of every control line from now on."""
        def note(message):
            self.do_write(path, "%s %.3f" % (message["type"] if message else "eof", time.monotonic()))
            list.append(self.heard, message)
        class Noting(list):
            append = staticmethod(note)
        self.heard = Noting()

    def do_grandchild(self, path, keeps_stdout=False, bare=False):
        """A deaf one in a session of its own; bare: without a word of our environment."""
        script = "trap '' TERM HUP INT; echo $$ > %s.new; mv %s.new %s; while :; do sleep 1; done" % (path, path, path)
        out = None if keeps_stdout else subprocess.DEVNULL
        subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                         env={"PATH": "/usr/bin:/bin"} if bare else None)
        self.until(lambda: os.path.exists(path))

    def do_hydra(self, path):
        """Two that watch each other and grow again: whoever finds the other dead starts it anew."""
        script = ("trap '' TERM; me=$1 other=$2; echo $$ > %s.$me; while :; do sleep 0.03; p=$(cat %s.$other 2>/dev/null) || continue;"
                  " kill -0 $p 2>/dev/null || setsid sh -c \"$3\" hydra $other $me \"$3\" & done") % (path, path)
        for me, other in ("a", "b"), ("b", "a"):
            subprocess.Popen(["sh", "-c", script, "hydra", me, other, script], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.until(lambda: os.path.exists(path + ".a") and os.path.exists(path + ".b"))

    def do_exit(self, status):
        os._exit(status)

    def do_kill(self, number):
        os.kill(os.getpid(), number)
        time.sleep(60)

    def do_close_stdout(self):
        os.close(1)

    def do_stuck(self):
        """Never looks at its stdin again, not even at its end."""
        while True:
            time.sleep(60)

    def do_count(self, goal, every=0, delay=0.0):
        """Counts to goal, from the checkpoint on where there is one, with a checkpoint at every `every`."""
        saved = self.start.get("checkpoint")
        first = saved["state"]["n"] + 1 if saved else 1
        self.state = saved["state"] if saved else {}
        for n in range(first, goal + 1):
            write(progress(n, "n=%d" % n, 100.0 * n / goal))
            self.state = {"n": n}
            if every and n % every == 0:
                self.do_checkpoint(self.state, "at %d" % n)
            self.attend(delay)
        self.do_complete({"n": goal, "first": first, "attempt": self.start.get("attempt")})


def main():
    threading.Thread(target=listen, daemon=True).start()
    while True:
        start = inbox.get()
        if start is None:
            return
        if start["type"] == "start" and not Task(start).run():
            return


main()
