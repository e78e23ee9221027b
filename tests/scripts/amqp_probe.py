#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""amqp_probe: what may this log-in do? One AMQP 0-9-1 method, and the broker's word on it.

    amqp_probe.py URL publish EXCHANGE KEY [BODY]      amqp_probe.py URL bind QUEUE EXCHANGE KEY
    amqp_probe.py URL get QUEUE                        amqp_probe.py URL declare QUEUE
    amqp_probe.py URL delete QUEUE                     amqp_probe.py URL delete-exchange EXCHANGE
    amqp_probe.py URL consume QUEUE

Prints `ok` (a published message must also reach a queue: else 312), or the code with which the broker refuses. Speaks the
wire itself: no library stands between the test and the broker's own answer."""
import socket, struct, sys, urllib.parse

def short(text):
    b = text.encode()
    return bytes([len(b)]) + b

def long(b):
    return struct.pack(">I", len(b)) + b

class Wire:
    def __init__(self, url):
        u = urllib.parse.urlparse(url)
        self.s = socket.create_connection((u.hostname, u.port), 10)
        self.f = self.s.makefile("rb")
        self.s.sendall(b"AMQP\0\0\x09\x01")
        self.expect(10, 10)
        login = b"\0" + urllib.parse.unquote(u.username).encode() + b"\0" + urllib.parse.unquote(u.password).encode()
        self.send(0, 10, 11, long(b"") + short("PLAIN") + long(login) + short("en_US"))
        self.expect(10, 30)
        self.send(0, 10, 31, struct.pack(">HIH", 1, 131072, 0))
        self.send(0, 10, 40, short(urllib.parse.unquote(u.path[1:])) + short("") + b"\0")
        self.expect(10, 41)
        self.send(1, 20, 10, short(""))
        self.expect(20, 11)

    def frame(self, kind, channel, payload):
        self.s.sendall(struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce")

    def send(self, channel, cls, method, args):
        self.frame(1, channel, struct.pack(">HH", cls, method) + args)

    def method(self):
        while True:
            kind, _, size = struct.unpack(">BHI", self.f.read(7))
            payload = self.f.read(size + 1)[:-1]
            if kind == 1:
                cls, method = struct.unpack(">HH", payload[:4])
                return cls, method, payload[4:]

    def expect(self, *wanted):
        cls, method, args = self.method()
        if (cls, method) in ((20, 40), (10, 50)):
            print(struct.unpack(">H", args[:2])[0])
            sys.exit(0)
        if (cls, method) != wanted and not (isinstance(wanted[0], tuple) and (cls, method) in wanted):
            sys.exit(f"unexpected method {cls}.{method}")
        return cls, method, args

w = Wire(sys.argv[1])
verb, args = sys.argv[2], sys.argv[3:]
empty = struct.pack(">I", 0)
if verb == "publish":
    body = (args[2] if len(args) > 2 else "probe").encode()
    w.send(1, 85, 10, b"\0")
    w.expect(85, 11)
    w.send(1, 60, 40, struct.pack(">H", 0) + short(args[0]) + short(args[1]) + b"\x01")
    w.frame(2, 1, struct.pack(">HHQH", 60, 0, len(body), 0))
    w.frame(3, 1, body)
    cls, method, rest = w.expect((60, 50), (60, 80))
    if method == 50:
        print(struct.unpack(">H", rest[:2])[0])
        sys.exit(0)
elif verb == "bind":
    w.send(1, 50, 20, struct.pack(">H", 0) + short(args[0]) + short(args[1]) + short(args[2]) + b"\0" + empty)
    w.expect(50, 21)
elif verb == "get":
    w.send(1, 60, 70, struct.pack(">H", 0) + short(args[0]) + b"\0")
    w.expect((60, 71), (60, 72))
elif verb == "consume":
    w.send(1, 60, 20, struct.pack(">H", 0) + short(args[0]) + short("") + b"\0" + empty)
    w.expect(60, 21)
elif verb == "declare":
    w.send(1, 50, 10, struct.pack(">H", 0) + short(args[0]) + b"\x02" + empty)
    w.expect(50, 11)
elif verb == "delete":
    w.send(1, 50, 40, struct.pack(">H", 0) + short(args[0]) + b"\0")
    w.expect(50, 41)
elif verb == "delete-exchange":
    w.send(1, 40, 20, struct.pack(">H", 0) + short(args[0]) + b"\0")
    w.expect(40, 21)
else:
    sys.exit(__doc__)
print("ok")
