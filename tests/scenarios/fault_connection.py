"""What the fault server does with an address and its connections: policies, handshake, decoding."""
import base64
import hashlib
import os
import re
import selectors
import socket
import struct
import time

KEY_MAX = 128
PROOF_MAX = 256
HEADER = {b"A": 13, b"R": 9}  # bytes before the key of a request
GIVEN_UP = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)


class Failed(Exception):
    """A command cannot come true, or did not in time."""


def unescape(text):
    """Bytes of a word: %XX is the byte XX, everything else its UTF-8."""
    return re.sub(rb"%([0-9a-fA-F]{2})", lambda m: bytes([int(m.group(1), 16)]), text.encode())


def escape(data):
    return "".join(chr(b) if 33 <= b < 127 and b != 37 else f"%{b:02x}" for b in data)


def proof(token, nonce):
    return base64.urlsafe_b64encode(hashlib.sha256(token + nonce).digest()).rstrip(b"=")


class Policy:
    """What an address does with a new connection by itself."""

    def __init__(self, **words):
        self.greeting = words.get("greeting")  # None: WORD and a fresh nonce
        self.word = words.get("word", "single")
        self.cut = words.get("cut")  # only so many bytes of the greeting, then `then`
        self.then = words.get("then", "serve")
        self.token = unescape(words.get("token", ""))
        self.proof = words.get("proof", "check")
        self.first = unescape(words.get("first", "%0a"))
        self.first_then = words.get("first_then", "serve")
        self.times = int(words["times"]) if "times" in words else None
        known = {"greeting", "word", "cut", "then", "token", "proof", "first", "first_then", "times"}
        if set(words) - known:
            raise Failed(f"policy knows no {sorted(set(words) - known)}")


class Request:
    """One request of a client: its fields, where it came from, whether a command claimed it."""

    def __init__(self, connection, kind, fields):
        self.connection, self.kind, self.fields = connection, kind, fields
        self.claimed = None

    def __str__(self):
        shown = " ".join(f"{k}={escape(v) if isinstance(v, bytes) else v}" for k, v in self.fields.items())
        return f"{self.kind} {shown} on {self.connection.label}"


class Connection:
    """One accepted connection: the handshake by its policy, then decoded requests."""

    def __init__(self, server, sock, address, number):
        self.server, self.sock, self.address = server, sock, address
        self.number, self.name = number, None
        self.policy = address.take_policy()
        self.state = "proof"  # then: serving, refused, silent, deaf
        self.inbox, self.outbox = b"", b""
        self.proof_seen = None
        self.requests = []
        self.at_eof = self.was_reset = self.closed = self.sent_end = False
        self.after_flush = None
        self.paused = self.corked = False
        self.appetite = None  # bytes it still reads before it pauses
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.greet()

    @property
    def label(self):
        return self.name or f"{self.address.name}#{self.number}"

    def greet(self):
        self.nonce = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=")
        greeting = self.policy.word.encode() + b" " + self.nonce + b"\n"
        if self.policy.greeting is not None:
            greeting = unescape(self.policy.greeting)
            head, space, rest = greeting.partition(b" ")
            self.nonce = rest.partition(b"\n")[0]
        if self.policy.cut is not None:
            greeting = greeting[: int(self.policy.cut)]
        self.send(greeting)
        self.act(self.policy.then)

    def act(self, deed):
        if deed == "serve":
            return
        if deed == "stall":
            self.state = "deaf"
        elif deed in ("close", "half_close", "reset"):
            self.state = "deaf"
            self.end(deed)
        else:
            raise Failed(f"no such deed: {deed}")

    # --- output

    def send(self, data):
        if self.closed:
            raise Failed(f"{self.label} is closed")
        if self.sent_end:
            raise Failed(f"{self.label} was closed for writing")
        self.outbox += data
        self.flush()

    def flush(self):
        if self.corked:
            return
        try:
            while self.outbox:
                self.outbox = self.outbox[self.sock.send(self.outbox):]
        except BlockingIOError:
            pass
        except GIVEN_UP:
            self.outbox = b""
            self.peer_gone(reset=True)
        if not self.outbox and self.after_flush:
            deed, self.after_flush = self.after_flush, None
            self.end(deed)
        self.server.watch(self)

    def end(self, deed):
        """close and half_close shut the write side after what was sent and go on reading, so that no
        reset destroys it; `close` lets go of the connection at the client's end of stream."""
        if self.closed:
            return
        if self.corked and self.outbox:
            self.after_flush = deed
            return
        if deed == "reset":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.drop()
            return
        if self.outbox:
            self.after_flush = deed
            return
        self.sent_end = True
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if self.at_eof:
            self.drop()

    def drop(self):
        if not self.closed:
            self.server.forget(self)
            self.sock.close()
            self.closed = True

    # --- input

    def readable(self):
        try:
            data = self.sock.recv(min(65536, self.appetite or 65536))
        except BlockingIOError:
            return
        except GIVEN_UP:
            self.peer_gone(reset=True)
            return
        if not data:
            self.peer_gone(reset=False)
            return
        self.inbox += data
        if self.appetite:
            self.appetite -= len(data)
            self.paused = self.appetite <= 0
            self.server.watch(self)
        self.decode()

    def peer_gone(self, reset):
        self.at_eof, self.was_reset = True, self.was_reset or reset
        if self.inbox and self.state == "serving" and not self.server.partial_allowed:
            self.server.faults.append(f"{self.label}: ended inside a request: {escape(self.inbox)}")
            self.inbox = b""
        if reset or self.sent_end:
            self.drop()
        else:
            self.server.watch(self)

    def decode(self):
        if self.state == "proof":
            line, newline, rest = self.inbox.partition(b"\n")
            if not newline:
                if len(self.inbox) > PROOF_MAX:
                    self.server.faults.append(f"{self.label}: a proof without end")
                return
            self.inbox, self.proof_seen = rest, line
            self.answer_proof(line)
        while self.state == "serving" and self.decode_request():
            pass
        if self.state in ("refused", "deaf"):
            self.inbox = b""

    def answer_proof(self, line):
        right = line == proof(self.policy.token, self.nonce)
        if self.policy.proof == "refuse" or (self.policy.proof == "check" and not right):
            self.state = "refused"
            self.send(b"Eauth_failed\n")
            self.end("close")
            if not right and self.policy.proof == "check" and not self.policy.token:
                self.server.faults.append(f"{self.label}: wrong proof {escape(line)}")
            return
        self.state = "serving"
        if self.policy.first:
            self.send(self.policy.first)
        self.act(self.policy.first_then)

    def decode_request(self):
        kind = self.inbox[:1]
        if not kind:
            return False
        head = HEADER.get(kind)
        if head is None:
            return self.malformed("unknown opcode")
        newline = self.inbox.find(b"\n", head)
        if newline < 0:
            if len(self.inbox) > head + KEY_MAX:
                return self.malformed("key too long")
            return False
        key, frame = self.inbox[head:newline], self.inbox[:newline]
        self.inbox = self.inbox[newline + 1:]
        if not key:
            return self.malformed("empty key")
        if kind == b"A":
            wait, lease, owner = struct.unpack(">HHQ", frame[1:13])
            fields = {"key": key, "wait": wait, "lease": lease, "owner": owner}
            if owner == 0 or lease == 0 or lease > 250 or wait > 255:
                self.server.faults.append(f"{self.label}: out of range: {fields}")
        else:
            fields = {"key": key, "token": struct.unpack(">Q", frame[1:9])[0]}
        request = Request(self, "acquire" if kind == b"A" else "release", fields)
        self.requests.append(request)
        self.server.requests.append(request)
        return True

    def malformed(self, why):
        self.server.faults.append(f"{self.label}: {why}: {escape(self.inbox[:160])}")
        self.state, self.inbox = "deaf", b""
        return False


class Address:
    """One loopback address that is listened on, or that refuses (`down`), always the same port."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        self.policies = [Policy()]
        self.accept_times = []
        self.window = None
        self.sock = None
        self.port = 0
        self.up()

    def bind(self):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.window:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.window)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 512)
        self.sock.bind(("127.0.0.1", self.port))
        self.port = self.sock.getsockname()[1]
        self.sock.setblocking(False)

    def up(self):
        if not self.sock:
            self.bind()
        self.sock.listen(64)
        self.server.selector.register(self.sock, selectors.EVENT_READ, self)

    def down(self):
        """Refuses connections and keeps the port: bound, not listening."""
        self.server.selector.unregister(self.sock)
        self.sock.close()
        self.bind()

    def narrow(self, window):
        self.down()
        self.sock.close()
        self.sock, self.window = None, window
        self.up()

    def take_policy(self):
        policy = self.policies[0]
        if policy.times is not None:
            policy.times -= 1
            if policy.times <= 0:
                self.policies.pop(0)
        return policy

    def readable(self):
        try:
            sock, _ = self.sock.accept()
        except BlockingIOError:
            return
        self.accept_times.append(time.monotonic())
        self.server.connections.append(Connection(self.server, sock, self, self.accepted))

    @property
    def accepted(self):
        return len(self.accept_times)

    @property
    def text(self):
        return f"127.0.0.1:{self.port}"
