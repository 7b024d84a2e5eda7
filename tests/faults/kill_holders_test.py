#!/usr/bin/env python3
"""kill -9 of holders under load: the fenced balance holds, tokens only grow, others go on."""
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import Server  # noqa: E402

WORKER = os.environ.get("TICKETING_FENCED_WORKER")
SECONDS = float(os.environ.get("TICKETING_KILL_SECONDS", "12"))
PAIRS = 3
WORKERS = 6
OPENING = 1000


class KillHolders(unittest.TestCase):
    def test_balance_and_token_order_survive_kill_9(self):
        self.assertTrue(WORKER, "TICKETING_FENCED_WORKER is not set")
        rng = random.Random(7)
        with tempfile.TemporaryDirectory() as folder, Server() as server:
            path = os.path.join(folder, "bank.db")
            bank = sqlite3.connect(path)
            bank.executescript(
                "PRAGMA journal_mode=WAL;"
                "CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER);"
                "CREATE TABLE fence(pair INTEGER PRIMARY KEY, token INTEGER);"
                "CREATE TABLE history(n INTEGER PRIMARY KEY AUTOINCREMENT, pair INTEGER, token INTEGER);")
            for pair in range(PAIRS):
                bank.execute("INSERT INTO fence VALUES(?,0)", (pair,))
                for row in (2 * pair, 2 * pair + 1):
                    bank.execute("INSERT INTO account VALUES(?,?)", (row, OPENING))
            bank.commit()

            started = 0
            outputs = []

            def start():
                nonlocal started
                started += 1
                out = open(os.path.join(folder, f"worker-{started}"), "w+b")
                outputs.append(out)
                return subprocess.Popen([WORKER, server.address, path, str(PAIRS), str(started)],
                                        stdout=out)

            workers = [start() for _ in range(WORKERS)]
            kills = 0
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                time.sleep(rng.uniform(0.05, 0.4))
                victim = rng.randrange(WORKERS)
                workers[victim].kill()
                workers[victim].wait()
                kills += 1
                workers[victim] = start()
            before_stop = bank.execute("SELECT count(*) FROM history").fetchone()[0]
            # Killed holders' leases run out; whoever is left must be able to go on.
            time.sleep(3)
            after_leases = bank.execute("SELECT count(*) FROM history").fetchone()[0]
            for worker in workers:
                worker.terminate()
            for worker in workers:
                self.assertEqual(worker.wait(timeout=30), 0)

            said_moved = 0
            for out in outputs:
                out.seek(0)
                said_moved += sum(line.startswith(b"moved ") for line in out)
                out.close()
            rows = bank.execute("SELECT pair, token FROM history ORDER BY n").fetchall()
            total = bank.execute("SELECT sum(balance) FROM account").fetchone()[0]
            bank.close()

        self.assertEqual(total, 2 * PAIRS * OPENING, "money was made or lost")
        for pair in range(PAIRS):
            tokens = [t for p, t in rows if p == pair]
            self.assertEqual(tokens, sorted(set(tokens)), f"tokens of pair {pair} are out of order")
        # A worker may be killed between its commit and its line, never the other way round.
        self.assertGreaterEqual(len(rows), said_moved)
        self.assertLessEqual(len(rows) - said_moved, kills)
        self.assertGreater(before_stop, 0)
        self.assertGreater(after_leases, before_stop, "nobody went on after the kills")
        print(f"{kills} holders killed, {len(rows)} transfers, sum {total}", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
