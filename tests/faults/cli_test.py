#!/usr/bin/env python3
"""The command line: bad input, help, and standard streams that are closed."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_case import (  # noqa: E402
    NO_SERVER, NOT_CURRENT, OK, OUTPUT, PATIENCE, USAGE, Case, cli, environment,
    free_port, program, run_tests, shell)
from server import Server  # noqa: E402


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

    def test_a_reader_that_is_gone_gives_the_lock_back(self):
        with Server() as server:
            read_end, write_end = os.pipe()
            os.close(read_end)
            result = subprocess.run([program(), "acquire", "k"], stdout=write_end, stderr=subprocess.PIPE,
                                    env=environment(TICKETING_ADDR=server.address), timeout=PATIENCE)
            os.close(write_end)
            self.assertEqual(result.returncode, OUTPUT, result.stderr)
            self.assertIn(b"Broken pipe", result.stderr)
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
                # No socket took the place of a stream that was missing.
                for fd in (0, 1, 2):
                    self.assertEqual(os.readlink(f"/proc/{server.pid}/fd/{fd}"), "/dev/null")
            finally:
                server.terminate()
                self.assertEqual(server.wait(PATIENCE), OK)


if __name__ == "__main__":
    sys.exit(run_tests(sys.modules["__main__"]))
