#!/usr/bin/env python3
"""Clients that mean harm to `ticketing serve`: noise, half frames, silence, floods nobody reads.

While each of them goes on, a client that behaves is served within its patience, and the server's
memory stays within what its limits allow; afterwards it still stops cleanly.
"""
import os
import random
import resource
import socket
import struct
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import Server  # noqa: E402
import wire2  # noqa: E402

SILENT = 2000            # connections that never speak
NOISY = 300              # connections that send noise
DRIPPING = 100           # connections that send a byte at a time
FLOODS = 8               # sessions that ask and never read
FLOOD_BYTES = 4 << 20    # most that each of them manages to send
OUTPUT_LIMIT = 64 << 10  # --max-output of the server that is flooded
PATIENCE = 20            # seconds a well-behaved client may have to wait: for hangs, not for speed
SEED = 4711


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def plain(address, timeout=PATIENCE):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=timeout)


class Hostile(unittest.TestCase):
    def setUp(self):
        self.open = []
        self.addCleanup(self.close_all)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = SILENT + 200
        if hard != resource.RLIM_INFINITY and hard < wanted:
            self.fail(f"the hard descriptor limit is {hard}; this test needs {wanted}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))

    def close_all(self):
        for s in self.open:
            s.close()
        self.open = []

    def keep(self, s):
        self.open.append(s)
        return s

    def served(self, address):
        """A client that behaves gets its lock, and gives it back."""
        s, stream = wire2.connect(address, timeout=PATIENCE)
        try:
            for i in range(3):
                key = b"honest-%d" % i
                s.sendall(wire2.acquire_frame(1000 + i, key))
                op, (token, owner), echoed = wire2.read_reply(stream)
                self.assertEqual((op, owner, echoed), ("A", 1000 + i, key))
                s.sendall(wire2.release_frame(token, key))
                self.assertEqual(wire2.read_reply(stream), ("R", (token,), key))
        finally:
            stream.close()
            s.close()

    def ends(self, s):
        """The server ends this connection; what it says before does not matter."""
        s.settimeout(PATIENCE)
        try:
            while s.recv(65536):
                pass
        except ConnectionError:
            pass

    def stops_clean(self, server):
        self.assertEqual(server.stop(), 0)
        self.assertNotIn("Sanitizer", server.read_log())

    def test_noise_ends_its_own_session_only(self):
        rng = random.Random(SEED)
        with Server() as server:
            idle = resident_kib(server.process.pid)
            for i in range(NOISY):
                if i % 3:  # behind a good proof, so that the noise meets the request parser
                    s, stream = wire2.connect(server.address)
                    stream.close()
                else:
                    s = plain(server.address)
                self.keep(s)
                try:
                    s.sendall(rng.randbytes(rng.randrange(1, 3000)) + b"\nX\n")
                except ConnectionError:
                    pass
                if i % 50 == 0:
                    self.served(server.address)
            for s in self.open:
                self.ends(s)
            self.served(server.address)
            self.assertLess(resident_kib(server.process.pid) - idle, 16 << 10)
            self.stops_clean(server)

    def test_lines_without_an_end(self):
        with Server() as server:
            s = plain(server.address)
            try:
                s.sendall(b"p" * 100000)  # a proof line that never ends
            except ConnectionError:
                pass
            self.ends(s)
            s.close()
            s, stream = wire2.connect(server.address)
            try:
                s.sendall(struct.pack(">cHHQ", b"A", 0, 10, 1) + b"k" * 100000)
            except ConnectionError:
                pass
            self.ends(s)
            stream.close()
            s.close()
            self.served(server.address)
            self.stops_clean(server)

    def test_silent_connections_hold_nobody_up_and_go(self):
        with Server("--handshake-timeout", "3s") as server:
            idle = resident_kib(server.process.pid)
            for _ in range(SILENT):
                self.keep(plain(server.address))
            self.served(server.address)
            grown = resident_kib(server.process.pid) - idle
            self.assertLess(grown, SILENT * 4)  # KiB: below 4 each
            for s in self.open:
                self.ends(s)
            self.close_all()
            self.served(server.address)
            self.stops_clean(server)

    def test_silence_beyond_the_limit_is_turned_away(self):
        with Server("--max-unauthenticated", "50") as server:
            honest, stream = wire2.connect(server.address)
            for _ in range(200):
                self.keep(plain(server.address))
            closed = 0
            for s in self.open:  # the greeting came, or the end
                try:
                    closed += s.recv(1) == b""
                except ConnectionError:
                    closed += 1
            self.assertGreaterEqual(closed, 150)
            honest.sendall(wire2.acquire_frame(1, b"k"))  # who is in, stays in
            self.assertEqual(wire2.read_reply(stream)[0], "A")
            stream.close()
            honest.close()
            self.close_all()
            self.stops_clean(server)

    def test_dripping_handshakes_end(self):
        with Server("--handshake-timeout", "2s") as server:
            for _ in range(DRIPPING):
                self.keep(plain(server.address))
            left = set(self.open)
            deadline = time.monotonic() + PATIENCE
            while left and time.monotonic() < deadline:
                for s in list(left):
                    try:
                        s.sendall(b"x")
                        s.setblocking(False)
                        if s.recv(4096) == b"":
                            left.discard(s)
                    except BlockingIOError:
                        pass
                    except ConnectionError:
                        left.discard(s)
                    finally:
                        s.setblocking(True)
                self.served(server.address)
                time.sleep(0.05)
            self.assertFalse(left)
            self.stops_clean(server)

    def test_half_frames_of_many_sessions(self):
        """Each keeps a frame open; none of them costs more than its own frame."""
        with Server() as server:
            idle = resident_kib(server.process.pid)
            sessions = [wire2.connect(server.address) for _ in range(DRIPPING)]
            for i, (s, _) in enumerate(sessions):
                self.keep(s)
                s.sendall(wire2.acquire_frame(i + 1, b"half-a-key")[:-3])
            self.served(server.address)
            self.assertLess(resident_kib(server.process.pid) - idle, 8 << 10)
            for s, stream in sessions:
                s.sendall(b"ey\n")  # the rest
            answers = [wire2.read_reply(stream)[0] for _, stream in sessions]
            self.assertEqual(sorted(answers), ["A"] + ["T"] * (DRIPPING - 1))
            self.stops_clean(server)

    def flood(self, server, frames):
        """Sends until the server has had enough or the bound is reached; reads nothing."""
        s, _ = wire2.connect(server.address)
        self.keep(s)
        s.settimeout(1)
        sent = 0
        try:
            while sent < FLOOD_BYTES:
                sent += s.send(frames(sent))
        except (OSError, TimeoutError):
            pass

    def test_floods_without_reading(self):
        def releases(_):  # each is answered N
            return wire2.release_frame(1, b"nobody") * 500

        def acquires(sent):  # granted or queued; wait 0: answered at once
            return b"".join(wire2.acquire_frame(sent * 1000 + i + 1, b"flood-%d" % i)
                            for i in range(500))

        with Server("--max-output", str(OUTPUT_LIMIT), "--max-requests-per-session", "1000",
                    "--max-keys", "20000") as server:
            idle = resident_kib(server.process.pid)
            threads = [threading.Thread(target=self.flood, daemon=True,
                                        args=(server, (releases, acquires)[i % 2]))
                       for i in range(FLOODS)]
            for t in threads:
                t.start()
            while any(t.is_alive() for t in threads):
                self.served(server.address)
            for t in threads:
                t.join()
            self.served(server.address)
            grown = resident_kib(server.process.pid) - idle
            self.assertLess(grown, 48 << 10)
            self.close_all()
            self.stops_clean(server)
            self.assertIn("slow_readers=", server.read_log())  # named where it is not 0


if __name__ == "__main__":
    unittest.main()
