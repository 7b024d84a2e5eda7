#!/usr/bin/env python3
"""`ticketing demo` and `ticketing bench` as users run them: what they say is true, and nothing stays
behind however they end.

  tests/bench/commands_test.py PROGRAM [unittest options]
"""

import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = None
LIMIT_S = 120


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="commands-test-")
        self.addCleanup(self.folder.cleanup)
        self.environment = dict(os.environ, TMPDIR=self.folder.name)

    def start(self, *arguments, **options):
        process = subprocess.Popen(
            [PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment, **options)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def run_to_end(self, *arguments, **options):
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    def processes(self):
        """Those that work for a command started here: known by TMPDIR in their environment."""
        mark = f"TMPDIR={self.folder.name}".encode()
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                state = (path / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and mark in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
            except OSError:
                pass
        return found

    def assert_nothing_left(self):
        deadline = time.monotonic() + 30
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.processes(), [])

    def database(self):
        files = list(pathlib.Path(self.folder.name).glob("*/accounts.db"))
        self.assertEqual(len(files), 1)
        return sqlite3.connect(files[0])


class Demo(Commands):
    def test_locks_hold_and_the_database_agrees(self):
        status, out, err = self.run_to_end("demo", "--seconds", "1", "--accounts", "5", "--keep")
        self.assertEqual((status, err), (0, ""), out)
        self.assertIn("The locks held.", out)
        self.assertIn("refused", out)
        database = self.database()
        self.addCleanup(database.close)
        money, = database.execute("SELECT sum(balance) FROM account").fetchone()
        self.assertEqual(money, 5000)
        highest = {}
        transfers = 0
        for source, target, one, other in database.execute(
                "SELECT source, target, source_token, target_token FROM journal ORDER BY seq"):
            transfers += 1
            for account, token in ((source, one), (target, other)):
                self.assertGreater(token, highest.get(account, 0))
                highest[account] = token
        self.assertIn(f"what {transfers} transfers", out)
        self.assert_nothing_left()

    def test_nothing_is_kept_unasked(self):
        status, out, _ = self.run_to_end("demo", "--seconds", "1", "--transfers", "1")
        self.assertEqual(status, 0, out)
        self.assertEqual(os.listdir(self.folder.name), [])
        self.assert_nothing_left()

    def test_without_locks_the_status_tells_what_the_database_says(self):
        status, out, err = self.run_to_end(
            "demo", "--no-locks", "--seconds", "2", "--workers", "8", "--accounts", "2", "--keep")
        self.assertEqual(err, "")
        database = self.database()
        self.addCleanup(database.close)
        balances = dict(database.execute("SELECT id, balance FROM account"))
        expected = {account: 1000 for account in balances}
        for source, target, amount in database.execute("SELECT source, target, amount FROM journal"):
            expected[source] -= amount
            expected[target] += amount
        lost = balances != expected
        self.assertEqual(status, 1 if lost else 0, out)
        self.assertEqual("FAILED" in out, lost, out)

    def interrupt(self, number):
        process = self.start("demo", "--seconds", "60")
        process.stdout.readline()
        self.assertNotEqual(self.processes(), [])
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual((process.returncode, err), (128 + number, ""), out)
        self.assertEqual(os.listdir(self.folder.name), [])
        self.assert_nothing_left()

    def test_ctrl_c_cleans_up(self):
        self.interrupt(signal.SIGINT)

    def test_sigterm_cleans_up(self):
        self.interrupt(signal.SIGTERM)

    def test_killed_it_takes_its_processes_with_it(self):
        process = self.start("demo", "--seconds", "60")
        process.stdout.readline()
        process.stdout.readline()
        self.assertGreater(len(self.processes()), 2)
        process.kill()
        process.wait()
        self.assert_nothing_left()

    def test_a_server_that_dies_fails_the_demo(self):
        process = self.start("demo", "--seconds", "60")
        process.stdout.readline()
        process.stdout.readline()
        for pid in self.processes():
            if b"serve" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
        out, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 1, out)
        self.assertIn("the lock server ended by itself", out)
        self.assertEqual(os.listdir(self.folder.name), [])
        self.assert_nothing_left()

    def test_bad_options_are_refused_with_name_value_and_range(self):
        for option, value, wanted in (
                ("--workers", "1", "2 to 64"), ("--workers", "65", "2 to 64"),
                ("--accounts", "1", "2 to 1000"), ("--seconds", "0", "1 to 86400"),
                ("--transfers", "-1", "1 to"), ("--seconds", "many", "1 to 86400")):
            status, out, err = self.run_to_end("demo", f"{option}={value}")
            self.assertEqual((status, out), (64, ""), err)
            for part in (option, value, wanted):
                self.assertIn(part, err)

    def test_a_temporary_folder_that_cannot_be_made_is_named(self):
        self.environment["TMPDIR"] = "/nonexistent"
        status, _, err = self.run_to_end("demo")
        self.assertEqual(status, 71)
        self.assertIn("/nonexistent", err)


class Bench(Commands):
    def bench(self, *arguments):
        status, out, err = self.run_to_end("bench", "--json", *arguments)
        self.assertEqual((status, err), (0, ""), out)
        return json.loads(out)

    def check(self, result, workload, cycles, tasks, keys, io):
        self.assertEqual(
            [result[name] for name in ("workload", "cycles", "tasks", "keys", "io", "failed")],
            [workload, cycles, tasks, keys, io, 0])
        self.assertGreater(result["seconds"], 0)
        latency = result["cycle_ns"]
        self.assertGreater(latency["p50"], 0)
        self.assertLessEqual(latency["p50"], latency["p90"])
        self.assertLessEqual(latency["p90"], latency["p99"])
        self.assertLessEqual(latency["p99"], latency["max"])

    def test_both_workloads_by_default(self):
        report = self.bench("--cycles", "500")
        self.assertEqual(report["server"], "private")
        cycle, latency = report["results"]
        self.check(cycle, "cycle", 500, 64, 32, "caller")
        self.check(latency, "latency", 500, 1, 1, "caller")
        self.assertEqual(os.listdir(self.folder.name), [])
        self.assert_nothing_left()

    def test_threads(self):
        report = self.bench("cycle", "--io", "thread", "--threads", "9", "--keys", "2",
                            "--cycles", "300")
        self.check(report["results"][0], "cycle", 300, 9, 2, "thread")

    def test_queue(self):
        report = self.bench("cycle", "--io", "queue", "--tasks", "9", "--keys", "2",
                            "--cycles", "300")
        self.check(report["results"][0], "cycle", 300, 9, 2, "queue")

    def test_more_tasks_than_requests_a_broker_has_by_default(self):
        report = self.bench("cycle", "--tasks", "3000", "--keys", "3000", "--cycles", "6000")
        self.check(report["results"][0], "cycle", 6000, 3000, 3000, "caller")

    def test_many_tasks_on_one_key(self):
        report = self.bench("cycle", "--tasks", "500", "--keys", "1", "--cycles", "1500")
        self.check(report["results"][0], "cycle", 1500, 500, 1, "caller")

    def serve(self):
        server = self.start(
            "serve", "--listen", "127.0.0.1:0", "--durability", "memory", "--ready-fd", "1",
            "--data", f"{self.folder.name}/data")
        return server, json.loads(server.stdout.readline())["listeners"][0]["address"]

    def test_a_server_that_dies_fails_the_run(self):
        for io in ("caller", "queue", "thread"):
            with self.subTest(io=io):
                server, address = self.serve()
                bench = self.start("bench", "cycle", "--json", "--addr", address, "--io", io,
                                   "--cycles", "1000000000")
                # It has begun once the server saw a session; a moment more does no harm.
                time.sleep(1)
                self.assertIsNone(bench.poll())
                server.kill()
                server.wait()
                out, err = bench.communicate(timeout=LIMIT_S)
                self.assertEqual((bench.returncode, err), (1, ""), out)
                result, = json.loads(out)["results"]
                self.assertGreater(result["failed"], 0)
                self.assertEqual(sum(result["failures"].values()), result["failed"])
                self.assertTrue(result["first_failure"])

    def test_ctrl_c_ends_it_and_its_server(self):
        bench = self.start("bench", "cycle", "--cycles", "1000000000")
        while len(self.processes()) < 2:
            time.sleep(0.01)
        bench.send_signal(signal.SIGINT)
        bench.communicate(timeout=LIMIT_S)
        self.assertEqual(bench.returncode, 130)
        self.assertEqual(os.listdir(self.folder.name), [])
        self.assert_nothing_left()

    def test_settings_in_the_environment_do_not_change_the_private_server(self):
        self.environment["TICKETING_CLIENT_TOKENS"] = "someone a-secret-of-another-server"
        self.environment["TICKETING_LISTEN"] = "127.0.0.1:1"
        report = self.bench("cycle", "--cycles", "10")
        self.check(report["results"][0], "cycle", 10, 64, 32, "caller")

    def test_bad_options_are_refused_with_name_value_and_range(self):
        for arguments, wanted in (
                (["--tasks=0"], ["--tasks", "'0'", "1 to 16384"]),
                (["--keys=x"], ["--keys", "'x'"]),
                (["--cycles=0"], ["--cycles", "'0'"]),
                (["--io=magic"], ["--io", "'magic'", "caller", "queue", "thread"]),
                (["--threads=9999"], ["--threads", "'9999'", "4096"]),
                (["--io=caller", "--threads=4"], ["--threads", "--io thread"]),
                (["--pin=0"], ["--pin", "'0'", "SERVER,CLIENT"]),
                (["--pin=0,1000"], ["--pin", "0,1000"]),
                (["--addr=here"], ["--addr", "here"]),
                (["--addr=127.0.0.1:1", "--pin=0,0"], ["--pin", "--addr"]),
                (["--token-file=x"], ["--token-file", "--addr"]),
                (["sprint"], ["'sprint'", "cycle", "latency"])):
            status, out, err = self.run_to_end("bench", *arguments)
            self.assertEqual((status, out), (64, ""), err)
            for part in wanted:
                self.assertIn(part, err)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
