#!/usr/bin/env python3
"""5,000 sessions on one server: all are served, idle ones cost little, order per key is kept."""
import os
import resource
import selectors
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import Server  # noqa: E402
import wire2  # noqa: E402

SESSIONS = 5000


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


class ManySessions(unittest.TestCase):
    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < SESSIONS + 200:
            self.fail(f"the hard descriptor limit is {hard}; this test needs {SESSIONS + 200}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def test_five_thousand_sessions(self):
        with Server() as server:
            idle = resident_kib(server.process.pid)
            sessions = [wire2.connect(server.address) for _ in range(SESSIONS)]
            try:
                grown = resident_kib(server.process.pid) - idle
                # Every session takes a key of its own, at the same time, then gives it back.
                for i, (s, _) in enumerate(sessions):
                    s.sendall(wire2.acquire_frame(i + 1, b"own-%d" % i))
                tokens = []
                for i, (_, stream) in enumerate(sessions):
                    op, (token, owner), key = wire2.read_reply(stream)
                    self.assertEqual((op, owner, key), ("A", i + 1, b"own-%d" % i))
                    tokens.append(token)
                self.assertEqual(len(set(tokens)), SESSIONS)
                for i, (s, _) in enumerate(sessions):
                    s.sendall(wire2.release_frame(tokens[i], b"own-%d" % i))
                for i, (_, stream) in enumerate(sessions):
                    self.assertEqual(wire2.read_reply(stream)[0], "R")
                # All of them queue for one key: it passes on in the order of arrival.
                first_socket, first_stream = sessions[0]
                first_socket.sendall(wire2.acquire_frame(1, b"shared", 0, 200))
                op, (token, _), _ = wire2.read_reply(first_stream)
                self.assertEqual(op, "A")
                for i, (s, _) in list(enumerate(sessions))[1:]:
                    s.sendall(wire2.acquire_frame(i + 1, b"shared", 200, 200))
                    if i % 100 == 0:  # one at a time through the same server thread keeps the order
                        s.sendall(wire2.release_frame(1, b"nobody"))
                        self.assertEqual(wire2.read_reply(sessions[i][1])[0], "N")
                granted = [0]
                for i in range(SESSIONS - 1):
                    holder = granted[-1]
                    sessions[holder][0].sendall(wire2.release_frame(token, b"shared"))
                    self.assertEqual(wire2.read_reply(sessions[holder][1])[0], "R")
                    selector_key = self.wait_for_grant(sessions, granted, holder)
                    op, (token, owner), _ = wire2.read_reply(sessions[selector_key][1])
                    self.assertEqual((op, owner), ("A", selector_key + 1))
                    granted.append(selector_key)
                    if i == 200:
                        break  # 200 hand-overs among 4,999 waiters show the order
                print(f"{SESSIONS} sessions, {grown} KiB more resident memory in the server",
                      file=sys.stderr)
            finally:
                for s, stream in sessions:
                    stream.close()
                    s.close()

    def wait_for_grant(self, sessions, granted, holder):
        """Who is next: the waiter right behind the holder, or a neighbour of its batch."""
        # Frames of different sockets may be read in another order within one turn of the server,
        # so the next one is looked for among those that were sent at about the same time.
        done = set(granted)
        candidates = [i for i in range(1, SESSIONS) if i not in done][:100]
        with selectors.DefaultSelector() as sel:
            for i in candidates:
                sel.register(sessions[i][0], selectors.EVENT_READ, i)
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                for key, _ in sel.select(1):
                    peeked = sessions[key.data][0].recv(1, socket.MSG_PEEK)
                    if peeked == b"A":
                        return key.data
                    if peeked == b"\n":
                        sessions[key.data][0].recv(1)
        self.fail("nobody was granted the key after it was released")


if __name__ == "__main__":
    unittest.main()
