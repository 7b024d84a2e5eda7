#!/usr/bin/env python3
"""The command line with real processes: bad input, exit statuses, held locks, signals, deadlines."""
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire2  # noqa: E402
from server import Server, program  # noqa: E402

OK, USAGE, NO_SERVER, CANNOT_OPEN, OUTPUT, NOT_OBTAINED, AUTH = 0, 64, 69, 73, 74, 75, 77
INSUFFICIENT, LOST, NOT_CURRENT, DATA_IN_USE, CANNOT_RUN, NOT_FOUND = 82, 83, 84, 85, 126, 127
PATIENCE = 30  # seconds until a test gives up; none depends on being faster


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k not in ("TICKETING_ADDR", "TICKETING_CLIENT_TOKEN")}
    return {**kept, **more}


def cli(*arguments, addr=None, env=None, **options):
    e = environment(**(env or {}))
    if addr:
        e["TICKETING_ADDR"] = addr
    return subprocess.run([program(), *arguments], env=e, capture_output=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, **options)


def start(*arguments, addr, **options):
    return subprocess.Popen([program(), *arguments], env=environment(TICKETING_ADDR=addr),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def shell(script, *, addr="127.0.0.1:1", **env):
    """Runs a shell script in which $T is the program, for the redirections that Python cannot do."""
    return subprocess.run(["sh", "-c", script], capture_output=True, timeout=PATIENCE,
                          env=environment(T=program(), TICKETING_ADDR=addr, **env))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"did not happen: {what}")
        time.sleep(0.02)


class Case(unittest.TestCase):
    def refused(self, result, status, *parts):
        """The exact status; every part is in the text on standard error; nothing on standard output."""
        text = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, status, text)
        for part in parts:
            self.assertIn(part, text)
        self.assertEqual(result.stdout, b"")
        # No crash, and no internals: a sentence in the program's name.
        self.assertTrue(text.startswith("ticketing"), text)

    def took(self, result):
        self.assertEqual(result.returncode, OK, result.stderr.decode())
        self.assertRegex(result.stdout.decode(), r"\A[1-9][0-9]*\n\Z")
        return result.stdout.decode().strip()


class BadInput(Case):
    """Nothing listens: whatever were sent would end in NO_SERVER, so USAGE proves that nothing was."""

    def bad_duration(self, command, option, value, high):
        tail = ["k"] if command == "acquire" else ["k", "--", "true"]
        result = cli(command, f"{option}={value}", *tail, addr="127.0.0.1:1")
        self.refused(result, USAGE, f"ticketing {command}: {option} is '{value}'", f"{high}s", "500ms")

    def test_a1_wait_outside_its_range(self):
        for value in ("256", "255.000000001", "-1", "99999999999999999999999999", "5m"):
            self.bad_duration("acquire", "--wait", value, 255)
        self.bad_duration("run", "--wait", "256", 255)

    def test_a2_lease_outside_its_range(self):
        for value in ("0", "0s", "251", "250.1", "-5", "1h"):
            self.bad_duration("acquire", "--lease", value, 250)
        self.bad_duration("run", "--lease", "251", 250)
        self.bad_duration("run", "--lease", "0", 250)

    def test_a4_what_is_no_duration(self):
        for value in ("abc", "1e99", "NaN", "nan", "inf", "-inf", "", " ", "5 s", "0x10", "1.2.3", ".", "s",
                      "+5", "5S", "1,5", "٣"):
            for option, high in (("--wait", 255), ("--lease", 250), ("--budget", 250)):
                self.bad_duration("acquire", option, value, high)
        self.bad_duration("run", "--grace", "abc", 250)

    def test_a3_budget_above_lease(self):
        result = cli("acquire", "--lease", "3", "--budget", "4", "k", addr="127.0.0.1:1")
        self.refused(result, USAGE, "--budget is 4s", "--lease 3s")
        result = cli("acquire", "--budget", "-1", "k", addr="127.0.0.1:1")
        self.refused(result, USAGE, "--budget is '-1'", "negative")
        # 2.5 goes out as 3: a budget of 3 is within it, and only then is a server looked for.
        result = cli("acquire", "--wait", "0.5", "--lease", "2.5", "--budget", "3", "k", addr="127.0.0.1:1")
        self.refused(result, NO_SERVER, "127.0.0.1:1")

    def test_grace_that_leaves_nothing_of_the_lease(self):
        result = cli("run", "--lease", "5", "--grace", "5", "k", "--", "true", addr="127.0.0.1:1")
        self.refused(result, USAGE, "--grace is 5s", "--lease 5s")

    def test_a5_keys(self):
        for key, part in (("a b", "a\\x20b"), ("x" * 129, "129 bytes"), (b"\xff\xfe", "UTF-8"), ("a\nb", "\\x0a"),
                          ("\ud800".encode("utf-8", "surrogatepass"), "UTF-8"), ("", "0 bytes")):
            for arguments in (["acquire", key], ["release", key, "5"], ["run", key, "--", "true"]):
                result = cli(*arguments, addr="127.0.0.1:1")
                self.refused(result, USAGE, part, "1 to 128 bytes of UTF-8")

    def test_more_keys_than_a_set_holds(self):
        result = cli("acquire", *[f"k{i}" for i in range(17)], addr="127.0.0.1:1")
        self.refused(result, USAGE, "16 keys")

    def test_a6_addresses(self):
        for value in ("127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:abc", ":5225",
                      "::1:5225", "[::1]", "", "a b:1"):
            result = cli("acquire", "--addr", value, "k")
            self.refused(result, USAGE, f"--addr is '{value}'", "HOST:PORT", "65535")
        self.refused(cli("acquire", "k", addr="nowhere"), USAGE, "TICKETING_ADDR is 'nowhere'")
        self.refused(cli("acquire", "--addr", "a:1", "--addr", "a:1", "k"), USAGE, "--addr", "a:1")
        many = [part for i in range(1, 8) for part in ("--addr", f"127.0.0.1:{i}")]
        self.refused(cli("acquire", *many, "k"), USAGE, "6 times")

    def test_tokens_to_release(self):
        for value in ("0", "-1", "abc", "1e3", "18446744073709551616", "99999999999999999999999", "", "1.5"):
            result = cli("release", "--", "k", value, addr="127.0.0.1:1")
            self.refused(result, USAGE, f"TOKEN is '{value}'", "18446744073709551615")

    def test_missing_and_unknown_arguments(self):
        self.refused(cli("acquire"), USAGE, "KEY")
        self.refused(cli("release", "k"), USAGE, "TOKEN")
        self.refused(cli("run", "k"), USAGE, "--")
        self.refused(cli("run", "k", "--"), USAGE, "command")
        self.refused(cli("run", "--", "true"), USAGE, "KEY")
        self.refused(cli("acquire", "--colour", "red", "k"), USAGE, "--colour")
        self.refused(cli("aquire", "k"), USAGE, "'aquire'", "acquire")
        self.refused(cli("serve", "5225"), USAGE, "'5225'", "--listen")

    def test_a_control_character_does_not_reach_the_terminal(self):
        result = cli("acquire", "--wait", "\x1b[2Jx", "k", addr="127.0.0.1:1")
        self.refused(result, USAGE, "\\x1b[2Jx")
        self.assertNotIn(b"\x1b", result.stderr)


class Help(Case):
    def test_every_command_explains_itself(self):
        for command in ("serve", "run", "acquire", "release", "bench", "demo"):
            result = cli(command, "--help")
            text = result.stdout.decode()
            self.assertEqual(result.returncode, OK, result.stderr)
            self.assertIn("xit status", text, command)
            self.assertIn(f"ticketing {command}", text)
            self.assertEqual(cli("help", command).stdout, result.stdout)
            self.assertIn(f"  {command} ", cli("--help").stdout.decode())

    def test_version_and_help(self):
        self.assertRegex(cli("--version").stdout.decode(), r"\Aticketing \d+\.\d+\.\d+\n\Z")
        self.assertEqual(cli("help").stdout, cli("--help").stdout)
        bare = cli()
        self.assertEqual((bare.returncode, bare.stdout), (USAGE, b""))
        self.assertIn(b"Usage: ticketing COMMAND", bare.stderr)
        self.refused(cli("help", "nothing"), USAGE, "'nothing'")


class Streams(Case):
    def test_closed_output_is_said_before_anything_is_locked(self):
        with Server() as server:
            result = shell('"$T" acquire k >&-', addr=server.address)
            self.refused(result, OUTPUT, "standard output is closed")
            self.took(cli("acquire", "--wait", "0", "k", addr=server.address))

    def test_output_that_cannot_be_written_gives_the_lock_back(self):
        with Server() as server:
            result = shell('"$T" acquire k >/dev/full', addr=server.address)
            self.refused(result, OUTPUT, "No space left")
            self.took(cli("acquire", "--wait", "0", "k", addr=server.address))

    def test_help_into_a_closed_output(self):
        for arguments in ("--help", "--version", "acquire --help", "serve --help"):
            result = shell(f'"$T" {arguments} >&-')
            self.refused(result, OUTPUT, "standard output is closed")

    def test_no_socket_becomes_a_standard_stream(self):
        with Server() as server:
            # What the command writes must not reach the server as a request.
            result = shell('"$T" run k -- sh -c "echo word; echo word >&2; exit 5" <&- >&- 2>&-', addr=server.address)
            self.assertEqual(result.returncode, 5)
            result = shell('"$T" run --wait 0 k -- sh -c "exit 6" <&- >&- 2>&-', addr=server.address)
            self.assertEqual(result.returncode, 6)
            result = shell('"$T" release k 5 <&- >&- 2>&-', addr=server.address)
            self.assertEqual(result.returncode, NOT_CURRENT)
            log = server.read_log()
            self.assertNotIn("protocol_errors", log)

    def test_a_server_without_standard_streams_serves(self):
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            script = f'exec "$T" serve --listen 127.0.0.1:{port} --data "$D" <&- >&- 2>&-'
            server = subprocess.Popen(["sh", "-c", script], env=environment(T=program(), D=folder))
            try:
                self.took(cli("acquire", "k", addr=f"127.0.0.1:{port}"))
            finally:
                server.terminate()
                self.assertEqual(server.wait(PATIENCE), OK)


class Serve(Case):
    def test_ready_line_names_the_real_addresses(self):
        with Server("--listen", "127.0.0.1:0,wire=2", "--listen", "localhost:0") as server:
            listeners = server.ready["listeners"]
            self.assertEqual(server.ready["pid"], server.process.pid)
            self.assertEqual(len(listeners), 3)
            for listener in listeners:
                self.assertEqual((listener["wire"], listener["tls"]), (2, False))
                self.assertNotIn(listener["address"].rsplit(":", 1)[1], ("0", ""))
                token = self.took(cli("acquire", "k", addr=listener["address"]))
                self.assertEqual(cli("release", "k", token, addr=listener["address"]).returncode, OK)

    def test_ready_fd_that_is_not_open(self):
        with tempfile.TemporaryDirectory() as folder:
            result = cli("serve", "--data", folder, "--ready-fd", "77", "--listen", "127.0.0.1:0")
            self.refused(result, USAGE, "--ready-fd is 77")
            self.refused(cli("serve", "--ready-fd", "-1"), USAGE, "--ready-fd is '-1'")

    def test_sigterm_tells_waiters_and_ends_clean(self):
        with Server() as server:
            token = self.took(cli("acquire", "k", addr=server.address))
            s, stream = wire2.connect(server.address)
            s.sendall(wire2.acquire_frame(99, b"k", wait=200))
            time.sleep(0.2)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(wire2.read_reply(stream), ("T", (99,), b"k"))
            self.assertIsNone(wire2.read_reply(stream))
            s.close()
            self.assertEqual(server.process.wait(PATIENCE), OK)
            log = server.read_log()
            self.assertIn("msg=stopping signal=TERM", log)
            self.assertIn("grants=1", log)
            self.assertNotIn(token, log)

    def test_sigint_ends_clean_and_sighup_changes_nothing(self):
        with Server() as server:
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "signal=HUP" in server.read_log(), "SIGHUP in the log")
            self.took(cli("acquire", "k", addr=server.address))
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.process.wait(PATIENCE), OK)

    def test_a_second_signal_ends_at_once(self):
        with Server() as server:
            # A peer that never reads its end keeps the first stop waiting.
            s, stream = wire2.connect(server.address)
            s.sendall(wire2.acquire_frame(1, b"k"))
            self.assertEqual(wire2.read_reply(stream)[0], "A")
            server.process.send_signal(signal.SIGTERM)
            server.process.send_signal(signal.SIGINT)
            status = server.process.wait(PATIENCE)
            self.assertIn(status, (128 + signal.SIGINT, 128 + signal.SIGTERM))
            s.close()

    def test_a_port_in_use(self):
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            result = cli("serve", "--listen", server.address, "--data", folder)
            self.refused(result, CANNOT_OPEN, server.address, "in use", "--listen")

    def test_two_servers_on_one_directory(self):
        with Server() as server:
            data = os.path.join(server.folder.name, "data")
            result = cli("serve", "--listen", "127.0.0.1:0", "--data", data)
            self.refused(result, DATA_IN_USE, data, f"pid {server.process.pid}", "--data")
            self.took(cli("acquire", "k", addr=server.address))
            server.process.kill()
            server.process.wait()
            # The lock died with its holder: no file has to be removed by hand.
            again = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data],
                                     stderr=subprocess.PIPE, text=True)
            try:
                while "msg=serving" not in (line := again.stderr.readline()):
                    self.assertNotEqual(line, "")
            finally:
                again.terminate()
                again.stderr.close()
                self.assertEqual(again.wait(PATIENCE), OK)

    def test_a_directory_that_cannot_be_had(self):
        with tempfile.NamedTemporaryFile() as file:
            for path in (file.name, file.name + "/below", "/proc/nothing"):
                result = cli("serve", "--listen", "127.0.0.1:0", "--data", path)
                self.refused(result, CANNOT_OPEN, path, "--data")
            self.refused(cli("serve", "--data", ""), USAGE, "--data")

    def test_listeners_that_cannot_be(self):
        for value, status, part in (("127.0.0.1", USAGE, "port"), ("127.0.0.1:65536", USAGE, "65535"),
                                    ("127.0.0.1:1,wire=3", USAGE, "not there yet"),
                                    ("127.0.0.1:1,tls", USAGE, "not there yet"),
                                    ("127.0.0.1:1,colour=red", USAGE, "'colour=red'"),
                                    ("198.51.100.7:0", USAGE, "--token-file")):
            with tempfile.TemporaryDirectory() as folder:
                result = cli("serve", "--listen", value, "--data", folder)
                self.refused(result, status, value, part)
        with tempfile.TemporaryDirectory() as folder:
            result = cli("serve", "--listen", "198.51.100.7:0", "--allow-no-auth", "--data", folder)
            self.refused(result, CANNOT_OPEN, "198.51.100.7:0", "no interface")
            result = cli("serve", "--listen", "no-such-name:1", "--allow-no-auth", "--data", folder)
            self.refused(result, CANNOT_OPEN, "no-such-name:1", "numeric")

    def test_off_loopback_needs_tokens_or_the_word(self):
        with tempfile.TemporaryDirectory() as folder:
            result = cli("serve", "--listen", "0.0.0.0:0", "--data", folder)
            self.refused(result, USAGE, "0.0.0.0:0", "--token-file", "--allow-no-auth")
        with Server("--allow-no-auth", listen="0.0.0.0:0") as server:
            port = server.address.rsplit(":", 1)[1]
            self.took(cli("acquire", "k", addr=f"127.0.0.1:{port}"))

    def test_durability_modes_that_are_not_there(self):
        for mode in ("horizon", "strict"):
            self.refused(cli("serve", "--durability", mode), USAGE, f"'{mode}'", "not there yet", "memory")
        self.refused(cli("serve", "--durability", "tape"), USAGE, "'tape'", "memory")

    def test_memory_says_what_it_does_not_keep(self):
        with Server() as server:
            self.assertIn("holders of a previous run are unknown", server.read_log())

    def test_limits_outside_their_ranges(self):
        for option, value, high in (("--max-sessions", "0", "1000000"), ("--max-keys", "-1", "100000000"),
                                    ("--max-waiters", "many", "100000000"), ("--max-output", "1", "1073741824"),
                                    ("--handshake-timeout", "1ms", "60s")):
            self.refused(cli("serve", f"{option}={value}"), USAGE, f"{option} is '{value}'", high)

    def test_limits_apply(self):
        with Server("--max-sessions", "1") as server:
            s, _ = wire2.connect(server.address)
            with self.assertRaises((ConnectionError, ValueError)):
                wire2.connect(server.address)
            s.close()
        with Server("--max-waiters", "0") as server:
            self.took(cli("acquire", "k", addr=server.address))
            self.refused(cli("acquire", "--wait", "5", "k", addr=server.address), 80, "capacity")

    def test_tokens_grow_over_a_kill_and_a_restart(self):
        last = 0
        for _ in range(3):
            with Server() as server:
                token = int(self.took(cli("acquire", "k", addr=server.address)))
                self.assertGreater(token, last)
                self.assertLess(token, 2**53)
                last = token
                server.process.kill()
                server.process.wait()


class ClientTokens(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, text, mode=0o600):
        path = os.path.join(self.folder.name, f"tokens{len(os.listdir(self.folder.name))}")
        with open(path, "wb") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def test_t2_file_and_environment(self):
        both = self.file(b"# rotated in May\n\nold  s3cret-one\r\nnew\ts3cret-two\n")
        bare = self.file(b"s3cret-two")
        with Server("--token-file", both) as server:
            for path in (both, bare):
                token = self.took(cli("acquire", "--token-file", path, "k", addr=server.address))
                result = cli("release", "k", token, addr=server.address, env={"TICKETING_CLIENT_TOKEN": "s3cret-two"})
                self.assertEqual(result.returncode, OK, result.stderr)
            wrong = self.file(b"another")
            result = cli("acquire", "--token-file", wrong, "k", addr=server.address)
            self.refused(result, AUTH, "--token-file")
            self.assertNotIn(b"another", result.stderr)
            self.refused(cli("acquire", "--wait", "5", "k", addr=server.address), AUTH, "TICKETING_CLIENT_TOKEN")
            wait_until(lambda: "auth_failed=" in server.read_log(), "refusals in the log")
            self.assertNotIn("s3cret", server.read_log())
        with Server(env=environment(TICKETING_CLIENT_TOKENS="a one\nb two")) as server:
            self.took(cli("acquire", "k", addr=server.address, env={"TICKETING_CLIENT_TOKEN": "two"}))

    def test_files_that_are_no_token_files(self):
        for text, part in ((b"", "no client token"), (b"# nothing\n", "no client token"), (b"a b c\n", "line 1"),
                           (b"x\n\0y\n", "NUL"), (b"x" * 70000, "65536"), (b"x\n" * 65, "64")):
            path = self.file(text)
            for arguments in (["serve", "--data", self.folder.name, "--token-file", path],
                              ["acquire", "--token-file", path, "k"]):
                self.refused(cli(*arguments, addr="127.0.0.1:1"), USAGE, path, part)
        self.refused(cli("acquire", "--token-file", "/nothing/here", "k"), USAGE, "/nothing/here", "No such file")
        self.refused(cli("acquire", "--token-file", self.folder.name, "k"), USAGE, "directory")

    def test_t3_a_secret_is_in_no_refusal(self):
        path = self.file(b"label hidden-word too many\n")
        result = cli("serve", "--data", self.folder.name, "--token-file", path)
        self.refused(result, USAGE, "line 1")
        self.assertNotIn(b"hidden-word", result.stderr)

    def test_a_file_that_others_can_read_is_warned_about(self):
        path = self.file(b"secret\n", mode=0o644)
        with Server("--token-file", path) as server:
            self.assertIn("mode 644", server.read_log())
            result = cli("acquire", "--token-file", path, "k", addr=server.address)
            self.took(result)
            self.assertIn(b"chmod 600", result.stderr)


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

    def test_a_stopped_command_is_ended_too(self):
        with Server() as server:
            running = start("run", "--lease", "2", "k", "--", "sh", "-c", "echo $$; kill -STOP $$; sleep 100",
                            addr=server.address)
            pid = int(running.stdout.readline())
            running.communicate(timeout=PATIENCE)
            self.assertEqual(running.returncode, LOST)
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
            script = 'grep -E "^(SigBlk|SigIgn)" /proc/self/status; ls /proc/self/fd | wc -l'
            outside = subprocess.run(["sh", "-c", script], capture_output=True, stdin=subprocess.DEVNULL).stdout
            inside = cli("run", "k", "--", "sh", "-c", script, addr=server.address).stdout
            self.assertEqual(inside, outside)

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

    def test_ctrl_c_reaches_the_command_once(self):
        with Server() as server:
            script = ('n=0; trap "n=\\$((n+1))" INT; trap "echo count \\$n; exit 4" TERM; echo ready; '
                      'while :; do sleep 0.05; done')
            pid, master = pty.fork()
            if pid == 0:
                os.execve(program(), [program(), "run", "k", "--", "sh", "-c", script],
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
                            return
                self.assertIn(word, seen)

            try:
                read_until(b"ready")
                os.write(master, b"\x03")
                time.sleep(0.5)
                os.kill(pid, signal.SIGTERM)
                read_until(b"count ")
                _, status = os.waitpid(pid, 0)
                pid = 0
                self.assertEqual(os.waitstatus_to_exitcode(status), 4)
                self.assertEqual(re.search(rb"count (\d+)", seen).group(1), b"1")
            finally:
                if pid:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                os.close(master)

    def test_the_command_may_read_from_the_terminal(self):
        with Server() as server:
            pid, master = pty.fork()
            if pid == 0:
                os.execve(program(), [program(), "run", "--lease", "20", "k", "--", "sh", "-c", "read x; test $x = word"],
                          environment(TICKETING_ADDR=server.address))
            try:
                os.write(master, b"word\n")
                _, status = os.waitpid(pid, 0)
                pid = 0
                self.assertEqual(os.waitstatus_to_exitcode(status), 0)
            finally:
                if pid:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                os.close(master)


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed = 0
        self.bad = set()

    def addSuccess(self, test):
        self.passed += 1
        print(f"ok   {test.id().split('.', 1)[1]}", flush=True)

    def report(self, test, err):
        if test.id() in self.bad:
            return
        self.bad.add(test.id())
        print(f"FAIL {test.id().split('.', 1)[1]}", flush=True)
        print("".join(traceback.format_exception(*err)), flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.report(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.report(test, err)


def main():
    program()
    loader = unittest.defaultTestLoader
    if sys.argv[1:]:
        suite = loader.loadTestsFromNames(sys.argv[1:], sys.modules["__main__"])
    else:
        suite = loader.loadTestsFromModule(sys.modules["__main__"])
    result = Result()
    suite.run(result)
    print(f"{result.passed} passed, {len(result.bad)} failed")
    return 1 if result.bad else 0


if __name__ == "__main__":
    sys.exit(main())
