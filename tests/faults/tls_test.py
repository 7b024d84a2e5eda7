#!/usr/bin/env python3
"""TLS end to end with the real program: commands, certificates good and bad, files replaced under load, crowds of
handshakes, half-closes, names."""
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from certificates import Authority  # noqa: E402
from cli_case import (AUTH, CANNOT_OPEN, Case, NO_SERVER, NOT_OBTAINED, OK, PATIENCE, USAGE, cli,  # noqa: E402
                      environment, run_tests, wait_until)
from server import Server, program  # noqa: E402
import wire2  # noqa: E402

LISTEN = "127.0.0.1:0,tls"


def serial_shown(address, ca):
    """The serial number of the certificate that a new connection is shown."""
    host, port = address.rsplit(":", 1)
    context = ssl.create_default_context(cafile=ca)
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as s:
        with context.wrap_socket(s, server_hostname=host) as tls:
            return tls.getpeercert()["serialNumber"]


class Wired:
    """A wire 2 session over TLS without a socket file, so that the test decides about every byte."""

    def __init__(self, address, ca, version=None):
        host, port = address.rsplit(":", 1)
        context = ssl.create_default_context(cafile=ca)
        if version:
            context.minimum_version = context.maximum_version = version
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=host)
        self.text = b""
        self.ended = False
        self.drive(self.tls.do_handshake)
        nonce = self.line().split(b" ", 1)[1]
        self.send(wire2.base64.urlsafe_b64encode(wire2.hashlib.sha256(nonce).digest()).rstrip(b"=") + b"\n")
        self.take(1)

    def flush(self):
        self.socket.sendall(self.outgoing.read())

    def drive(self, step):
        while True:
            try:
                result = step()
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
                got = self.socket.recv(65536)
                if got:
                    self.incoming.write(got)
                else:
                    self.incoming.write_eof()

    def send(self, data):
        self.tls.write(data)
        self.flush()

    def more(self):
        try:
            data = self.drive(lambda: self.tls.read(65536))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError, ssl.SSLSyscallError):
            data = b""
        self.text += data
        self.ended = not data
        return data

    def line(self):
        while b"\n" not in self.text:
            if not self.more():
                raise AssertionError(f"ended after {self.text!r}")
        line, self.text = self.text.split(b"\n", 1)
        return line

    def take(self, count):
        while len(self.text) < count:
            if not self.more():
                raise AssertionError(f"ended after {self.text!r}")
        data, self.text = self.text[:count], self.text[count:]
        return data

    def opcode(self):
        """Of the next reply; keep-alives are passed over."""
        while (op := self.take(1)) == b"\n":
            pass
        return op

    def shut(self):
        """close_notify and nothing else."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.flush()

    def close(self):
        self.socket.close()


class Tls(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ticketing-tls-")
        self.authority = Authority(self.folder.name, "authority")
        self.chain, self.key = self.authority.issue("server")

    def tearDown(self):
        self.folder.cleanup()

    def server(self, *options, listen=LISTEN, chain=None, key=None):
        return Server("--tls-cert", chain or self.chain, "--tls-key", key or self.key, *options, listen=listen)

    def client(self, *arguments, server, **options):
        return cli(*arguments, addr=server.address, **options)

    # --- commands ---

    def test_commands_over_tls(self):
        with self.server() as server:
            self.assertTrue(server.ready["listeners"][0]["tls"])
            ca = ("--tls-ca", self.authority.ca)
            token = self.took(self.client("acquire", *ca, "k", server=server))
            self.refused(self.client("acquire", *ca, "--wait", "0", "k", server=server), NOT_OBTAINED)
            self.assertEqual(self.client("release", *ca, "k", token, server=server).returncode, OK)
            result = self.client("run", *ca, "k", "--", "sh", "-c", "echo $TICKETING_TOKEN", server=server)
            self.took(result)
            result = self.client("bench", "cycle", "--addr", server.address, *ca, "--cycles", "500", server=server)
            self.assertEqual(result.returncode, OK, result.stderr)

    def test_the_environment_says_it_too(self):
        with self.server() as server:
            self.took(self.client("acquire", "a", server=server, env={"TICKETING_TLS_CA": self.authority.ca}))
            self.took(self.client("acquire", "b", server=server,
                                  env={"TICKETING_TLS": "on", "SSL_CERT_FILE": self.authority.ca}))
            result = self.client("acquire", "c", server=server, env={"TICKETING_TLS": "skip-verify"})
            self.took(result)
            self.assertIn(b"warning", result.stderr)
            self.refused(self.client("acquire", "d", server=server, env={"TICKETING_TLS": "perhaps"}), USAGE,
                         "TICKETING_TLS", "'perhaps'", "skip-verify")
            result = self.client("acquire", "--wait", "1", "e", server=server,
                                 env={"TICKETING_TLS": "off", "TICKETING_TLS_CA": self.authority.ca})
            self.refused(result, NO_SERVER)

    def test_options_that_cannot_be(self):
        self.refused(cli("acquire", "--tls-ca", "/nothing/ca.pem", "k"), USAGE, "/nothing/ca.pem", "no such file")
        self.refused(cli("acquire", "--tls-ca", self.key, "k"), USAGE, self.key, "no certificate")
        self.refused(cli("acquire", "--tls-ca", self.authority.ca, "--tls-skip-verify", "k"), USAGE, "leave one out")
        self.refused(cli("bench", "--tls-ca", self.authority.ca), USAGE, "--addr")

    def test_bench_with_a_private_server(self):
        result = cli("bench", "--tls", "--cycles", "500", env={"TICKETING_TLS_CA": "/nothing"})
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertIn(b"no cycle failed", result.stdout)

    # --- certificates ---

    def told(self, server, *parts, tls=None):
        tls = ("--tls-ca", self.authority.ca) if tls is None else tls
        self.refused(self.client("acquire", "--wait", "1", *tls, "k", server=server), NO_SERVER, server.address, *parts)

    def test_each_wrong_certificate_is_named(self):
        other = Authority(self.folder.name, "other")
        issue = self.authority.issue
        for (chain, key), part in ((self.authority.issue_expired("old"), "has expired"),
                                   (issue("foreign", "IP:127.0.0.2"), "does not name this IP address"),
                                   (issue("named", "DNS:locks.example"), "does not name this IP address"),
                                   (issue("client", usage="clientAuth"), "not meant for servers"),
                                   (other.issue("strange"), "authority that is not trusted")):
            with self.server(chain=chain, key=key) as server:
                self.told(server, part)
                wait_until(lambda: "TLS handshakes failed" in server.read_log(), "the failure in the log")
                if part == "has expired":
                    self.assertIn("certificate has expired", server.read_log())
        with self.server() as server:
            self.told(server, "authority that is not trusted", tls=("--tls",))

    def test_one_side_alone_speaks_tls(self):
        with self.server() as server:
            self.told(server, "has not greeted", tls=())
            with socket.create_connection(server.address.rsplit(":", 1), timeout=PATIENCE) as s:
                s.sendall(b"GET / HTTP/1.1\r\n\r\n")
                while s.recv(4096):
                    pass
            wait_until(lambda: "does not speak TLS" in server.read_log(), "the stranger in the log")
            self.took(self.client("acquire", "--tls-ca", self.authority.ca, "k", server=server))
        with Server() as server:
            self.told(server, "does not speak TLS")
            self.took(cli("acquire", "k", addr=server.address))

    # --- the server's files ---

    def test_files_that_cannot_be_used(self):
        other = self.authority.issue("other")[1]
        garbage, empty = (os.path.join(self.folder.name, n) for n in ("garbage", "empty"))
        with open(garbage, "w") as f:
            f.write("not a certificate\n")
        open(empty, "w").close()
        for chain, key, named, part in (("/nothing.pem", self.key, "/nothing.pem", "no such file"),
                                        (self.chain, "/nothing.key", "/nothing.key", "no such file"),
                                        (self.folder.name, self.key, self.folder.name, "directory"),
                                        (garbage, self.key, garbage, "PEM"),
                                        (empty, self.key, empty, "empty"),
                                        (self.chain, garbage, garbage, "key file"),
                                        (self.chain, other, other, "does not belong")):
            result = cli("serve", "--listen", LISTEN, "--data", os.path.join(self.folder.name, "data"),
                         "--tls-cert", chain, "--tls-key", key)
            self.refused(result, CANNOT_OPEN, named, part)
        data = ("--data", os.path.join(self.folder.name, "data"))
        self.refused(cli("serve", "--listen", LISTEN, *data), USAGE, "--tls-cert is missing")
        self.refused(cli("serve", "--listen", LISTEN, *data, "--tls-cert", self.chain), USAGE, "--tls-key is missing")
        self.refused(cli("serve", *data, "--tls-cert", self.chain, "--tls-key", self.key), USAGE,
                     "no listener speaks TLS")

    def test_files_replaced_under_load(self):
        ca = ("--tls-ca", self.authority.ca)
        tokens = os.path.join(self.folder.name, "tokens")
        with open(tokens, "w") as f:
            f.write("old first-secret\n")
        os.chmod(tokens, 0o600)

        def identified(secret):
            return {"TICKETING_CLIENT_TOKEN": secret}

        with self.server("--token-file", tokens) as server:
            held = self.took(self.client("acquire", *ca, "--lease", "200", "held", server=server,
                                         env=identified("first-secret")))
            load = subprocess.Popen(
                [program(), "bench", "cycle", "--addr", server.address, *ca, "--io", "thread", "--threads", "4",
                 "--cycles", "30000"], env=environment(**identified("first-secret")), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            before = serial_shown(server.address, self.authority.ca)
            self.authority.issue("server")  # the same files
            with open(tokens, "w") as f:
                f.write("old first-secret\nnew second-secret\n")
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: server.read_log().count("msg=reloaded") == 2, "both are reloaded")
            after = serial_shown(server.address, self.authority.ca)
            self.assertNotEqual(before, after)
            for secret in ("first-secret", "second-secret"):
                self.took(self.client("acquire", *ca, secret, server=server, env=identified(secret)))
            # What cannot be used changes nothing, and one kind does not keep the other back.
            with open(self.chain, "w") as f:
                f.write("garbage\n")
            with open(tokens, "w") as f:
                f.write("new second-secret\n")
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "not reloaded" in server.read_log(), "the bad file in the log")
            log = server.read_log()
            self.assertIn(self.chain, log)
            self.assertNotIn("secret", log)
            self.assertEqual(serial_shown(server.address, self.authority.ca), after)
            wait_until(lambda: server.read_log().count("msg=reloaded") == 3, "the tokens are reloaded")
            self.refused(self.client("acquire", *ca, "--wait", "2", "x", server=server,
                                     env=identified("first-secret")), AUTH)
            with open(tokens, "w") as f:
                f.write("# none\n")
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "holds no client token" in server.read_log(), "the empty file in the log")
            self.took(self.client("acquire", *ca, "y", server=server, env=identified("second-secret")))
            self.refused(self.client("acquire", *ca, "--wait", "2", "z", server=server), AUTH)
            # Those that were there before noticed nothing.
            out, err = load.communicate(timeout=120)
            self.assertEqual(load.returncode, OK, err.decode())
            self.assertIn(b"no cycle failed", out)
            self.refused(self.client("acquire", *ca, "--wait", "0", "held", server=server,
                                     env=identified("second-secret")), NOT_OBTAINED)
            result = self.client("release", *ca, "held", held, server=server, env=identified("second-secret"))
            self.assertEqual(result.returncode, OK, result.stderr)

    def test_a_certificate_can_come_from_another_authority(self):
        other = Authority(self.folder.name, "other")
        both = os.path.join(self.folder.name, "both.pem")
        with open(both, "w") as out:
            for path in (self.authority.ca, other.ca):
                with open(path) as f:
                    out.write(f.read())
        with self.server() as server:
            self.took(self.client("acquire", "--tls-ca", both, "a", server=server))
            chain, key = other.issue("next", rsa=True)
            shutil.copyfile(chain, self.chain)
            shutil.copyfile(key, self.key)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "msg=reloaded" in server.read_log(), "the certificate is reloaded")
            self.took(self.client("acquire", "--tls-ca", both, "b", server=server))
            self.told(server, "not trusted")

    # --- crowds ---

    def test_a_crowd_of_handshakes_starves_nobody(self):
        chain, key = self.authority.issue("slow", rsa=True)
        ca = ("--tls-ca", self.authority.ca)
        # What every member of the crowd sends: a greeting of TLS that makes the server sign, and no more.
        hello = ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=self.authority.ca)
        stranger = context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="127.0.0.1")
        try:
            stranger.do_handshake()
        except ssl.SSLWantReadError:
            pass
        first_flight = hello.read()
        with self.server("--handshake-timeout", "2s", "--max-unauthenticated", "400", chain=chain, key=key) as server:
            host, port = server.address.rsplit(":", 1)
            session = Wired(server.address, self.authority.ca)
            crowd, stop, sent = [], threading.Event(), [0]

            def flood():
                while not stop.is_set():
                    try:
                        s = socket.create_connection((host, int(port)), timeout=PATIENCE)
                        s.sendall(first_flight)
                        crowd.append(s)
                        sent[0] += 1
                    except OSError:
                        pass
                    while len(crowd) > 600:
                        crowd.pop(0).close()

            flooder = threading.Thread(target=flood)
            flooder.start()
            try:
                # Whoever was there before goes on, round trip after round trip.
                wait_until(lambda: sent[0] > 300, "the crowd is there")
                for i in range(1, 301):
                    session.send(wire2.acquire_frame(i, b"k"))
                    op, token = session.opcode(), session.take(8)
                    self.assertEqual((op, session.take(8), session.line()), (b"A", i.to_bytes(8, "big"), b"k"))
                    session.send(wire2.release_frame(int.from_bytes(token, "big"), b"k"))
                    self.assertEqual((session.opcode(), session.take(8), session.line()), (b"R", token, b"k"))
                self.assertGreater(sent[0], 300)
            finally:
                stop.set()
                flooder.join()
                session.close()
                for s in crowd:
                    s.close()
            # Refused by the bound, not hung: whoever comes when the crowd is gone is served.
            self.took(self.client("acquire", *ca, "--wait", "20", "k", server=server))
            self.assertEqual(server.stop(), OK)

    def test_a_stop_does_not_wait_for_handshakes(self):
        with self.server() as server:
            silent = [socket.create_connection(server.address.rsplit(":", 1), timeout=PATIENCE) for _ in range(20)]
            session = Wired(server.address, self.authority.ca)
            self.assertEqual(server.stop(), OK)
            self.assertNotIn("cut off", server.read_log())
            session.close()
            for s in silent:
                s.close()

    # --- half-closes ---

    def test_a_goodbye_withdraws_and_the_replies_still_come(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.server() as server:
                holder = Wired(server.address, self.authority.ca, version)
                holder.send(wire2.acquire_frame(7, b"k"))
                op, token, owner, key = holder.opcode(), holder.take(8), holder.take(8), holder.line()
                self.assertEqual((op, owner, key), (b"A", (7).to_bytes(8, "big"), b"k"))
                waiter = Wired(server.address, self.authority.ca, version)
                # The request and the goodbye in one segment.
                waiter.tls.write(wire2.acquire_frame(9, b"k", wait=200))
                waiter.shut()
                self.assertEqual((waiter.opcode(), waiter.take(8), waiter.line()),
                                 (b"T", (9).to_bytes(8, "big"), b"k"))
                self.assertEqual(waiter.more(), b"")  # and the server says goodbye in turn
                waiter.close()
                holder.send(wire2.release_frame(int.from_bytes(token, "big"), b"k"))
                self.assertEqual((holder.opcode(), holder.take(8)), (b"R", token))
                holder.close()
                self.assertEqual(server.stop(), OK)
                self.assertIn("withdrawn=1", server.read_log())

    # --- names ---

    def named(self, hosts, *arguments):
        """Runs the program where the machine's hosts file says what the test wants."""
        path = os.path.join(self.folder.name, "hosts")
        with open(path, "w") as f:
            f.write("127.0.0.1 localhost\n" + hosts)
        return subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', path,
                               program(), *arguments], env=environment(), capture_output=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL)

    def test_names_are_looked_up_and_checked(self):
        probe = self.named("", "--version")
        if probe.returncode:
            print(f"skipped: no mount namespaces here: {probe.stderr.decode().strip()}", flush=True)
            return
        chain, key = self.authority.issue("named", "DNS:locks.test")
        ca = ("--tls-ca", self.authority.ca)
        with self.server(chain=chain, key=key) as server:
            port = server.address.rsplit(":", 1)[1]

            def acquire(hosts, host, key, *more):
                return self.named(hosts, "acquire", *ca, "--addr", f"{host}:{port}", *more, key)

            self.took(acquire("127.0.0.1 locks.test other.test\n", "locks.test", "a"))
            # Addresses that lead nowhere before the good one.
            self.took(acquire("127.0.0.9 locks.test\n127.0.0.8 locks.test\n127.0.0.1 locks.test\n", "locks.test", "b"))
            self.took(acquire("::1 locks.test\n127.0.0.1 locks.test\n", "locks.test", "c"))
            self.refused(acquire("127.0.0.1 other.test\n", "other.test", "d", "--wait", "1"), NO_SERVER,
                         f"other.test:{port}", "another host name")
            self.refused(acquire("", "nowhere.invalid", "e", "--wait", "1"), NO_SERVER, "nowhere.invalid", "host name")


if __name__ == "__main__":
    sys.exit(run_tests(sys.modules[__name__]))
