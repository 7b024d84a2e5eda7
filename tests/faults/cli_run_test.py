#!/usr/bin/env python3
"""`acquire`, `release`, `run`: held locks, statuses, signals, deadlines, terminals."""
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_case import (  # noqa: E402
    CANNOT_RUN, INSUFFICIENT, LOST, NO_SERVER, NOT_CURRENT, NOT_FOUND,
    NOT_OBTAINED, OK, PATIENCE, USAGE, Case, alive, cli, environment, free_port,
    program, run_tests, start, wait_until)
from server import Server  # noqa: E402


class KeySets(Case):
    """Several keys at once, on wire 3."""

    def test_a5_all_keys_are_held_or_none(self):
        with Server(listen="127.0.0.1:0,wire=3") as server:
            token = self.took(cli("acquire", "b", "a", "b", addr=server.address))
            for keys in (["a"], ["b"], ["c", "a"], ["b", "a"]):
                self.refused(cli("acquire", "--wait", "0", *keys, addr=server.address), NOT_OBTAINED)
            self.took(cli("acquire", "--wait", "0", "c", addr=server.address))  # nothing of it stayed behind
            self.assertEqual(cli("release", "a", "b", token, addr=server.address).returncode, OK)
            self.took(cli("acquire", "--wait", "0", "a", "b", addr=server.address))

    def test_m8_a_set_is_released_whole(self):
        with Server(listen="127.0.0.1:0,wire=3") as server:
            token = self.took(cli("acquire", "a", "b", addr=server.address))
            for keys in (["a"], ["a", "b", "c"], ["a", "c"]):
                result = cli("release", *keys, token, addr=server.address)
                self.assertNotEqual(result.returncode, OK)
                self.assertIn("not those of the grant", result.stderr.decode())
            self.assertEqual(cli("release", "b", "a", token, addr=server.address).returncode, OK)

    def test_run_holds_all_keys_while_the_command_runs(self):
        with Server(listen="127.0.0.1:0,wire=3") as server:
            script = ("echo $TICKETING_KEYS $TICKETING_KEY; "
                      f"{program()} acquire --wait 0 left; echo $?; {program()} acquire --wait 0 right; echo $?")
            result = cli("run", "right", "left", "--", "sh", "-c", script, addr=server.address)
            self.assertEqual(result.returncode, OK, result.stderr.decode())
            self.assertEqual(result.stdout.decode().split(),
                             ["left", "right", "left", str(NOT_OBTAINED), str(NOT_OBTAINED)])
            self.took(cli("acquire", "--wait", "0", "left", "right", addr=server.address))

    def test_a5_keys_are_the_same_on_both_wires(self):
        with Server("--listen", "127.0.0.1:0", listen="127.0.0.1:0,wire=3") as server:
            other = server.ready["listeners"][1]["address"]
            token = self.took(cli("acquire", "a", "b", addr=server.address))
            self.refused(cli("acquire", "--wait", "0", "b", addr=other), NOT_OBTAINED)
            self.refused(cli("acquire", "--wait", "0", "c", "d", addr=other), USAGE, "wire 2")
            self.assertEqual(cli("release", "a", "b", token, addr=server.address).returncode, OK)
            self.took(cli("acquire", "--wait", "0", "b", addr=other))


class AcquireRelease(Case):
    def test_a_token_is_all_that_is_printed(self):
        with Server() as server:
            first = self.took(cli("acquire", "k", addr=server.address))
            self.refused(cli("acquire", "--wait", "0", "k", addr=server.address), NOT_OBTAINED, "ticketing acquire")
            self.refused(cli("acquire", "--wait", "0.2", "k", addr=server.address), NOT_OBTAINED)
            result = cli("release", "k", first, addr=server.address)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (OK, b"", b""))
            second = self.took(cli("acquire", "k", addr=server.address))
            self.assertGreater(int(second), int(first))

    def test_r2_a_token_that_holds_nothing(self):
        with Server() as server:
            token = self.took(cli("acquire", "k", addr=server.address))
            for wrong in (str(int(token) + 1), "1"):
                self.refused(cli("release", "k", wrong, addr=server.address), NOT_CURRENT, wrong)
            self.refused(cli("release", "other", token, addr=server.address), NOT_CURRENT, token)
            self.assertEqual(cli("release", "k", token, addr=server.address).returncode, OK)
            self.refused(cli("release", "k", token, addr=server.address), NOT_CURRENT, token)

    def test_a_lock_outlives_its_acquire_until_its_lease(self):
        with Server() as server:
            self.took(cli("acquire", "--lease", "1", "k", addr=server.address))
            self.took(cli("acquire", "--wait", "20", "k", addr=server.address))

    def test_g1_a_grant_that_came_too_late_is_given_back(self):
        with Server() as server:
            # Equal to the lease: no grant can meet it.
            result = cli("acquire", "--lease", "5", "--budget", "5", "k", addr=server.address)
            self.refused(result, INSUFFICIENT, "ticketing acquire")
            wait_until(lambda: cli("acquire", "--wait", "0", "k", addr=server.address).returncode == OK,
                       "the key is free again")

    def test_no_server(self):
        port = free_port()
        result = cli("acquire", "--wait", "1", "k", addr=f"127.0.0.1:{port}")
        self.refused(result, NO_SERVER, f"127.0.0.1:{port}", "ticketing serve")
        result = cli("release", "k", "5", addr=f"127.0.0.1:{port}")
        self.refused(result, NO_SERVER, f"127.0.0.1:{port}")

    def test_several_keys_need_another_wire(self):
        with Server() as server:
            self.refused(cli("acquire", "a", "b", addr=server.address), USAGE, "wire 2")
            # Repeated, it is a set of one.
            self.took(cli("acquire", "a", "a", addr=server.address))

    def test_a_signal_while_queueing_leaves_nothing_behind(self):
        with Server() as server:
            token = self.took(cli("acquire", "k", addr=server.address))
            for number in (signal.SIGINT, signal.SIGTERM):
                waiting = start("acquire", "--wait", "200", "k", addr=server.address)
                time.sleep(0.3)
                waiting.send_signal(number)
                out, err = waiting.communicate(timeout=PATIENCE)
                self.assertEqual((waiting.returncode, out), (128 + number, b""), err)
                self.assertIn(signal.Signals(number).name.encode(), err)
            self.assertEqual(cli("release", "k", token, addr=server.address).returncode, OK)
            self.took(cli("acquire", "--wait", "0", "k", addr=server.address))

    def test_a_server_that_vanishes_while_queueing(self):
        with Server() as server:
            self.took(cli("acquire", "k", addr=server.address))
            waiting = start("acquire", "--wait", "200", "k", addr=server.address)
            time.sleep(0.3)
            server.process.kill()
            out, err = waiting.communicate(timeout=PATIENCE)
            self.assertEqual((waiting.returncode, out), (81, b""), err)


class Run(Case):
    def test_status_and_environment_of_the_command(self):
        with Server() as server:
            script = ('echo "$TICKETING_TOKEN|$TICKETING_KEYS|$TICKETING_KEY|$TICKETING_VALID_FOR|'
                      '$TICKETING_VALID_UNTIL|$(cut -d" " -f1 /proc/uptime)"; exit 7')
            result = cli("run", "--lease", "30", "k", "--", "sh", "-c", script, addr=server.address)
            self.assertEqual(result.returncode, 7, result.stderr)
            token, keys, key, left, until, now = result.stdout.decode().strip().split("|")
            self.assertGreater(int(token), 0)
            self.assertEqual((keys, key), ("k", "k"))
            self.assertTrue(25 < float(left) <= 30, left)
            self.assertTrue(25 < float(until) - float(now) <= 30.1, (until, now))
            self.refused(cli("release", "k", token, addr=server.address), NOT_CURRENT)  # released by run
            for script, status in (("exit 0", 0), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)):
                result = cli("run", "--wait", "0", "k", "--", "sh", "-c", script, addr=server.address)
                self.assertEqual((result.returncode, result.stderr), (status, b""))

    def test_arguments_of_the_command_are_its_own(self):
        with Server() as server:
            result = cli("run", "k", "--", "printf", "%s.", "--wait", "abc", "--", "-x", addr=server.address)
            self.assertEqual(result.stdout, b"--wait.abc.--.-x.")

    def test_a_command_that_cannot_be_run_gives_the_lock_back(self):
        with Server() as server:
            for command, status in (("/no/such/command", NOT_FOUND), ("no-such-command-anywhere", NOT_FOUND),
                                    ("/etc/passwd", CANNOT_RUN), ("/", CANNOT_RUN)):
                result = cli("run", "--wait", "0", "k", "--", command, addr=server.address)
                self.refused(result, status, f"'{command}'")
            self.took(cli("acquire", "--wait", "0", "k", addr=server.address))

    def test_not_obtained_runs_nothing(self):
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            mark = os.path.join(folder, "ran")
            self.took(cli("acquire", "k", addr=server.address))
            for wait in ("0", "1"):
                result = cli("run", "--wait", wait, "k", "--", "touch", mark, addr=server.address)
                self.refused(result, NOT_OBTAINED, "ticketing run")
            self.refused(cli("run", "--wait", "1", "k", "--", "touch", mark, addr=f"127.0.0.1:{free_port()}"), NO_SERVER)
            self.assertFalse(os.path.exists(mark))

    def test_signals_reach_the_command(self):
        with Server() as server:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
                name = number.name[3:]
                script = f'trap "echo got; exit 9" {name}; echo ready; while :; do sleep 0.05; done'
                running = start("run", "k", "--", "sh", "-c", script, addr=server.address)
                self.assertEqual(running.stdout.readline(), b"ready\n")
                running.send_signal(number)
                out, err = running.communicate(timeout=PATIENCE)
                self.assertEqual((running.returncode, out), (9, b"got\n"), (name, err))
                self.took_at_once(server)
            running = start("run", "k", "--", "sh", "-c", "echo ready; exec sleep 100", addr=server.address)
            running.stdout.readline()
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=PATIENCE)
            self.assertEqual(running.returncode, 128 + signal.SIGTERM)

    def took_at_once(self, server):
        token = self.took(cli("acquire", "--wait", "0", "k", addr=server.address))
        self.assertEqual(cli("release", "k", token, addr=server.address).returncode, OK)

    def test_a_signal_before_the_lock_runs_nothing(self):
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            mark = os.path.join(folder, "ran")
            self.took(cli("acquire", "k", addr=server.address))
            waiting = start("run", "--wait", "100", "k", "--", "touch", mark, addr=server.address)
            time.sleep(0.3)
            waiting.send_signal(signal.SIGTERM)
            waiting.communicate(timeout=PATIENCE)
            self.assertEqual(waiting.returncode, 128 + signal.SIGTERM)
            self.assertFalse(os.path.exists(mark))

    def ends_in_time(self, script, *options):
        """The command's end, measured by itself on the ticket's own clock, lies before the ticket's."""
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            beat = os.path.join(folder, "beat")
            result = cli("run", "--lease", "2", *options, "k", "--", "sh", "-c", script, addr=server.address,
                         env={"BEAT": beat})
            self.assertEqual(result.returncode, LOST, result.stderr)
            self.assertIn(b"--lease", result.stderr)
            self.took_at_once(server)
            with open(beat) as f:
                until, *beats = [float(line) for line in f]
            self.assertGreater(len(beats), 3)
            self.assertLess(max(beats), until)
            return result

    BEATING = 'echo $TICKETING_VALID_UNTIL >"$BEAT"; while :; do read u _ </proc/uptime; echo $u >>"$BEAT"; sleep 0.02; done'

    def test_the_command_ends_before_the_ticket(self):
        self.ends_in_time(self.BEATING)

    def test_a_command_that_ignores_term_is_killed_before_the_ticket_ends(self):
        self.ends_in_time('trap "" TERM; ' + self.BEATING, "--grace", "0.5")

    def test_term_comes_first(self):
        result = self.ends_in_time('trap "echo bye; exit 0" TERM; ' + self.BEATING)
        self.assertEqual(result.stdout, b"bye\n")

    def test_a_stopped_command_hears_term_and_ends_too(self):
        with Server() as server:
            script = 'trap "echo bye; exit 0" TERM; echo $$; kill -STOP $$; while :; do sleep 0.05; done'
            running = start("run", "--lease", "3", "k", "--", "sh", "-c", script, addr=server.address)
            pid = int(running.stdout.readline())
            out, err = running.communicate(timeout=PATIENCE)
            self.assertEqual((running.returncode, out), (LOST, b"bye\n"), err)
            self.assertFalse(alive(pid))

    def test_the_command_dies_with_its_wrapper(self):
        with Server() as server:
            running = start("run", "--lease", "2", "k", "--", "sh", "-c", "echo $$; exec sleep 100", addr=server.address)
            pid = int(running.stdout.readline())
            running.kill()
            running.communicate(timeout=PATIENCE)
            wait_until(lambda: not alive(pid), "the command dies")
            # The lease is all that is left of a killed holder.
            self.took(cli("acquire", "--wait", "20", "k", addr=server.address))

    def test_r2_a_server_that_forgot_the_lock_is_told(self):
        with Server() as server:
            script = '"$T" release k $TICKETING_TOKEN'
            result = cli("run", "k", "--", "sh", "-c", script, addr=server.address, env={"T": program()})
            self.refused(result, LOST, "no longer knew")

    def test_a_server_killed_meanwhile_does_not_change_the_status(self):
        with Server() as server:
            running = start("run", "--lease", "30", "k", "--", "sh", "-c", "echo ready; read x; exit 3",
                            addr=server.address)
            running.stdin = None
            self.assertEqual(running.stdout.readline(), b"ready\n")
            server.process.kill()
            _, err = running.communicate(timeout=PATIENCE)
            self.assertEqual(running.returncode, 3)
            self.assertIn(b"lease", err)

    def test_a_mask_and_descriptors_are_as_they_were(self):
        with Server() as server:
            # Without a shell between: some clear the mask.
            for command in (["grep", "-E", "^(SigBlk|SigIgn):", "/proc/self/status"], ["ls", "/proc/self/fd"]):
                outside = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL).stdout
                self.assertNotEqual(outside, b"")
                self.assertEqual(cli("run", "k", "--", *command, addr=server.address).stdout, outside)

    def test_one_lock_one_command_at_a_time(self):
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            inside = os.path.join(folder, "inside")
            script = 'mkdir "$D" || exit 99; sleep 0.05; rmdir "$D"'
            running = [subprocess.Popen([program(), "run", "--wait", "60", "k", "--", "sh", "-c", script],
                                        env=environment(TICKETING_ADDR=server.address, D=inside))
                       for _ in range(12)]
            self.assertEqual([r.wait(PATIENCE) for r in running], [0] * 12)


class Terminal(Case):
    """`run` under a terminal of its own: what keys do."""

    def under_terminal(self, server, command, talk):
        """Runs `command` under `run` in a new terminal; `talk` gets the wrapper's pid, a function that waits
        for a word on the screen and gives all that was seen, and one that types. Returns the exit status."""
        pid, master = pty.fork()
        if pid == 0:
            os.execve(program(), [program(), "run", "--lease", "60", "k", "--", *command],
                      environment(TICKETING_ADDR=server.address))
        seen = b""

        def read_until(word):
            nonlocal seen
            end = time.monotonic() + PATIENCE
            while word not in seen and time.monotonic() < end:
                if select.select([master], [], [], 0.1)[0]:
                    try:
                        seen += os.read(master, 4096)
                    except OSError:
                        break
            self.assertIn(word, seen)
            return seen

        try:
            talk(pid, read_until, lambda keys: os.write(master, keys))
            _, status = os.waitpid(pid, 0)
            pid = 0
            return os.waitstatus_to_exitcode(status)
        finally:
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(master)

    # Counts INT until TERM; the first argument says whether in a process group of its own.
    COUNTING = """
import os, signal, sys, time
count = 0
def interrupted(*_):
    global count
    count += 1
    print("INT", flush=True)
def ended(*_):
    print(f"count {count}.", flush=True)
    sys.exit(4)
signal.signal(signal.SIGINT, interrupted)
signal.signal(signal.SIGTERM, ended)
if sys.argv[1] == "apart":
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""

    def test_ctrl_c_reaches_the_command(self):
        with Server() as server:
            def talk(pid, read_until, write):
                read_until(b"ready")
                write(b"\x03")
                read_until(b"INT")
                os.kill(pid, signal.SIGTERM)
                read_until(b"count 1.")

            self.assertEqual(self.under_terminal(server, [sys.executable, "-c", self.COUNTING, "with"], talk), 4)

    def test_what_the_terminal_sent_is_not_sent_again(self):
        with Server() as server:
            # Only the terminal sends to the group; a command that left the group shows what the wrapper sends.
            def talk(pid, read_until, write):
                read_until(b"ready")
                write(b"\x03")
                read_until(b"^C")
                os.kill(pid, signal.SIGUSR2)  # handled after the INT that came before it
                os.kill(pid, signal.SIGTERM)
                self.assertIn(b"count 0.", read_until(b"count "))

            command = self.COUNTING.replace('print("ready"', 'signal.signal(signal.SIGUSR2, signal.SIG_IGN)\nprint("ready"')
            self.assertEqual(self.under_terminal(server, [sys.executable, "-c", command, "apart"], talk), 4)

    def test_the_command_may_read_from_the_terminal(self):
        with Server() as server:
            def talk(pid, read_until, write):
                write(b"word\n")

            self.assertEqual(self.under_terminal(server, ["sh", "-c", "read x; test $x = word"], talk), 0)


if __name__ == "__main__":
    sys.exit(run_tests(sys.modules["__main__"]))
