"""The servers of the comparison, each on a free loopback port and on one CPU, with nothing kept on
disk. All are context managers."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

START_LIMIT_S = 20


class Failure(Exception):
    """A sentence about what cannot go on."""


def pinned(cpu):
    """A preexec function that keeps the child on one CPU."""
    return lambda: os.sched_setaffinity(0, {cpu})


def run_client(command, cpu, limit_s=300):
    """Runs it to its end on the CPU; what it printed, read as JSON."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=limit_s, check=False, preexec_fn=pinned(cpu))
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))} ended with {done.returncode}: "
                      f"{done.stderr.strip()} {done.stdout.strip()}")
    return json.loads(done.stdout)


@contextlib.contextmanager
def raw_server(build, cpu):
    """Yields the port of the raw exchange."""
    process = subprocess.Popen([build / "tests/bench/raw_server"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, preexec_fn=pinned(cpu))
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise Failure("raw_server did not start")
        yield port
    finally:
        process.stdin.close()  # that ends it
        process.wait()
        process.stdout.close()


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextlib.contextmanager
def redis_server(cpu):
    """Yields its port; None where there is no redis-server."""
    program = shutil.which("redis-server")
    if not program:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="ticketing-bench-redis-") as folder:
        port = free_port()
        process = subprocess.Popen(
            [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=pinned(cpu))
        try:
            limit = time.monotonic() + START_LIMIT_S
            while not answers(port):
                if process.poll() is not None or time.monotonic() > limit:
                    raise Failure("redis-server did not start")
                time.sleep(0.02)
            yield port
        finally:
            process.terminate()
            process.wait()


def make_certificate(folder):
    """A key and a certificate for 127.0.0.1 that vouches for itself."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    if not shutil.which("openssl"):
        raise Failure("the openssl program is missing, which makes the server's certificate; "
                      "--peers installs it")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-days", "2", "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True)
    key.chmod(0o600)
    return key, certificate


class Ticketing:
    """Our server's addresses, by wire and whether through TLS."""

    def __init__(self, pid, addresses, certificate):
        self.pid = pid
        self.addresses = addresses
        self.certificate = certificate

    def address(self, wire, tls=False):
        return self.addresses[wire, tls]

    def port(self, wire):
        return self.address(wire).rpartition(":")[2]

    def options(self, wire, tls):
        """Those by which our command line reaches it."""
        return ["--addr", self.address(wire, tls)] + (["--tls-ca", self.certificate] if tls else [])


@contextlib.contextmanager
def ticketing_server(build, cpu, prefix=()):
    """Yields a Ticketing; `prefix`: a command that runs the server."""
    with tempfile.TemporaryDirectory(prefix="ticketing-bench-") as name:
        folder = pathlib.Path(name)
        key, certificate = make_certificate(folder)
        command = [*prefix, build / "ticketing", "serve", "--durability", "memory",
                   "--data", folder / "data", "--ready-fd", "1",
                   "--tls-cert", certificate, "--tls-key", key]
        for listener in ("", ",wire=3", ",tls", ",wire=3,tls"):
            command += ["--listen", f"127.0.0.1:0{listener}"]
        with open(folder / "server.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                preexec_fn=None if cpu is None else pinned(cpu))
        pid = process.pid
        try:
            line = process.stdout.readline()
            if not line:
                raise Failure("ticketing serve did not start: "
                              + (folder / "server.log").read_text(encoding="utf-8"))
            ready = json.loads(line)
            pid = ready["pid"]  # not that of a prefix which only watches it
            addresses = {(one["wire"], one["tls"]): one["address"] for one in ready["listeners"]}
            yield Ticketing(pid, addresses, certificate)
        finally:
            os.kill(pid, signal.SIGTERM)
            process.wait()
            process.stdout.close()
