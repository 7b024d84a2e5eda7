#!/usr/bin/env python3
"""Cancels at random instants and grants that race the end of a wait leave no hold without an owner."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import Server, program  # noqa: E402

COUNT = os.environ.get("TICKETING_STORM_COUNT", "10000")


class Storms(unittest.TestCase):
    def storm(self, kind, *options, listen="127.0.0.1:0"):
        path = os.path.join(os.path.dirname(program()), "tests", "faults", "storm")
        with Server(*options, listen=listen) as server:
            ended = subprocess.run([path, server.address, kind, COUNT], capture_output=True, text=True,
                                   timeout=600)
            print(ended.stdout, ended.stderr, file=sys.stderr)
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_s3_cancels_that_close_sessions_leave_no_hold(self):
        self.storm("cancel")

    def test_s3_cancels_that_close_sessions_leave_no_hold_on_wire_3(self):
        self.storm("cancel", listen="127.0.0.1:0,wire=3")

    def test_s5_tombstones_leave_no_hold(self):
        self.storm("keep")

    def test_s5_tombstones_leave_no_hold_on_wire_3(self):
        self.storm("keep", listen="127.0.0.1:0,wire=3")

    def test_s6_grants_that_race_the_end_of_the_wait_leave_no_hold(self):
        self.storm("race")

    def test_s6_grants_that_race_the_end_of_the_wait_leave_no_hold_on_wire_3(self):
        self.storm("race", listen="127.0.0.1:0,wire=3")


if __name__ == "__main__":
    unittest.main()
