#!/usr/bin/env python3
"""`ticketing serve`: addresses, directories, limits, client tokens, stopping."""
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire2  # noqa: E402
from cli_case import (  # noqa: E402
    AUTH, CANNOT_OPEN, DATA_IN_USE, OK, PATIENCE, USAGE, Case, cli, environment,
    program, run_tests, wait_until)
from server import Server  # noqa: E402


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

    def test_sigint_ends_clean_and_sighup_without_files_changes_nothing(self):
        with Server() as server:
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "nothing to reload" in server.read_log(), "SIGHUP in the log")
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
                                    ("127.0.0.1:1,wire=4", USAGE, "no option"),
                                    ("127.0.0.1:1,tls", USAGE, "--tls-cert is missing"),
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
                                    ("--handshake-timeout", "1ms", "60s"), ("--wait-margin", "11s", "10s")):
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


if __name__ == "__main__":
    sys.exit(run_tests(sys.modules["__main__"]))
