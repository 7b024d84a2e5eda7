"""The commands of the fault server: each is tried until it comes true, or its patience ends."""
import json
import struct

from fault_connection import Address, Failed, Policy, Request, escape, unescape

REPORTED = 20  # requests of a connection in the report


class Commands:
    """What a scenario may ask. A command returns its answer, or None while it has to wait."""

    def __init__(self):
        self.addresses, self.named = {}, {}
        self.connections, self.requests, self.faults = [], [], []
        self.ignored, self.partial_allowed = [], False

    def attempt(self, words):
        """One try at a command."""
        plain = [w for w in words[1:] if "=" not in w]
        named = dict(w.split("=", 1) for w in words[1:] if "=" in w)
        verb = getattr(self, "do_" + words[0], None)
        if not verb:
            raise Failed(f"no such command: {words[0]}")
        return verb(*plain, **named)

    def unclaimed(self):
        return [r for r in self.requests
                if not r.claimed and not any(self.matches(r, kind, **dict(wanted)) for kind, wanted in self.ignored)]

    def outstanding(self):
        rest = [str(r) for r in self.unclaimed()][:REPORTED]
        return "unclaimed: " + ("; ".join(rest) or "nothing") + "".join(f"; fault: {f}" for f in self.faults)

    # --- names

    def connection_of(self, name):
        thing = self.named[name]
        return thing.connection if isinstance(thing, Request) else thing

    def bind_name(self, name, thing):
        if name in self.named:
            raise Failed(f"{name} is the name of something else")
        self.named[name] = thing

    # --- commands

    def do_listen(self, *names):
        for name in names:
            self.addresses[name] = Address(self, name)
        return " ".join(f"{a.name}={a.text}" for a in self.addresses.values())

    def do_policy(self, address, **words):
        a = self.addresses[address]
        policy = Policy(**words)
        if policy.times is None:
            a.policies = [policy]
        else:
            a.policies.insert(len(a.policies) - 1, policy)
        return ""

    def do_narrow(self, address, window="2048"):
        self.addresses[address].narrow(int(window))
        return ""

    def do_down(self, address):
        self.addresses[address].down()
        return ""

    def do_up(self, address):
        self.addresses[address].up()
        return ""

    def do_accepted(self, address, **bounds):
        return self.bounded(self.addresses[address].accepted, f"connections at {address}", **bounds)

    def do_gap(self, address, number, min):
        """Between accepting connection `number` and the next one lay at least `min` seconds."""
        times = self.addresses[address].accept_times
        if len(times) <= int(number):
            return None
        gap = times[int(number)] - times[int(number) - 1]
        if gap < float(min):
            raise Failed(f"connection {int(number) + 1} at {address} came after {gap:.3f} s")
        return f"{gap:.3f}"

    def bounded(self, value, what, **bounds):
        if set(bounds) - {"min", "max", "is"}:
            raise Failed(f"unknown bound among {sorted(bounds)}")
        if value > int(bounds.get("max", bounds.get("is", value))):
            raise Failed(f"{value} {what}")
        return str(value) if value >= int(bounds.get("min", bounds.get("is", value))) else None

    def do_connection(self, name, at=None, state="serving"):
        for c in self.connections:
            if c.name is None and (at is None or c.address.name == at) and not (c.at_eof or c.sent_end or c.closed):
                if state == "accepted" or c.state == state:
                    self.bind_name(name, c)
                    c.name = name
                    return c.label
        return None

    def matches(self, request, kind, at=None, on=None, not_on=None, owner=None, not_owner=None, **fields):
        if request.claimed or request.kind != kind:
            return False
        if at is not None and request.connection.address.name != at:
            return False
        if on is not None and request.connection is not self.connection_of(on):
            return False
        if not_on is not None and request.connection is self.connection_of(not_on):
            return False
        if "key" in fields and request.fields["key"] != unescape(fields.pop("key")):
            return False
        same = request.fields.get("owner")
        if owner is not None and self.named[owner].fields["owner"] != same:
            return False
        if not_owner is not None and self.named[not_owner].fields["owner"] == same:
            return False
        for name, wanted in fields.items():
            base, _, bound = name.partition("_")
            value = request.fields[base]
            if bound == "min" and value < int(wanted) or bound == "max" and value > int(wanted):
                return False
            if not bound and value != int(wanted):
                return False
        return True

    def claim(self, name, kind, **wanted):
        for request in self.requests:
            if self.matches(request, kind, **wanted):
                self.bind_name(name, request)
                request.claimed = name
                return str(request)
        return None

    def do_acquire(self, name, **wanted):
        return self.claim(name, "acquire", **wanted)

    def do_release(self, name, **wanted):
        return self.claim(name, "release", **wanted)

    def do_order(self, first, second):
        """The request `first` arrived before `second`."""
        if self.requests.index(self.named[first]) > self.requests.index(self.named[second]):
            raise Failed(f"{second} arrived before {first}")
        return ""

    def do_nothing(self):
        if self.unclaimed():
            raise Failed(self.outstanding())
        return ""

    def do_ignore(self, kind, **wanted):
        """Requests like this, now and later, need no claim."""
        self.ignored.append((kind, wanted))
        return ""

    def do_claimed(self, kind, count="1", **wanted):
        """Claims `count` requests at once, of any order, without naming them."""
        found = [r for r in self.requests if self.matches(r, kind, **dict(wanted))]
        if len(found) < int(count):
            return None
        for request in found[: int(count)]:
            request.claimed = "counted"
        return str(len(found))

    def frame(self, name, kind, token=None, owner=None, key=None):
        thing = self.named[name]
        fields = thing.fields if isinstance(thing, Request) else {}
        token = int(token) if token is not None else fields.get("token")
        owner = int(owner) if owner is not None else fields.get("owner")
        key = unescape(key) if key is not None else fields.get("key")
        number = {"A": token, "T": owner, "B": owner, "R": token, "N": token}[kind]
        if number is None or key is None or kind == "A" and owner is None:
            raise Failed(f"{kind} needs a number and a key")
        body = struct.pack(">Q", number) + (struct.pack(">Q", owner) if kind == "A" else b"")
        return kind.encode() + body + key + b"\n"

    def do_reply(self, name, kind, bytes=None, repeat="1", flip=None, on=None, **fields):
        data = self.frame(name, kind, **fields)
        if flip is not None:
            at = int(flip)
            data = data[:at] + struct.pack("B", data[at] ^ 1) + data[at + 1:]
        if bytes is not None:
            first, _, last = bytes.partition("..")
            if int(first or 0) > len(data) or int(last or 0) > len(data):
                raise Failed(f"the frame has {len(data)} bytes")
            data = data[int(first or 0): int(last) if last else None]
        self.connection_of(on or name).send(data * int(repeat))
        return f"{len(data)} bytes"

    def do_send(self, name, raw, repeat="1"):
        self.connection_of(name).send(unescape(raw) * int(repeat))
        return ""

    def do_close(self, name):
        self.connection_of(name).end("close")
        return ""

    def do_half_close(self, name):
        self.connection_of(name).end("half_close")
        return ""

    def do_reset(self, name):
        self.connection_of(name).end("reset")
        return ""

    def do_close_all(self, address):
        for c in self.connections:
            if c.address.name == address and not c.closed:
                c.end("close")
        return ""

    def do_cork(self, name):
        """What is sent from here on leaves at once with uncork, an end included."""
        self.connection_of(name).corked = True
        return ""

    def do_uncork(self, name):
        c = self.connection_of(name)
        c.corked = False
        c.flush()
        return ""

    def do_allow(self, what):
        """`partial`: a connection may end inside a request."""
        if what != "partial":
            raise Failed(f"cannot allow {what}")
        self.partial_allowed = True
        return ""

    def do_pause(self, name, after="0"):
        c = self.connection_of(name)
        c.appetite = int(after) or None
        c.paused = not c.appetite
        self.watch(c)
        return ""

    def do_resume(self, name):
        c = self.connection_of(name)
        c.paused, c.appetite = False, None
        self.watch(c)
        return ""

    def do_eof(self, name):
        """The client ended its side (half-closed, closed or reset)."""
        return "" if self.connection_of(name).at_eof else None

    def do_open(self, name):
        """The client has not ended its side."""
        if self.connection_of(name).at_eof:
            raise Failed(f"the client ended {name}")
        return ""

    def do_finish(self):
        for c in self.connections:
            c.paused, c.appetite = False, None
            if c.at_eof:
                c.drop()
            self.watch(c)
        if not all(c.closed for c in self.connections):
            return None
        report = json.dumps(self.report())
        if self.unclaimed() or self.faults:
            raise Failed(f"{self.outstanding()} REPORT {report}")
        return report

    def report(self):
        return {
            "connections": [
                {"name": c.label, "address": c.address.name, "state": c.state, "reset": c.was_reset,
                 "requests": [{"kind": r.kind, "claimed_as": r.claimed,
                               **{k: escape(v) if isinstance(v, bytes) else str(v) for k, v in r.fields.items()}}
                              for r in c.requests[:REPORTED]],
                 "left_out": max(0, len(c.requests) - REPORTED)}
                for c in self.connections],
            "faults": self.faults,
            "completed": not self.faults and not self.unclaimed(),
        }
