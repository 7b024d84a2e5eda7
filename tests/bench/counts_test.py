#!/usr/bin/env python3
"""What a cycle costs, in counts that no load of the machine moves: instructions, allocations, system
calls. Each is the difference between a short and a long run, so that starting up does not count.

  tests/bench/counts_test.py BUILD [unittest options]

BUILD is an optimised build by gcc (Release, RelWithDebInfo). The bounds of instructions stand about 15% above what was measured;
who makes something cheaper lowers them. Exit status 77 where valgrind or strace is missing.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from servers import ticketing_server

BUILD = None
SHORT, LONG = 1500, 4500
CYCLES = LONG - SHORT
LIMIT_S = 120

# User instructions a cycle of 64 tasks on 32 keys over two sessions, by wire; -O2 takes a tenth more
# than -O3, which a release build has.
CLIENT_INSTRUCTIONS = {2: 5400, 3: 5300}
SERVER_INSTRUCTIONS = {2: 2550, 3: 2500}
# Of the cost of a hand-over, from 50 to 1,000 tasks on one key.
GROWTH = 1.25
# Allocations that may come with a longer run, whatever its length: pools that grow a last time.
ALLOCATIONS = 24
# A thread that finds another at the store of kept memory does not wait, the allocator serves it: so
# many a cycle at most, where a store that keeps nothing takes two.
ALLOCATIONS_OF_COLLISIONS = 0.1
# One wait, and on each of the two sessions a read and a write.
CALLS_A_TURN = 5
# How often the timer is set anew depends on the time that passes; more than once a turn never.
TIMER = "timerfd_settime"
# Calls beside those of turns.
FURTHER_CALLS = 100
# One task, twice: send, wait, read.
CALLS_A_LONE_CYCLE = 6
# A blocking caller sleeps and is woken once for an acquire and once for a release.
SLEEPS_A_CYCLE = 4.5

TURN_CALLS = {"epoll_wait", "epoll_pwait", "epoll_pwait2", "recvfrom", "read", "sendto", "write"}
WAITS = {"epoll_wait", "epoll_pwait", "epoll_pwait2"}


def instructions(path):
    """The sum callgrind wrote."""
    return int(re.findall(r"^(?:summary|totals): (\d+)", path.read_text(encoding="utf-8"), re.M)[-1])


def calls(path):
    """{system call: how often} of strace -c."""
    counted = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        columns = line.split()
        if len(columns) == 2 and columns[0].isdigit() and columns[1] != "total":
            counted[columns[1]] = int(columns[0])
    return counted


class Counts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="counts-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def out(self, cycles):
        return self.folder / f"{self.id()}.{cycles}"

    def callgrind(self, cycles):
        return ["valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={self.out(cycles)}"]

    def strace(self, cycles):
        return ["strace", "-f", "-c", "-U", "calls,name", "-o", self.out(cycles)]

    def allocations(self, cycles):
        return ["env", f"LD_PRELOAD={BUILD / 'tests/bench/liballocations.so'}",
                f"TICKETING_TEST_ALLOCATIONS={self.out(cycles)}"]

    def client(self, prefix, address, cycles, workload="cycle", io="caller", more=()):
        subprocess.run([*prefix, BUILD / "ticketing", "bench", workload, "--addr", address, "--io", io,
                        "--cycles", str(cycles), "--json", *more],
                       check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)

    def of_client(self, prefix, read, wire, workload="cycle", io="caller"):
        """What `read` finds after the short and the long run of the client under `prefix`."""
        with ticketing_server(BUILD, None) as server:
            for cycles in (SHORT, LONG):
                self.client(prefix(cycles), server.address(wire), cycles, workload, io)
        return read(self.out(SHORT)), read(self.out(LONG))

    def of_server(self, prefix, read, wire, more=()):
        """The same of the server; its clients run as they are."""
        for cycles in (SHORT, LONG):
            with ticketing_server(BUILD, None, prefix(cycles)) as server:
                self.client([], server.address(wire), cycles, more=more)
        return read(self.out(SHORT)), read(self.out(LONG))

    def check_instructions(self, measured, bound, who):
        short, long = measured
        a_cycle = (long - short) / CYCLES
        print(f"{who}: {a_cycle:.0f} instructions a cycle, at most {bound}", file=sys.stderr)
        self.assertGreater(a_cycle, bound / 4, "fewer than can be: the run did not do its work")
        self.assertLessEqual(a_cycle, bound)

    def test_instructions_of_the_client(self):
        for wire, bound in CLIENT_INSTRUCTIONS.items():
            with self.subTest(wire=wire):
                self.check_instructions(self.of_client(self.callgrind, instructions, wire), bound,
                                        f"client, wire {wire}")

    def test_instructions_of_the_server(self):
        for wire, bound in SERVER_INSTRUCTIONS.items():
            with self.subTest(wire=wire):
                self.check_instructions(self.of_server(self.callgrind, instructions, wire), bound,
                                        f"server, wire {wire}")

    def test_a_hand_over_costs_the_same_with_many_waiters(self):
        a_cycle = {}
        for tasks in (50, 1000):
            short, long = self.of_server(self.callgrind, instructions, 2,
                                         ("--keys", "1", "--tasks", str(tasks)))
            a_cycle[tasks] = (long - short) / CYCLES
        print(f"server, a hand-over: {a_cycle[50]:.0f} instructions with 49 waiters, "
              f"{a_cycle[1000]:.0f} with 999", file=sys.stderr)
        self.assertLessEqual(a_cycle[1000], GROWTH * a_cycle[50])

    def check_allocations(self, measured, allowed=ALLOCATIONS):
        short, long = measured
        self.assertGreater(short, 10, "not even starting up was counted")
        self.assertLessEqual(long - short, allowed, f"in {CYCLES} cycles more")

    def read_number(self, path):
        return int(path.read_text(encoding="utf-8"))

    def test_the_client_allocates_nothing_in_the_steady_state(self):
        for wire in (2, 3):
            for io in ("caller", "queue", "thread"):
                collisions = 0 if io == "caller" else ALLOCATIONS_OF_COLLISIONS * CYCLES
                with self.subTest(wire=wire, io=io):
                    self.check_allocations(
                        self.of_client(self.allocations, self.read_number, wire, io=io),
                        ALLOCATIONS + collisions)

    def test_the_server_allocates_nothing_in_the_steady_state(self):
        for wire in (2, 3):
            with self.subTest(wire=wire):
                self.check_allocations(self.of_server(self.allocations, self.read_number, wire))

    def more_calls(self, measured):
        """What the long run called beyond the short one."""
        short, long = measured
        more = {name: count - short.get(name, 0) for name, count in long.items()}
        self.assertGreater(sum(more.values()), 0, f"{long}")
        return more

    def check_turns(self, measured):
        more = self.more_calls(measured)
        turns = sum(more.get(name, 0) for name in WAITS)
        in_turns = sum(count for name, count in more.items() if name in TURN_CALLS)
        self.assertLessEqual(more.pop(TIMER, 0), turns + FURTHER_CALLS, f"{more}")
        further = {name: count for name, count in more.items() if name not in TURN_CALLS}
        self.assertLessEqual(in_turns, CALLS_A_TURN * turns + FURTHER_CALLS, f"{more}")
        self.assertLessEqual(sum(further.values()), FURTHER_CALLS, f"{further}")

    def test_system_calls_of_a_client_turn(self):
        self.check_turns(self.of_client(self.strace, calls, 2))

    def test_system_calls_of_a_server_turn(self):
        self.check_turns(self.of_server(self.strace, calls, 2))

    def test_system_calls_of_a_lone_cycle(self):
        more = self.more_calls(self.of_client(self.strace, calls, 2, "latency"))
        self.assertLessEqual(more.pop(TIMER, 0), 2 * CYCLES + FURTHER_CALLS, f"{more}")
        self.assertLessEqual(sum(more.values()), CALLS_A_LONE_CYCLE * CYCLES + FURTHER_CALLS, f"{more}")

    def test_a_blocking_caller_sleeps_once_an_operation(self):
        more = self.more_calls(self.of_client(self.strace, calls, 2, "cycle", "thread"))
        self.assertLessEqual(more.get("futex", 0), SLEEPS_A_CYCLE * CYCLES, f"{more}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    missing = [name for name in ("valgrind", "strace") if not shutil.which(name)]
    if missing:
        print(f"counts_test.py: {' and '.join(missing)} missing; packaging/dependencies.sh has the "
              "group counts", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
